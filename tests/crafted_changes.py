"""What a stranger may change in a file: values of its metadata, numbers and shapes of its arrays, its directory."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.store import MAGIC, VERSION

NUMBERS = (math.nan, math.inf, -math.inf, -1.0, 0.5, 2.0**31, 2.0**62, 1e300, -1e300, 1e38)
WHOLE_NUMBERS = (-1, 2**31, 2**62, -(2**63), 1, 7)
#: In place of a value of the metadata.
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 2**31, 2**62, 10**12, 10**400, 0.5, 1e300, -1e300, 1e-300, "", "zz", "kalman", [], [1],
    [[]], {}, {"float": "zz"}, {"float": "0x1p+5000"}, {"tuple": 3}, {"tuple": ["a", 1]}, {"type": "MLPConfig"},
    [{"type": "LogisticConfig"}] * 3,
)  # fmt: skip


class Parts(NamedTuple):
    """A file in its parts, to be changed."""

    kind: str
    metadata: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _paths(item, (*path, key))


def change_metadata(parts: Parts, rng: np.random.Generator) -> str:
    paths = list(_paths(parts.metadata))
    # As many changes near the top as in long lists far below.
    depth = rng.integers(1, max(map(len, paths)) + 1)
    near = [path for path in paths if len(path) <= depth]
    path = near[rng.integers(len(near))]
    *above, last = path
    owner: Any = parts.metadata
    for key in above:
        owner = owner[key]
    what = rng.integers(len(VALUES) + 4)
    if what < len(VALUES):
        owner[last] = copy.deepcopy(VALUES[what])
        return f"{path} = {str(VALUES[what])[:40]}"
    if what == len(VALUES) and isinstance(owner, list):
        owner.append(owner[last])
        return f"{path} twice"
    if what == len(VALUES) + 1 and isinstance(owner[last], int | float):
        owner[last] = -owner[last] - 1
        return f"{path} negated"
    if what == len(VALUES) + 2 and isinstance(owner, dict):
        owner["surprise"] = owner[last]
        return f"{path} under another name, too"
    del owner[last]
    return f"{path} deleted"


def _change_numbers(array: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], str]:
    """Some element, column or all of an array as another number."""
    array = array.copy()
    choices: tuple[Any, ...] = WHOLE_NUMBERS if array.dtype.kind == "i" else NUMBERS
    number = choices[rng.integers(len(choices))]
    at: Any = tuple(int(rng.integers(n)) for n in array.shape)
    how = rng.integers(6)
    if how == 0:
        at = (..., at[-1]) if at else ()
    elif how == 1:
        at = ...
    with np.errstate(over="ignore"):
        array[at] = number
    return array, f"{at} = {number}"


def _change_shape(array: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], str]:
    how = int(rng.integers(8))
    if how == 0:
        return np.concatenate([array, array[:1]]), "one more row"
    if how == 1:
        return array[:-1], "one row less"
    if how == 2:
        return np.ascontiguousarray(array.T), "transposed"
    if how == 3:
        return array[:0], "empty"
    if how == 4:
        return array.ravel()[:1].reshape(()) if array.size else np.zeros((), array.dtype), "a single number"
    if how == 5:
        return array[..., None], "one dimension more"
    if how == 6:
        return np.repeat(array, 3, axis=-1) if array.ndim else array, "three times as wide"
    with np.errstate(all="ignore"):
        kind = ("float32", "float64", "int64")[rng.integers(3)]
        return np.nan_to_num(array).astype(kind), f"as {kind}"


def change_arrays(parts: Parts, rng: np.random.Generator) -> str:
    names = list(parts.arrays)
    name = names[rng.integers(len(names))]
    array = parts.arrays[name]
    how = rng.integers(10)
    if how < 6 and array.size:
        parts.arrays[name], said = _change_numbers(array, rng)
    elif how < 8 and array.ndim:
        parts.arrays[name], said = _change_shape(array, rng)
    elif how == 8:
        other = names[rng.integers(len(names))]
        parts.arrays[name], parts.arrays[other] = parts.arrays[other], array
        said = f"swapped with {other}"
    elif rng.integers(2):
        parts.arrays[f"{name} 2"] = array
        said = "once more"
    else:
        del parts.arrays[name]
        said = "deleted"
    return f"{name} {said}"


def signed(header: bytes, blobs: bytes) -> bytes:
    """A file of this header, whose checksum is right."""
    start = struct.pack("<8sIQQ", MAGIC, VERSION, len(header), 28 + len(header) + len(blobs) + 32)
    return start + header + blobs + hashlib.sha256(start + header + blobs).digest()


def change_directory(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Another header, signed anew."""
    (length,) = struct.unpack_from("<Q", content, 12)
    text, blobs = content[28 : 28 + length], content[28 + length : -32]
    header = json.loads(text)
    how = int(rng.integers(8))
    if how == 0:
        texts = (b"{", b"[]", b"3", b"", b"\xff", b"[" * 100_000, b"{}", b'{"kind": NaN}', b"1" * 5_000)
        text = texts[rng.integers(len(texts))]
        return signed(text, blobs), f"header {text[:20]!r}"
    if how == 1:
        key = list(header)[rng.integers(3)]
        header[key] = VALUES[rng.integers(len(VALUES))]
        said = f"{key} = {str(header[key])[:40]}"
    else:
        entries = header["arrays"]
        place = int(rng.integers(len(entries)))
        key = ("name", "dtype", "shape")[rng.integers(3)]
        others: dict[str, tuple[Any, ...]] = {
            "name": (entries[0]["name"], 3, None, ["a"], "zz"),
            "dtype": ("<f2", "O", "<i4", "<U9", ">f8", 8, None, ["<f8"], "zz", "<f8", "<i8", "<f4"),
            "shape": (
                [-1],
                [2**62],
                [2**31, 2**33, 2**33],
                [0, 2**70],
                [0.5],
                ["a"],
                [True],
                None,
                3,
                [1] * 70,
                [0] * 9,
            ),
        }
        entries[place][key] = others[key][rng.integers(len(others[key]))]
        if rng.integers(6) == 0:
            del entries[place][key]
        said = f"directory {place} {key} = {entries[place].get(key)}"
    return signed(json.dumps(header).encode(), blobs), said
