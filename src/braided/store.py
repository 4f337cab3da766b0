r"""Saved models: the file format, names and settings as JSON, and the checks of what is read back.

A file holds named arrays and JSON metadata, versioned and checksummed, without pickle. Integers are little-endian:

    8 bytes    magic "BRAIDED\n"
    4 bytes    format version
    8 bytes    length of the header
    8 bytes    length of the whole file
    header     JSON: {"kind", "metadata", "arrays": [{"name", "dtype", "shape"}]}
    arrays     raw bytes, in C order, little-endian, one after another
    32 bytes   SHA-256 of everything before

A checksum is not a signature, and kernels use some of the numbers as indices. So each owner of arrays has a schema of
what they may hold, and a state that does not fit it is refused as a whole: no file runs code, crashes the process, or
makes it read or write outside of its arrays. Whether the content makes sense is not checked.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from braided.errors import BraidedError

MAGIC = b"BRAIDED\n"
#: Of the layout of a file and of everything in it: a file of another version is refused.
VERSION = 2
_START = struct.Struct("<8sIQQ")
_DIGEST = 32
_DTYPES = ("<f4", "<f8", "<i8")
_MAX_NUMBERS = 2**40
#: How deep a name may be nested that is a tuple of tuples.
_MAX_DEPTH = 20
#: Whole numbers in float64 are exact up to here: no count is larger.
MAX_COUNT = 2.0**53
#: What to make of a file that `save` did not write in this way.
REMEDY = "the file is corrupt or was modified"
Arrays = Mapping[str, NDArray[Any]]
_Item = TypeVar("_Item")
_hints = cache(get_type_hints)


class Checkpoint(NamedTuple):
    """What a file holds."""

    kind: str
    metadata: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


class InParts(NamedTuple):
    """An array that is not in memory as a whole: `parts` gives its rows in order, some at a time, once.

    The arrays of one file are asked for in their order in the file.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    parts: Callable[[], Iterable[NDArray[Any]]]


_Given = Mapping[str, NDArray[Any] | InParts]


def parts_of(array: NDArray[Any] | InParts) -> Iterable[NDArray[Any]]:
    """The rows of an array, some at a time."""
    return array.parts() if isinstance(array, InParts) else (array,)


def _pieces(kind: str, metadata: Mapping[str, Any], arrays: _Given) -> Iterator[bytes | memoryview]:
    """A checkpoint, piece by piece."""
    dtypes = {name: array.dtype.newbyteorder("<") for name, array in arrays.items()}
    sizes = {name: math.prod(array.shape) * dtypes[name].itemsize for name, array in arrays.items()}
    for name, dtype in dtypes.items():
        if dtype.str not in _DTYPES:
            raise BraidedError(f"array {name!r} is of type {dtype}: checkpoints hold float32, float64 and int64")
    directory = [{"name": name, "dtype": dtypes[name].str, "shape": list(arrays[name].shape)} for name in arrays]
    header = json.dumps({"kind": kind, "metadata": metadata, "arrays": directory}, allow_nan=False).encode()
    length = _START.size + len(header) + sum(sizes.values()) + _DIGEST
    begin = _START.pack(MAGIC, VERSION, len(header), length) + header
    digest = hashlib.sha256(begin)
    yield begin
    for name, array in arrays.items():
        left = sizes[name]
        for part in parts_of(array):
            blob = np.ascontiguousarray(part, dtype=dtypes[name]).reshape(-1).view(np.uint8).data
            left -= blob.nbytes
            digest.update(blob)
            yield blob
        assert left == 0, f"the parts of array {name!r} are not as large as it"
    yield digest.digest()


def encode(kind: str, metadata: Mapping[str, Any], arrays: _Given) -> bytes:
    """A checkpoint as bytes."""
    return b"".join(_pieces(kind, metadata, arrays))


def write(path: str | os.PathLike[str], kind: str, metadata: Mapping[str, Any], arrays: _Given) -> None:
    """Write a checkpoint atomically. What it holds is not copied."""
    from braided.files import write_atomically  # most programs that use a model save none

    try:
        write_atomically(path, _pieces(kind, metadata, arrays))
    except OSError as error:
        raise BraidedError(f"checkpoint {path} cannot be written: {error.strerror or error}") from None


