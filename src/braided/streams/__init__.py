"""Where records come from: data sets, files, queries, standard input; and how they are shuffled, masked and cut."""

from braided.streams.base import ArrayStream, Batch, Peeked, Stream, read_whole
from braided.streams.encode.encoder import Rules
from braided.streams.masks import MASKS, Masked
from braided.streams.readers.iterable import IterableStream
from braided.streams.readers.sql import SQLStream
from braided.streams.transform import Limited, shuffled

__all__ = [
    "MASKS",
    "ArrayStream",
    "Batch",
    "IterableStream",
    "Limited",
    "Masked",
    "Peeked",
    "Rules",
    "SQLStream",
    "Stream",
    "open_stream",
    "read_whole",
    "shuffled",
]


def __getattr__(name: str) -> object:
    """`open_stream` is looked up when it is asked for: it needs the presets, which need what is here."""
    if name == "open_stream":
        from braided.streams.open import open_stream

        return open_stream
    raise AttributeError(f"module 'braided.streams' has no attribute {name!r}")
