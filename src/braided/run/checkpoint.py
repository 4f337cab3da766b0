"""The checkpoint of a job: the model in progress, and the state of the job around it."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided import checks, presets
from braided.checkpoint import (
    Checkpoint,
    pack_config,
    pack_name,
    prefixed,
    read,
    remove_leftovers,
    unpack_name,
    unpack_names,
    unprefixed,
    write,
)
from braided.errors import BraidedError
from braided.estimators import ESTIMATORS
from braided.estimators.base import MODL
from braided.estimators.chunks import weights_of
from braided.estimators.late_answers import pack_said, unpack_said
from braided.estimators.tasks import CLASSIFICATION, REGRESSION, TASKS
from braided.evaluation import Evaluation, History
from braided.evaluation.evaluation import Waiting, result_of
from braided.evaluation.key_tally import checked_keys
from braided.evaluation.older import upgraded_history
from braided.fleet import KIND, Fleet
from braided.run.options import AUTO, FREE_WHEN_RESUMED, RAISED_WHEN_RESUMED, RunOptions
from braided.run.predictions import Written
from braided.state import ArrayRule, check_arrays, checked, holding_together
from braided.streams import Batch
from braided.streams.encode.plan import Plan
from braided.streams.encode.rules import ReadingCounts
from braided.streams.encode.saved import pack_encoder
from braided.streams.fingerprint import fingerprint

Arrays = dict[str, NDArray[Any]]
#: Kind of a checkpoint after a run whose last model was not ours.
_NO_MODEL = "finished runs"
_WHAT = "the checkpoint's run"
#: What the names of arrays begin with that hold what was said of records that wait.
_SAID = "run/said"
#: And those that count what went wrong for each key.
_KEYS = "run/keys"
#: And what is of records whose labels come later on their own.
_LATE = "run/late"
#: Bytes at the end of a file by which one checkpoint is told from another.
_END = 32
#: A value that waits is finite, or NaN for a missing one.
_LOWEST = float(np.finfo(np.float64).min)


@dataclass(frozen=True)
class FinishedRun:
    """One run that is done."""

    model: str
    seed: int
    result: dict[str, Any]
    history: History


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
    recognise: bool


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
        keys: list[str] | None = None
        if evaluation.keys is not None:
            keys, sums = evaluation.keys.state()
            arrays |= prefixed(_KEYS, sums)
        histories = [run.history for run in finished] + ([evaluation.history] if running else [])
        packed = []
        for i, history in enumerate(histories):
            about, own = history.state()
            packed.append(about)
            arrays |= prefixed(f"run/history {i}", own)
        waiting = evaluation.waiting()
        if waiting is not None:
            arrays["run/waiting"] = waiting.records.values
            arrays |= prefixed(_SAID, pack_said(waiting.said))
        late = None
        if running and any(evaluation.late_labels.counts.values()):
            late, late_arrays = evaluation.late_labels.state()
            arrays |= prefixed(_LATE, late_arrays)
        metadata["run"] = {
            "options": options.stored(),
            "preset": _settings(options),
            "found": counts.state(),
            "plan": None if counts.plan is None else counts.plan.document(),
            "position": position,
            "source": self.source,
            "finished": [{"model": run.model, "seed": run.seed, "result": run.result} for run in finished],
            "running": running,
            "seconds": evaluation.seconds,
            "unlabelled": evaluation.unlabelled,
            "features": model.n_features,
            "histories": packed,
            "waiting": None if waiting is None else _pack_names(waiting.records),
            "late": late,
            "rows_predicted": None if predicted is None else predicted.rows,
            "columns_predicted": [] if predicted is None else list(predicted.columns),
            **({} if keys is None else {"keys": keys}),
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
        if "preset" not in run:  # of a version whose presets had other names
            then = {**then, "preset": _renamed(then.get("preset", "default"))}
            options = dataclasses.replace(options, preset=_renamed(options.preset))
        self._check_options(then, options)
        if run.get("preset", _settings(options)) != _settings(options):
            raise BraidedError(
                f"checkpoint {self.path} is of a braided whose preset {options.preset!r} had other settings: finish it "
                "with that one, or give another checkpoint file"
            )
        if run.get("source", "") != self.source:
            raise BraidedError(
                f"checkpoint {self.path} was made from another file: {options.stored()['stream']} has changed since; "
                "give the same file, or another checkpoint file"
            )
        packed = run.get("histories") or [None]
        if not isinstance(packed, list) or None in packed:
            raise BraidedError(
                f"checkpoint {self.path} is of a braided that kept no histories: finish it with that one, or give "
                "another checkpoint file"
            )
        running, done = checked(_WHAT, run, "running", bool), checked(_WHAT, run, "finished", list)
        histories = [
            History.restore(*upgraded_history(about, unprefixed(f"run/history {i}", saved.arrays)))
            for i, about in enumerate(checked(_WHAT, run, "histories", list))
        ]
        if len(histories) != len(done) + running:
            raise BraidedError(
                f"{_WHAT} has {len(histories)} histories of {len(done)} finished runs; use an older copy"
            )
        finished = [_finished(item, history) for item, history in zip(done, histories, strict=False)]
        counts = ReadingCounts()
        counts.load_state(_found(run.get("found", [0, 0, None])))
        if run.get("position") is not None:
            checked(_WHAT, run, "position", dict)
        if run.get("plan") is not None:
            with holding_together(_WHAT):
                counts.plan = Plan.from_document(run["plan"])
        return ResumedJob(
            task=checks.choice("task", then.get("task", CLASSIFICATION), (AUTO, *TASKS)),
            preset=options.preset,
            finished=finished,
            current=self._current(saved, run, histories, options) if running else None,
            n_features=checked(_WHAT, run, "features", int),
            counts=counts,
            position=run.get("position"),
            predicted=_predicted(run),
            # An earlier version had learned from identifiers, and taken numbers of other spellings for categories.
            recognise="plan" in run,
        )

    def _current(
        self, saved: Checkpoint, run: dict[str, Any], histories: list[History], options: RunOptions
    ) -> Evaluation:
        """The run that was going on."""
        own = {name: array for name, array in saved.arrays.items() if not name.startswith("run/")}
        if saved.kind not in ESTIMATORS and saved.kind != KIND:
            raise BraidedError(f"checkpoint {self.path} is of a run that goes on, and has no model; use an older copy")
        # The reader settles the rules of the columns anew, and gives the model numbers.
        about = {key: value for key, value in saved.metadata.items() if key != "encode"}
        model: Any = (
            _restored_fleet(about, own, options)
            if saved.kind == KIND
            else ESTIMATORS[saved.kind].restore(_with_limits(about, options), own)
        )
        history = histories[-1]
        if list(history.learners) != model.learner_names or history.regression != (model.task == REGRESSION):
            raise BraidedError(f"checkpoint {self.path}: its history is of another model; use an older copy")
        evaluation = Evaluation(model, history, options.delay, late_labels=options.late_labels())
        if "keys" not in run:  # an earlier version counted none where keys share nothing
            evaluation.keys = None
        elif evaluation.keys is not None:
            evaluation.keys.load_state(run["keys"], unprefixed(_KEYS, saved.arrays))
        evaluation.seconds = checked(_WHAT, run, "seconds", float)
        evaluation.unlabelled = checked(_WHAT, {"unlabelled": 0, **run}, "unlabelled", int)
        if run.get("late") is not None:  # an earlier version had no such labels
            late = unprefixed(_LATE, saved.arrays)
            evaluation.late_labels.load_state(run["late"], late, len(model.learner_names))
        if run.get("waiting") is not None:
            records = _unpack_batch(checked(_WHAT, run, "waiting", dict), saved.arrays, options.delay)
            said = unpack_said(unprefixed(_SAID, saved.arrays), len(records), len(model.learner_names), _WHAT)
            evaluation.wait_for(Waiting(records, said))
        return evaluation

    def _check_options(self, then: dict[str, Any], options: RunOptions) -> None:
        """Refuse options that are others than those of the checkpoint, where that would change what is learned."""
        now = options.stored()
        usual = {field.name: field.default for field in dataclasses.fields(RunOptions)} | {"task": CLASSIFICATION}
        for name, value in now.items():
            before = then.get(name, usual[name])
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
    for part in ("template", "inside"):
        about[part] = {key: value for key, value in checked(_WHAT, about, part, dict).items() if key != "encode"}
    about["template"] = _with_limits(about["template"], options)
    inside = about["inside"]
    if isinstance(inside.get("model"), dict):
        model = {key: value for key, value in inside["model"].items() if key != "encode"}
        inside["model"] = _with_limits(model, options)
    if isinstance(inside.get("models"), list):  # of keys that have whole models of their own
        inside["models"] = [
            _with_limits(model, options) if isinstance(model, dict) else model for model in inside["models"]
        ]
    return Fleet.restore(about, arrays)


def _predicted(run: Mapping[str, Any]) -> Written | None:
    """What was written of `--predictions`; an earlier version did not keep the names of the columns."""
    if run.get("rows_predicted") is None:
        return None
    columns = checked(_WHAT, {"columns_predicted": [], **run}, "columns_predicted", list)
    return Written(checked(_WHAT, run, "rows_predicted", int), tuple(map(str, columns)))


def _settings(options: RunOptions) -> Any:
    """The preset with all its settings, as a file gives it back."""
    return json.loads(json.dumps(pack_config(presets.get(options.preset, options.stream))))


def _renamed(preset: str) -> str:
    """What a preset of an earlier version is called now."""
    return presets.RENAMED.get(preset, preset)


def source_fingerprint(options: RunOptions, data_dir: Path | None) -> str | None:
    """A fingerprint of the files that are read, to notice on resuming that they are others.

    It is taken once, before they are read: one taken later would be that of a file which has changed meanwhile, of
    which nobody knows what was read. Of standard input and of a data base on a server there is none; a stream that is
    followed knows its own place.
    """
    return None if options.follow else fingerprint(options.stream, data_dir)


def _pack_names(batch: Batch) -> dict[str, Any]:
    packed = {"names": list(map(pack_name, batch.names)), "labels": list(map(pack_name, batch.labels))}
    packed |= {} if batch.keys is None else {"keys": batch.keys}
    return packed if batch.weights is None else {**packed, "weights": batch.weights.tolist()}


def _unpack_batch(packed: dict[str, Any], arrays: Mapping[str, NDArray[Any]], delay: int) -> Batch:
    """The records that wait for their labels, no more than the delay has."""
    names = tuple(unpack_names("waiting features", packed.get("names")))
    labels = [unpack_name(label) for label in checked(_WHAT, packed, "labels", list)]
    if len(labels) > delay:
        raise BraidedError(f"{_WHAT}: {len(labels)} records wait, and the delay is {delay}; use an older copy")
    rule = ArrayRule((len(labels), len(names)), finite=False, low=_LOWEST, high=-_LOWEST)
    check_arrays(_WHAT, {"run/waiting": rule}, arrays)
    keys = None if packed.get("keys") is None else checked(_WHAT, packed, "keys", list)
    if keys is not None and len(keys) != len(labels):
        raise BraidedError(f"{_WHAT}: {len(labels)} records wait, and they have {len(keys)} keys; use an older copy")
    weights = weights_of(packed.get("weights"), len(labels), first=1)
    return Batch(names, arrays["run/waiting"], labels, weights, keys=keys)


def _finished(item: Any, history: History) -> FinishedRun:
    model, seed = checked(_WHAT, item, "model", str), checked(_WHAT, item, "seed", int, 0, 2**63 - 1)
    kept = {"unlabelled": 0, "state_sha256": None, **checked(_WHAT, item, "result", dict)}
    learners = checked(_WHAT, kept, "learners", dict)
    health = {
        name: {count: checked(_WHAT, learners.get(name), count, int) for count in ("skipped", "resets")}
        for name in history.learners
    }
    result = result_of(history, health, checked(_WHAT, kept, "unlabelled", int), checked(_WHAT, kept, "seconds", float))
    digest = kept["state_sha256"]
    result["state_sha256"] = None if digest is None else checked(_WHAT, kept, "state_sha256", str)
    if "keys" in kept:
        result["keys"] = checked_keys(kept["keys"])
    if "late_labels" in kept:
        counted = checked(_WHAT, kept, "late_labels", dict)
        result["late_labels"] = {str(name): checked(_WHAT, counted, name, int) for name in counted}
    if "drifts" in kept:
        result["drifts"] = checked(_WHAT, kept, "drifts", int)
    return FinishedRun(model, seed, result, history)


def _found(state: Any) -> list[Any]:
    """What was skipped until now: two counts, a sentence or none, and perhaps a third count."""
    if isinstance(state, list) and 3 <= len(state) <= 4 and (state[2] is None or isinstance(state[2], str)):
        numbers = {str(i): number for i, number in enumerate(state) if i != 2}
        if all(checked(_WHAT, numbers, i, int) >= 0 for i in numbers):
            return state
    raise BraidedError(f"{_WHAT}: what was skipped is {state!r:.60}; use an older copy")