def decode(content: bytes, name: str, *kinds: str, max_header: int | None = None) -> Checkpoint:
    """Read a checkpoint of one of these kinds from bytes; errors call it by `name`.

    `max_header` is the largest length of its header, in bytes; None for any.
    """
    if content[: len(MAGIC)] != MAGIC:
        raise BraidedError(
            f"checkpoint {name} is not a braided checkpoint: give a file written by save or by "
            "`braided run --checkpoint`"
        )
    if len(content) < _START.size:
        raise BraidedError(f"checkpoint {name} is truncated: it ends after {len(content)} bytes; {REMEDY}")
    _, version, header_length, length = _START.unpack_from(content)
    if version != VERSION:
        raise BraidedError(
            f"checkpoint {name} is of format version {version}, and this braided reads version {VERSION}: "
            "read it with the braided that wrote it"
        )
    if len(content) < length:
        raise BraidedError(f"checkpoint {name} is truncated: {len(content)} of {length} bytes are there; {REMEDY}")
    if len(content) > length or hashlib.sha256(content[:-_DIGEST]).digest() != content[-_DIGEST:]:
        raise BraidedError(f"checkpoint {name} does not match its checksum: {REMEDY}")
    if max_header is not None and header_length > max_header:
        raise BraidedError(
            f"checkpoint {name} has a header of {header_length} bytes: at most {max_header} are allowed here"
        )
    first = _START.size + header_length
    with reject_malformed(f"the header of checkpoint {name}"):  # a right checksum says nothing of who made the file
        header = json.loads(content[_START.size : first], parse_constant=int)  # which takes no NaN and no infinity
        kind, metadata = header["kind"], header["metadata"]
        if not isinstance(kind, str) or not isinstance(metadata, dict):
            raise TypeError(kind)
        if kind not in kinds:
            raise BraidedError(
                f"checkpoint {name} holds a {kind:.60}, not a {' or '.join(kinds)}: give a file of the right kind"
            )
        return Checkpoint(kind, metadata, _arrays(header["arrays"], content[first:-_DIGEST]))


