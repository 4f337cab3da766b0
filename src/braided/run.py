"""The job behind `braided run`: models times seeds over one stream, resumable."""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided import models, presets
from braided.checkpoint import pack_name, read, unpack_name, write
from braided.errors import BraidedError
from braided.evaluate import Evaluation
from braided.model import MODLClassifier
from braided.presets import PAPER_SETTINGS
from braided.streams import ArrayStream, Limited, Masked, Stream, datasets, read_whole, shuffled
from braided.streams.open import open_stream

_KIND = MODLClassifier.__name__


@dataclass(frozen=True)
class RunOptions:
    """What is to be run; None means the stream's own protocol.

    Attributes
    ----------
    stream
        Data set name, path, `-` for standard input, or `shuttle`.
    models, preset, combiner
        Names.
    available, always
        Masking: the probability that a feature is available, and how many are always.
    shuffle
        Whether the records come in an order fixed by the seed.
    seed, seeds
        First seed and number of seeds.
    limit
        Stop after so many records.
    target
        Column of the label in a CSV file.
    """

    stream: str = "shuttle"
    models: tuple[str, ...] = ("modl",)
    preset: str = "default"
    combiner: str | None = None
    available: float | None = None
    always: int | None = None
    shuffle: bool | None = None
    seed: int = 0
    seeds: int = 1
    limit: int | None = None
    target: str | None = None

    def resolved(self) -> RunOptions:
        """With the stream's protocol filled in, and checked."""
        settings = PAPER_SETTINGS.get(self.stream)
        if settings is not None:
            available, always, shuffle = settings.available, settings.always, datasets.SOURCES[self.stream].shuffle
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
        for option, value, least in (
            ("--seeds", options.seeds, 1),
            ("--always", options.always, 0),
            ("--seed", options.seed, 0),
            ("--limit", options.limit, 1),
        ):
            if value is not None and value < least:
                raise BraidedError(f"{option} is {value}: give a whole number from {least} on")
        for name in options.models:
            models.build(name, presets.get(options.preset, self.stream), options.combiner, 0)
        return options


@dataclass(frozen=True)
class Finished:
    """One run that is done."""

    model: str
    seed: int
    result: dict[str, Any]
    curve: NDArray[np.int64]


