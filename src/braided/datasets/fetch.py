"""Downloading a data set's official files, and checking them: by checksum, or else by size and number of records.

A download is resumed after an interruption, and a file is put in place whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from braided import extras
from braided.datasets.catalogue import DataFile, Dataset
from braided.datasets.locate import Located
from braided.errors import BraidedError
from braided.files import write_atomically
from braided.streams.text_files import blocks, errors_in_one_line, open_binary

_CHUNK = 2**18
_TIMEOUT_S = 30.0
#: Bytes beyond which a file in an archive is not unpacked: those that are known have less than a megabyte.
_MAX_UNPACKED = 2**26

#: Called with the bytes that are there and, if known, the bytes there will be.
Progress = Callable[[int, int | None], None]


def _sha256(path: Path, unpacked: bool = False) -> str:
    """The SHA-256 of a file, or of what a .gz file holds."""
    with errors_in_one_line(path), open_binary(path) if unpacked else path.open("rb") as file:
        return hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()


def _text_sha256(path: Path) -> str:
    """The SHA-256 of a file's lines that are not blank, however they end."""
    digest = hashlib.sha256()
    for block in blocks(path):
        digest.update(b"".join(line.rstrip(b"\r") + b"\n" for line in block.split(b"\n") if line.strip()))
    return digest.hexdigest()


def what_is_wrong(file: DataFile, path: Path) -> str | None:
    """What is wrong with a file, by its size, checksum or number of records, or None."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        return f"{size:,} bytes where {file.size:,} are expected"
    unpacked = partial(_sha256, unpacked=True)
    digests = ((file.sha256, _sha256), (file.content_sha256, unpacked), (file.text_sha256, _text_sha256))
    known = [(expected, digest) for expected, digest in digests if expected is not None]
    try:
        if known:
            right = any(digest(path) == expected for expected, digest in known)
            return None if right else "another SHA-256 than the official file's"
        if file.records is not None:
            found = sum(bool(line.strip()) for block in blocks(path) for line in block.split(b"\n")) - file.header
            return None if found == file.records else f"{found:,} records where {file.records:,} are expected"
    except BraidedError:
        return "the file is damaged, or cannot be read"
    return None


def verify(located: Located) -> str:
    """Check all files; returns what was checked, or raises at the first that is wrong."""
    checked = set()
    for file, path in zip(located.form.files, located.paths, strict=True):
        if (wrong := what_is_wrong(file, path)) is not None:
            raise BraidedError(f"{path}: {wrong}: get it again with `braided datasets fetch {located.dataset.name}`")
        with_sum = file.content_sha256 or file.text_sha256 or file.sha256
        size = "size and " if file.size else ""
        checked.add("SHA-256" if with_sum else f"{size}number of records (the official SHA-256 is not known)")
    return ", ".join(sorted(checked))


def _download(url: str, part: Path, progress: Progress) -> None:
    """Download a file into `part`, going on from what an earlier attempt left there.

    Only the rest is requested, on condition that the file is still the same (`If-Range`; `.part.tag` says which that
    is). A server that cannot do that sends all of it, and the download starts over.
    """
    requests = extras.require("requests", "download")
    tag_file = part.with_name(f"{part.name}.tag")
    have = part.stat().st_size if part.exists() else 0
    # Identity: the bytes of the file, not of a compressed message, are what a range counts.
    headers = {"Accept-Encoding": "identity"}
    if have and (tag := tag_file.read_text(encoding="utf-8") if tag_file.exists() else ""):
        headers |= {"Range": f"bytes={have}-", "If-Range": tag}
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT_S) as response:
        resumed = response.status_code == requests.codes.partial_content
        another = resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        nothing = response.status_code == requests.codes.requested_range_not_satisfiable
        if "Range" in headers and (another or nothing):
            part.unlink()
            _download(url, part, progress)
            return
        response.raise_for_status()
        have = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        tag_file.write_text(
            response.headers.get("ETag") or response.headers.get("Last-Modified") or "", encoding="utf-8"
        )
        with part.open("ab" if resumed else "wb") as file:
            progress(have, total)
            while piece := response.raw.read(_CHUNK, decode_content=False):
                file.write(piece)
                have += len(piece)
                progress(have, total)
    tag_file.unlink()


def _unpacked(archive: Path, member: str, source: str) -> bytes:
    """One file of a zip archive, which came from `source`."""
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(member) as packed:
            content = packed.read(_MAX_UNPACKED + 1)
    except (zipfile.BadZipFile, KeyError, OSError, EOFError):
        raise BraidedError(f"{source} is not a zip archive with {member} in it: run the command again later") from None
    if len(content) > _MAX_UNPACKED:
        raise BraidedError(f"{member} at {source} has more than {_MAX_UNPACKED:,} bytes: it was not kept")
    return content


def fetch_file(file: DataFile, folder: Path, progress: Progress) -> Path:
    """Download one file into a folder, unless it is there already and right."""
    assert file.url is not None
    target = folder / file.name
    if target.exists() and what_is_wrong(file, target) is None:
        return target
    requests, exceptions = extras.require("requests", "download"), extras.require("urllib3.exceptions", "download")
    part = folder / f"{file.name}{'.zip' if file.member else ''}.part"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _download(file.url, part, progress)
    except requests.HTTPError as error:
        raise BraidedError(f"{file.url}: the server answers {error.response.status_code}: try again later") from None
    except (requests.RequestException, exceptions.HTTPError) as error:
        host = urlsplit(file.url).hostname
        kept = f" ({part.stat().st_size:,} bytes are kept)" if part.exists() else ""
        offline = isinstance(error, requests.ConnectionError | requests.Timeout)
        what = f"{host} cannot be reached" if offline else f"the download from {host} broke off"
        raise BraidedError(f"{file.name}: {what}: go online and run the same command again{kept}") from None
    if file.member is None:
        os.replace(part, target)
    else:
        try:
            write_atomically(target, _unpacked(part, file.member, file.url))
        finally:
            part.unlink()
    if (wrong := what_is_wrong(file, target)) is not None:
        target.unlink()
        raise BraidedError(f"{file.name} from {file.url}: {wrong}: it was removed, run the command again")
    return target


def fetch(dataset: Dataset, folder: Path, progress: Callable[[DataFile], Progress]) -> list[Path]:
    """Download a data set's official files into `folder/<data set>`; returns their paths."""
    return [fetch_file(file, folder / dataset.folder, progress(file)) for file in dataset.download.files]
