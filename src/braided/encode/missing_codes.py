"""Values that stand for missing ones because a user says so, taken away before anything else is looked at."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np

from braided.encode import cells
from braided.encode.cells import Cells
from braided.encode.chunk import BadRecord, LabelPiece, Piece
from braided.encode.rules import Rules
from braided.records import Records


def without_missing(piece: Piece, rules: Rules, target: Hashable | None) -> Any:
    """A piece without the values that stand for missing ones, as `na` says."""
    if not rules.na or piece is None or isinstance(piece, BadRecord | LabelPiece):
        return piece
    if isinstance(piece, Records):
        values = piece.values.copy()
        for i, name in enumerate(piece.names):
            values[:, i] = without_codes(values[:, i], rules.missing_words(name))
        return replace(piece, values=values)
    columns: dict[Hashable, Cells] = {
        name: without_codes(column, rules.missing_words(name)) for name, column in piece.columns.items()
    }
    labels = without_codes(piece.labels, rules.missing_labels(target))
    return replace(piece, columns=columns, labels=labels)


def without_codes(column: Any, codes: frozenset[str]) -> Any:
    """A column without the values that stand for missing ones, whether as they are spelled or as numbers."""
    known = {number for code in codes if (number := loose_number(code)) is not None and not math.isnan(number)}
    if not codes:
        return column
    if isinstance(column, np.ndarray):
        return np.where(np.isin(column, sorted(known)), np.nan, column)

    def is_code(cell: Any) -> bool:
        return (isinstance(cell, str) and cell.strip() in codes) or (bool(known) and loose_number(cell) in known)

    return [None if is_code(cell) else cell for cell in column]


def loose_number(cell: Any) -> float | None:
    """A cell as a number, true and false as none, whether it has a decimal point or comma.

    Codes are taken away before the form is known.
    """
    if isinstance(cell, bool | np.bool_) or (isinstance(cell, str) and cell.strip().lower() in cells.BOOLEANS):
        return None
    return cells.as_number(cell.replace(",", ".", 1) if isinstance(cell, str) else cell)
