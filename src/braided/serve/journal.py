r"""The write-ahead journal: numbered, checksummed frames in segment files.

A segment, integers little-endian:

    48 bytes   magic "BRJOURN1", format version, the model's ID (16 bytes), the segment's serial number, the number of
               its first frame, CRC-32 of all that
    frames     each 32 bytes of header and a payload

A frame's header holds a mark, the payload's length, the frame's number, the number of the last frame that was known to
be on disk when this one was written, the CRC-32 of the payload and the CRC-32 of the header before it. One group commit
is one frame, so that a group is there as a whole or not at all. From this a reader can tell

- a torn tail, which no one was promised: nothing valid follows it that was written after it had been synced, and the
  file ends within the frame or has a whole sector of zeros there, which is what a file system leaves of an append that
  it did not finish; payloads are stored without zeros (`zero_free`), with no less than eight bytes in any sector, so
  that no flipped bit can look like that;
- damage, which concerns records that may have been acknowledged: everything else.

Beside the segments is a high-water mark: JSON, after its CRC-32, of the last segment that was begun and of the last
frame known to be on disk by then. It is written with each segment and each snapshot, so that files missing at the end
are noticed.

After a write or a sync that failed, the state of the page cache is unknown. Nothing of that frame is acknowledged, the
segment is given up, and the next frame, with the same number, goes to a new segment: a reader takes from a segment only
the frames before the first one of the next.
"""

from __future__ import annotations

import contextlib
import errno
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from braided.errors import BraidedError
from braided.serve.disk import Disk
from braided.serve.zero_free import with_zeros, without_zeros

