"""Records without nesting: what is in a mapping or a list gets a name of its own."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from braided.errors import BraidedError
from braided.values import shown

#: What holds further values.
NESTED = (Mapping, list, tuple, np.ndarray)
#: Levels of nesting, and cells in one record, beyond which it is no record any more.
_DEEPEST, _MOST = 8, 200_000


def flatten(record: Mapping[Any, Any]) -> dict[Hashable, Any]:
    """A record without nesting: `outer.inner` for what is in a mapping, `outer.0` and so on for a list.

    >>> flatten({"a": 1, "b": {"c": 2, "d": None}, "e": [3, 4]})
    {'a': 1, 'b.c': 2, 'b.d': None, 'e.0': 3, 'e.1': 4}
    """
    if not any(isinstance(value, NESTED) for value in record.values()):
        return dict(record)
    flat = dict(_flat(None, record, 0))
    if len(flat) > _MOST:
        raise BraidedError(f"the record has {len(flat):,} values: at most {_MOST:,} are read")
    return flat


def flat_columns(name: Hashable, cells: Iterable[Any]) -> dict[Hashable, list[Any]]:
    """A column of nested cells as one for each inner name, in the order in which they appear.

    >>> flat_columns("a", [{"b": 1}, None, {"c": 2, "b": 3}])
    {'a.b': [1, None, 3], 'a': [None, None, None], 'a.c': [None, None, 2]}
    """
    rows = [flatten({name: cell}) for cell in cells]
    return {inner: [row.get(inner) for row in rows] for inner in dict.fromkeys(inner for row in rows for inner in row)}


def is_nested(cells: Any) -> bool:
    """Whether a column has a cell that holds further values."""
    return not isinstance(cells, np.ndarray) and any(isinstance(cell, NESTED) for cell in cells)


def _flat(name: Hashable, value: Any, depth: int) -> Iterator[tuple[Hashable, Any]]:
    if isinstance(value, np.ndarray):
        value = value.tolist() if value.ndim else value.item()
    if depth > _DEEPEST:
        raise BraidedError(f"{shown(name)} is nested more than {_DEEPEST} deep: give flat records")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(key if depth == 0 else f"{name}.{key}", inner, depth + 1)
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from _flat(f"{name}.{i}", inner, depth + 1)
    else:
        yield name, value
