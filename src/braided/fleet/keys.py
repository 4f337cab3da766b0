"""Keys: what may be one, and where it stands in a record, an array or a frame."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from braided.errors import BraidedError
from braided.estimators import frames
from braided.estimators.sparse import is_sparse, n_records
from braided.state import checked
from braided.streams.encode.keys import LONGEST_KEY
from braided.values import is_missing, shown

#: What the text of a key begins with, by its type: `1`, `"1"` and `True` are three keys.
_TEXT, _WHOLE, _FLAG = "s", "i", "b"


def key_text(value: Any, name: Hashable, record: int) -> str | None:
    """A key as text that keeps its type; None for a missing one.

    >>> key_text("pump", "machine", 1), key_text(7.0, "machine", 1), key_text(True, "machine", 1)
    ('spump', 'i7', 'b1')
    >>> key_text(7.5, "machine", 1)
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: key 'machine' is 7.5 in record 1: give text or a whole number
    """
    if type(value) is str:
        text = _TEXT + value
    elif isinstance(value, bool | np.bool_):
        text = f"{_FLAG}{int(value)}"
    elif is_missing(value):
        return None
    elif isinstance(value, int | np.integer) or (isinstance(value, float | np.floating) and float(value).is_integer()):
        whole = int(value)
        if abs(whole) >= 10**LONGEST_KEY:
            raise _too_long(name, "a number", record)
        text = f"{_WHOLE}{whole}"
    elif isinstance(value, str):
        text = _TEXT + str(value)
    else:
        raise BraidedError(f"key {name!r} is {shown(value)} in record {record}: give text or a whole number")
    if len(text) > LONGEST_KEY + 1:
        raise _too_long(name, shown(value), record)
    return text


def _too_long(name: Hashable, what: str, record: int) -> BraidedError:
    return BraidedError(
        f"key {name!r} is {what} in record {record}: it may have {LONGEST_KEY:,} characters, give a shorter one"
    )


def key_of(text: str) -> str | int | bool:
    """The inverse of `key_text`.

    >>> [key_of(text) for text in ("spump", "i7", "b1")]
    ['pump', 7, True]
    """
    kind, rest = text[:1], text[1:]
    return rest if kind == _TEXT else bool(int(rest)) if kind == _FLAG else int(rest)


def restored_keys(what: str, metadata: Any) -> list[str]:
    """The texts of keys in a file's metadata, each checked, and all different."""
    found: list[str] = checked(what, metadata, "keys", list)
    for text in found:
        try:
            fine = isinstance(text, str) and key_text(key_of(text), "key", 1) == text
        except (ValueError, BraidedError):
            fine = False
        if not fine:
            raise BraidedError(f"{what}: {text!r:.60} is no key; give a file written by save")
    if len(set(found)) != len(found):
        raise BraidedError(f"{what}: a key is there twice; give a file written by save")
    return list(found)


def check_alike(what: str, one: Mapping[str, Any], other: Mapping[str, Any], but_for: Sequence[str] = ()) -> None:
    """Refuse two models of one fleet that were not made with the same settings."""
    packed = [dict(checked(what, metadata, "parameters", dict)) for metadata in (one, other)]
    for parameters in packed:
        for name in but_for:
            parameters.pop(name, None)
    if packed[0] != packed[1]:
        raise BraidedError(f"{what}: its models have different settings; give a file written by save")


class KeyedTable:
    """An array or frame without its keys.

    Attributes
    ----------
    X, names
        The rest, as the estimators take it.
    keys
        One value a record, as it was given.
    """

    def __init__(self, X: Any, names: Sequence[Hashable] | None, key: Hashable, keys: Any = None) -> None:
        if keys is not None:
            frame = None if is_sparse(X) else frames.opened(X)
            columns = names if names is not None else [] if frame is None else frame.columns
            if key in columns:
                raise BraidedError(f"keys are given, and X has the column {key!r} as well: give one of the two")
            self.X, self.names, self.keys = X, names, listed_keys(keys, n_records(X))
            return
        if is_sparse(X):
            raise BraidedError(f"X is a sparse matrix, which has no column {key!r}: give keys=[...] beside it")
        frame = frames.opened(X)
        if frame is not None:
            if names is not None:
                raise BraidedError("names are given with a data frame, which has its own: rename its columns instead")
            self.X, self.keys = frame.without(key)
            self.names = None
            return
        array = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
        known: list[Hashable] = list(range(array.shape[1] if array.ndim == 2 else 0) if names is None else names)
        if array.ndim != 2 or key not in known or len(known) != array.shape[1]:
            raise BraidedError(f"X has no column {key!r}: name its columns, one of them by the key, or give keys=[...]")
        place = known.index(key)
        self.keys = array[:, place].tolist()
        self.X = np.delete(array, place, axis=1)
        self.names = known[:place] + known[place + 1 :]


def listed_keys(keys: Any, n: int) -> list[Any]:
    """The keys of n records as a list."""
    given = frames.targets(keys, "keys")
    if isinstance(given, str) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) != 1:
        raise BraidedError(f"keys is {shown(keys)}: give a list or array of one key a record")
    found = given.tolist() if isinstance(given, np.ndarray) else list(given)
    if len(found) != n:
        raise BraidedError(f"X has {n} records and keys has {len(found)}: they must be as many")
    return found