MAGIC = b"BRJOURN1"
VERSION = 2
MARK = b"\xf5FRM"
#: Longest payload; a group of records is far shorter.
MAX_BYTES = 2**28
_HEADER = struct.Struct("<8sI16sQQ")
_FRAME = struct.Struct("<4sIQQI")
_CRC = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CRC.size
FRAME_BYTES = _FRAME.size + _CRC.size
_SECTOR = 512
_NAME = re.compile(r"journal-(\d{10})\.log")
#: The least that a frame has in its last sector; what is short of that is filled up.
_MIN_IN_SECTOR = 8
_FILLING = b"\xff"
HIGH_WATER = "high-water"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class JournalError(Exception):
    """The disk did not take a frame; nothing of it counts."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.full = error.errno in _FULL


class CorruptJournalError(BraidedError):
    """Acknowledged records cannot be read: a person has to decide.

    Parameters
    ----------
    what
        What is wrong, with the file's name.
    path, at
        The segment and its byte up to which all is well, where that is known.
    """

    def __init__(self, what: str, path: Path | None = None, at: int = 0) -> None:
        super().__init__(what)
        self.path = path
        self.at = at


def path_of(folder: Path, serial: int) -> Path:
    """The file of a segment."""
    return folder / f"journal-{serial:010d}.log"


def frame(number: int, durable: int, payload: bytes, start: int = HEADER_BYTES) -> bytes:
    """A frame as bytes, to be written at byte `start` of its segment."""
    stored = without_zeros(payload)
    rest = (start + FRAME_BYTES + 1 + len(stored)) % _SECTOR
    filling = _MIN_IN_SECTOR - rest if 0 < rest < _MIN_IN_SECTOR else 0
    stored = bytes([filling + 1]) + stored + filling * _FILLING
    head = _FRAME.pack(MARK, len(stored), number, durable, zlib.crc32(stored))
    return head + _CRC.pack(zlib.crc32(head)) + stored


def _payload(stored: bytes) -> bytes:
    """What was stored, as it was given."""
    return with_zeros(stored[1 : len(stored) + 1 - stored[0]])


class Journal:
    """The end of a journal, to append to.

    Parameters
    ----------
    disk, folder, uid
        Where the segments are, and the ID of the model they belong to.
    serial, number
        Of the next segment and the next frame.
    segment_bytes
        A segment that has grown this long is followed by a new one.
    sync
        Whether a frame is on disk before `append` returns.
    """

    def __init__(
        self, disk: Disk, folder: Path, uid: bytes, serial: int, number: int, segment_bytes: int, sync: bool
    ) -> None:
        self.disk = disk
        self.folder = folder
        self.uid = uid
        self.serial = serial
        self.number = number
        self.segment_bytes = segment_bytes
        self.sync_each = sync
        #: Number of the last frame known to be on disk.
        self.durable = number - 1
        #: Bytes appended since the start.
        self.bytes_written = 0
        #: Frames that were acknowledged may not be on disk, and a later sync cannot mend that: only a snapshot can.
        self.doubtful = False
        self._file: int | None = None
        self._length = 0

    def append(self, payload: bytes) -> int:
        """Write a frame; its number. On failure nothing of it counts, and the next one may be tried at any time."""
        if len(payload) > MAX_BYTES:
            raise JournalError(OSError(errno.EMSGSIZE, f"a frame of {len(payload)} bytes is too long"))
        try:
            if self._file is not None and self._length >= self.segment_bytes:
                self._seal()
            if self._file is None:
                self._start_segment()
            assert self._file is not None
            content = frame(self.number, self.durable, payload, self._length)
            self.disk.write(self._file, content)
            if self.sync_each:
                self.disk.sync(self._file)
        except OSError as error:
            self._give_up()
            raise JournalError(error) from error
        self._length += len(content)
        self.bytes_written += len(content)
        number, self.number = self.number, self.number + 1
        if self.sync_each:
            self.durable = number
        return number

    def sync(self) -> None:
        """Bring what was appended to disk."""
        if self._file is None or self.durable == self.number - 1:
            return
        try:
            self.disk.sync(self._file)
        except OSError as error:
            self._give_up()
            self.doubtful = True
            raise JournalError(error) from error
        self.durable = self.number - 1

    def covered(self, number: int) -> None:
        """A verified snapshot holds everything up to this frame."""
        self.durable = max(self.durable, number)
        self.doubtful = self.doubtful and self.durable < self.number - 1
        with contextlib.suppress(OSError):  # the older one is still true
            self._note_high_water()

    def close(self) -> None:
        """Close the segment."""
        if self._file is not None:
            file, self._file = self._file, None
            self.disk.close(file)

    def _note_high_water(self) -> None:
        """Note how far the journal goes, once it does."""
        if self.serial > 1:
            document = json.dumps({"serial": self.serial - 1, "number": self.durable}).encode()
            self.disk.write_file(self.folder / HIGH_WATER, _CRC.pack(zlib.crc32(document)) + document)

    def _seal(self) -> None:
        assert self._file is not None
        if self.durable < self.number - 1:
            self.disk.sync(self._file)
            self.durable = self.number - 1
        self.close()

    def _start_segment(self) -> None:
        serial, self.serial = self.serial, self.serial + 1
        path = path_of(self.folder, serial)
        head = _HEADER.pack(MAGIC, VERSION, self.uid, serial, self.number)
        file = self.disk.create(path)
        try:
            self.disk.write(file, head + _CRC.pack(zlib.crc32(head)))
            self.disk.sync(file)
            self.disk.sync_folder(self.folder)
            self._note_high_water()
        except OSError:
            with contextlib.suppress(OSError):
                self.disk.close(file)
            with contextlib.suppress(OSError):
                self.disk.remove(path)
            raise
        self._file, self._length = file, HEADER_BYTES

    def _give_up(self) -> None:
        """Leave a segment whose end is in doubt; cutting it back only saves a later reader some bytes."""
        if self._file is None:
            return
        path, length = path_of(self.folder, self.serial - 1), self._length
        with contextlib.suppress(OSError):
            self.close()
        if self.durable < self.number - 1:
            # Acknowledged under a weaker promise than sync, and perhaps lost with this segment.
            self.doubtful = True
        with contextlib.suppress(OSError):
            self.disk.truncate(path, length)


class Segment(NamedTuple):
    """A segment file with a good header."""

    path: Path
    serial: int
    first: int


@dataclass
class JournalReader:
    """A reading of a journal from its beginning.

    Attributes
    ----------
    disk, folder, uid
        Where the segments are, and the ID of the model they belong to.
    after
        Frames up to this one are in the snapshot and not needed.
    number, serial
        Of the next frame and segment, once `frames` is exhausted.
    notes
        What was found and mended.
    path, at
        The segment of the frame that `frames` gave last, and where it starts.
    """

    disk: Disk
    folder: Path
    uid: bytes
    after: int
    number: int = 0
    serial: int = 1
    notes: list[str] = field(default_factory=list)
    path: Path | None = None
    at: int = 0
    _mends: list[Callable[[], None]] = field(default_factory=list)

    def segments(self) -> list[Segment]:
        """The segments in order; one whose creation was broken off is removed."""
        found = []
        names = sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name) and path.is_file())
        for path in names:
            match = _NAME.fullmatch(path.name)
            assert match is not None
            serial = int(match[1])
            self.serial = serial + 1
            head = self.disk.read_start(path, HEADER_BYTES)
            if not _sound_head(head) and not self.disk.read(path)[HEADER_BYTES:].strip(b"\0"):
                # No frame was ever written to it; a frame that is missing is noticed by the numbers.
                self.notes.append(f"{path.name}: its creation was broken off; removed")
                self._mends.append(partial(self.disk.remove, path))
                continue
            if not _sound_head(head):
                raise CorruptJournalError(
                    f"{path.name}: the segment's header is damaged: restore the file from a backup, or repair the "
                    "folder to go back to what came before it",
                    path,
                )
            _, version, uid, written, first = _HEADER.unpack(head[: _HEADER.size])
            if version != VERSION:
                raise CorruptJournalError(
                    f"{path.name}: is of format version {version}, and this braided reads version {VERSION}: "
                    "read it with the braided that wrote it"
                )
            if uid != self.uid or written != serial:
                raise CorruptJournalError(
                    f"{path.name}: is segment {written} of {'this' if uid == self.uid else 'another'} model: move it "
                    "back to where it came from",
                    path,
                )
            found.append(Segment(path, serial, first))
        return found

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """The frames after `after`, in order; the torn tail is cut off the last segment."""
        # The note first: a segment that is begun meanwhile is in none of both.
        mark, segments = self._high_water(), self.segments()
        self._check_last(segments, mark.get("serial", 0))
        self.number = self.after + 1
        if segments and segments[0].first > self.after + 1:
            raise CorruptJournalError(
                f"{segments[0].path.name}: starts with frame {segments[0].first}, and the snapshot ends with frame "
                f"{self.after}: restore the journal files that came before it",
                segments[0].path,
            )
        for place, segment in enumerate(segments, start=1):
            following = segments[place].first if place < len(segments) else None
            if following is None or following > self.after + 1:
                yield from self._frames_of(segment, following)
        if mark.get("number", 0) >= self.number:
            raise CorruptJournalError(
                f"the journal ends with frame {self.number - 1}, and frames up to {mark['number']} were acknowledged: "
                "restore its last file from a backup, or repair the folder to go on with what is there"
            )
        for mend in self._mends:  # only where all else is well do files change
            mend()

    def _high_water(self) -> dict[str, int]:
        """The last segment and frame that were noted; nothing if there is no note that can be read."""
        try:
            content = self.disk.read(self.folder / HIGH_WATER)
        except FileNotFoundError:
            return {}
        document = content[_CRC.size :]
        if content[: _CRC.size] == _CRC.pack(zlib.crc32(document)):
            with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
                found = json.loads(document)
                return {"serial": int(found["serial"]), "number": int(found["number"])}
        self.notes.append(f"{HIGH_WATER} is damaged: whether journal files are missing at the end is not known")
        return {}

    def _check_last(self, segments: list[Segment], last: int) -> None:
        if last > max((segment.serial for segment in segments), default=0):
            name = path_of(self.folder, last).name
            raise CorruptJournalError(
                f"{name} is missing, and with it records that may have been acknowledged: restore it from a backup, "
                "or repair the folder to go on with what is there"
            )

    def _frames_of(self, segment: Segment, limit: int | None) -> Iterator[tuple[int, bytes]]:
        content = self.disk.read(segment.path)
        at, number = HEADER_BYTES, segment.first
        while at < len(content) and (limit is None or number < limit):
            payload = _frame_at(content, at, number)
            if payload is None:
                break
            if number > self.after:
                self.number, self.path, self.at = number + 1, segment.path, at
                yield number, _payload(payload)
            at += FRAME_BYTES + len(payload)
            number += 1
        if limit is not None:
            if number < limit and limit - 1 > self.after:
                raise self._damage(segment, at, number)
            return
        if at < len(content):
            if not _is_torn(content, at, number):
                raise self._damage(segment, at, number)
            self.notes.append(
                f"{segment.path.name}: the last {len(content) - at} bytes are a write that was broken off before it "
                "was acknowledged; cut"
            )
            self._mends.append(partial(self.disk.truncate, segment.path, at))
        self.number = max(self.number, number)

    def _damage(self, segment: Segment, at: int, number: int) -> CorruptJournalError:
        return CorruptJournalError(
            f"{segment.path.name}: what stands at byte {at} is not frame {number} as it was written: either it was "
            "damaged, with records that were acknowledged, or something else was written there; restore the file from "
            "a backup, or repair the folder to go back to the record before it",
            segment.path,
            at,
        )


def _sound_head(content: bytes) -> bool:
    head = content[: _HEADER.size]
    return head[: len(MAGIC)] == MAGIC and content[_HEADER.size : HEADER_BYTES] == _CRC.pack(zlib.crc32(head))


def _head_at(content: bytes, at: int) -> tuple[int, int, int, int] | None:
    """Length, number, durable and CRC of a frame, if its header is sound."""
    head = content[at : at + _FRAME.size]
    if content[at + _FRAME.size : at + FRAME_BYTES] != _CRC.pack(zlib.crc32(head)) or head[:4] != MARK:
        return None
    _, length, number, durable, crc = _FRAME.unpack(head)
    return length, number, durable, crc


def _frame_at(content: bytes, at: int, number: int) -> bytes | None:
    """The payload, as stored, of the frame of this number, if it is all there and sound."""
    head = _head_at(content, at)
    if head is None or head[1] != number:
        return None
    payload = content[at + FRAME_BYTES : at + FRAME_BYTES + head[0]]
    return payload if len(payload) == head[0] and zlib.crc32(payload) == head[3] else None


def _is_torn(content: bytes, at: int, number: int) -> bool:
    """Whether the bytes from `at` on are a write that was broken off, rather than a frame damaged later."""
    later = content.find(MARK, at + 1)
    while later >= 0:
        head = _head_at(content, later)
        if head is not None and head[2] >= number:
            return False
        later = content.find(MARK, later + 1)
    head = _head_at(content, at)
    end = len(content)
    if len(content) - at < FRAME_BYTES:
        return True
    if head is not None:
        if head[1] != number:
            return False
        end = at + FRAME_BYTES + head[0]
        if end > len(content):
            return True
    start = at
    while start < end:
        stop = min((start // _SECTOR + 1) * _SECTOR, end)
        if not content[start:stop].strip(b"\0"):
            return True
        start = stop
    return False
