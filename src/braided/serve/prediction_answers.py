"""What a model in service says of records, as JSON."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators import MODLClassifier, MODLRegressor
from braided.estimators.explain import Explanation
from braided.fleet import Fleet
from braided.serve.key_disk import told_as_problems
from braided.serve.model_state import ModelState
from braided.serve.problems import HTTPProblem
from braided.serve.raw_records import RawRecords
from braided.serve.records import RecordParser, Records
from braided.serve.stats import finite

#: Records that are predicted between two looks at what else there is to do.
PREDICT_CHUNK = 16


def answers_by_key(
    state: ModelState, fleet: Fleet, records: Records | RawRecords
) -> tuple[list[Any], list[dict[str, Any]]]:
    """The classes, and an answer of a fleet for each record, some at a time by the same version."""
    classes: list[Any] = []
    answers: list[dict[str, Any]] = []
    for start in range(0, len(records), PREDICT_CHUNK):
        part = records.part(start, start + PREDICT_CHUNK)
        with state.lock:
            if isinstance(part, RawRecords):
                part = _as_numbers(state, part, start)
            version, classes = fleet.records_learned, state.classes
            rows: list[list[float]] = []
            for some, table in part.tables():  # records of very many names make more than one
                with told_as_problems():
                    rows += fleet.progress_many(table, part.names, **part.key_of(some)).values.tolist()
        if state.regression:
            answers += [_value(row[0], None, version) for row in rows]
        else:
            answers += [
                {
                    "label": classes[max(range(len(row)), key=row.__getitem__)] if any(row) else None,
                    "probabilities": [finite(p) for p in row],
                    "version": version,
                }
                for row in rows
            ]
    return classes, answers


def _as_numbers(state: ModelState, raw: RawRecords, first: int) -> Records:
    """Raw records as a fleet takes them; the rules do not grow."""
    parser = RecordParser(False, state.regression, state.limits)
    for place, item in enumerate(raw.items, first):
        parser.add({"x": encoded_record(state.rules, item, place)})
    return replace(parser.done(), keys=raw.about.keys)


def encoded_record(rules: Any, item: Any, place: int) -> dict[Hashable, float]:
    """A raw record as numbers, or its refusal."""
    try:
        found: dict[Hashable, float] = rules.encode_one(item, learn=False)
    except BraidedError as error:
        why = str(error).removeprefix("the record: ")
        raise HTTPProblem(422, f"record {place}: {why}") from None
    return found


def number_answer(model: MODLRegressor, x: dict[Hashable, float], level: float | None) -> dict[str, Any]:
    """The answer of a regressor for one record."""
    interval = None if level is None else model.predict_interval_one(x, level)
    return _value(model.predict_one(x), interval, model.records_learned)


def number_answers(
    model: MODLRegressor, table: NDArray[np.float64], names: Sequence[Hashable], level: float | None
) -> list[dict[str, Any]]:
    """The answers of a regressor for a table."""
    values = model.predict_many(table, names).tolist()
    intervals = [None] * len(values) if level is None else model.predict_interval_many(table, level, names).tolist()
    return [_value(value, one, model.records_learned) for value, one in zip(values, intervals, strict=True)]


def _value(value: float, interval: Sequence[float] | None, version: int) -> dict[str, Any]:
    """A number as an answer; the bounds of its interval are null while it cannot be said."""
    answer: dict[str, Any] = {"value": finite(value), "version": version}
    if interval is not None:
        answer["interval"] = [finite(bound) for bound in interval]
    return answer


def class_answers(
    model: MODLClassifier, classes: list[Any], rows: list[list[float]], version: int, level: float | None
) -> list[dict[str, Any]]:
    """Answers of a classifier, one for each row of probabilities."""
    answers: list[dict[str, Any]] = [
        {"label": label, "probabilities": [finite(p) for p in row], "version": version}
        for label, row in zip(model.decide(classes, rows), rows, strict=True)
    ]
    if level is not None:
        for answer, labels in zip(answers, model.sets(classes, rows, level), strict=True):
            answer["set"] = [label for label in classes if label in labels]
    return answers


def explanation_answer(found: Explanation, version: int) -> dict[str, Any]:
    """An explanation as JSON; what it says of classes is in their order."""
    effects = found.effects
    order = sorted(effects, key=lambda name: -max(map(abs, effects[name].values()), default=0.0))
    said = {"value": finite(found.prediction)} if found.probability is None else {
        "label": found.prediction, "probability": finite(found.probability)
    }  # fmt: skip
    return {
        **said,
        "version": version,
        "classes": [] if found.probability is None else list(found.labels),
        "effects": [
            {
                "feature": name,
                "adds": [finite(one) for one in effects[name].values()],
                "log_odds": [finite(one) for one in found.log_odds.get(name, {}).values()],
            }
            for name in order
        ],
        "learner": found.learner,
        "parts": [
            {
                "feature": name,
                "means": [finite(part.mean) for part in parts.values()],
                "sd": finite(next(iter(parts.values())).sd),
                "estimated": name in found.estimated,
            }
            for name, parts in found.contributions.items()
        ],
        "shares": [{"name": name, "share": finite(share)} for name, share in found.shares.items()],
    }
