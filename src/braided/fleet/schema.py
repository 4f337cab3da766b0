"""What a file may hold of a fleet's keys: their names, their settings and their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError
from braided.fleet.layout import RowLayout, diagonal
from braided.kernels import keyed
from braided.store import MAX_COUNT, REMEDY, Array, check, checked
from braided.values import key_text

#: How far rounding takes a variance below 0, in prior variances.
_ROUNDING = 1e-3


def restored_key(what: str, text: Any) -> str:
    """A key in a file, which is a text that a fleet would make of it.

    >>> restored_key("the fleet", " pump")
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: the fleet: ' pump' is not a key; the file is corrupt or was modified
    """
    if not isinstance(text, str) or key_text(text, "key") != text:
        raise BraidedError(f"{what}: {text!r:.60} is not a key; {REMEDY}")
    return text


def restored_keys(what: str, metadata: Mapping[str, Any], n: int | None = None) -> list[str]:
    """The keys in a file's metadata, each checked; n is how many the rest of the file has, if that is to be checked."""
    texts: list[Any] = checked(what, metadata, "texts", list)
    if n is not None and len(texts) != n:
        raise BraidedError(f"{what} has {len(texts)} keys and learned state for {n}; {REMEDY}")
    keys = [restored_key(what, text) for text in texts]
    if len(set(keys)) != len(keys):
        raise BraidedError(f"{what} has the same key twice; {REMEDY}")
    return keys


def check_rows(what: str, layout: RowLayout, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse the rows of keys, `single` and `double`, unless kernels can go on from them."""
    n = len(arrays["double"]) if "double" in arrays and arrays["double"].ndim else 0
    low = np.full(layout.size, -np.inf)
    for own in range(layout.n_own):
        start, _ = layout.parts[f"covariance {own}"]
        low[start + diagonal(layout.inputs(own))] = 0.0
    start, length = layout.parts["past"]
    low[start : start + length] = 0.0
    start, length = layout.parts["weight covariance"]
    low[start : start + length : layout.n_weights + 1] = -_ROUNDING * keyed.KEY_VARIANCE
    smallest, largest = np.full(keyed.DOUBLES, -np.inf), np.full(keyed.DOUBLES, np.inf)
    smallest[[keyed.COUNT, keyed.NOISE]] = 0.0
    largest[keyed.COUNT] = MAX_COUNT
    schema = {
        "single": Array((n, layout.size), "float32", low),
        "double": Array((n, keyed.DOUBLES), "float64", smallest, largest),
    }
    check(what, schema, arrays)


def shared_weights(n: int) -> Array:
    """What all keys share: n weights, their covariance, noise and units."""
    variances = np.full((n, n), -np.inf)
    np.fill_diagonal(variances, -_ROUNDING * keyed.FLEET_VARIANCE)
    more = np.full(keyed.FLEET_MORE, np.inf)
    more[keyed.UNITS] = keyed.MEMORY
    high = np.concatenate([np.full(n + n * n, np.inf), more])
    low = np.concatenate([np.full(n, -np.inf), variances.ravel(), np.zeros(keyed.FLEET_MORE)])
    return Array(high.shape, "float64", low, high)
