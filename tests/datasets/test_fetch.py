"""Downloads from a server in this process: whole, interrupted and resumed, wrong, refused, out of reach."""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError
from braided.datasets.catalogue import DataFile, Dataset, Form
from braided.datasets.fetch import fetch, fetch_file

CONTENT = np.random.default_rng(0).bytes(3_000_000)


@dataclass
class Server:
    """What is served, how, and what was asked for."""

    content: bytes = CONTENT
    tag: str = '"one"'
    ranges: bool = True
    shift: int = 0
    break_after: int | None = None
    status: int = 200
    asked: list[str | None] = field(default_factory=list)
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    def __init__(self, server: Server, *arguments: Any) -> None:
        self.state = server
        super().__init__(*arguments)

    def do_GET(self) -> None:
        state = self.state
        asked = self.headers.get("Range")
        state.asked.append(asked)
        if state.status != 200:
            self.send_error(state.status)
            return
        start = 0
        if asked and state.ranges and self.headers.get("If-Range") == state.tag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if start >= len(state.content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header(
                "Content-Range", f"bytes {start + state.shift}-{len(state.content) - 1}/{len(state.content)}"
            )
        self.send_header("Content-Length", str(len(state.content) - start))
        self.send_header("ETag", state.tag)
        self.end_headers()
        end = len(state.content) if state.break_after is None else start + state.break_after
        self.wfile.write(state.content[start:end])
        self.close_connection = True

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()
    http = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, state))
    state.url = f"http://127.0.0.1:{http.server_address[1]}/data.bin"
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield state
    http.shutdown()
    http.server_close()
    thread.join()


def data_file(server: Server, content: bytes = CONTENT, **more: Any) -> DataFile:
    return DataFile("data.bin", server.url, hashlib.sha256(content).hexdigest(), **more)


def silent(done: int, total: int | None) -> None:
    pass


