"""The checkpoint of a job: the model in progress, and the state of the job around it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from braided import checks, zoo
from braided.encode.plan import Plan
from braided.encode.rules import ReadingCounts
from braided.encode.saved import pack_encoder
from braided.errors import BraidedError
from braided.estimators import ESTIMATORS
from braided.estimators.base import MODL
from braided.estimators.params import REGRESSION, TASKS
from braided.evaluation import Evaluation, History
from braided.evaluation.evaluation import result_of
from braided.evaluation.key_tally import KeyTally
from braided.files import remove_leftovers
from braided.fleet import KIND, SHARED, Fleet
from braided.run.options import AUTO, FREE_WHEN_RESUMED, RAISED_WHEN_RESUMED, RunOptions
from braided.run.predictions import Written
from braided.store import (
    REMEDY,
    Checkpoint,
    checked,
    pack_config,
    prefixed,
    read,
    reject_malformed,
    unprefixed,
    write,
)
from braided.streams.fingerprint import fingerprint

Arrays = dict[str, NDArray[Any]]
#: Kind of a checkpoint after a run whose last model was not ours.
_NO_MODEL = "finished runs"
_WHAT = "the checkpoint's run"
#: What the names of arrays begin with that are of the run that goes on.
_CURRENT = "run/current"
#: Bytes at the end of a file by which one checkpoint is told from another.
_END = 32


@dataclass(frozen=True)
class FinishedRun:
    """One run that is done."""

    model: str
    seed: int
    result: dict[str, Any]
    history: History
    keys: KeyTally | None = None


@dataclass
class ResumedJob:
    """A job as its checkpoint holds it."""

    task: str
    preset: str
    finished: list[FinishedRun]
    current: Evaluation | None
    n_features: int
    counts: ReadingCounts
    position: dict[str, Any] | None
    predicted: Written | None


class RunCheckpoint:
    """The file; one that could not be written, or that is something else, is refused before any record is read.

    Parameters
    ----------
    path
        The file.
    source
        A fingerprint of what is read, taken before the first record is, from `source_fingerprint`.
    """

    def __init__(self, path: Path, source: str | None) -> None:
        self.path = path
        self.source = source
        if path.is_dir() or not os.access(path.resolve().parent, os.W_OK):
            raise BraidedError(
                f"checkpoint {path} cannot be written: give a file in a folder that exists and is writable"
            )
        if path.exists() and path.stat().st_size > 0:
            self._read()
        #: The end of the file that this run has found, or written last.
        self._own_end = self._end()
        remove_leftovers(path)

    def _read(self) -> Checkpoint:
        return read(self.path, *ESTIMATORS, KIND, _NO_MODEL)

    def _end(self) -> bytes | None:
        """The checksum at the end of the file, which no two checkpoints share; None if there is no file."""
        try:
            with self.path.open("rb") as file:
                file.seek(-min(_END, file.seek(0, os.SEEK_END)), os.SEEK_END)
                return file.read()
        except FileNotFoundError:
            return None

    def _check_own(self) -> None:
        """Refuse to write over what another run has written since: the two would undo each other's records."""
        if self._end() not in (None, self._own_end):
            raise BraidedError(
                f"checkpoint {self.path} was written by another run meanwhile: stop one of the two, or give each a "
                "file of its own"
            )

    def save(
        self,
        options: RunOptions,
        finished: list[FinishedRun],
        evaluation: Evaluation,
        running: bool,
        counts: ReadingCounts,
        position: dict[str, Any] | None,
        predicted: Written | None,
    ) -> None:
        """Write the model in progress (or the last one, if it has a state) with the state of the job around it."""
        self._check_own()
        model: Any = evaluation.model
        metadata: dict[str, Any] = {}
        arrays: Arrays = {}
        if isinstance(model, MODL | Fleet):
            encode = None
            if counts.encoder is not None:
                # A mask hides values from the model, and names expire: what it knows is then not all that it was given.
                shown = options.expire_after is None and options.available == 1.0 and options.mask == "iid"
                encode = pack_encoder(counts.encoder, set(model.feature_names) if shown and model.n_features else None)
            if isinstance(model, Fleet):
                metadata, arrays = model.snapshot_in_parts(encode)
            else:
                metadata, arrays = model.snapshot()
                metadata |= {} if encode is None else {"encode": encode}
        histories = [run.history for run in finished] + ([evaluation.history] if running else [])
        packed = []
        for i, history in enumerate(histories):
            about, own = history.state()
            packed.append(about)
            arrays |= prefixed(f"run/history {i}", own)
        done: list[dict[str, Any]] = []
        for i, run in enumerate(finished):
            result = {name: value for name, value in run.result.items() if name != "keys"}
            done.append({"model": run.model, "seed": run.seed, "result": result})
            if run.keys is not None:
                done[-1]["keys"], sums = run.keys.state()
                arrays |= prefixed(f"run/finished {i}", sums)
        current: dict[str, Any] | None = None
        if running:
            current, own = evaluation.state()
            arrays |= prefixed(_CURRENT, own)
        metadata["run"] = {
            "options": options.stored(),
            "preset": _settings(options),
            "found": counts.state(),
            "plan": None if counts.plan is None else counts.plan.document(),
            "position": position,
            "source": self.source,
            "finished": done,
            "current": current,
            "features": model.n_features,
            "histories": packed,
            "rows_predicted": None if predicted is None else predicted.rows,
            "columns_predicted": [] if predicted is None else list(predicted.columns),
        }
        kind = KIND if isinstance(model, Fleet) else type(model).__name__ if isinstance(model, MODL) else _NO_MODEL
        write(self.path, kind, metadata, arrays)
        self._own_end = self._end()

    def load(self, options: RunOptions) -> ResumedJob | None:
        """The job to go on with; None where there is no checkpoint yet."""
        if not self.path.exists():
            return None
        self._own_end = self._end()
        saved = self._read()
        if "run" not in saved.metadata:
            raise BraidedError(f"checkpoint {self.path} holds a model but no run: it was not made by --checkpoint")
        run = checked("the checkpoint", saved.metadata, "run", dict)
        then = checked(_WHAT, run, "options", dict)
        self._check_options(then, options)
        if run.get("preset") != _settings(options):
            raise BraidedError(
                f"checkpoint {self.path} is of a braided whose preset {options.preset!r} had other settings: finish it "
                "with that one, or give another checkpoint file"
            )
        if run.get("source") != self.source:
            raise BraidedError(
                f"checkpoint {self.path} was made from another file: {options.stored()['stream']} has changed since; "
                "give the same file, or another checkpoint file"
            )
        running, done = run.get("current") is not None, checked(_WHAT, run, "finished", list)
        histories = [
            History.restore(about, unprefixed(f"run/history {i}", saved.arrays))
            for i, about in enumerate(checked(_WHAT, run, "histories", list))
        ]
        if len(histories) != len(done) + running:
            raise BraidedError(f"{_WHAT} has {len(histories)} histories of {len(done)} finished runs; {REMEDY}")
        finished = [
            _finished(item, history, unprefixed(f"run/finished {i}", saved.arrays))
            for i, (item, history) in enumerate(zip(done, histories, strict=False))
        ]
        counts = ReadingCounts()
        counts.load_state(_found(run.get("found")))
        if run.get("position") is not None:
            checked(_WHAT, run, "position", dict)
        if run.get("plan") is not None:
            with reject_malformed(_WHAT):
                counts.plan = Plan.from_document(run["plan"])
        return ResumedJob(
            task=checks.choice("task", checked(_WHAT, then, "task", str), (AUTO, *TASKS)),
            preset=options.preset,
            finished=finished,
            current=self._current(saved, run, histories, options) if running else None,
            n_features=checked(_WHAT, run, "features", int),
            counts=counts,
            position=run.get("position"),
            predicted=_predicted(run),
        )

    def _current(
        self, saved: Checkpoint, run: dict[str, Any], histories: list[History], options: RunOptions
    ) -> Evaluation:
        """The run that was going on."""
        own = {name: array for name, array in saved.arrays.items() if not name.startswith("run/")}
        if saved.kind not in ESTIMATORS and saved.kind != KIND:
            raise BraidedError(f"checkpoint {self.path} is of a run that goes on, and has no model; {REMEDY}")
        # The reader settles the rules of the columns anew, and gives the model numbers.
        about = {key: value for key, value in saved.metadata.items() if key != "encode"}
        model: Any = (
            _restored_fleet(about, own, options)
            if saved.kind == KIND
            else ESTIMATORS[saved.kind].restore(_with_limits(about, options), own)
        )
        history = histories[-1]
        if list(history.learners) != model.learner_names or history.tally.regression != (model.task == REGRESSION):
            raise BraidedError(f"checkpoint {self.path}: its history is of another model; {REMEDY}")
        evaluation = Evaluation(model, history, options.delay, late_labels=options.late_labels())
        evaluation.load_state(checked(_WHAT, run, "current", dict), unprefixed(_CURRENT, saved.arrays))
        return evaluation

    def _check_options(self, then: dict[str, Any], options: RunOptions) -> None:
        """Refuse options that are others than those of the checkpoint, where that would change what is learned."""
        now = options.stored()
        for name, value in now.items():
            if name not in then:
                raise BraidedError(f"{_WHAT}: option {name!r} is missing; {REMEDY}")
            before = then[name]
            before = tuple(before) if isinstance(before, list) else before
            free = name in FREE_WHEN_RESUMED or (name == "task" and value == AUTO)
            if name in RAISED_WHEN_RESUMED and checked(_WHAT, {name: before}, name, int) > value:
                raise BraidedError(
                    f"--{name.replace('_', '-')} is {value:,}, and was {before:,} when checkpoint {self.path} was "
                    "made: give as many or more"
                )
            if before != value and not free and name not in RAISED_WHEN_RESUMED:
                raise BraidedError(
                    f"checkpoint {self.path} was made with {name} = {before!r}, and now it is {value!r}: "
                    "give the same options, or another checkpoint file"
                )