def _arrays(directory: list[dict[str, Any]], content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays that a file's directory lists, one after another; any error means that it is malformed."""
    arrays: dict[str, NDArray[Any]] = {}
    start = 0
    for entry in directory:
        name, dtype, shape = entry["name"], entry["dtype"], entry["shape"]
        if not isinstance(name, str) or name in arrays or dtype not in _DTYPES:
            raise ValueError(name)
        # Of an empty array NumPy counts the other dimensions, too; a negative count would be all that is left.
        if min(shape, default=0) < 0 or math.prod(max(n, 1) for n in shape) > _MAX_NUMBERS:
            raise ValueError(shape)
        flat = np.frombuffer(content, dtype, math.prod(shape), start)
        arrays[name] = flat.reshape(shape).astype(flat.dtype.name)
        start += flat.nbytes
    return arrays


def read(path: str | os.PathLike[str], *kinds: str) -> Checkpoint:
    """Read and verify a checkpoint file of one of these kinds."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise BraidedError(f"checkpoint {path} cannot be read: {error.strerror or error}") from None
    return decode(content, str(path), *kinds)


def prefixed(prefix: str, arrays: Mapping[str, _Item]) -> dict[str, _Item]:
    """The arrays of one part, named so that they can stand among those of others."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def unprefixed(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays of one part among those of others: the inverse of `prefixed`."""
    start = f"{prefix}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def pack_name(name: Hashable) -> Any:
    """A feature name or label as JSON that keeps its type: `1`, `"1"` and `True` stay three different things.

    >>> pack_name(("sensor", 3))
    {'tuple': ['sensor', 3]}
    >>> unpack_name(pack_name(("sensor", 3)))
    ('sensor', 3)
    """
    if name is None or isinstance(name, bool | int | str) or (isinstance(name, float) and math.isfinite(name)):
        return name
    if isinstance(name, tuple):
        return {"tuple": [pack_name(part) for part in name]}
    raise BraidedError(
        f"name or label {name!r:.60} of type {type(name).__name__} cannot be written to a checkpoint: "
        "use text, finite numbers or tuples of them, or pickle the model"
    )


def unpack_name(packed: Any, depth: int = 0) -> Hashable:
    """The inverse of `pack_name`; anything that it does not give is refused."""
    if packed is None or isinstance(packed, bool | int | float | str):
        plain: Hashable = packed
        return plain
    parts = packed.get("tuple") if isinstance(packed, dict) and depth < _MAX_DEPTH else None
    if not isinstance(parts, list):
        raise BraidedError(f"checkpoint holds an invalid name or label {packed!r:.60}: {REMEDY}")
    return tuple(unpack_name(part, depth + 1) for part in parts)


def unpack_names(what: str, packed: Any) -> list[Hashable]:
    """Names, or labels, that must be different ones.

    >>> unpack_names("features", ["a", {"tuple": ["b", 1.5]}])
    ['a', ('b', 1.5)]
    >>> unpack_names("features", ["a", "a"])
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: checkpoint has 'a' twice among its features: the file is corrupt or was modified
    """
    if not isinstance(packed, list):
        raise BraidedError(f"checkpoint has {packed!r:.60} for its {what}, and it should be a list: {REMEDY}")
    names = [unpack_name(name) for name in packed]
    if len(set(names)) != len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise BraidedError(f"checkpoint has {twice!r:.60} twice among its {what}: {REMEDY}")
    return names


def pack_config(config: Any) -> dict[str, Any]:
    """A frozen dataclass as JSON, with its type's name."""
    packed: dict[str, Any] = {"type": type(config).__name__}
    for field in fields(config):
        value = getattr(config, field.name)
        if isinstance(value, tuple):
            value = [pack_config(item) if is_dataclass(item) else item for item in value]
        packed[field.name] = value
    return packed


def unpack_config(packed: Any, kinds: Mapping[str, type], base: type = object) -> Any:
    """The inverse of `pack_config`, for those dataclasses in `kinds` that are a `base`; values are as annotated."""
    values = dict(packed) if isinstance(packed, Mapping) else {}
    name = values.pop("type", None)
    if not isinstance(name, str) or name not in kinds or not issubclass(kinds[name], base):
        raise BraidedError(f"checkpoint names a configuration {name!r:.60} that this braided does not have")
    try:
        hints = _hints(kinds[name])
        return kinds[name](**{key: _unpacked_value(value, hints[key], kinds) for key, value in values.items()})
    except (KeyError, TypeError):
        raise BraidedError(
            f"checkpoint configuration {name} has a field that is missing, unknown or of another type: {REMEDY}"
        ) from None


def _unpacked_value(value: Any, hint: Any, kinds: Mapping[str, type]) -> Any:
    """A value as a dataclass annotates it; a TypeError if it is something else."""
    if get_origin(hint) is tuple and isinstance(value, list | tuple):
        return tuple(_unpacked_value(item, get_args(hint)[0], kinds) for item in value)
    if get_origin(hint) is Literal and isinstance(value, str) and value in get_args(hint):
        return value
    if hint in (int, float, bool, str):
        if isinstance(value, (int, float) if hint is float else hint) and isinstance(value, bool) == (hint is bool):
            return value
    elif get_origin(hint) is None:
        return unpack_config(value, kinds, hint)
    raise TypeError(hint)


class Array(NamedTuple):
    """What one array of a state must be: its shape, with None for a dimension of any length, its type, and its numbers.

    `low` and `high` bound the numbers: one for all, or an array of them that is broadcast, such as one for each column.
    What is an index, a count, a divisor or a variance has bounds and must be `finite`; nothing else needs that. Weights
    that only ever enter sums do not: a network that runs away has such weights until the record loop resets it.
    """

    shape: tuple[int | None, ...]
    dtype: str = "float64"
    low: ArrayLike = -np.inf
    high: ArrayLike = np.inf
    finite: bool | NDArray[np.bool_] = True


def counts(*shape: int | None, dtype: str = "int64", high: ArrayLike = MAX_COUNT) -> Array:
    """An array of counts."""
    return Array(shape, dtype, 0.0, high)


def variances(shape: tuple[int | None, ...], dtype: str, least: float) -> Array:
    """Variances from `least` on, or a matrix that has them on its diagonal."""
    low: ArrayLike = least
    if len(shape) == 2:
        low = np.full([n or 0 for n in shape], -np.inf)
        np.fill_diagonal(low, least)
    return Array(shape, dtype, low)


def check(what: str, schema: Mapping[str, Array], arrays: Arrays) -> None:
    """Refuse arrays that do not fit a schema; those that it does not name are not looked at, and not used.

    >>> check("state of a ring", {"place": counts(1, high=9)}, {"place": np.array([10])})
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: state of a ring: array 'place' holds 10, and should hold numbers from 0 to 9; the file
    is corrupt or was modified
    """
    for name, wanted in schema.items():
        misfit = _misfit(wanted, arrays.get(name))
        if misfit is not None:
            raise BraidedError(f"{what}: array {name!r} {misfit}; {REMEDY}")


def _misfit(wanted: Array, found: NDArray[Any] | None) -> str | None:
    """What is wrong with an array; None if nothing is."""
    if found is None:
        return "is missing"
    fits = len(found.shape) == len(wanted.shape)
    if not fits or any(n is not None and n != m for n, m in zip(wanted.shape, found.shape, strict=True)):
        shape = ", ".join("any" if n is None else str(n) for n in wanted.shape)
        return f"should have shape ({shape}), found {found.shape}"
    if found.dtype.name != wanted.dtype:
        return f"should be of {wanted.dtype}, found {found.dtype.name}"
    low, high = np.asarray(wanted.low, dtype=np.float64), np.asarray(wanted.high, dtype=np.float64)
    wrong = (found < low) | (found > high)
    if found.dtype.kind == "f" and np.any(wanted.finite):
        wrong |= ~np.isfinite(found) & wanted.finite
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    bounds = f"{np.broadcast_to(low, found.shape)[at]:g} to {np.broadcast_to(high, found.shape)[at]:g}"
    return f"holds {found[at]}, and should hold numbers from {bounds}"


def length(arrays: Arrays, name: str) -> int:
    """How many rows an array has; 0 if it is not there, or is a single number."""
    return arrays[name].shape[0] if name in arrays and arrays[name].ndim else 0


@contextmanager
def reject_malformed(what: str) -> Iterator[None]:
    """Refuse in one sentence what a file says, where only using it can show that it is wrong."""
    try:
        yield
    except BraidedError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError, RecursionError):
        raise BraidedError(f"{what} cannot be used: {REMEDY}") from None


