"""Keys of records in a column of the stream, which is then no feature."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from braided.errors import BraidedError
from braided.option_names import option
from braided.streams.base import Batch
from braided.streams.encode.chunk import BadRecord, Chunk, LabelPiece, Misfit
from braided.streams.encode.plan import listed

#: Characters of a key at most.
LONGEST_KEY = 1_000


def key_text(cell: Any) -> str | None:
    """A key as text, whatever kind of file it stands in; None for a missing one.

    >>> key_text(" pump "), key_text(7), key_text(7.0), key_text(True), key_text(float("nan"))
    ('pump', '7', '7', 'true', None)
    """
    if isinstance(cell, str):
        return cell.strip() or None
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, int | np.integer):
        return str(int(cell))
    if isinstance(cell, float | np.floating) and math.isfinite(cell):
        return str(int(cell)) if float(cell).is_integer() else repr(float(cell))
    return None


def keyed(piece: Chunk | Batch | BadRecord | LabelPiece, key: str) -> Chunk | Batch | BadRecord | LabelPiece:
    """A piece with its keys, and without their column."""
    if isinstance(piece, BadRecord | LabelPiece):
        return piece
    if isinstance(piece, Batch):
        place = next((i for i, name in enumerate(piece.names) if str(name) == key), None)
        if place is None:
            return replace(piece, keys=[None] * len(piece))
        names = piece.names[:place] + piece.names[place + 1 :]
        keys = [key_text(value) for value in piece.values[:, place].tolist()]
        return replace(piece, names=names, values=np.delete(piece.values, place, axis=1), keys=keys)
    found = next((name for name in piece.columns if str(name) == key), None)
    cells: Any = piece.columns[found] if found is not None else [None] * len(piece)
    return replace(piece.without({found}), keys=[key_text(cell) for cell in cells])


def key_misfits(keys: Sequence[str | None], column: str | None) -> list[Misfit]:
    """The records whose key is missing or too long, which is a matter of the whole record."""
    found = []
    for row, key in enumerate(keys):
        if key is None:
            found.append(Misfit(row, f"there is no key in column {column!r}", column, whole=True))
        elif len(key) > LONGEST_KEY:
            reason = f"the key in column {column!r} has {len(key):,} characters, and may have {LONGEST_KEY:,}"
            found.append(Misfit(row, reason, column, whole=True))
    return found


def check_key(key: str, pieces: Iterable[Chunk | Batch]) -> None:
    """Refuse records of which none has the key that a user names."""
    records = [piece for piece in pieces if len(piece)]
    if not records or any(one is not None for piece in records for one in piece.keys or ()):
        return
    names = dict.fromkeys(name for piece in records for name in _names(piece))
    raise BraidedError(
        f"{option('key')} {key!r}: there is no such column, or it is empty: choose it from "
        f"{listed([str(name) for name in names], key)}"
    )


def _names(piece: Chunk | Batch) -> Iterable[Hashable]:
    return piece.names if isinstance(piece, Batch) else piece.columns