def _with_limits(metadata: Any, options: RunOptions) -> dict[str, Any]:
    """A model as it was saved, with room for as much as the options say now."""
    parameters = checked("the checkpoint", metadata, "parameters", dict)
    return {**metadata, "parameters": parameters | {name: getattr(options, name) for name in RAISED_WHEN_RESUMED}}


def _restored_fleet(metadata: dict[str, Any], arrays: Arrays, options: RunOptions) -> Fleet:
    """A fleet that takes numbers, as those in `_current`; its limits may be others, but for keys that it has."""
    about, limits = dict(metadata), options.key_limits
    kept = checked(_WHAT, about, "parameters", dict)
    if limits.get("max_keys", math.inf) < checked(_WHAT, kept, "max_keys", int):
        raise BraidedError(
            f"--max-keys is {limits['max_keys']:,}, and was {kept['max_keys']:,} when the checkpoint was made: give as "
            "many or more"
        )
    about["parameters"] = {**kept, **limits}
    template = {key: value for key, value in checked(_WHAT, about, "template", dict).items() if key != "encode"}
    about["template"] = _with_limits(template, options)
    return Fleet.restore(about, arrays)


def _predicted(run: Mapping[str, Any]) -> Written | None:
    """What was written of `--predictions`."""
    if run.get("rows_predicted") is None:
        return None
    columns = checked(_WHAT, run, "columns_predicted", list)
    return Written(checked(_WHAT, run, "rows_predicted", int), tuple(map(str, columns)))


