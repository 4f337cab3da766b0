"""What may be asked of a model by any thread, between two records that it learns."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any, cast

from braided.estimators import MODLRegressor
from braided.estimators.base import COLUMN
from braided.estimators.explain import by_column
from braided.estimators.explain import effects as effects_of
from braided.fleet import Fleet
from braided.serve.model_state import ModelState
from braided.serve.prediction_answers import (
    PREDICT_CHUNK,
    answers_by_key,
    class_answers,
    encoded_record,
    explanation_answer,
    number_answer,
    number_answers,
)
from braided.serve.problems import HTTPProblem
from braided.serve.raw_records import RawRecords
from braided.serve.records import Records
from braided.streams.encode.saved import summary

#: Features of a record that is explained, and of those whose effects are worked out at a time: each takes about eight
#: predictions.
MAX_EXPLAINED, EXPLAIN_CHUNK = 256, 2


class ModelReader:
    """Predictions, explanations and what is known of a model.

    Parameters
    ----------
    state
        The model; whoever learns may put another one in its place.
    """

    def __init__(self, state: ModelState) -> None:
        self.state = state
        #: A fault of ours after which the model in memory can no longer be trusted.
        self.broken = False

    def _check_sound(self) -> None:
        if self.broken:
            raise HTTPProblem(503, "the model is out of service after a fault: restart the service, and report this")

    def predict_one(self, x: dict[str, float], level: float | None = None) -> tuple[list[Any], dict[str, Any]]:
        """The classes, and the answer for a record by names: for one, that is the shorter way.

        With a level, the answer says how sure it is: an interval, or a set of labels.
        """
        self._check_sound()
        state = self.state  # it may be another one at the next look
        model, lock = state.model, state.lock
        assert not isinstance(model, Fleet)
        named = cast(dict[Hashable, float], x)
        if isinstance(model, MODLRegressor):
            with lock:
                return [], number_answer(model, named, level)
        with lock:
            version, found = model.records_learned, model.predict_proba_one(named)
            classes, rows = list(found), [list(found.values())]
            answers = class_answers(model, classes, rows, version, level)
        return classes, answers[0]

    def predict(
        self, records: Records | RawRecords, level: float | None = None
    ) -> tuple[list[Any], list[dict[str, Any]]]:
        """The classes, and an answer for each record; waits for one update at most, `PREDICT_CHUNK` records at a time.

        The records of a chunk are predicted by the same version of the model.
        """
        self._check_sound()
        state = self.state
        model, lock = state.model, state.lock
        if isinstance(model, Fleet):
            if level is not None:
                asked = "interval" if state.regression else "set"
                raise HTTPProblem(422, f"{asked} is not for a fleet, which does not say how sure it is: leave it out")
            return answers_by_key(state, model, records)
        if isinstance(records, RawRecords):
            return self._predict_raw(records, level)
        classes: list[Any] = []
        answers: list[dict[str, Any]] = []
        if len(records) == 1:
            classes, answer = self.predict_one(records.one(0), level)
            return classes, [answer]
        for _, table in records.tables(PREDICT_CHUNK):
            if isinstance(model, MODLRegressor):
                with lock:
                    answers += number_answers(model, table, records.names, level)
            else:
                with lock:
                    version, classes = model.records_learned, model.classes
                    rows = model.predict_proba_many(table, records.names)
                    answers += class_answers(model, classes, rows.tolist(), version, level)
        return classes, answers

    def _predict_raw(self, records: RawRecords, level: float | None) -> tuple[list[Any], list[dict[str, Any]]]:
        """As `predict`; rules and model are of the same version."""
        state = self.state
        model, rules = state.model, state.rules
        assert rules is not None
        assert not isinstance(model, Fleet)
        classes: list[Any] = []
        answers: list[dict[str, Any]] = []
        for start in range(0, len(records), PREDICT_CHUNK):
            with state.lock:
                version, classes = model.records_learned, state.classes
                for place, item in enumerate(records.items[start : start + PREDICT_CHUNK], start):
                    x = encoded_record(rules, item, place)
                    if isinstance(model, MODLRegressor):
                        answers.append(number_answer(model, x, level))
                    else:
                        row = list(model.predict_proba_one(x).values())
                        answers += class_answers(model, classes, [row], version, level)
        return classes, answers

    def explain(self, records: Records | RawRecords, by: str = COLUMN) -> dict[str, Any]:
        """What each feature adds to the answer for one record, and the fast learner's own view of it.

        Features are replaced some at a time, each against the whole record by the same version of the model: in between
        others have their turn. Labels are those of the first time. Of a raw record effects are of columns, or of
        features if `by` says so.
        """
        self._check_sound()
        state = self.state
        model, lock = state.model, state.lock
        if isinstance(model, Fleet):
            raise HTTPProblem(422, "the model is a fleet, whose answers are not explained: ask a model without a key")
        with lock:
            if model.records_learned == 0:
                raise HTTPProblem(409, "the model has learned nothing yet: there is nothing to explain")
            columns: dict[Hashable, Hashable] = {}
            if isinstance(records, RawRecords):
                assert state.rules is not None
                x = encoded_record(state.rules, records.items[0], 0)
                columns = state.rules.feature_columns() if by == COLUMN else {}
            else:
                x = cast(dict[Hashable, float], records.one(0))
            if len(x) > MAX_EXPLAINED:
                raise HTTPProblem(
                    422, f"the record has {len(x)} features, and at most {MAX_EXPLAINED} are explained: leave some out"
                )
            version, known = model.records_learned, set(model.feature_names)
            found = model.explain_one(x, features=())
        groups = by_column((name for name in x if name in known), columns)
        effects: dict[Hashable, dict[Hashable, float]] = {}
        log_odds: dict[Hashable, dict[Hashable, float]] = {}
        names = list(groups)
        for start in range(0, len(names), EXPLAIN_CHUNK):
            with lock:
                some = effects_of(model.core, x, {name: groups[name] for name in names[start : start + EXPLAIN_CHUNK]})
            for all_of_them, more in zip((effects, log_odds), some, strict=True):
                all_of_them |= {name: {label: adds[label] for label in found.labels} for name, adds in more.items()}
        return explanation_answer(replace(found, effects=effects, log_odds=log_odds), version)

    def version(self) -> int:
        """Records learned so far."""
        return self.state.model.records_learned

    def classes(self) -> list[Any]:
        """The labels, in the order of the probabilities."""
        state = self.state
        with state.lock:
            return state.classes

    def rules(self) -> dict[str, Any] | None:
        """How each column of raw records is read; None for a model that takes numbers."""
        state = self.state
        if state.rules is None:
            return None
        with state.lock:
            return summary(state.rules)

    def health(self) -> dict[str, dict[str, int]]:
        """Skipped updates and resets of each learner."""
        state = self.state
        with state.lock:
            return state.model.health
