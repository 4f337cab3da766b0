"""Records from Python: any iterable of mappings, such as a Hugging Face data set, or of (features, label) pairs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from braided.encode.chunk import Piece
from braided.encode.encoder import Encoder
from braided.errors import BraidedError
from braided.streams.readers.base import EncodedStream
from braided.streams.readers.mappings import Splitter, chunked


@dataclass(frozen=True)
class IterableStream(EncodedStream):
    """Records from an iterable of mappings; nested values become `outer.inner`, None is missing.

    Attributes
    ----------
    records
        The iterable, or a function that makes one; an iterator can be read only once.
    target
        The label's name. None: records are pairs, or `{"x": {...}, "y": label}`, or have a name like target or label.
    name
        What tables and errors call it.

    Examples
    --------
    >>> records = [{"size": 3.5, "colour": "red", "kind": "a"}, {"size": None, "colour": "blue", "kind": "b"}]
    >>> batch = next(IterableStream(records, target="kind").batches())
    >>> batch.names
    ('colour=red', 'colour=blue', 'size')
    >>> batch.values
    array([[1. , nan, 3.5],
           [0. , 1. , nan]])
    """

    records: Iterable[Any] | Callable[[], Iterable[Any]]
    target: Hashable | None = None
    name: str = "records"
    _passes: list[int] = field(default_factory=list, init=False, compare=False, repr=False)

    def _iterator(self) -> Iterator[Any]:
        source = self.records() if callable(self.records) else self.records
        iterator = iter(source)
        if iterator is source and self._passes and not callable(self.records):
            raise BraidedError(
                f"{self.name}: an iterator can be read only once: give a function that makes a new one, or a list"
            )
        self._passes.append(1)
        return iterator

    def chunks(self, encoder: Encoder) -> Generator[Piece]:
        """Records in chunks whose columns are the names that appear in them."""
        encoder.target = self.target
        numbered = enumerate(self._iterator(), start=1)
        splitter = Splitter(self.target, key=encoder.rules.key)
        yield from chunked(self.name, numbered, lambda record: record, splitter, encoder, by_row=True)
