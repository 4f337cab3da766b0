"""Where records come from: data sets, files, queries, standard input; and how they are shuffled, masked and cut."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from braided.encode.rules import Rules
    from braided.streams.base import ArrayStream, Peeked, Stream, read_whole
    from braided.streams.masks import MASKS, Masked
    from braided.streams.open import open_stream
    from braided.streams.readers.iterable import IterableStream
    from braided.streams.readers.sql import SQLStream
    from braided.streams.transform import Limited, shuffled

_MODULES = {
    "streams.base": ("ArrayStream", "Peeked", "Stream", "read_whole"),
    "encode.rules": ("Rules",),
    "streams.masks": ("MASKS", "Masked"),
    "streams.open": ("open_stream",),
    "streams.readers.iterable": ("IterableStream",),
    "streams.readers.sql": ("SQLStream",),
    "streams.transform": ("Limited", "shuffled"),
}
__all__ = [
    "MASKS", "ArrayStream", "IterableStream", "Limited", "Masked", "Peeked", "Rules", "SQLStream", "Stream",
    "open_stream", "read_whole", "shuffled",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Names are imported when they are asked for: `import braided` needs none of them, and starts sooner."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"braided.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
