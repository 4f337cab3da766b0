"""Records as they were read, for a model that has rules of its own for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from braided.encode import cells
from braided.encode.cells import Cells, plain
from braided.encode.chunk import Chunk
from braided.encode.keys import key_problem
from braided.encode.number_form import NumberForm
from braided.encode.rules import Rules
from braided.encode.weights import weight_of
from braided.errors import BraidedError
from braided.records import Records


class RawRecord(NamedTuple):
    """A record as it was read; the weight and the key are None where it has none."""

    x: dict[Hashable, Any]
    label: Any
    weight: float | None
    key: str | None = None


def raw_records(
    piece: Chunk | Records, rules: Rules, form: NumberForm, problem: Callable[[str, str], None]
) -> list[RawRecord]:
    """The records of a piece without missing values; `problem(where, reason)` is told of what cannot be read."""
    if isinstance(piece, Records):
        columns: dict[Hashable, Cells] = {name: piece.values[:, i] for i, name in enumerate(piece.names)}
        piece = Chunk("the stream", (), columns, piece.known_targets, keys=piece.keys)
    records: list[RawRecord] = []
    features = piece.without({rules.weight}).columns
    for row, cell in enumerate(piece.labels):
        try:
            label = cells.as_label(cell, piece.spelled, form)
            weight = _raw_weight(piece, row, rules, form)
            key = None if piece.keys is None else piece.keys[row]
            if rules.key is not None and (wrong := key_problem(key, rules.key)) is not None:
                raise BraidedError(wrong)
        except BraidedError as error:
            problem(piece.where(row), str(error))
            continue
        values = ((name, plain(column[row])) for name, column in features.items())
        x = {name: value for name, value in values if cells.as_category(value) is not None}
        records.append(RawRecord(x, label, weight, key))
    return records


def _raw_weight(chunk: Chunk, row: int, rules: Rules, form: NumberForm) -> float | None:
    """The weight of a record, None where it has none."""
    column = chunk.columns.get(rules.weight)
    if column is None:
        return None if chunk.weights is None else weight_of(plain(chunk.weights[row]))
    if chunk.weights is not None:
        raise BraidedError(f'the record has "w" beside column {rules.weight!r}: leave out one of them')
    try:
        return weight_of(cells.as_feature(column[row], form))
    except BraidedError as error:
        raise BraidedError(f"column {rules.weight!r}: {error}") from None
