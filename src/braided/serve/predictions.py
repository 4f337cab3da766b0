"""What may be asked of a model by any thread, between two records that it learns, and the answers as JSON."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from braided.encode.saved import summary
from braided.estimators import MODLClassifier, MODLRegressor
from braided.estimators.base import COLUMN
from braided.estimators.explain import Explanation, by_column
from braided.estimators.explain import effects as effects_of
from braided.fleet import Fleet
from braided.records import Records
from braided.serve.problems import HTTPProblem, key_errors_as_problems
from braided.serve.records import RawRecords, encoded
from braided.serve.state import ModelState
from braided.serve.stats import finite

#: Records that are predicted between two looks at what else there is to do.
PREDICT_CHUNK = 16
#: Features of a record that is explained, and of those whose effects are computed between two looks: each takes about
#: 31 predictions.
MAX_EXPLAINED, EXPLAIN_CHUNK = 256, 2
#: Seconds of work that the event loop may do at a time, and threads for what takes longer.
_MAX_ON_LOOP, _THREADS = 0.001, 8
#: Weight of a new measurement of how long a prediction takes.
_NEWS = 0.1
Answers = tuple[list[Any], list[dict[str, Any]]]
Found = TypeVar("Found")


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

    def check_sound(self) -> None:
        """Refuse to use a model after a fault of ours."""
        if self.broken:
            raise HTTPProblem(503, "the model is out of service after a fault: restart the service, and report this")

    def predict_one(self, x: dict[str, float], level: float | None = None) -> Answers:
        """As `predict`, for one record by names: for one, that is the shorter way."""
        self.check_sound()
        model, named = self.state.model, cast(dict[Hashable, float], x)
        with self.state.lock:
            if isinstance(model, MODLRegressor):
                interval = None if level is None else model.predict_interval_one(named, level)
                return [], [_number(model.predict_one(named), interval, model.records_learned)]
            assert isinstance(model, MODLClassifier)
            version, found = model.records_learned, model.predict_proba_one(named)
            classes = list(found)
            return classes, _labels(model, classes, [list(found.values())], version, level)

    def predict(self, records: Records | RawRecords, level: float | None = None) -> Answers:
        """The classes, and an answer for each record; waits for one update at most, `PREDICT_CHUNK` records at a time.

        The records of a chunk are predicted by the same version of the model. With a level, an answer says how sure it
        is: an interval, or a set of labels.
        """
        self.check_sound()
        state = self.state  # it may be another one at the next look
        model, classes, answers = state.model, list[Any](), list[dict[str, Any]]()
        if isinstance(model, Fleet) and level is not None:
            asked = "interval" if state.regression else "set"
            raise HTTPProblem(422, f"{asked} is not for a fleet, which does not say how sure it is: leave it out")
        for start in range(0, len(records), PREDICT_CHUNK):
            part = records.part(start, start + PREDICT_CHUNK)
            with state.lock:
                if isinstance(part, RawRecords):
                    assert state.rules is not None
                    part, _ = encoded(part, state.rules, state.limits)
                assert isinstance(part, Records)
                version, classes = model.records_learned, state.classes
                if isinstance(model, Fleet):
                    with key_errors_as_problems():
                        keys = {} if part.keys is None else {"keys": part.keys}
                        rows = model.progress_many(part.values, part.names, **keys).values.tolist()
                    answers += [_number(row[0], None, version) for row in rows] if state.regression else [
                        _likeliest(classes, row, version) for row in rows
                    ]  # fmt: skip
                elif isinstance(model, MODLRegressor):
                    values = model.predict_many(part.values, part.names).tolist()
                    intervals = [None] * len(values)
                    if level is not None:
                        intervals = model.predict_interval_many(part.values, level, part.names).tolist()
                    answers += [_number(value, one, version) for value, one in zip(values, intervals, strict=True)]
                else:
                    rows = model.predict_proba_many(part.values, part.names).tolist()
                    answers += _labels(model, classes, rows, version, level)
        return classes, answers

    def explain(self, records: Records | RawRecords, by: str = COLUMN) -> dict[str, Any]:
        """What each feature adds to the answer for one record, and the fast learner's own view of it.

        Features are replaced some at a time, each against the whole record by the same version of the model: in between
        others have their turn. Labels are those of the first time. Of a raw record effects are of columns, or of
        features if `by` says so.
        """
        self.check_sound()
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
                columns = state.rules.feature_columns() if by == COLUMN else {}
                records, _ = encoded(records, state.rules, state.limits)
            assert isinstance(records, Records)
            x = records.one(0)
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
        return _explained(replace(found, effects=effects, log_odds=log_odds), version)

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


def _number(value: float, interval: Any, version: int) -> dict[str, Any]:
    """A number as an answer; the bounds of its interval are null while it cannot be said."""
    answer: dict[str, Any] = {"value": finite(value), "version": version}
    return answer if interval is None else {**answer, "interval": [finite(bound) for bound in interval]}


def _likeliest(classes: list[Any], row: list[float], version: int) -> dict[str, Any]:
    label = classes[max(range(len(row)), key=row.__getitem__)] if any(row) else None
    return {"label": label, "probabilities": [finite(p) for p in row], "version": version}


def _labels(
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


def _explained(found: Explanation, version: int) -> dict[str, Any]:
    """An explanation as JSON, the largest effects first; what it says of classes is in their order."""
    effects, number = found.effects, found.probability is None
    answer = {"value": finite(found.prediction)} if number else {
        "label": found.prediction, "probability": finite(found.probability or 0.0)
    }  # fmt: skip
    return {
        **answer,
        "version": version,
        "classes": [] if number else list(found.labels),
        "effects": [
            {
                "feature": name,
                "adds": [finite(one) for one in effects[name].values()],
                "log_odds": [finite(one) for one in found.log_odds.get(name, {}).values()],
            }
            for name in sorted(effects, key=lambda name: -max(map(abs, effects[name].values()), default=0.0))
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


class PredictionThreads:
    """Predicts on the event loop what is quick by experience, and the rest in a few threads, for each model in turn.

    What counts is the time of the processor: what a busy machine adds says nothing of the model. A model of which
    nothing is known is asked in a thread.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "predictions")
        #: Seconds per record.
        self._cost: WeakKeyDictionary[ModelReader, float] = WeakKeyDictionary()
        self._turns: WeakKeyDictionary[ModelReader, asyncio.Semaphore] = WeakKeyDictionary()

    def on_loop(self, model: ModelReader, records: int) -> bool:
        """Whether so many records of this model may be predicted on the event loop at once."""
        # A fleet may have to read a key from disk.
        return model.state.key is None and self._cost.get(model, 1.0) * min(records, PREDICT_CHUNK) < _MAX_ON_LOOP

    async def one(self, model: ModelReader, x: dict[str, float]) -> Answers:
        """Predict a record by names."""
        return await self._timed(model, 1, lambda: model.predict_one(x))

    async def chunk(self, model: ModelReader, records: Records | RawRecords, level: float | None = None) -> Answers:
        """Predict at most `PREDICT_CHUNK` records, and say how sure that is at a level if there is one."""
        if isinstance(records, Records) and len(records) == 1 and model.state.key is None:
            x = cast(dict[str, float], records.one(0))
            return await self._timed(model, 1, lambda: model.predict_one(x, level))
        return await self._timed(model, len(records), lambda: model.predict(records, level))

    async def _timed(self, model: ModelReader, n: int, predict: Callable[[], Answers]) -> Answers:
        def timed() -> Answers:
            begun = time.thread_time()
            found = predict()
            seconds = (time.thread_time() - begun) / n
            before = self._cost.get(model, seconds)
            self._cost[model] = before + _NEWS * (seconds - before)
            return found

        return timed() if self.on_loop(model, n) else await self.in_thread(model, timed)

    async def in_thread(self, model: ModelReader, ask: Callable[[], Found]) -> Found:
        """Ask a model in a thread, after those who asked it before: its lock lets one reader in."""
        loop = asyncio.get_running_loop()
        turn = self._turns.setdefault(model, asyncio.Semaphore(1))
        await turn.acquire()

        def release(_: Any) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no one waits any more
                loop.call_soon_threadsafe(turn.release)

        try:
            future = self._pool.submit(ask)
        except RuntimeError:
            turn.release()
            raise HTTPProblem(503, "the service is stopping: try again later") from None
        # A request that is given up leaves the thread at work, and the next one waits for that.
        future.add_done_callback(release)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Take no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)
