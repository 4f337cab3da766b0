"""Bytes without a zero among them, so that zeros on disk are bytes that were never written.

A file system may leave zeros of an append that it did not finish. What holds none of its own can be told from that.
Every byte is first combined (exclusive or) with the value that is rarest among them. The zeros that this leaves are
taken out by consistent overhead byte stuffing (Cheshire and Baker, 1999): blocks of up to 254 bytes, each after a byte
that says how long it is and whether a zero followed.

Layout: the rarest value in two bytes, each a half of it plus 1; the blocks.
"""

from __future__ import annotations

import numpy as np

_LONGEST = 254
#: For each value the table that combines every byte with it.
_COMBINED = [bytes(byte ^ value for byte in range(256)) for value in range(256)]


def without_zeros(content: bytes) -> bytes:
    r"""The same in bytes without a zero.

    >>> stored = without_zeros(bytes(600))
    >>> 0 in stored, len(stored), with_zeros(stored) == bytes(600)
    (False, 605, True)
    """
    rarest = int(np.bincount(np.frombuffer(content, dtype=np.uint8), minlength=256).argmin())
    parts = [bytes([(rarest >> 4) + 1, (rarest & 15) + 1])]
    for part in content.translate(_COMBINED[rarest]).split(b"\0"):
        whole = len(part) // _LONGEST * _LONGEST
        parts += [b"\xff" + part[at : at + _LONGEST] for at in range(0, whole, _LONGEST)]
        parts.append(bytes([len(part) - whole + 1]) + part[whole:])
    return b"".join(parts)


def with_zeros(stored: bytes) -> bytes:
    """The inverse of `without_zeros`."""
    rarest = (stored[0] - 1) << 4 | (stored[1] - 1)
    parts, at = [], 2
    while at < len(stored):
        length = stored[at]
        parts.append(stored[at + 1 : at + length])
        at += length
        if length <= _LONGEST and at < len(stored):
            parts.append(b"\0")
    return b"".join(parts).translate(_COMBINED[rarest])
