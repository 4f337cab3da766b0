"""`braided.record`: a history of any model on any stream, in Python."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from itertools import chain, islice
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.estimators.base import MODL
from braided.estimators.params import REGRESSION
from braided.estimators.river import behind_chunks
from braided.evaluation.evaluation import Evaluation
from braided.evaluation.history import History
from braided.evaluation.summary import error_text
from braided.fleet import Fleet
from braided.records import Labels, Records
from braided.streams import Stream
from braided.streams.encode.encoder import Encoder
from braided.streams.encode.flatten import flatten
from braided.values import as_number

_CHUNK = 500
#: Seconds between two lines of progress.
_LINE_S = 5.0
#: Takes how many more records were observed, and the error so far in words.
Advance = Callable[[int, str], None]


def record(
    model: Any,
    stream: Any,
    name: str | None = None,
    into: History | None = None,
    delay: int = 0,
    progress: bool = False,
) -> History:
    """Teach a model a stream, record by record, each predicted first, and keep what there is to see.

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
        raise BraidedError(f"delay is {delay!r}: give a whole number of records from 0 on")
    ours = model if isinstance(model, MODL | Fleet) else behind_chunks(model)
    if into is None:
        into = History(name or type(model).__name__, ours.learner_names, ours.task == REGRESSION)
    elif (into.learners, into.regression) != (tuple(ours.learner_names), ours.task == REGRESSION):
        raise BraidedError("into is the history of another kind of model: give one that this model has begun")
    # A stream of ours has its own encoder, and its batches are of numbers.
    encoder = model.encoder if isinstance(model, MODL | Fleet) and not hasattr(stream, "batches") else None
    if encoder is not None:
        model.expect_delay(delay)
        ours = model.without_encoder()
    evaluation = Evaluation(ours, into, delay)
    # Closed where a batch is refused: what was settled for it is taken back while the encoder is still at hand.
    with closing(_batches(stream, model, encoder)) as batches:
        for batch in _with_bar(batches, into, records_of(stream)) if progress else batches:
            evaluation.observe(batch)
        evaluation.finish()
    return into


def _with_bar(batches: Iterator[Records | Labels], history: History, total: int | None) -> Iterator[Records | Labels]:
    """The same batches, with a bar that goes on after each was observed."""
    with progress_bar(total) as advance:
        for batch in batches:
            yield batch
            n = len(batch) if isinstance(batch, Records) else 0
            advance(n, f"error {error_text(history.tally, history.error)}")


def _batches(stream: Any, model: Any = None, encoder: Encoder | None = None) -> Generator[Records | Labels, None, None]:
    """A stream of ours, or pairs (x, y) collected into batches; what a fleet finds its models by is no number.

    With an `encoder` the pairs are raw records, which it makes numbers of. What it settles for a batch is taken back if
    this is closed before the model has learned anything of it.
    """
    if hasattr(stream, "batches"):
        yield from cast(Stream, stream).batches()
        return
    key, held = (model.key, model.shared_is_held) if isinstance(model, Fleet) else (None, False)
    pairs, before = iter(stream), 0
    while chunk := list(islice(pairs, _CHUNK)):
        for number, pair in enumerate(chunk, start=before + 1):
            if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], Mapping):
                raise BraidedError(f"record {number} of the stream is {pair!r:.60}: give pairs (dict of features, y)")
        labels = [y.item() if isinstance(y, np.generic) else y for _, y in chunk]
        keys = None if key is None else [x.get(key) for x, _ in chunk]
        with nullcontext() if encoder is None else encoder.trial():
            names, values = _numbers(chunk, key, before) if encoder is None else _encoded(chunk, key, encoder, held)
            learned = 0 if encoder is None else model.records_learned
            try:
                yield Records(names, values, labels, keys=keys)
            except GeneratorExit:
                if encoder is not None and model.records_learned > learned:
                    return  # what was learned of it needs what was settled
                raise
        before += len(chunk)


def _numbers(chunk: list[Any], key: Hashable | None, before: int) -> tuple[tuple[Hashable, ...], NDArray[np.float64]]:
    """The features of pairs, and their values, (n, names); `before` records came before them."""
    names = tuple(dict.fromkeys(name for x, _ in chunk for name in x if key is None or name != key))
    rows = [[as_number(name, x.get(name), before + i) for name in names] for i, (x, _) in enumerate(chunk, start=1)]
    return names, np.array(rows, dtype=np.float64).reshape(len(chunk), len(names))


def _encoded(
    chunk: list[Any], key: Hashable | None, encoder: Encoder, held: bool
) -> tuple[tuple[Hashable, ...], NDArray[np.float64]]:
    """The same of raw records; one without a label is not learned, and settles nothing; if `held`, none does."""
    rows = [flatten({name: value for name, value in x.items() if key is None or name != key}) for x, _ in chunk]
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(chain(*rows))}
    settles = np.array([y is not None and not held for _, y in chunk])
    names, values = encoder.encode_table(columns, len(chunk), True if settles.all() else settles)
    return tuple(names), values


def records_of(stream: Any) -> int | None:
    """How many records a stream has, if it says so: one of ours, a data set of River's, or a list."""
    for name in ("n_records", "n_samples"):
        n = getattr(stream, name, None)
        if isinstance(n, int):
            return n
    return len(stream) if hasattr(stream, "__len__") else None


@contextmanager
def progress_bar(total: int | None) -> Iterator[Advance]:
    """Shows progress on standard error, or in a notebook, until the end of the block."""
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError:
        yield _lines(total)
        return
    with tqdm(total=total, unit=" records", unit_scale=True) as bar:

        def advance(n: int, words: str) -> None:
            bar.set_postfix_str(words, refresh=False)
            bar.update(n)

        yield advance


def _lines(total: int | None) -> Advance:
    """A line every few seconds, and at the end if that is known."""
    seen, printed = 0, time.monotonic()

    def advance(n: int, words: str) -> None:
        nonlocal seen, printed
        seen += n
        if time.monotonic() - printed > _LINE_S or seen == total:
            printed = time.monotonic()
            of = "" if total is None else f" of {total:,}"
            print(f"{seen:,}{of} records, {words}", file=sys.stderr, flush=True)

    return advance
