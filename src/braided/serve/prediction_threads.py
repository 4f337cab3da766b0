"""Predictions that take long, away from the event loop: a big model holds up nobody but itself."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from braided.serve.prediction_answers import PREDICT_CHUNK
from braided.serve.problems import HTTPProblem
from braided.serve.raw_records import RawRecords
from braided.serve.records import Records
from braided.serve.worker import Worker

#: Seconds of work that the event loop may do at a time.
_MAX_ON_LOOP = 0.001
#: Each for one model at a time: its lock lets one reader in, and others need not wait with it.
_THREADS = 8
#: Weight of a new measurement.
_NEWS = 0.1

Predictions = tuple[list[Any], list[dict[str, Any]]]
Found = TypeVar("Found")


class PredictionThreads:
    """Predicts on the event loop what is quick by experience, and the rest in a few threads.

    What counts is the time of the processor: what a busy machine adds says nothing of the model. A model of which
    nothing is known is asked in a thread.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "predictions")
        #: Seconds per record.
        self._cost: WeakKeyDictionary[Worker, float] = WeakKeyDictionary()
        self._turns: WeakKeyDictionary[Worker, asyncio.Semaphore] = WeakKeyDictionary()

    def on_loop(self, worker: Worker, records: int) -> bool:
        """Whether so many records of this model may be predicted on the event loop at once."""
        if worker.state.key is not None:
            return False  # a key may have to be read from disk, and a snapshot takes all keys at once
        return self._cost.get(worker, 1.0) * min(records, PREDICT_CHUNK) < _MAX_ON_LOOP

    async def one(self, worker: Worker, x: dict[str, float]) -> tuple[list[Any], dict[str, Any]]:
        """Predict a record by names."""
        if self.on_loop(worker, 1):
            return self._one(worker, x)
        return await self._in_thread(worker, lambda: self._one(worker, x))

    async def chunk(self, worker: Worker, records: Records | RawRecords, level: float | None = None) -> Predictions:
        """Predict at most `PREDICT_CHUNK` records, and say how sure that is at a level if there is one."""
        if self.on_loop(worker, len(records)):
            return self._chunk(worker, records, level)
        return await self._in_thread(worker, lambda: self._chunk(worker, records, level))

    async def explain(self, worker: Worker, records: Records | RawRecords, by: str) -> dict[str, Any]:
        """Explain the prediction of one record."""
        return await self._in_thread(worker, lambda: worker.explain(records, by))

    async def _in_thread(self, worker: Worker, predict: Callable[[], Found]) -> Found:
        loop = asyncio.get_running_loop()
        turn = self._turns.setdefault(worker, asyncio.Semaphore(1))
        await turn.acquire()

        def release(_: Any) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no one waits any more
                loop.call_soon_threadsafe(turn.release)

        try:
            future = self._pool.submit(predict)
        except RuntimeError:
            turn.release()
            raise HTTPProblem(503, "the service is stopping: try again later") from None
        # A request that is given up leaves the thread at work, and the next one waits for that.
        future.add_done_callback(release)
        return await asyncio.wrap_future(future)

    def _one(self, worker: Worker, x: dict[str, float]) -> tuple[list[Any], dict[str, Any]]:
        begun = time.thread_time()
        found = worker.predict_one(x)
        self._learn(worker, time.thread_time() - begun)
        return found

    def _chunk(self, worker: Worker, records: Records | RawRecords, level: float | None) -> Predictions:
        begun = time.thread_time()
        found = worker.predict(records, level)
        self._learn(worker, (time.thread_time() - begun) / len(records))
        return found

    def _learn(self, worker: Worker, seconds: float) -> None:
        before = self._cost.get(worker, seconds)
        self._cost[worker] = before + _NEWS * (seconds - before)

    def close(self) -> None:
        """Take no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)