def test_a_file_is_fetched_once(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    for _ in range(2):
        path = fetch_file(data_file(server), tmp_path / "new" / "folder", lambda *numbers: seen.append(numbers))
    assert path.read_bytes() == CONTENT
    assert [file.name for file in path.parent.iterdir()] == ["data.bin"]
    assert seen[0] == (0, len(CONTENT))
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert server.asked == [None], "the second time it is there"


def test_an_interrupted_download_goes_on(server: Server, tmp_path: Path) -> None:
    server.break_after = 1_000_000
    for _ in range(2):
        with pytest.raises(BraidedError, match=r"data\.bin: .* run the same command again \([0-9,]+ bytes are kept\)"):
            fetch_file(data_file(server), tmp_path, silent)
        assert not (tmp_path / "data.bin").exists()
    server.break_after = None
    seen: list[int] = []
    assert fetch_file(data_file(server), tmp_path, lambda done, _: seen.append(done)).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=1000000-", "bytes=2000000-"]
    assert seen[0] == 2_000_000
    assert [file.name for file in tmp_path.iterdir()] == ["data.bin"]


@pytest.mark.parametrize("why", ["no ranges", "another range", "changed since"])
def test_what_cannot_go_on_starts_over(server: Server, tmp_path: Path, why: str) -> None:
    server.break_after = 1_000_000
    with pytest.raises(BraidedError):
        fetch_file(data_file(server), tmp_path, silent)
    server.break_after = None
    if why == "no ranges":
        server.ranges = False
    elif why == "another range":
        server.shift = 1
    else:
        server.content, server.tag = CONTENT[::-1], '"two"'
    seen: list[tuple[int, int | None]] = []
    path = fetch_file(data_file(server, server.content), tmp_path, lambda *numbers: seen.append(numbers))
    assert path.read_bytes() == server.content
    assert (seen[0], seen[-1]) == ((0, len(CONTENT)), (len(CONTENT), len(CONTENT)))


def test_all_bytes_there_but_the_file_not_yet_in_place(server: Server, tmp_path: Path) -> None:
    """After a crash between the last byte and the renaming there is no rest to ask for."""
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    (tmp_path / "data.bin.part.tag").write_text(server.tag)
    assert fetch_file(data_file(server), tmp_path, silent).read_bytes() == CONTENT
    assert [file.name for file in tmp_path.iterdir()] == ["data.bin"]


def test_a_wrong_checksum_is_refused_and_removed(server: Server, tmp_path: Path) -> None:
    with pytest.raises(BraidedError, match="another SHA-256 than the official file's: it was removed"):
        fetch_file(data_file(server, b"something else"), tmp_path, silent)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_does_not_unpack_is_removed_and_fetched_again(server: Server, tmp_path: Path) -> None:
    """By its records, or by what a copy that was compressed again holds."""
    content = b"1,2\n3,4\n"
    by_records = DataFile("data.gz", server.url, records=2)
    by_content = DataFile("data.gz", server.url, "0" * 64, hashlib.sha256(content).hexdigest())
    for file in (by_records, by_content):
        server.content = gzip.compress(content)[:-4]
        with pytest.raises(BraidedError, match="the file is damaged, or cannot be read: it was removed"):
            fetch_file(file, tmp_path, silent)
        assert list(tmp_path.iterdir()) == []
        (tmp_path / "data.gz").write_bytes(server.content)
        server.content = gzip.compress(content)
        assert fetch_file(file, tmp_path, silent).read_bytes() == server.content
        (tmp_path / "data.gz").unlink()


def test_without_a_checksum_size_and_records_are_checked(server: Server, tmp_path: Path) -> None:
    server.content = b"1,2\n3,4\n\n5,6"
    file = replace(data_file(server), sha256=None, size=12, records=3)
    assert fetch_file(file, tmp_path, silent).read_bytes() == server.content
    (tmp_path / "data.bin").unlink()
    for wrong, message in (
        (replace(file, records=4), "3 records where 4"),
        (replace(file, size=13), "12 bytes where 13"),
    ):
        with pytest.raises(BraidedError, match=message):
            fetch_file(wrong, tmp_path, silent)
        assert list(tmp_path.iterdir()) == []


def test_a_server_that_refuses(server: Server, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(BraidedError, match="the server answers 404"):
        fetch_file(data_file(server), tmp_path, silent)


def test_out_of_reach(tmp_path: Path) -> None:
    file = DataFile("data.bin", "http://127.0.0.1:9/data.bin", "0" * 64)
    with pytest.raises(BraidedError, match=r"data\.bin: 127\.0\.0\.1 cannot be reached: go online"):
        fetch_file(file, tmp_path, silent)


def test_a_data_set_is_all_its_files(server: Server, tmp_path: Path) -> None:
    files = tuple(replace(data_file(server), name=name) for name in ("a", "b"))
    local = Form((DataFile("c"),))
    dataset = Dataset("d", "folder", 1, 1, 2, "here", False, (local, Form(files)))
    paths = fetch(dataset, tmp_path, lambda _: silent)
    assert paths == [tmp_path / "folder" / "a", tmp_path / "folder" / "b"]
    assert all(path.read_bytes() == CONTENT for path in paths)


def zipped(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def test_a_file_in_an_archive_is_kept_alone_and_fetched_once(server: Server, tmp_path: Path) -> None:
    server.content = zipped(wanted=b"1,2\r\n\r\n3,4", other=b"5")
    digest = hashlib.sha256(b"1,2\n3,4\n").hexdigest()
    file = DataFile("data.csv", server.url, text_sha256=digest, member="wanted")
    for _ in range(2):
        assert fetch_file(file, tmp_path, silent).read_bytes() == b"1,2\r\n\r\n3,4"
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]
    assert server.asked == [None]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no archive", "is not a zip archive with wanted in it"),
        (zipped(other=b"1"), "is not a zip archive with wanted in it"),
        (zipped(wanted=b"1,2"), "another SHA-256 than the official file's: it was removed"),
    ],
)
def test_an_archive_that_is_not_as_it_should_be_leaves_nothing(
    server: Server, tmp_path: Path, content: bytes, message: str
) -> None:
    server.content = content
    with pytest.raises(BraidedError, match=message):
        fetch_file(DataFile("data.csv", server.url, text_sha256="0" * 64, member="wanted"), tmp_path, silent)
    assert list(tmp_path.iterdir()) == []