def _settings(options: RunOptions) -> Any:
    """The preset with all its settings, as a file gives it back."""
    return json.loads(json.dumps(pack_config(zoo.preset_for(options.preset, options.stream))))


def source_fingerprint(options: RunOptions, data_dir: Path | None) -> str | None:
    """A fingerprint of the files that are read, to notice on resuming that they are others.

    It is taken once, before they are read: one taken later would be that of a file which has changed meanwhile, of
    which nobody knows what was read. Of standard input and of a database on a server there is none; a stream that is
    followed knows its own place.
    """
    return None if options.follow else fingerprint(options.stream, data_dir)


def _finished(item: Any, history: History, arrays: Arrays) -> FinishedRun:
    model, seed = checked(_WHAT, item, "model", str), checked(_WHAT, item, "seed", int, 0, 2**63 - 1)
    kept = {"unlabelled": 0, "state_sha256": None, **checked(_WHAT, item, "result", dict)}
    keys = None
    if item.get("keys") is not None:
        keys = KeyTally(SHARED in history.learners)
        keys.load_state(item["keys"], arrays)
    learners = checked(_WHAT, kept, "learners", dict)
    health = {
        name: {count: checked(_WHAT, learners.get(name), count, int) for count in ("skipped", "resets")}
        for name in history.learners
    }
    result = result_of(history, health, checked(_WHAT, kept, "unlabelled", int), checked(_WHAT, kept, "seconds", float))
    digest = kept.get("state_sha256")
    result["state_sha256"] = None if digest is None else checked(_WHAT, kept, "state_sha256", str)
    if keys is not None:
        result["keys"] = keys.result()
    if "late_labels" in kept:
        counted = checked(_WHAT, kept, "late_labels", dict)
        result["late_labels"] = {str(name): checked(_WHAT, counted, name, int) for name in counted}
    if "drifts" in kept:
        result["drifts"] = checked(_WHAT, kept, "drifts", int)
    return FinishedRun(model, seed, result, history, keys)


def _found(state: Any) -> list[Any]:
    """What was skipped until now: two counts, a sentence or none, and a third count."""
    if isinstance(state, list) and len(state) == 4 and (state[2] is None or isinstance(state[2], str)):
        numbers = {str(i): number for i, number in enumerate(state) if i != 2}
        if all(checked(_WHAT, numbers, i, int) >= 0 for i in numbers):
            return state
    raise BraidedError(f"{_WHAT}: what was skipped is {state!r:.60}; {REMEDY}")