@dataclass
class Progress:
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
    """

    def __init__(
        self,
        options: RunOptions,
        data_dir: Path | None = None,
        checkpoint: Path | None = None,
        every: float = 2.0,
        resume: bool = False,
    ) -> None:
        self.options = options.resolved()
        self.data_dir = data_dir
        self.checkpoint = checkpoint
        self.every = every
        self.finished: list[Finished] = []
        self.counts: Counter[Any] = Counter()
        self.n_features = 0
        self._current: Evaluation | None = None
        if resume:
            self._resume()
        self._source = self._open()

    def _open(self) -> Stream:
        """The stream before shuffling and masking."""
        stream = open_stream(self.options.stream, self.data_dir, self.options.target)
        several = len(self.options.models) * self.options.seeds > 1
        if self.options.shuffle or (several and self.options.stream == "-"):
            return stream if isinstance(stream, ArrayStream) else read_whole(stream)
        return stream

    def _stream(self, seed: int) -> Stream:
        """The stream as this seed shuffles and masks it."""
        options = self.options
        stream = self._source
        if options.shuffle and isinstance(stream, ArrayStream):
            stream = shuffled(stream, seed)
        assert options.available is not None
        assert options.always is not None
        if options.available < 1.0:
            stream = Masked(stream, options.available, options.always, seed)
        return stream if options.limit is None else Limited(stream, options.limit)

    def _fresh(self, name: str, seed: int) -> Evaluation:
        preset = presets.get(self.options.preset, self.options.stream)
        return Evaluation(models.build(name, preset, self.options.combiner, seed))

    def run(self) -> Iterator[Progress]:
        """Do what is left, yielding after each batch."""
        plan = [(name, self.options.seed + i) for name in self.options.models for i in range(self.options.seeds)]
        saved = time.monotonic()
        for number, (name, seed) in enumerate(plan, start=1):
            if number <= len(self.finished):
                continue
            evaluation = self._current or self._fresh(name, seed)
            self._current = evaluation
            stream = self._stream(seed)
            for _ in evaluation.run(stream):
                if self.checkpoint and time.monotonic() - saved >= self.every:
                    self._save(evaluation)
                    saved = time.monotonic()
                yield Progress(name, seed, number, len(plan), evaluation, stream.n_records)
            if evaluation.records == 0:
                raise BraidedError(f"stream {self.options.stream!r} has no records: give at least one")
            self.finished.append(Finished(name, seed, evaluation.result(), evaluation.curve.table()))
            self.counts, self.n_features = evaluation.counts, evaluation.model.n_features
            self._current = None
            if self.checkpoint:
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
            "stream": self.options.stream,
            "records": records,
            "features": self.n_features,
            "classes": len(self.counts),
            "majority_errors": records - max(self.counts.values()),
            "available": self.options.available,
            "runs": [
                {"model": run.model, "preset": self.options.preset, "seed": run.seed, **run.result}
                for run in self.finished
            ],
            "summary": summary,
        }

    def _save(self, evaluation: Evaluation) -> None:
        """Write the model in progress (or the last one) with the state of the job around it."""
        assert self.checkpoint is not None
        metadata, arrays = evaluation.model.snapshot()
        running = self._current is not None
        metadata["run"] = {
            "options": dataclasses.asdict(self.options),
            "finished": [{"model": run.model, "seed": run.seed, "result": run.result} for run in self.finished],
            "running": running,
            "seconds": evaluation.seconds,
            "features": evaluation.model.n_features,
            "counts": [[pack_name(label), count] for label, count in evaluation.counts.items()],
        }
        for i, run in enumerate(self.finished):
            arrays[f"run/finished {i}"] = run.curve
        arrays |= {f"run/curve/{name}": array for name, array in evaluation.curve.state().items()}
        write(self.checkpoint, _KIND, metadata, arrays)

    def _resume(self) -> None:
        """Take up the job from the checkpoint; without one, start from the beginning."""
        if self.checkpoint is None:
            raise BraidedError("--resume needs --checkpoint FILE, the file to go on from")
        if not os.path.exists(self.checkpoint):
            return
        saved = read(self.checkpoint, _KIND)
        run = saved.metadata.get("run")
        if run is None:
            raise BraidedError(
                f"checkpoint {self.checkpoint} holds a model but no run: it was not made by --checkpoint"
            )
        now = dataclasses.asdict(self.options)
        for name, then in run["options"].items():
            then = tuple(then) if isinstance(then, list) else then
            if name not in now or now[name] != then:
                raise BraidedError(
                    f"checkpoint {self.checkpoint} was made with {name} = {then!r}, and now it is {now.get(name)!r}: "
                    "give the same options, or another checkpoint file"
                )
        for i, item in enumerate(run["finished"]):
            curve = saved.arrays[f"run/finished {i}"]
            self.finished.append(Finished(item["model"], item["seed"], item["result"], curve))
        counts: Counter[Any] = Counter({unpack_name(label): count for label, count in run["counts"]})
        self.counts, self.n_features = counts, run["features"]
        if run["running"]:
            arrays = {name: array for name, array in saved.arrays.items() if not name.startswith("run/")}
            evaluation = Evaluation(MODLClassifier.restore(saved.metadata, arrays))
            prefix = "run/curve/"
            evaluation.curve.load_state(
                {name[len(prefix) :]: array for name, array in saved.arrays.items() if name.startswith(prefix)}
            )
            evaluation.seconds = run["seconds"]
            evaluation.counts = counts
            self._current = evaluation
