r"""The checkpoint file: named arrays and JSON metadata, versioned and checksummed, without pickle.

Layout, integers little-endian:

    8 bytes    magic "BRAIDED\n"
    4 bytes    format version
    8 bytes    length of the header
    8 bytes    length of the whole file
    header     JSON: {"kind", "metadata", "arrays": [{"name", "dtype", "shape", "start"}]}
    arrays     raw bytes, in C order, little-endian, each at its start after the header
    32 bytes   SHA-256 of everything before
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError

MAGIC = b"BRAIDED\n"
VERSION = 1
_START = struct.Struct("<8sIQQ")
_DIGEST = 32
_DTYPES = ("<f4", "<f8", "<i8")


class Checkpoint(NamedTuple):
    """What a file holds."""

    kind: str
    metadata: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def temporary_beside(target: Path) -> Path:
    """The file of this process that is renamed to `target` once it is whole."""
    return target.with_name(f".{target.name}.{os.getpid()}.tmp")


def remove_leftovers(target: Path) -> None:
    """Remove the temporary files beside `target` of processes that were killed while they wrote it.

    That of a process that runs stays, but for this one's own, which is not writing when it calls this: in a container
    every process may have the same number.
    """
    if os.name != "posix" or not target.parent.is_dir():
        return
    pattern = re.compile(rf"\.{re.escape(target.name)}\.([0-9]{{1,9}})\.tmp")
    for entry in os.listdir(target.parent):
        found = pattern.fullmatch(entry)
        if found and (int(found[1]) == os.getpid() or not _is_running(int(found[1]))):
            (target.parent / entry).unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write to a temporary file beside `path`, force it to disk, and rename it into place."""
    target = Path(path)
    temporary = temporary_beside(target)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # the rename itself must survive a power cut
        folder = os.open(target.resolve().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def encode(kind: str, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """A checkpoint as bytes."""
    directory, blobs, start = [], [], 0
    for name, array in arrays.items():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        if little.dtype.str not in _DTYPES:
            raise BraidedError(f"array {name!r} is of type {array.dtype}: checkpoints hold float32, float64 and int64")
        blob = little.tobytes()
        directory.append({"name": name, "dtype": little.dtype.str, "shape": list(array.shape), "start": start})
        blobs.append(blob)
        start += len(blob)
    header = json.dumps({"kind": kind, "metadata": metadata, "arrays": directory}, allow_nan=False).encode()
    length = _START.size + len(header) + start + _DIGEST
    content = b"".join([_START.pack(MAGIC, VERSION, len(header), length), header, *blobs])
    return content + hashlib.sha256(content).digest()


def write(
    path: str | os.PathLike[str], kind: str, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a checkpoint atomically."""
    content = encode(kind, metadata, arrays)
    try:
        write_atomically(path, content)
    except OSError as error:
        raise BraidedError(f"checkpoint {path} cannot be written: {error.strerror or error}") from None


def decode(content: bytes, name: str, *kinds: str) -> Checkpoint:
    """Read a checkpoint from bytes; `name` is what errors call it, `kinds` what it may be."""
    if content[: len(MAGIC)] != MAGIC:
        raise BraidedError(
            f"checkpoint {name} is not a braided checkpoint: give a file written by save or --checkpoint"
        )
    if len(content) < _START.size:
        raise BraidedError(f"checkpoint {name} is truncated: it ends after {len(content)} bytes; use an older copy")
    _, version, header_length, length = _START.unpack_from(content)
    if version != VERSION:
        raise BraidedError(
            f"checkpoint {name} is of format version {version}, and this braided reads version {VERSION}: "
            "read it with the braided that wrote it"
        )
    if len(content) < length:
        raise BraidedError(
            f"checkpoint {name} is truncated: {len(content)} of {length} bytes are there; use an older copy"
        )
    if len(content) > length or hashlib.sha256(content[:-_DIGEST]).digest() != content[-_DIGEST:]:
        raise BraidedError(f"checkpoint {name} was altered: its checksum does not match; use an older copy")
    header = json.loads(content[_START.size : _START.size + header_length])
    found = header["kind"]
    if found not in kinds:
        raise BraidedError(
            f"checkpoint {name} holds a {found}, not a {' or '.join(kinds)}: give a file of the right kind"
        )
    first = _START.size + header_length
    arrays = {}
    for entry in header["arrays"]:
        count = int(np.prod(entry["shape"]))
        flat = np.frombuffer(content, dtype=entry["dtype"], count=count, offset=first + entry["start"])
        arrays[entry["name"]] = flat.reshape(entry["shape"]).astype(flat.dtype.newbyteorder("="))
    return Checkpoint(header["kind"], header["metadata"], arrays)


def read(path: str | os.PathLike[str], *kinds: str) -> Checkpoint:
    """Read and verify a checkpoint file of one of these kinds."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise BraidedError(f"checkpoint {path} cannot be read: {error.strerror or error}") from None
    return decode(content, str(path), *kinds)


def prefixed(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
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
    if isinstance(name, bool | int | str) or name is None:
        return name
    if isinstance(name, float):
        return {"float": name.hex()}
    if isinstance(name, tuple):
        return {"tuple": [pack_name(part) for part in name]}
    raise BraidedError(
        f"name or label {name!r:.60} of type {type(name).__name__} cannot be written to a checkpoint: "
        "use text, numbers or tuples of them, or pickle the model"
    )


def unpack_name(packed: Any) -> Hashable:
    """The inverse of `pack_name`."""
    if isinstance(packed, dict):
        if "float" in packed:
            return float.fromhex(packed["float"])
        return tuple(unpack_name(part) for part in packed["tuple"])
    name: Hashable = packed
    return name


def pack_config(config: Any) -> dict[str, Any]:
    """A frozen dataclass as JSON, with its type's name."""
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    packed = {
        name: [pack_config(item) if is_dataclass(item) else item for item in value]
        if isinstance(value, tuple)
        else value
        for name, value in values.items()
    }
    return {"type": type(config).__name__, **packed}


def unpack_config(packed: Mapping[str, Any], kinds: Mapping[str, type]) -> Any:
    """The inverse of `pack_config`, for the dataclasses in `kinds`."""
    values = dict(packed)
    name = values.pop("type", None)
    if name not in kinds:
        raise BraidedError(f"checkpoint names a configuration {name!r} that this braided does not have")
    for key, value in values.items():
        if isinstance(value, list):
            values[key] = tuple(unpack_config(item, kinds) if isinstance(item, dict) else item for item in value)
    try:
        return kinds[name](**values)
    except TypeError as error:
        raise BraidedError(f"checkpoint configuration {name} does not fit this braided: {error}") from None
