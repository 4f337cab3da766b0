"""Keys of records in a column of the stream, which is then no feature."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from braided.encode.cells import BadCell
from braided.encode.chunk import BadRecord, Chunk, LabelPiece, Misfit
from braided.encode.plan import listed
from braided.errors import BraidedError
from braided.records import Records
from braided.values import key_text

#: A record's key as its text, None if it is missing, or why there can be none.
Key = str | None | BadCell


def _key(cell: Any, column: str) -> Key:
    if isinstance(cell, BadCell):
        return BadCell(f"key {column!r} {cell.reason}")
    try:
        return key_text(cell, column)
    except BraidedError as error:
        return BadCell(str(error))


def keyed(piece: Chunk | Records | BadRecord | LabelPiece, key: str) -> Chunk | Records | BadRecord | LabelPiece:
    """A piece with its keys, and without their column."""
    if isinstance(piece, BadRecord | LabelPiece):
        return piece
    keys: Any  # without what cannot be a key, once `key_misfits` has been asked
    if isinstance(piece, Records):
        place = next((i for i, name in enumerate(piece.names) if str(name) == key), None)
        if place is None:
            return replace(piece, keys=[None] * len(piece))
        names = piece.names[:place] + piece.names[place + 1 :]
        keys = [_key(value, key) for value in piece.values[:, place].tolist()]
        return replace(piece, names=names, values=np.delete(piece.values, place, axis=1), keys=keys)
    found = next((name for name in piece.columns if str(name) == key), None)
    cells: Any = piece.columns[found] if found is not None else [None] * len(piece)
    keys = [_key(cell, key) for cell in cells]
    return replace(piece.without({found}), keys=keys)


def key_problem(key: Key, column: str | None) -> str | None:
    """What is wrong with a record's key; None if nothing is."""
    if key is None:
        return f"there is no key in column {column!r}"
    return key.reason if isinstance(key, BadCell) else None


def key_misfits(keys: Sequence[Key], column: str | None) -> list[Misfit]:
    """The records that have no key, or what cannot be one, which is a matter of the whole record."""
    problems = ((row, key_problem(key, column)) for row, key in enumerate(keys))
    return [Misfit(row, reason, column, whole=True) for row, reason in problems if reason is not None]


def check_key(key: str, pieces: Iterable[Chunk | Records]) -> None:
    """Refuse records of which none has the key that a user names."""
    records = [piece for piece in pieces if len(piece)]
    if not records or any(one is not None for piece in records for one in piece.keys or ()):
        return
    names = dict.fromkeys(name for piece in records for name in _names(piece))
    raise BraidedError(
        f"`key` {key!r}: there is no such column, or it is empty: choose it from "
        f"{listed([str(name) for name in names], key)}"
    )


def _names(piece: Chunk | Records) -> Iterable[Hashable]:
    return piece.names if isinstance(piece, Records) else piece.columns
