"""A fleet whose keys are in several processes of this machine, with the bits of one."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators.chunks import checked_array
from braided.fleet.fleet import Fleet
from braided.fleet.key_process import KeyProcess, Said
from braided.fleet.separate import Chunk, SeparateModels
from braided.option_names import option
from braided.records import Predictions


class SpreadModels(SeparateModels):
    """Models of a fleet's keys in other processes; the shared model, the order of keys and the classes are here.

    A key's model learns the records of that key alone, so that it does not matter where. Where new keys start as copies
    of a shared model, that one learns here, while the processes learn the same records, and a copy of it is sent where
    a new key comes.

    Parameters
    ----------
    models
        What the fleet had so far; its models go to the processes.
    n
        How many processes.
    """

    def __init__(self, models: SeparateModels, n: int) -> None:
        super().__init__(models.model, models.limits, models.start)
        self._encoder, self._space, self.held = models.give_up_encoder(), models._space, models.held
        few = replace(models.limits, in_memory=max(1, models.limits.in_memory // n), folder=self._spill.path)
        self._processes: list[KeyProcess] = []
        #: Whether all processes have learned the same records.
        self._whole = True
        try:
            for _ in range(n):
                self._processes.append(KeyProcess(SeparateModels(models.model.clone(), few, start=False)))
            for key in models.known:
                process = self._process(key)
                process.send("take", key, models._known_model(key))
                process.send("ready", [key])
                self.known[key] = None
            self._collect()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.close()

    def _process(self, key: str) -> KeyProcess:
        return self._processes[zlib.crc32(key.encode("utf-8", "surrogatepass")) % len(self._processes)]

    def _collect(self) -> list[list[Any]]:
        """What each process has to say."""
        for process in self._processes:
            process.send("collect")
        found: list[list[Any]] = []
        problem: BraidedError | RuntimeError | None = None
        for process in self._processes:
            try:
                found.append(process.collect())
            except (
                BraidedError,
                RuntimeError,
            ) as error:  # the others are heard, so that nothing is left in their pipes
                problem = problem or error
        if problem is not None:
            raise problem
        return found

    def make_ready(self, keys: Iterable[str | None]) -> None:
        """Refuse to learn, before anything has changed, if keys of some process cannot leave memory or come back."""
        self._check_whole()
        by_process: dict[KeyProcess, list[str]] = {process: [] for process in self._processes}
        for key in dict.fromkeys(keys):
            if key is not None and key in self.known:
                by_process[self._process(key)].append(key)
        for process, some in by_process.items():
            process.send("ready", some)
        self._collect()

    def check_files(self, keys: Iterable[str | None]) -> None:
        """Refuse a step after one that was done in part; of files that are gone the processes speak."""
        self._check_whole()

    def _check_whole(self) -> None:
        if not self._whole:
            raise BraidedError("a chunk was learned in part: go on from the checkpoint before it")

    def _refuse(self, *arguments: Any, **settings: Any) -> NoReturn:
        raise BraidedError(
            "the fleet's keys are in other processes, which take tables alone: give learn_many or predict_many one"
        )

    predict_one = learn_one = dry_run = forget_key = snapshot_key = restore_key = _refuse

    @property
    def n_in_memory(self) -> int:
        """How many keys have their model in memory, in all processes."""
        for process in self._processes:
            process.send("count")
        return sum(one for (one,) in self._collect())

    def _check(self, chunk: Chunk) -> None:
        values, columns = checked_array(chunk.table, chunk.columns, 1)
        targets = [self.model._target(label, 1 + row) for row, label in enumerate(chunk.labels)]
        if not self._regression:
            learned = (label for label, weight in zip(targets, chunk.weights, strict=True) if weight > 0.0)
            self._space.check_room([label for label in dict.fromkeys(learned) if label not in self._space.places])
        if self.start:  # a key's model knows nothing that the shared one does not
            self.model.dry_run().learn_many(values, targets, columns, chunk.weights)
            return
        rows: dict[KeyProcess, list[int]] = {}
        for row, key in enumerate(chunk.keys):
            if key is not None:
                rows.setdefault(self._process(key), []).append(row)
        for process, some in rows.items():
            keys, labels = [chunk.keys[i] for i in some], [targets[i] for i in some]
            process.send("check", keys, values[some], labels, columns, chunk.weights[some])
        self._collect()

    def _learn(self, chunk: Chunk, progress: Predictions) -> None:
        """Those that are known learn from the beginning; the others when the shared model has come to their record."""
        self._check_whole()
        groups, first = self._groups(chunk)
        asked: dict[KeyProcess, list[NDArray[np.int64]]] = {process: [] for process in self._processes}
        known = {key: rows for key, rows in groups.items() if key is not None and key not in first}
        self._whole = False
        self._ask("learn", known, chunk, asked)
        done = 0
        for key, row in first.items():
            self._learn_shared(chunk, slice(done, row), groups, progress)
            self._process(key).send("take", key, self.model if self.start else None)
            self._ask("learn", {key: groups[key]}, chunk, asked)
            done = row
        self._learn_shared(chunk, slice(done, len(chunk.keys)), groups, progress)
        self._note_all(asked, progress)
        for one, weight in zip(chunk.keys, chunk.weights, strict=True):
            if one is not None and weight > 0.0:
                self.known[one] = None
                self.known.move_to_end(one)
        self._whole = True

    def _groups(self, chunk: Chunk) -> tuple[dict[str | None, list[int]], dict[str, int]]:
        """The rows of each key, None for those of keys that are not known by then; and where each new key is."""
        groups: dict[str | None, list[int]] = {}
        first: dict[str, int] = {}
        for row, key in enumerate(chunk.keys):
            known = key is not None and (key in self.known or key in first)
            if key is not None and not known and chunk.weights[row] > 0.0:
                first[key], known = row, True
            groups.setdefault(key if known else None, []).append(row)
        return groups, first

    def _learn_shared(
        self, chunk: Chunk, part: slice, groups: Mapping[str | None, list[int]], progress: Predictions
    ) -> None:
        rows = np.arange(part.start, part.stop)
        if not self.start or not rows.size:
            return
        if self.held:
            said = self.model.progress_many(chunk.table[rows], chunk.columns)
        else:
            said = self.model.predict_learn_many(*chunk.some(rows))
        self._note(self.model.classes, said, rows, progress, alone=True)
        unknown = [row for row in groups.get(None, []) if part.start <= row < part.stop]
        if unknown:
            self._note(self.model.classes, said, rows, progress, only=unknown)

    def _ask(
        self,
        kind: str,
        groups: Mapping[Any, list[int]],
        chunk: Chunk,
        asked: dict[KeyProcess, list[NDArray[np.int64]]],
    ) -> None:
        """Send the rows of keys to the processes that have them."""
        parts: dict[KeyProcess, list[tuple[str, list[int]]]] = {}
        for key, rows in groups.items():
            parts.setdefault(self._process(key), []).append((key, rows))
        for process, part in parts.items():
            every = [row for _, rows in part for row in rows]
            ends = np.cumsum([len(rows) for _, rows in part])
            places = [(key, np.arange(end - len(rows), end)) for (key, rows), end in zip(part, ends, strict=True)]
            table, labels, columns, weights = chunk.some(np.array(every))
            more = (labels, columns, weights) if kind == "learn" else (columns,)
            process.send(kind, places, table, *more)
            asked[process] += [np.array(rows) for _, rows in part]

    def _note_all(self, asked: Mapping[KeyProcess, list[NDArray[np.int64]]], progress: Predictions) -> None:
        for process, found in zip(self._processes, self._collect(), strict=True):
            for rows, (classes, predictions, own) in zip(asked[process], map(Said._make, found), strict=True):
                self._note(classes, Predictions(predictions, own), rows, progress)

    def _say(self, chunk: Chunk, progress: Predictions) -> None:
        groups: dict[str | None, list[int]] = {}
        for row, key in enumerate(chunk.keys):
            groups.setdefault(key if key in self.known else None, []).append(row)
        asked: dict[KeyProcess, list[NDArray[np.int64]]] = {process: [] for process in self._processes}
        self._ask("predict", {key: rows for key, rows in groups.items() if key is not None}, chunk, asked)
        if self.start and len(chunk.keys):
            shared, rows = self.model.progress_many(chunk.table, chunk.columns), np.arange(len(chunk.keys))
            self._note(self.model.classes, shared, rows, progress, alone=True)
            if None in groups:
                self._note(self.model.classes, shared, rows, progress, only=groups[None])
        self._note_all(asked, progress)

    def _snapshots(self, in_parts: bool) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        self._check_whole()
        for process in self._processes:
            process.send("snapshot")
        found = {key: (one, arrays) for part in self._collect() for key, one, arrays in part}
        return (found[key] for key in self.known)


def spreads(fleet: Any, jobs: int) -> bool:
    """Whether a fleet would use so many processes: not under `braid`, where nearly all is learned by the shared model.

    All records are learned by that model in their order, as are the weights that the keys share.
    """
    return jobs > 1 and isinstance(fleet, Fleet) and isinstance(fleet._inside, SeparateModels)


@contextmanager
def spread(fleet: Any, jobs: int) -> Iterator[None]:
    """Within this, a fleet of whole models uses several processes; what it says and learns has the same bits.

    Afterwards it is not to be used any more: its keys have gone with their processes. The shared model of `start` takes
    one of so many processes, which is this one.
    """
    if not spreads(fleet, jobs):
        yield
        return
    inside = fleet._inside
    if fleet.evict is not None or (inside.start and inside.model.expire_after is not None):
        what = "expire_after" if fleet.evict is None else "evict"
        raise BraidedError(
            f"{option('jobs', jobs)} takes no {option(what)}, and the fleet, or the checkpoint that it is from, has it"
            f": leave out {option('jobs')}, or start without {option(what)}"
        )
    models = SpreadModels(inside, jobs - inside.start)
    fleet._inside = models
    try:
        yield
    finally:
        models.close()
