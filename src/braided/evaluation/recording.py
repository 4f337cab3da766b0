"""`braided.record`: a history of any model on any stream, in Python."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, nullcontext, suppress
from itertools import chain, islice
from typing import Any

import numpy as np

from braided.encode.encoder import Encoder
from braided.encode.flatten import flatten
from braided.errors import BraidedError
from braided.estimators.base import MODL
from braided.estimators.params import REGRESSION
from braided.estimators.river import behind_chunks
from braided.evaluation.evaluation import Evaluation
from braided.evaluation.history import History
from braided.evaluation.summary import error_text
from braided.fleet import Fleet
from braided.records import Labels, Records
from braided.values import as_number, key_text

_CHUNK = 500
#: Seconds between two lines of progress.
_LINE_S = 5.0


def record(
    model: Any,
    stream: Any,
    name: str | None = None,
    into: History | None = None,
    delay: int = 0,
    progress: bool = False,
) -> History:
    """Teach a model a stream, record by record, each predicted first, and return the history of it.

    Parameters
    ----------
    model
        A `MODLClassifier`, `MODLRegressor` or `Fleet`, or any River classifier or regressor to compare with. It learns.
    stream
        Pairs (x, y), such as River's data sets, or a stream of `braided.streams`. A record whose y is None is
        predicted, and neither counted nor learned. Of a model made with `encode=True`, x may be a raw record.
    name
        What plots call the model; its class's name if not given.
    into
        A history of the same model to go on with; a new one if not given.
    delay
        How many records later a label is learned: that of record t just before record t + delay is predicted, as
        River's `progressive_val_score` has it. At the end all are learned.
    progress
        Whether to show how far it is: tqdm's bar, in a notebook or on a terminal, or without tqdm a line now and then.

    Returns
    -------
    The history: a notebook shows it, `plot` draws it, `report` writes it to a file.

    Examples
    --------
    >>> import braided
    >>> from river import datasets
    >>> history = braided.record(braided.MODLRegressor(), datasets.TrumpApproval())
    >>> print(f"mean absolute error {history.error:.1f}, R2 {history.metrics()['r2']:.2f}")
    mean absolute error 0.2, R2 0.33
    >>> late = braided.record(braided.MODLRegressor(), datasets.TrumpApproval(), delay=30)
    >>> print(f"mean absolute error {late.error:.1f}")
    mean absolute error 2.0
    """
    if not isinstance(delay, int) or isinstance(delay, bool) or delay < 0:
        raise BraidedError(f"delay is {delay!r}: give a whole number of records, at least 0")
    ours = model if isinstance(model, MODL | Fleet) else behind_chunks(model)
    if into is None:
        into = History(name or type(model).__name__, ours.learner_names, ours.task == REGRESSION)
    elif (into.learners, into.tally.regression) != (tuple(ours.learner_names), ours.task == REGRESSION):
        raise BraidedError("into is the history of another kind of model: give one that this model has begun")
    # A stream of ours has its own encoder, and its batches are of numbers.
    encoder = model.encoder if isinstance(model, MODL | Fleet) and not hasattr(stream, "batches") else None
    if encoder is not None:
        model.expect_delay(delay)
        ours = model.without_encoder()
        into.columns = encoder.feature_columns
    evaluation = Evaluation(ours, into, delay)
    # Closed where a batch is refused: what was settled for it is taken back.
    with closing(_batches(stream, model, encoder)) as batches:
        for batch in _with_progress(batches, into, records_of(stream)) if progress else batches:
            evaluation.observe(batch)
        evaluation.finish()
    return into


def _batches(stream: Any, model: Any, encoder: Encoder | None) -> Generator[Records | Labels, None, None]:
    """A stream of ours, or pairs (x, y) in batches, which the encoder makes numbers of; a fleet's key is taken out."""
    if hasattr(stream, "batches"):
        yield from stream.batches()
        return
    pairs, before = iter(stream), 0
    while chunk := list(islice(pairs, _CHUNK)):
        for number, pair in enumerate(chunk, start=before + 1):
            if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], Mapping):
                raise BraidedError(f"record {number} of the stream is {pair!r:.60}: give pairs (dict of features, y)")
        labels = [y.item() if isinstance(y, np.generic) else y for _, y in chunk]
        rows, keys = [dict(x) for x, _ in chunk], None
        if isinstance(model, Fleet):
            keys = [key_text(row.pop(model.key, None), model.key, i) for i, row in enumerate(rows, before + 1)]
        if encoder is None:
            names = tuple(dict.fromkeys(chain(*rows)))
            values = [[as_number(name, row.get(name), before + i) for name in names] for i, row in enumerate(rows, 1)]
            yield Records(names, np.array(values, dtype=np.float64).reshape(len(rows), len(names)), labels, keys=keys)
        else:
            yield from _encoded(rows, labels, keys, model, encoder)
        before += len(chunk)


def _encoded(
    rows: list[Any], labels: list[Any], keys: list[Any] | None, model: MODL | Fleet, encoder: Encoder
) -> Generator[Records, None, None]:
    """A batch of raw records as numbers. Records that are not learned settle no rule of the encoder.

    What the batch settles is taken back if this is closed before the model has learned anything of it.
    """
    flat, learned = [flatten(row) for row in rows], model.records_learned
    columns = {name: [row.get(name) for row in flat] for name in dict.fromkeys(chain(*flat))}
    held = isinstance(model, Fleet) and model.shared_is_held
    settles = np.array([label is not None and not held for label in labels])
    with encoder.trial():
        names, values = encoder.encode_table(columns, len(rows), True if settles.all() else settles)
        try:
            yield Records(tuple(names), values, labels, keys=keys)
        except GeneratorExit:
            if model.records_learned == learned:
                raise
            # What was learned of it needs what was settled.


def records_of(stream: Any) -> int | None:
    """How many records a stream has, if it says so: one of ours, a data set of River's, or a list."""
    n = getattr(stream, "n_records", None) or getattr(stream, "n_samples", None)
    return n if isinstance(n, int) else len(stream) if hasattr(stream, "__len__") else None


def _with_progress(
    batches: Iterable[Records | Labels], history: History, total: int | None
) -> Iterator[Records | Labels]:
    """The same batches; after each was observed it shows how far they are, on standard error or in a notebook."""
    bar = None
    with suppress(ModuleNotFoundError):
        from tqdm.auto import tqdm

        bar = tqdm(total=total, unit=" records", unit_scale=True)
    seen, printed = 0, time.monotonic()
    with nullcontext() if bar is None else bar:
        for batch in batches:
            yield batch
            n = len(batch) if isinstance(batch, Records) else 0
            error = f"error {error_text(history.tally, history.error)}"
            seen += n
            if bar is not None:
                bar.set_postfix_str(error, refresh=False)
                bar.update(n)
            elif time.monotonic() - printed > _LINE_S or seen == total:
                printed = time.monotonic()
                of = "" if total is None else f" of {total:,}"
                print(f"{seen:,}{of} records, {error}", file=sys.stderr, flush=True)
