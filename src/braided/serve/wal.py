"""Whether a write-ahead log of SQLite was damaged, rather than broken off in its last write.

SQLite takes the first frame that is not sound for the end of the log. After a kill or a power cut that is right. After
a flipped bit, commits that were acknowledged would be gone without a word. With synchronous=FULL each commit is on disk
before the next one is written: a frame from after the commit that the unsound frame belongs to shows the difference.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")
_MAGIC = 0x377F0682


def wal_damage(path: Path) -> str | None:
    """What is wrong with a log; None if it is whole, was broken off, or is not there."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(content) <= _HEADER.size or not content.strip(b"\0"):
        return None
    magic, _, page, _, *salts, first, second = _HEADER.unpack_from(content)
    order = ">u4" if magic & 1 else "<u4"
    sums = _sums(content[:24], order, (0, 0))
    if magic & ~1 != _MAGIC or sums != (first, second):
        return "its header is not as it was written"
    frames = iter(_frames(content, page))
    for at, number, commit, salt, found in frames:
        sums = _sums(content[at : at + 8] + content[at + _FRAME.size : at + _FRAME.size + page], order, sums)
        if salt != tuple(salts) or sums != found:
            ended = bool(commit) and salt == tuple(salts)
            for _, _, later, its_salt, _ in frames:
                if its_salt == tuple(salts):
                    if ended:
                        return f"frame {number} is not as it was written, and later commits follow it"
                    ended = bool(later)
            return None
    return None


def _frames(content: bytes, page: int) -> Iterator[tuple[int, int, int, tuple[int, ...], tuple[int, ...]]]:
    """Place, number, commit mark, salts and checksums of each frame."""
    size = _FRAME.size + page
    for number, at in enumerate(range(_HEADER.size, len(content) - size + 1, size), start=1):
        _, commit, *rest = _FRAME.unpack_from(content, at)
        yield at, number, commit, tuple(rest[:2]), tuple(rest[2:])


def _sums(content: bytes, order: str, start: tuple[int, int]) -> tuple[int, int]:
    """SQLite's two running sums modulo 2**32 over pairs of words."""
    one, two = start
    for first, second in np.frombuffer(content, order).reshape(-1, 2).tolist():
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two
