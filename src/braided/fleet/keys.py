"""Keys: what may be one, and where it stands in a record, an array or a frame."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from braided.errors import BraidedError
from braided.estimators import frames
from braided.estimators.sparse import is_sparse, n_records
from braided.state import checked
from braided.values import key_text, shown

#: Before a key was its text, files had its type in front, so that `1`, `"1"` and `True` were three keys.
_TYPES: Mapping[str, Callable[[str], Any]] = {"s": str, "i": int, "b": lambda text: text == "1"}


def _text_of_typed(typed: str) -> str | None:
    """The text of a key in a file from before; None for a blank one.

    >>> [_text_of_typed(typed) for typed in ("spump", "i7", "b1", "s ")]
    ['pump', '7', 'true', None]
    """
    return key_text(_TYPES[typed[:1]](typed[1:]), "key")


def restored_text(what: str, text: Any, typed: bool = False) -> str | None:
    """The text of a key in a file, checked."""
    try:
        if isinstance(text, str):
            found = _text_of_typed(text) if typed else key_text(text, "key")
            if typed or found == text:
                return found
    except (KeyError, ValueError, BraidedError):
        pass
    raise BraidedError(f"{what}: {text!r:.60} is no key; give a file written by save")


def restored_keys(what: str, metadata: Mapping[str, Any], n: int | None = None) -> dict[str, int]:
    """The keys in a file's metadata, each checked, and where among those of the file it stands.

    Of keys that were several before a key was its text, the one that learned last is kept; blank ones are not.

    Parameters
    ----------
    what
        What errors call the fleet.
    metadata
        What the file says of it.
    n
        How many keys the rest of the file has; None if that is not to be looked at.
    """
    typed = "texts" not in metadata
    listed: list[Any] = checked(what, metadata, "keys" if typed else "texts", list)
    if n is not None and len(listed) != n:
        raise BraidedError(f"{what} has {len(listed)} keys, and what {n} have learned; give a file written by save")
    texts = [restored_text(what, text, typed) for text in listed]
    if len(set(listed)) != len(listed):
        raise BraidedError(f"{what}: a key is there twice; give a file written by save")
    found: dict[str, int] = {}
    for place, text in enumerate(texts):
        if text is not None:
            found.pop(text, None)
            found[text] = place
    return found


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
    if isinstance(given, str | Set | Mapping) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) != 1:
        raise BraidedError(f"keys is {shown(keys)}: give a list or array of one key a record")
    # Times as a list would be whole numbers of nanoseconds, and keys.
    found = given.tolist() if isinstance(given, np.ndarray) and given.dtype.kind not in "mM" else list(given)
    if len(found) != n:
        raise BraidedError(f"X has {n} records and keys has {len(found)}: they must be as many")
    return found
