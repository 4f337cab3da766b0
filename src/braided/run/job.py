"""The job behind `braided run`: models times seeds over one stream, resumable."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from braided import zoo
from braided.brokers.address import is_broker, public
from braided.datasets.catalogue import CATALOGUE
from braided.datasets.locate import locate
from braided.encode.chunk import CHUNK_RECORDS
from braided.encode.rules import ReadingCounts
from braided.errors import BraidedError
from braided.estimators.base import MODL
from braided.estimators.params import CLASSIFICATION, REGRESSION
from braided.evaluation import Evaluation, History
from braided.evaluation.metrics import chosen
from braided.evaluation.summary import plain_guess, summary_of
from braided.fleet import Fleet
from braided.kernels.tally import LAST, USUAL
from braided.records import Labels, Records
from braided.run import decision as decisions
from braided.run.checkpoint import FinishedRun, RunCheckpoint, source_fingerprint
from braided.run.options import AUTO, RunOptions
from braided.run.prediction_topic import PredictionTopic
from braided.run.predictions import PredictionFile, Written
from braided.run.target import LOOKED_AT, NumericTargets, guessed, labels_of, spelling
from braided.store import state_digest
from braided.streams import MASKS, ArrayStream, Limited, Peeked, Stream, read_whole, shuffled
from braided.streams.named import named_streams
from braided.streams.readers.broker import BrokerStream
from braided.streams.readers.live import LiveStream

#: So many times as long as a checkpoint took, none is written, unless one is wanted after every batch.
_SAVING_SHARE = 5.0


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
    predictions
        File to write every prediction to, or the address of a broker to send it to.
    tell
        Is called with a line of text when there is something to tell: the kinds of the columns, the task that was
        found, that a followed file was replaced.
    """

    def __init__(
        self,
        options: RunOptions,
        data_dir: Path | None = None,
        checkpoint: Path | None = None,
        every: float = 2.0,
        resume: bool = False,
        source: Stream | None = None,
        predictions: Path | str | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.options = options.resolved()
        self.data_dir = data_dir
        self.every = every
        self.finished: list[FinishedRun] = []
        self.n_features = 0
        self.counts = ReadingCounts()
        self._tell = tell or (lambda message: None)
        self._current: Evaluation | None = None
        self._saved, self._saved_records = time.monotonic(), -1
        #: Seconds that the last checkpoint took.
        self._saving_s = 0.0
        several = len(self.options.models) * self.options.seeds > 1
        if not 0 <= every < math.inf:
            raise BraidedError(f"--checkpoint-every is {every}: give a number of seconds from 0 on")
        self._predictions = None if predictions is None else self._writer(predictions, checkpoint, several)
        self._checkpoint = None
        if checkpoint is not None:
            self._checkpoint = RunCheckpoint(checkpoint, source_fingerprint(self.options, data_dir))
        if resume and self._checkpoint is None:
            raise BraidedError("--resume needs --checkpoint FILE, the file to go on from")
        begun = self._checkpoint.load(self.options) if resume and self._checkpoint is not None else None
        self._position: dict[str, Any] | None = None
        if begun is not None:
            self.options = replace(self.options, task=begun.task, preset=begun.preset)
            self.finished, self._current, self.n_features = begun.finished, begun.current, begun.n_features
            self.counts, self._position = begun.counts, begun.position
            if (begun.predicted is None) != (predictions is None):
                made = "with" if predictions is None else "without"
                raise BraidedError(
                    f"checkpoint {checkpoint} was made {made} --predictions: do the same, or give another file"
                )
        self._check_models()
        self._read: Stream | None = source
        self._source = source or self._open()
        self._look_first(LOOKED_AT if self.options.task == AUTO else 1)
        if self.options.task == AUTO:
            self._guess_task()
        chosen(self.options.metrics, self.options.task)  # refused now rather than when the table is made
        self._take_counts()
        if self.options.task == REGRESSION and self.options.follow and self.options.on_error == "skip":
            raise BraidedError(
                f"{self.options.followed} takes no --on-error skip for a regression: give missing, and a record whose "
                "target is no number is predicted and not learned"
            )
        if self.options.weight is not None and isinstance(self._source, ArrayStream):
            self._source = read_whole(self.options.weighted(self._source, self.counts))
        if self.options.task == REGRESSION and isinstance(self._source, ArrayStream):
            self._source = read_whole(NumericTargets(self._source, self.options.on_error, self.counts))
        if self._predictions is not None:
            self._predictions.begin((begun and begun.predicted) or Written())
            if self._current is not None:
                self._current.on_predictions = self._predictions.write

    def _writer(
        self, predictions: Path | str, checkpoint: Path | None, several: bool
    ) -> PredictionFile | PredictionTopic:
        """What writes or sends predictions."""
        if isinstance(predictions, str) and is_broker(predictions):
            if public(predictions) == public(self.options.stream):
                raise BraidedError(f"--predictions {public(predictions)} is the stream: give another topic")
            return PredictionTopic(predictions, several, self._tell)
        path = Path(predictions)
        _check_apart(path, checkpoint, self.options.stream)
        return PredictionFile(path, several)

    @property
    def sample(self) -> bool:
        """Whether only a sample of the data set is here."""
        name = self.options.stream
        return name in CATALOGUE and locate(name, self.data_dir).sample

    def _check_models(self) -> None:
        """Refuse models and settings that cannot be used; before the task is known, only those that fit no task."""
        options = self.options
        if options.task == AUTO and all(CLASSIFICATION not in zoo.MODELS[name].tasks for name in options.models):
            options = replace(options, task=REGRESSION)
        if options.task == AUTO and any(CLASSIFICATION not in zoo.MODELS[name].tasks for name in options.models):
            return
        zoo.check(options.models, options.model_options(options.seed))

    def _guess_task(self) -> None:
        """Find the task from the first targets; tell the user if it is a regression, or could be meant to be one."""
        task, why = CLASSIFICATION, ""
        if self.options.stream not in named_streams():
            labels = self._first
            task, why = guessed(labels, spelling(getattr(self._read, "counts", None)))
            if not labels and self.options.follow:
                self._tell(
                    "no target to look at yet: this is taken for a classification; --task regression is the other"
                )
        self.options = replace(self.options, task=task)
        if task == REGRESSION:
            self._tell(f"{why}: this is taken for a regression; --task classification makes each a class of its own")
        elif why:
            self._tell(f"  {why}")
        zoo.check(self.options.models, self.options.model_options(self.options.seed))

    def _look_first(self, records: int) -> None:
        """Read the first records before any model is made: what is wrong with them is known at once."""
        self._first: list[Any] = []
        if isinstance(self._source, ArrayStream):
            self._first = self._source.table.known_targets[:records]
            return
        if isinstance(self._source, LiveStream):
            if isinstance(self._source, BrokerStream):
                self._source.connect()
            if self._position is None:
                self._first = self._labels_there_now(self._source, records)
            return
        if len(self.finished) < len(self.options.models) * self.options.seeds:
            if not isinstance(self._source, Peeked):
                self._source = Peeked(self._source, records)
            self._first = labels_of(self._source.first)[:records]

    def _labels_there_now(self, stream: LiveStream, records: int) -> list[Any]:
        """The first labels of a followed stream, which may be quiet for long. What does not fit is told later."""
        lenient = replace(self.options, on_error="missing")
        rules = lenient.rules(self.options.most_names, self._tell, unlabelled=True)
        if isinstance(stream, BrokerStream):  # what it was sent may not come twice
            looked_at: Any = stream.there_now(max(records, CHUNK_RECORDS), rules)  # the plan is of all of them
        else:
            looked_at = lenient.open(self.options.stream, self.data_dir, rules, record_id=self.options.id)
        labels = labels_of(Peeked(looked_at, records).first)
        stream.counts.plan, stream.counts.encoder = looked_at.counts.plan, looked_at.counts.encoder
        return labels[:records]

    def _open(self) -> Stream:
        """The stream before shuffling and masking."""
        options = self.options
        rules = options.rules(options.most_names, self._tell, unlabelled=True)
        more: dict[str, Any] = (
            {"follow": True, "idle": options.idle, "position": self._position} if options.follow else {}
        )
        more["record_id"] = options.id
        stream = options.open(options.stream, self.data_dir, rules, **more)
        if isinstance(stream, BrokerStream):
            # What is never saved would fill the broker's window for good.
            stream.keep_until_saved = self._checkpoint is not None and all(map(zoo.has_state, options.models))
        if isinstance(stream, LiveStream):
            stream.limit = options.limit
        self._read = stream
        several = len(options.models) * options.seeds > 1
        if options.shuffle or (several and options.stream == "-"):
            return stream if isinstance(stream, ArrayStream) else read_whole(stream)
        return stream

    def _columns(self) -> dict[Hashable, Hashable]:
        """The column of each feature that has another name."""
        return {} if self.counts.encoder is None else self.counts.encoder.feature_columns()

    def _take_counts(self) -> None:
        """Read off the reader what it skips; a finished job keeps what its checkpoint says."""
        found = getattr(self._read, "counts", None)
        if found is not None and len(self.finished) < len(self.options.models) * self.options.seeds:
            self.counts = found

    def stop(self) -> None:
        """End a stream that is followed, with what it has given so far."""
        if isinstance(self._source, LiveStream):
            self._source.stop()
        if self._predictions is not None:
            self._predictions.give_up()

    def stream(self, seed: int) -> Stream:
        """The stream as this seed shuffles and masks it."""
        options = self.options
        stream = self._source
        if not isinstance(stream, ArrayStream):
            stream = options.weighted(stream, self.counts)
        if options.task == REGRESSION and not isinstance(stream, ArrayStream):
            stream = NumericTargets(stream, options.on_error, self.counts)
        if options.shuffle and isinstance(stream, ArrayStream):
            stream = shuffled(stream, seed)
        assert options.available is not None
        assert options.always is not None
        if options.available < 1.0 or options.mask != "iid":
            lengths = [n for n in (stream.n_records, options.limit) if n is not None]
            mask = MASKS[options.mask]
            stream = mask(stream, options.available, options.always, seed, min(lengths, default=None))
        return stream if options.limit is None else Limited(stream, options.limit)

    def _fresh(self, name: str, seed: int) -> Evaluation:
        """A new model; the first `always` features of the stream are its base features."""
        base: tuple[Hashable, ...] = ()
        if self.options.always:
            batches = self._source.first if isinstance(self._source, Peeked) else self._source.batches()
            first = next((batch for batch in batches if isinstance(batch, Records)), None)
            names = () if first is None else tuple(name for name in first.names if str(name) != self.options.weight)
            base = names[: self.options.always]
        model: Any = zoo.build(name, self.options.model_options(seed, base))
        if self.options.key is not None:
            model = _fleet(name, model, self.options)
        history = History(name, model.learner_names, self.options.task == REGRESSION)
        listener = None if self._predictions is None else self._predictions.write
        return Evaluation(model, history, self.options.delay, listener, self.options.late_labels())

    def run(self) -> Iterator[JobProgress]:
        """Do what is left, yielding after each batch."""
        try:
            yield from self._run()
        finally:
            # Without a checkpoint nobody goes on with a file that was broken off: what there is of it is whole.
            over = len(self.finished) == len(self.options.models) * self.options.seeds
            if isinstance(self._source, BrokerStream):
                self._source.close()
            if self._predictions is not None:
                self._predictions.close(whole=over or self._checkpoint is None)

    def _run(self) -> Iterator[JobProgress]:
        plan = [(name, self.options.seed + i) for name in self.options.models for i in range(self.options.seeds)]
        for number, (name, seed) in enumerate(plan, start=1):
            if number <= len(self.finished):
                continue
            if self._predictions is not None:
                self._predictions.of_run(name, seed)
            stream = self.stream(seed)
            evaluation = self._current or self._fresh(name, seed)
            self._current = evaluation
            evaluation.history.columns = self._columns
            if isinstance(self._source, LiveStream):
                self._source.on_pause = functools.partial(self._save_if_due, evaluation)
            for _ in self._observed(evaluation, stream):
                yield JobProgress(name, seed, number, len(plan), evaluation, stream.n_records)
            self._end(name, seed, evaluation)

    def _observed(self, evaluation: Evaluation, stream: Stream) -> Iterator[Records | Labels]:
        """The batches of a run, each after it was learned and, if it was time to, saved."""
        try:
            for batch in evaluation.run(stream):
                self._position = getattr(self._source, "position", None)
                self._save_if_due(evaluation)
                yield batch
        except BraidedError:
            if self.options.follow and evaluation.seen and not self.options.delay:
                self._save(evaluation)  # what came before the record that does not fit
            raise
        if evaluation.records == 0:
            what = "no record with a label" if evaluation.unlabelled else "no records"
            raise BraidedError(f"stream {self.options.stored()['stream']!r} has {what}: give at least one")
        if self.options.follow:
            self._save(evaluation)  # as one that goes on: there may be more to follow

    def _end(self, name: str, seed: int, evaluation: Evaluation) -> None:
        evaluation.finish()
        model: Any = evaluation.model
        result = evaluation.result()
        result["state_sha256"] = state_digest(model) if isinstance(model, MODL | Fleet) else None
        if isinstance(model, MODL) and model.drift_detector:
            result["drifts"] = model.drifts
        self.finished.append(FinishedRun(name, seed, result, evaluation.history, evaluation.keys))
        self.n_features = model.n_features
        self._current = None
        if not self.options.follow:
            self._save(evaluation)

    def _save_if_due(self, evaluation: Evaluation) -> None:
        """Write the checkpoint if the last one is `every` seconds old, or older, and there is something new.

        One that takes long waits longer, so that most of the time is left for records.
        """
        least = max(self.every, _SAVING_SHARE * self._saving_s) if self.every else 0.0
        due = time.monotonic() - self._saved >= least and _taken(evaluation) != self._saved_records
        if due or (isinstance(self._source, LiveStream) and self._source.wants_saving):
            self._save(evaluation)

    def _save(self, evaluation: Evaluation) -> None:
        """Write the job with the model in progress, or the last one, if there is a checkpoint to write."""
        if self._checkpoint is None or (self._predictions is not None and self._predictions.broken):
            return  # what was learned and not told is to be told again
        running = self._current is not None
        if running and not isinstance(evaluation.model, MODL | Fleet):
            return  # River's models have no state to write: an unfinished run of theirs starts over
        if self._predictions is not None:
            self._predictions.sync()
        begun = time.monotonic()
        self._checkpoint.save(
            self.options,
            self.finished,
            evaluation,
            running=running,
            counts=self.counts,
            position=self._position,
            predicted=None if self._predictions is None else self._predictions.written,
        )
        self._saved = time.monotonic()
        self._saving_s = self._saved - begun
        self._saved_records = _taken(evaluation) if running else -1
        if isinstance(self._source, LiveStream):
            self._source.saved(self._position)

    def document(self) -> dict[str, Any]:
        """All results, as `--json` prints them."""
        last = self.finished[-1].history
        regression = self.options.task == REGRESSION
        tallies = [run.history.tally for run in self.finished]
        results = {name: [run.result for run in self.finished if run.model == name] for name in self.options.models}
        supports = last.tally.confusion.sum(axis=1)
        return {
            "stream": self.options.stored()["stream"],
            "task": self.options.task,
            "records": last.records,
            "unlabelled": self.finished[-1].result["unlabelled"],
            "features": self.n_features,
            "classes": None if regression else int((supports > 0).sum()),
            "majority_errors": None if regression else int(last.records - supports.max()),
            "last_label_errors": None if regression else plain_guess(tallies, LAST),
            "mean_mae": plain_guess(tallies, USUAL) if regression else None,
            "last_value_mae": plain_guess(tallies, LAST) if regression else None,
            "delay": self.options.delay,
            "mask": self.options.mask,
            "available": self.options.available,
            "plan": None if self.counts.plan is None else self.counts.plan.document(),
            "skipped_records": self.counts.skipped_records,
            "missing_values": self.counts.missing_values,
            "misfit_values": self.counts.misfit_values,
            "first_problem": self.counts.first_problem,
            "warnings": decisions.never_seen(self.options.class_weight, self.options.costs, last.tally.classes),
            "sample": self.sample,
            "as_published": self.options.as_published and not self.sample,
            "runs": [
                {"model": run.model, "preset": self.options.preset, "seed": run.seed, **run.result}
                for run in self.finished
            ],
            "summary": {name: summary_of(found) for name, found in results.items()},
        }


def _fleet(name: str, model: Any, options: RunOptions) -> Fleet:
    """A model for each key; River's models have no part in it."""
    if not isinstance(model, MODL):
        raise BraidedError(f"--key {options.key!r} is for models that can share, and {name} cannot: use modl")
    return Fleet(model, key=options.key, share=options.share, **options.key_limits)


def _taken(evaluation: Evaluation) -> int:
    """Records that an evaluation has seen, and labels that came to them later."""
    return evaluation.seen + evaluation.late_labels.heard


def _check_apart(predictions: Path, checkpoint: Path | None, stream: str) -> None:
    """Refuse a file of predictions that would be written over the stream or the checkpoint."""
    taken = {Path(stream).resolve(): "the stream"}
    if checkpoint is not None:
        taken[checkpoint.resolve()] = "--checkpoint"
    for path in (predictions, predictions.with_name(f"{predictions.name}.part")):
        if path.resolve() in taken or (Path(stream).is_dir() and path.resolve().parent == Path(stream).resolve()):
            what = taken.get(path.resolve(), "in the folder that is read")
            raise BraidedError(f"--predictions {predictions} is {what}: give another file")
