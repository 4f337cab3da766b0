"""The job behind `braided run`: models times seeds over one stream, resumable."""

from __future__ import annotations

import dataclasses
import functools
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided import models, presets
from braided.checkpoint import pack_name, read, unpack_name, write
from braided.datasets.catalogue import CATALOGUE
from braided.datasets.locate import locate
from braided.datasets.protocol import PAPER_SETTINGS
from braided.errors import BraidedError
from braided.evaluate import Evaluation, warm_up
from braided.history import History
from braided.model import MODLClassifier
from braided.models import Wish
from braided.streams import MASKS, ArrayStream, Limited, Peeked, Rules, Stream, read_whole, shuffled
from braided.streams.encode.rules import ReadingCounts
from braided.streams.fingerprint import fingerprint
from braided.streams.open import open_stream
from braided.streams.readers.follow import FollowStream
from braided.streams.readers.sql import without_password

_KIND = MODLClassifier.__name__
#: Options that may be others when a run is resumed: they do not touch what has been learned.
_FREE = {"idle", "on_error"}
#: Kind of a checkpoint after a run whose last model was not ours.
_NO_MODEL = "finished runs"


@dataclass(frozen=True)
class RunOptions:
    """What is to be run; None means the stream's own protocol.

    Attributes
    ----------
    stream
        Data set name, path, `-` for standard input, or `shuttle`.
    models, preset, combiner
        Names.
    mask, available, always
        Masking: its kind, the probability that a feature is available, and how many are always.
    shuffle
        Whether the records come in an order fixed by the seed.
    seed, seeds
        First seed and number of seeds.
    limit
        Stop after so many records.
    target, drop
        Columns by name: the label's, and those that are not read.
    header, delimiter
        Of a CSV file: whether its first line is a header, and what stands between fields (None: seen from the lines).
    query
        SQL, where the stream is the address of a data base.
    categories, hash_buckets, on_error
        As `braided.streams.Rules` has them.
    follow, idle
        Wait for more lines or files, until nothing has come for `idle` seconds.
    max_features, max_classes
        Limits beyond which a stream is refused.
    options
        Settings `name=value` that replace those of the learners.
    drift
        Name of the drift detector, if there is to be one.
    """

    stream: str = "shuttle"
    models: tuple[str, ...] = ("modl",)
    preset: str = "default"
    combiner: str | None = None
    mask: str = "iid"
    available: float | None = None
    always: int | None = None
    shuffle: bool | None = None
    seed: int = 0
    seeds: int = 1
    limit: int | None = None
    target: str | None = None
    header: bool | None = None
    delimiter: str | None = None
    drop: tuple[str, ...] = ()
    query: str | None = None
    categories: str = "onehot"
    hash_buckets: int = 64
    on_error: str = "stop"
    follow: bool = False
    idle: float | None = None
    max_features: int = 10_000
    max_classes: int = 1_000
    options: tuple[str, ...] = ()
    drift: str | None = None

    def resolved(self) -> RunOptions:
        """With the stream's protocol filled in, and checked."""
        settings = PAPER_SETTINGS.get(self.stream)
        if settings is not None:
            available, always, shuffle = settings.available, settings.always, CATALOGUE[self.stream].shuffle
        else:
            available, always, shuffle = (0.5 if self.stream == "shuttle" else 1.0), 0, False
        options = dataclasses.replace(
            self,
            available=available if self.available is None else self.available,
            always=always if self.always is None else self.always,
            shuffle=shuffle if self.shuffle is None else self.shuffle,
        )
        assert options.available is not None
        if not 0.0 <= options.available <= 1.0:
            raise BraidedError(f"--available is {options.available}: give a probability from 0 to 1")
        if options.mask not in MASKS:
            raise BraidedError(f"--mask {options.mask!r} is not known: use one of {', '.join(MASKS)}")
        if options.available == 1.0 and options.mask in {"sudden", "burst", "value"}:
            raise BraidedError(f"--mask {options.mask} hides nothing at --available 1: give --available below 1")
        for option, value, least in (
            ("--seeds", options.seeds, 1),
            ("--always", options.always, 0),
            ("--seed", options.seed, 0),
            ("--limit", options.limit, 1),
            ("--max-features", options.max_features, 1),
            ("--max-classes", options.max_classes, 1),
        ):
            if value is not None and value < least:
                raise BraidedError(f"{option} is {value}: give a whole number from {least} on")
        models.check(options.models, options.wish(options.seed))
        options.rules()
        if options.follow:
            if len(options.models) * options.seeds > 1:
                raise BraidedError("--follow takes one model and one seed: another would not see the same records")
            if options.shuffle or options.available < 1.0 or options.mask != "iid":
                raise BraidedError("--follow takes records as they come: leave out --shuffle, --mask and --available")
        return options

    def rules(self, tell: Callable[[str], None] | None = None) -> Rules:
        """How cells become features."""
        return Rules(self.categories, self.hash_buckets, self.on_error, self.drop, self.max_features, tell)

    def stored(self) -> dict[str, Any]:
        """The options as a checkpoint holds them: without a password."""
        return {**dataclasses.asdict(self), "stream": without_password(self.stream)}

    @property
    def as_published(self) -> bool:
        """Whether these are the records, masked and ordered, that published figures of this stream are about."""
        settings = PAPER_SETTINGS.get(self.stream)
        changed = self.limit is not None or self.options or self.combiner or self.drift
        if settings is None or changed or self.mask != "iid":
            return False
        usual = (settings.available, settings.always, CATALOGUE[self.stream].shuffle)
        return (self.available, self.always, self.shuffle) == usual

    def wish(self, seed: int, base_features: tuple[Hashable, ...] = ()) -> Wish:
        """What the models of this run are built from."""
        preset = presets.get(self.preset, self.stream)
        return Wish(
            preset, self.combiner, seed, self.stream, base_features, self.max_features, self.max_classes, self.options,
            self.drift,
        )  # fmt: skip


