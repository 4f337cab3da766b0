"""The journal: what was synced is read back, a torn tail is cut, damage is named."""

from __future__ import annotations

import errno
import os
import struct
import zlib
from pathlib import Path

import pytest
from help_serve import FaultyDisk
from hypothesis import given, settings
from hypothesis import strategies as st

from braided.serve.disk import Disk
from braided.serve.journal import (
    FRAME_BYTES,
    HEADER_BYTES,
    HIGH_WATER,
    CorruptJournalError,
    Journal,
    JournalError,
    JournalReader,
    frame,
    path_of,
)

UID = bytes(range(16))


def write(
    folder: Path, payloads: list[bytes], segment_bytes: int = 10**6, disk: Disk | None = None, sync: bool = True
) -> Journal:
    journal = Journal(disk or Disk(), folder, UID, 1, 1, segment_bytes, sync)
    for payload in payloads:
        journal.append(payload)
    journal.close()
    return journal


def read(folder: Path, after: int = 0) -> tuple[list[bytes], JournalReader]:
    scan = JournalReader(Disk(), folder, UID, after)
    return [payload for _, payload in scan.frames()], scan


@given(payloads=st.lists(st.binary(max_size=200), max_size=12), segment_bytes=st.integers(1, 600))
@settings(max_examples=40, deadline=None)
def test_what_was_written_is_read(
    payloads: list[bytes], segment_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal = write(folder, payloads, segment_bytes)
    found, scan = read(folder)
    assert found == payloads
    assert (scan.number, scan.serial, scan.notes) == (journal.number, journal.serial, [])
    later, _ = read(folder, after=len(payloads) // 2)
    assert later == payloads[len(payloads) // 2 :]


def test_a_tail_cut_anywhere_is_cut_back_to_whole_frames(tmp_path: Path) -> None:
    payloads = [b"one", b"two" * 20, bytes(700)]
    write(tmp_path, payloads)
    path = path_of(tmp_path, 1)
    content = path.read_bytes()
    (tmp_path / HIGH_WATER).unlink()
    ends = [HEADER_BYTES]
    for number, payload in enumerate(payloads, start=1):
        ends.append(ends[-1] + len(frame(number, number - 1, payload, ends[-1])))
    assert ends[-1] == len(content)
    for length in range(HEADER_BYTES, len(content)):
        path.write_bytes(content[:length])
        whole = sum(end <= length for end in ends) - 1
        found, scan = read(tmp_path)
        assert found == payloads[:whole]
        assert path.stat().st_size == ends[whole]
        assert bool(scan.notes) == (length not in ends)
        assert scan.number == whole + 1


@pytest.mark.parametrize("zeros", [(0, 512), (1024, 1536), (512, 2048)])
def test_sectors_that_never_arrived_are_a_torn_tail(tmp_path: Path, zeros: tuple[int, int]) -> None:
    write(tmp_path, [b"kept"])
    path = path_of(tmp_path, 1)
    start = path.stat().st_size
    torn = bytearray(frame(2, 1, bytes(3_000)))
    lost = slice(max(zeros[0] + 512 - start, 0), zeros[1] + 512 - start)
    torn[lost] = bytes(len(torn[lost]))
    with path.open("ab") as file:
        file.write(torn)
    found, scan = read(tmp_path)
    assert found == [b"kept"]
    assert "broken off" in scan.notes[0]


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    """A flip stops the reading, or is in bytes that do not matter; never is a frame lost or changed in silence."""
    payloads = [b"first", bytes(600), b"last of the first", b"next segment", b"end"]
    write(tmp_path, payloads, segment_bytes=700)
    paths = sorted(tmp_path.glob("journal-*"))
    assert len(paths) >= 2
    for path in paths:
        content = path.read_bytes()
        for at in range(len(content)):
            flipped = bytearray(content)
            flipped[at] ^= 1 << at % 8
            path.write_bytes(flipped)
            with pytest.raises(CorruptJournalError, match=path.name):
                read(tmp_path)
        path.write_bytes(content)
    assert read(tmp_path)[0] == payloads


def test_damage_before_the_snapshot_does_no_harm(tmp_path: Path) -> None:
    payloads = [bytes([i]) * 300 for i in range(8)]
    write(tmp_path, payloads, segment_bytes=700)
    first = path_of(tmp_path, 1)
    content = bytearray(first.read_bytes())
    content[HEADER_BYTES + FRAME_BYTES + 5] ^= 1
    first.write_bytes(content)
    with pytest.raises(CorruptJournalError, match=r"at byte 48 is not frame 1 .* damaged.*restore"):
        read(tmp_path)
    assert read(tmp_path, after=4)[0] == payloads[4:]


def test_a_missing_segment_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, [bytes(300)] * 8, segment_bytes=700)
    path_of(tmp_path, 2).unlink()
    with pytest.raises(CorruptJournalError, match="frame"):
        read(tmp_path)
    path_of(tmp_path, 1).unlink()
    with pytest.raises(CorruptJournalError, match="starts with frame"):
        read(tmp_path)


def test_files_missing_at_the_end_are_noticed(tmp_path: Path) -> None:
    write(tmp_path, [bytes(300)] * 8, segment_bytes=200)
    segments = sorted(tmp_path.glob("journal-*"))
    segments[-1].unlink()
    with pytest.raises(CorruptJournalError, match=rf"{segments[-1].name} is missing"):
        read(tmp_path)
    (tmp_path / HIGH_WATER).unlink()
    assert len(read(tmp_path)[0]) == 7, "without its mark there is nothing to notice it by"


def test_frames_cut_off_after_they_were_marked_are_noticed(tmp_path: Path) -> None:
    journal = Journal(Disk(), tmp_path, UID, 1, 1, 10**6, True)
    for _ in range(3):
        journal.append(b"payload")
    journal.covered(0)
    journal.close()
    path = path_of(tmp_path, 1)
    path.write_bytes(path.read_bytes()[: HEADER_BYTES + len(frame(1, 0, b"payload"))])
    with pytest.raises(CorruptJournalError, match="ends with frame 1, and frames up to 3 were acknowledged"):
        read(tmp_path)


def test_a_damaged_mark_is_told_and_passed_over(tmp_path: Path) -> None:
    write(tmp_path, [b"x"])
    mark = tmp_path / HIGH_WATER
    content = mark.read_bytes()
    for at in range(len(content)):
        mark.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        found, scan = read(tmp_path)
        assert (found, scan.notes) == (
            [b"x"],
            ["high-water is damaged: whether journal files are missing at the end is not known"],
        )


@pytest.mark.parametrize("byte", [0, 1, 0x5A, 0xA5, 0xFF])
def test_no_flipped_bit_passes_for_a_torn_tail(tmp_path: Path, byte: int) -> None:
    """Payloads that would be stored as zeros if all were stored alike, and frames that end just after a sector does."""
    write(tmp_path, [b"x"])
    path = path_of(tmp_path, 1)
    head = path.read_bytes()[:HEADER_BYTES]
    (tmp_path / HIGH_WATER).unlink()
    for length in (60, *range(420, 440), 1_000):
        content = head + frame(1, 0, bytes([byte]) * length)
        assert 0 not in content[HEADER_BYTES + FRAME_BYTES :]
        assert len(content) % 512 == 0 or len(content) % 512 >= 8
        for at in (HEADER_BYTES + FRAME_BYTES, 500, len(content) - 1):
            for bit in range(8):
                flipped = bytearray(content)
                flipped[min(at, len(content) - 1)] ^= 1 << bit
                path.write_bytes(flipped)
                with pytest.raises(CorruptJournalError):
                    read(tmp_path)


def test_a_journal_of_another_format_version_is_refused(tmp_path: Path) -> None:
    write(tmp_path, [b"new"])
    head = struct.pack("<8sI16sQQ", b"BRJOURN1", 1, UID, 1, 1)
    path_of(tmp_path, 1).write_bytes(head + struct.pack("<I", zlib.crc32(head)))
    with pytest.raises(CorruptJournalError, match="format version 1, and this braided reads version 2"):
        read(tmp_path)


def test_a_segment_of_another_model_is_refused(tmp_path: Path) -> None:
    write(tmp_path, [b"x"])
    with pytest.raises(CorruptJournalError, match="another model"):
        list(JournalReader(Disk(), tmp_path, bytes(16), 0).frames())


def test_a_segment_whose_creation_was_broken_off_is_removed(tmp_path: Path) -> None:
    write(tmp_path, [b"x"])
    for length in (0, 10, HEADER_BYTES - 1):
        path_of(tmp_path, 2).write_bytes(path_of(tmp_path, 1).read_bytes()[:length])
        found, scan = read(tmp_path)
        assert found == [b"x"]
        assert "broken off" in scan.notes[0]
        assert not path_of(tmp_path, 2).exists()
        assert scan.serial == 3


def test_without_sync_a_hole_in_the_tail_is_no_damage(tmp_path: Path) -> None:
    """Pages that were not synced may reach the disk in any order, or not at all: nothing was promised."""
    write(tmp_path, [b"a" * 600, b"b" * 600, b"c" * 600], sync=False)
    path = path_of(tmp_path, 1)
    content = bytearray(path.read_bytes())
    content[1024:1536] = bytes(512)
    path.write_bytes(content)
    found, scan = read(tmp_path)
    assert found == [b"a" * 600]
    assert scan.notes


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("operation", ["create", "write", "sync"])
def test_a_failure_costs_the_frame_and_nothing_else(tmp_path: Path, operation: str, code: int) -> None:
    """At each operation in turn: the frame that failed is not there, all others are, and later ones go on."""
    for number in range(1, 12):
        folder = tmp_path / f"{operation}-{number}"
        folder.mkdir()

        def fault(found: str, count: int, number: int = number) -> None:
            if found == operation and count == number:
                raise OSError(code, os.strerror(code))

        journal = Journal(FaultyDisk(fault, piece=50), folder, UID, 1, 1, 300, True)
        kept, failures = [], []
        for i in range(8):
            payload = bytes([i]) * 120
            try:
                journal.append(payload)
                kept.append(payload)
            except JournalError as error:
                failures.append(error.full)
        journal.close()
        assert len(kept) >= 7
        assert set(failures) <= {code == errno.ENOSPC}
        assert read(folder)[0] == kept


def test_a_frame_that_failed_but_reached_the_disk_does_not_come_back(tmp_path: Path) -> None:
    """The sync fails after all bytes were written, and so does cutting them off: the next segment overrules them."""

    def fault(operation: str, count: int) -> None:
        if broken and operation in {"sync", "truncate"}:
            raise OSError(errno.EIO, "failed")

    broken = False
    journal = Journal(FaultyDisk(fault), tmp_path, UID, 1, 1, 10**6, True)
    journal.append(b"acknowledged")
    broken = True
    with pytest.raises(JournalError):
        journal.append(b"refused")
    broken = False
    assert frame(2, 1, b"refused") in path_of(tmp_path, 1).read_bytes()
    journal.append(b"later")
    journal.close()
    assert read(tmp_path)[0] == [b"acknowledged", b"later"]


def test_a_lost_sync_of_acknowledged_frames_is_doubtful_until_a_snapshot(tmp_path: Path) -> None:
    def fault(operation: str, count: int) -> None:
        if broken and operation == "sync":
            raise OSError(errno.EIO, "failed")

    broken = False
    journal = Journal(FaultyDisk(fault), tmp_path, UID, 1, 1, 10**6, sync=False)
    journal.append(b"one")
    broken = True
    with pytest.raises(JournalError):
        journal.sync()
    assert journal.doubtful
    broken = False
    journal.covered(1)
    assert not journal.doubtful
    journal.append(b"two")
    journal.sync()
    journal.close()
    assert read(tmp_path, after=1)[0] == [b"two"]