def checked(what: str, values: Any, key: str, kind: type, low: float = 0, high: float = MAX_COUNT) -> Any:
    """One value of a file's metadata: it must be there, and of this kind; a number within these bounds.

    >>> checked("the run", {"seconds": "1"}, "seconds", float)
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: the run: 'seconds' is '1', and should be a float; the file is corrupt or was modified
    """
    if not isinstance(values, Mapping):
        raise BraidedError(f"{what} is {values!r:.60}, and should be an object; {REMEDY}")
    if key not in values:
        raise BraidedError(f"{what}: {key!r} is missing; {REMEDY}")
    found = values[key]
    kinds = (int, float) if kind is float else (list, tuple) if kind is list else kind
    if not isinstance(found, kinds) or (isinstance(found, bool) and kind is not bool):
        raise BraidedError(f"{what}: {key!r} is {found!r:.60}, and should be a {kind.__name__}; {REMEDY}")
    if isinstance(found, int | float) and not low <= found <= high:
        raise BraidedError(f"{what}: {key!r} is {found!r:.60}, and should be from {low:g} to {high:g}; {REMEDY}")
    return found


def state_digest(model: Any) -> str:
    """A SHA-256 over everything an estimator or a fleet has learned: equal digests, equal models."""
    metadata, arrays = getattr(model, "snapshot_in_parts", model.snapshot)()
    digest = hashlib.sha256(repr((metadata["features"], metadata["classes"])).encode())
    if "drift" in metadata:
        digest.update(repr(metadata["drift"]).encode())
    if "inside" in metadata:
        digest.update(repr(_learned(metadata["inside"])).encode())
    for name, array in arrays.items():
        digest.update(name.encode())
        for part in parts_of(array):
            digest.update(part.tobytes())
    return digest.hexdigest()


def _learned(inside: Any) -> Any:
    """What the models of a fleet have learned: not the settings that they were made with, nor rules of columns."""
    if isinstance(inside, dict):
        return {name: _learned(part) for name, part in inside.items() if name not in ("parameters", "encode")}
    return [_learned(part) for part in inside] if isinstance(inside, list) else inside
