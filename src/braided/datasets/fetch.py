"""Downloading a data set's official files: resumed after an interruption, checked, and put in place whole or not."""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from braided import extras
from braided.datasets.catalogue import DataFile, Dataset
from braided.datasets.verify import what_is_wrong
from braided.errors import BraidedError
from braided.files import write_atomically

_CHUNK = 2**18
_TIMEOUT_S = 30.0
#: Bytes beyond which a file in an archive is not unpacked: those that are known have less than a megabyte.
_MAX_UNPACKED = 2**26

#: Called with the bytes that are there and, if known, the bytes there will be.
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class ResumingDownloader:
    """A downloader for pooch that goes on from what an earlier attempt left in a `.part` file.

    The server is asked for the rest alone, on condition that the file is still the one it was (`If-Range`); a server
    that cannot do that sends all of it, and the download starts over.

    Attributes
    ----------
    part
        Where the bytes go until all are there. Beside it, `.part.tag` says which version of the file they are of.
    progress
        Called after every piece.
    """

    part: Path
    progress: Progress

    def __call__(self, url: str, output_file: Any, pooch: Any) -> None:
        """Download `url` to `output_file`."""
        requests = extras.require("requests", "download")

        have = self.part.stat().st_size if self.part.exists() else 0
        # Identity: the bytes of the file, not of a compressed message, are what a range counts.
        headers = {"Accept-Encoding": "identity"}
        tag = self._tag_file.read_text(encoding="utf-8") if self._tag_file.exists() else ""
        if have and tag:
            headers |= {"Range": f"bytes={have}-", "If-Range": tag}
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT_S) as response:
            if "Range" in headers and response.status_code == requests.codes.requested_range_not_satisfiable:
                self._discard()
                self(url, output_file, pooch)
                return
            response.raise_for_status()
            resumed = response.status_code == requests.codes.partial_content
            if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                self._discard()
                raise BraidedError(f"{url}: the server sent another part than was asked for: run the command again")
            have = have if resumed else 0
            length = response.headers.get("Content-Length")
            total = have + int(length) if length else None
            tag = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
            self._tag_file.write_text(tag, encoding="utf-8")
            with self.part.open("ab" if resumed else "wb") as file:
                self.progress(have, total)
                while piece := response.raw.read(_CHUNK, decode_content=False):
                    file.write(piece)
                    have += len(piece)
                    self.progress(have, total)
        os.replace(self.part, output_file)
        self._discard()

    @property
    def _tag_file(self) -> Path:
        return self.part.with_name(f"{self.part.name}.tag")

    def _discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self._tag_file.unlink(missing_ok=True)


@contextlib.contextmanager
def _network_errors_in_one_line(file: DataFile, part: Path) -> Iterator[None]:
    """Turn what can go wrong on the network into one line."""
    requests, exceptions = extras.require("requests", "download"), extras.require("urllib3.exceptions", "download")
    try:
        yield
    except requests.HTTPError as error:
        status = "an error" if error.response is None else error.response.status_code
        raise BraidedError(f"{file.url}: the server answers {status}: try again later") from None
    except (requests.RequestException, exceptions.HTTPError) as error:
        host = urlsplit(file.url or "").hostname
        kept = f" ({part.stat().st_size:,} bytes are kept)" if part.exists() else ""
        offline = isinstance(error, requests.ConnectionError | requests.Timeout)
        what = f"{host} cannot be reached" if offline else f"the download from {host} broke off"
        raise BraidedError(f"{file.name}: {what}: go online and run the same command again{kept}") from None


def fetch_file(file: DataFile, folder: Path, progress: Progress) -> Path:
    """Download one file into a folder, unless it is there already and right."""
    if file.member is not None:
        return _fetch_member(file, file.member, folder, progress)
    pooch = extras.require("pooch", "download")
    assert file.url is not None
    target = folder / file.name
    part = folder / f"{file.name}.part"
    known = f"sha256:{file.sha256}" if file.sha256 else None
    pooch.get_logger().setLevel("WARNING")
    try:
        with _network_errors_in_one_line(file, part):
            folder.mkdir(parents=True, exist_ok=True)
            pooch.retrieve(file.url, known, fname=file.name, path=folder, downloader=ResumingDownloader(part, progress))
    except BraidedError:
        raise
    except ValueError:  # pooch's word for a wrong checksum; it has removed the file
        raise BraidedError(
            f"{file.name} from {file.url} has another SHA-256 than it should: it was removed, run the command again"
        ) from None
    wrong = None if known else what_is_wrong(file, target)
    if wrong is not None:
        target.unlink()
        raise BraidedError(f"{file.name} from {file.url}: {wrong}: it was removed, run the command again")
    return target


def _fetch_member(file: DataFile, member: str, folder: Path, progress: Progress) -> Path:
    """Download the zip archive that a file is in, and keep that file alone."""
    target = folder / file.name
    if target.exists() and what_is_wrong(file, target) is None:
        return target
    archive = fetch_file(DataFile(f"{file.name}.zip", file.url), folder, progress)
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(member) as packed:
            content = packed.read(_MAX_UNPACKED + 1)
    except (zipfile.BadZipFile, KeyError, OSError, EOFError):
        raise BraidedError(
            f"{file.name}: what {file.url} gives is no zip archive with {member} in it: run the command again later"
        ) from None
    finally:
        archive.unlink()
    if len(content) > _MAX_UNPACKED:
        raise BraidedError(
            f"{file.name}: {member} at {file.url} has more than {_MAX_UNPACKED:,} bytes: it was not kept"
        )
    write_atomically(target, content)
    wrong = what_is_wrong(file, target)
    if wrong is not None:
        target.unlink()
        raise BraidedError(f"{file.name} from {file.url}: {wrong}: it was removed, run the command again")
    return target


def fetch(dataset: Dataset, folder: Path, progress: Callable[[DataFile], Progress]) -> list[Path]:
    """Download a data set's official files into `folder/<data set>`; returns their paths."""
    return [fetch_file(file, folder / dataset.folder, progress(file)) for file in dataset.download.files]