@dataclass(frozen=True)
class Finished:
    """One run that is done."""

    model: str
    seed: int
    result: dict[str, Any]
    curve: NDArray[np.int64]
    history: History | None = None


@dataclass
class JobProgress:
    """Where the job stands, after each batch."""

    model: str
    seed: int
    number: int
    of: int
    evaluation: Evaluation
    n_records: int | None


class Job:
    """Runs of all models and seeds, in order, with a checkpoint to go on from.

    Parameters
    ----------
    options
        What to run.
    data_dir
        Where the named data sets are.
    checkpoint, every
        File to write, and seconds between two writings.
    resume
        Go on from the checkpoint if it is there.
    source
        The stream, where it is open already.
    collect
        Keep a history of each run, for a report. With a checkpoint it is always kept: who resumes may ask for one.
    tell
        Hears what the reader of the stream says: the kinds of its columns, once, and that a file was replaced.
    """

    def __init__(
        self,
        options: RunOptions,
        data_dir: Path | None = None,
        checkpoint: Path | None = None,
        every: float = 2.0,
        resume: bool = False,
        source: Stream | None = None,
        collect: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.options = options.resolved()
        self._collect = collect or checkpoint is not None
        self.data_dir = data_dir
        self.checkpoint = checkpoint
        self.every = every
        self.finished: list[Finished] = []
        self.counts: Counter[Any] = Counter()
        self.n_features = 0
        self._current: Evaluation | None = None
        self._saved, self._saved_records = time.monotonic(), -1
        self._tell = tell
        self._position: dict[str, Any] | None = None
        self.found = ReadingCounts()
        self._check_checkpoint(resume)
        if resume:
            self._resume()
        self._source = source or self._open()
        if source is not None:
            self._take_found(source)

    def _fingerprint(self) -> str | None:
        """Length and first megabyte of the files that are read, to notice on resuming that they are others.

        Of standard input and of a data base on a server there is none; a stream that is followed knows its own place.
        """
        return None if self.options.follow else fingerprint(self.options.stream, self.data_dir)

    @property
    def sample(self) -> bool:
        """Whether only a sample of the data set is here."""
        name = self.options.stream
        return name in CATALOGUE and locate(name, self.data_dir).sample

    def _open(self) -> Stream:
        """The stream before shuffling and masking."""
        options = self.options
        stream = open_stream(
            options.stream,
            self.data_dir,
            options.target,
            options.header,
            delimiter=options.delimiter,
            query=options.query,
            follow=options.follow,
            idle=options.idle,
            position=self._position,
            rules=options.rules(self._tell),
        )
        self._take_found(stream)
        several = len(self.options.models) * self.options.seeds > 1
        if self.options.shuffle or (several and self.options.stream == "-"):
            return stream if isinstance(stream, ArrayStream) else read_whole(stream)
        return Peeked(stream) if self.options.stream == "-" and self.options.always else stream

    def _take_found(self, stream: Stream) -> None:
        """Read off the reader what it skips; a finished job keeps what its checkpoint says."""
        found = getattr(stream, "counts", None)
        if found is not None and len(self.finished) < len(self.options.models) * self.options.seeds:
            self.found = found

    def stop(self) -> None:
        """End a stream that is followed, with what it has given so far."""
        if isinstance(self._source, FollowStream):
            self._source.stop()

    def stream(self, seed: int) -> Stream:
        """The stream as this seed shuffles and masks it."""
        options = self.options
        stream = self._source
        if options.shuffle and isinstance(stream, ArrayStream):
            stream = shuffled(stream, seed)
        assert options.available is not None
        assert options.always is not None
        if options.available < 1.0 or options.mask != "iid":
            lengths = [n for n in (stream.n_records, options.limit) if n is not None]
            mask = MASKS[options.mask]
            stream = mask(stream, options.available, options.always, seed, min(lengths, default=None))
        return stream if options.limit is None else Limited(stream, options.limit)

    def _fresh(self, name: str, seed: int, stream: Stream) -> Evaluation:
        """A new model, its code compiled; the first `always` features of the stream are its base features."""
        base: tuple[Hashable, ...] = ()
        if self.options.always:
            first = self._source.first if isinstance(self._source, Peeked) else next(stream.batches(), None)
            base = () if first is None else first.names[: self.options.always]
        model = models.build(name, self.options.wish(seed, base))
        warm_up(model)
        return Evaluation(model, History(name, model.learner_names) if self._collect else None)

    def run(self) -> Iterator[JobProgress]:
        """Do what is left, yielding after each batch."""
        plan = [(name, self.options.seed + i) for name in self.options.models for i in range(self.options.seeds)]
        for number, (name, seed) in enumerate(plan, start=1):
            if number <= len(self.finished):
                continue
            stream = self.stream(seed)
            evaluation = self._current or self._fresh(name, seed, stream)
            self._current = evaluation
            if isinstance(self._source, FollowStream):
                self._source.on_pause = functools.partial(self._save_if_due, evaluation)
            try:
                for _ in evaluation.run(stream):
                    self._save_if_due(evaluation)
                    yield JobProgress(name, seed, number, len(plan), evaluation, stream.n_records)
            except BraidedError:
                if self.options.follow and self.checkpoint and evaluation.records:
                    self._save(evaluation)  # what came before the record that does not fit
                raise
            if evaluation.records == 0:
                raise BraidedError(f"stream {self.options.stored()['stream']!r} has no records: give at least one")
            if self.options.follow and self.checkpoint:
                self._save(evaluation)  # as one that goes on: there may be more to follow
            if evaluation.history is not None:
                evaluation.history.close(evaluation.model)
            done = Finished(name, seed, evaluation.result(), evaluation.curve.table(), evaluation.history)
            self.finished.append(done)
            self.counts, self.n_features = evaluation.counts, evaluation.model.n_features
            self._current = None
            if self.checkpoint and not self.options.follow:
                self._save(evaluation)

    def _save_if_due(self, evaluation: Evaluation) -> None:
        """Write the checkpoint if the last one is `every` seconds old, or older, and there is something new."""
        if self.checkpoint is None or evaluation.records == self._saved_records:
            return
        if time.monotonic() - self._saved >= self.every:
            self._save(evaluation)

    def document(self) -> dict[str, Any]:
        """All results, as `--json` prints them."""
        records = int(self.finished[-1].curve[-1, 0])
        summary = {}
        for name in self.options.models:
            results = [run.result for run in self.finished if run.model == name]
            errors = [result["errors"] for result in results]
            summary[name] = {
                "errors_mean": statistics.fmean(errors),
                "errors_sd": statistics.stdev(errors) if len(errors) > 1 else 0.0,
                "seconds_mean": statistics.fmean(result["seconds"] for result in results),
            }
        return {
            "stream": self.options.stored()["stream"],
            "records": records,
            "features": self.n_features,
            "classes": len(self.counts),
            "majority_errors": records - max(self.counts.values()),
            "mask": self.options.mask,
            "available": self.options.available,
            "skipped_records": self.found.skipped_records,
            "missing_values": self.found.missing_values,
            "first_problem": self.found.first_problem,
            "sample": self.sample,
            "as_published": self.options.as_published and not self.sample,
            "runs": [
                {"model": run.model, "preset": self.options.preset, "seed": run.seed, **run.result}
                for run in self.finished
            ],
            "summary": summary,
        }

    def _save(self, evaluation: Evaluation) -> None:
        """Write the model in progress (or the last one) with the state of the job around it.

        River's models have no such state: of theirs only finished runs are written, and an unfinished one starts over.
        """
        assert self.checkpoint is not None
        running = self._current is not None
        model = evaluation.model
        metadata: dict[str, Any] = {}
        arrays: dict[str, NDArray[Any]] = {}
        if isinstance(model, MODLClassifier):
            metadata, arrays = model.snapshot()
        elif running:
            return
        metadata["run"] = {
            "options": self.options.stored(),
            "found": self.found.state(),
            "position": getattr(self._source, "position", None),
            "source": self._fingerprint(),
            "finished": [{"model": run.model, "seed": run.seed, "result": run.result} for run in self.finished],
            "running": running,
            "seconds": evaluation.seconds,
            "features": model.n_features,
            "counts": [[pack_name(label), count] for label, count in evaluation.counts.items()],
        }
        for i, run in enumerate(self.finished):
            arrays[f"run/finished {i}"] = run.curve
        arrays |= {f"run/curve/{name}": array for name, array in evaluation.curve.state().items()}
        histories = [run.history for run in self.finished] + ([evaluation.history] if running else [])
        metadata["run"]["histories"] = _pack_histories(histories, arrays)
        write(self.checkpoint, _KIND if isinstance(model, MODLClassifier) else _NO_MODEL, metadata, arrays)
        self._saved, self._saved_records = time.monotonic(), evaluation.records if running else -1

    def _check_checkpoint(self, resume: bool) -> None:
        """Refuse a checkpoint file that could not be written, or that is something else, before any record is read."""
        path = self.checkpoint
        if path is None:
            if resume:
                raise BraidedError("--resume needs --checkpoint FILE, the file to go on from")
            return
        if path.is_dir() or not os.access(path.resolve().parent, os.W_OK):
            raise BraidedError(
                f"checkpoint {path} cannot be written: give a file in a folder that exists and is writable"
            )
        if path.exists() and path.stat().st_size > 0:
            read(path, _KIND, _NO_MODEL)

    def _resume(self) -> None:
        """Take up the job from the checkpoint; without one, start from the beginning."""
        assert self.checkpoint is not None
        if not self.checkpoint.exists():
            return
        saved = read(self.checkpoint, _KIND, _NO_MODEL)
        run = saved.metadata.get("run")
        if run is None:
            raise BraidedError(
                f"checkpoint {self.checkpoint} holds a model but no run: it was not made by --checkpoint"
            )
        now = self.options.stored()
        for name, then in run["options"].items():
            then = tuple(then) if isinstance(then, list) else then
            if name in _FREE:
                continue
            if name not in now or now[name] != then:
                raise BraidedError(
                    f"checkpoint {self.checkpoint} was made with {name} = {then!r}, and now it is {now.get(name)!r}: "
                    "give the same options, or another checkpoint file"
                )
        if run["source"] != self._fingerprint():
            raise BraidedError(
                f"checkpoint {self.checkpoint} was made from another file: {self.options.stream} has changed since; "
                "give the same file, or another checkpoint file"
            )
        histories = _unpack_histories(run, saved.arrays)
        for i, item in enumerate(run["finished"]):
            curve = saved.arrays[f"run/finished {i}"]
            self.finished.append(Finished(item["model"], item["seed"], item["result"], curve, histories[i]))
        self.found.load_state(run.get("found", [0, 0, None]))
        self._position = run.get("position")
        counts: Counter[Any] = Counter({unpack_name(label): count for label, count in run["counts"]})
        self.counts, self.n_features = counts, run["features"]
        if run["running"]:
            arrays = {name: array for name, array in saved.arrays.items() if not name.startswith("run/")}
            evaluation = Evaluation(MODLClassifier.restore(saved.metadata, arrays), histories[-1])
            prefix = "run/curve/"
            evaluation.curve.load_state(
                {name[len(prefix) :]: array for name, array in saved.arrays.items() if name.startswith(prefix)}
            )
            evaluation.seconds = run["seconds"]
            evaluation.counts = counts
            self._current = evaluation


def _pack_histories(histories: list[History | None], arrays: dict[str, NDArray[Any]]) -> list[dict[str, Any] | None]:
    """Put the arrays of histories among the others, and return what else they hold."""
    packed: list[dict[str, Any] | None] = []
    for i, history in enumerate(histories):
        metadata, own = (None, {}) if history is None else history.state()
        packed.append(metadata)
        arrays |= {f"run/history {i}/{name}": array for name, array in own.items()}
    return packed


def _unpack_histories(run: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> list[History | None]:
    """The inverse; a checkpoint of a braided that kept no histories has none for any run."""
    packed = run.get("histories") or [None] * (len(run["finished"]) + 1)
    histories: list[History | None] = []
    for i, metadata in enumerate(packed):
        prefix = f"run/history {i}/"
        own = {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
        histories.append(None if metadata is None else History.restore(metadata, own))
    return histories
