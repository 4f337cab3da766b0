"""CSV in blocks: what compiled code reads is what Python reads, and errors name the same lines."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError
from braided.encode.chunk import Chunk
from braided.records import Records
from braided.streams import Rules, open_stream, read_whole, text_files
from braided.streams.readers import csv
from braided.streams.readers.csv import CSVStream, Layout


def records(path: Path, monkeypatch: pytest.MonkeyPatch, block: int, n_features: int | None = None) -> Records:
    monkeypatch.setattr(text_files, "BLOCK", block)
    return read_whole(CSVStream(path, target="0", n_features=n_features)).table


def numbers(n: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [",".join([str(rng.integers(3)), *(f"{v:.18e}" for v in rng.normal(size=5))]) for _ in range(n)]


#: A quoted field with more than the smallest block's bytes on both sides of its line end.
ACROSS_BLOCKS = f'2,"{" " * 150}1\n{" " * 150}",1,1,1,1'


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "special", [None, "2,?,1,1,1,1", '2,"1",1,1,1,1', ACROSS_BLOCKS, "a,1,1,1,1,1", "0.5,1,1,1,1,1", "", "é,1,1,1,1,1"]
)
def test_blocks_do_not_change_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, special: str | None
) -> None:
    lines = numbers(900)
    if special is not None:
        lines[700:700] = [special]
    path = tmp_path / "d.csv"
    path.write_text(end.join(lines), newline="")
    with monkeypatch.context() as patched:
        patched.setattr(csv._Reading, "plain", lambda *_: None)
        slow = records(path, patched, 2**20)
    for block in (200, 1_000, 5_000):
        fast = records(path, monkeypatch, block)
        np.testing.assert_array_equal(fast.values, slow.values)
        assert fast.targets == slow.targets
        assert [type(label) for label in fast.targets] == [type(label) for label in slow.targets]


def test_plain_blocks_are_not_left_to_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d.csv"
    path.write_text("\n".join(numbers(1_500)) + "\n")
    read: list[int] = []
    original = Layout.chunk

    def chunk(self: Layout, source: str, places: list[int], *more: Any) -> Chunk:
        read.extend(places)
        return original(self, source, places, *more)

    monkeypatch.setattr(Layout, "chunk", chunk)
    assert len(records(path, monkeypatch, 1_000)) == 1_500
    assert 500 <= len(read) < 520, "the records that the kinds are seen from alone"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("1,2", "d.csv:201: 2 fields where 6 are expected"),
        ("1,2,3,4,5,6,7", "d.csv:201: 7 fields where 6 are expected"),
        ("1,2,x,4,5,6", "d.csv:201: column '2' is 'x': features must be numbers"),
        ("1,2,inf,4,5,6", "d.csv:201: column '2' is 'inf': features must be finite"),
        (",2,3,4,5,6", "d.csv:201: the label is missing"),
        ('1,"2,3,4,5,6', "d.csv:[0-9]+: not readable as CSV"),
        ("1,\udcff\x01,3,4,5,6", "is not text in UTF-8"),
    ],
)
def test_bad_lines_in_later_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str, message: str) -> None:
    lines = numbers(300)
    lines[200:200] = [bad]
    path = tmp_path / "d.csv"
    path.write_bytes("\n".join(lines).encode(errors="surrogateescape"))
    for block in (100, 1_000, 2**20):
        with pytest.raises(BraidedError, match=message):
            records(path, monkeypatch, block)


_PEAK = """
import sys
from pathlib import Path
from braided.datasets.locate import LabelFirstStream
n = sum(len(batch) for batch in LabelFirstStream(Path(sys.argv[1]), 21).batches())
# Not ru_maxrss: that of a child begins at the size its parent had.
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(n, status["VmHWM"].split()[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="this system does not tell a process's peak of memory: run on Linux"
)
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """200,000 rows in HIGGS's format, 140 MB of text: the process stays below 300 MB, and within 20 MB of a tenth."""
    rng = np.random.default_rng(0)
    piece = "".join(
        ",".join(f"{v:.18e}" for v in (rng.integers(2), *rng.normal(size=28))) + "\n" for _ in range(2_000)
    ).encode()
    peaks = []
    for pieces in (10, 100):
        path = tmp_path / f"{pieces}.csv.gz"
        with gzip.open(path, "wb", compresslevel=1) as file:
            for _ in range(pieces):
                file.write(piece)
        done = subprocess.run([sys.executable, "-c", _PEAK, str(path)], capture_output=True, text=True, check=True)
        n, peak = map(int, done.stdout.split())
        assert n == pieces * 2_000
        peaks.append(peak / 1024)
    assert peaks[1] < 300
    assert peaks[1] < peaks[0] + 20


def test_a_line_that_says_the_delimiter_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("sep=;\na;b,c;y\n1;2;u\n3;4;v\n3;5;\n")
    stream = open_stream(str(path), rules=Rules(on_error="skip"))
    batch = next(iter(stream.batches()))
    assert (batch.names, batch.values.tolist(), batch.targets) == (("a", "b,c"), [[1, 2], [3, 4]], ["u", "v"])
    assert "d.csv:5" in stream.counts.first_problem  # type: ignore[attr-defined]


@pytest.mark.parametrize("title", ["Silo readings, plant Graz 2026\n", "Export, 03.01.2026, Graz\n\n", "Report\nMay\n"])
def test_a_title_above_the_table_is_named_with_its_remedy(tmp_path: Path, title: str) -> None:
    table = "silo;t;y\n" + "".join(f"{i % 7};{i}.5;{i % 2}\n" for i in range(60))
    path = tmp_path / "d.csv"
    path.write_text(title + table)
    rows = title.count("\n")
    with pytest.raises(BraidedError, match=rf"if the header is in line {rows + 1}, give `skip_rows={rows}`"):
        read_whole(open_stream(str(path)))
    found = read_whole(open_stream(str(path), skip_rows=rows))
    path.write_text(table)
    np.testing.assert_array_equal(found.table.values, read_whole(open_stream(str(path))).table.values)


@pytest.mark.parametrize("odd", ["\u2028", "\x0b", "\x0c", "\x1c", "\x85"])
def test_only_line_feeds_and_carriage_returns_end_a_line(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a,b,y\n" + f"1,red{odd}wine,u\n2,white,v\n" * 400, encoding="utf-8")
    table = read_whole(open_stream(str(path))).table
    assert (table.names, len(table)) == (("a", f"b=red{odd}wine", "b=white"), 800)
