"""The head of a request: what is refused before any application sees it, and what ASGI makes of the rest."""

from __future__ import annotations

import urllib.parse
from typing import Any

import httptools

from braided.serve.problems import HTTPProblem

MAX_HEAD_BYTES = 2**16
_MAX_HEADERS = 200
_HOP_BY_HOP = (b"upgrade", b"http2-settings")


class RequestHead:
    """A head as it comes in."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self._bytes = self._fed = 0

    def add_url(self, part: bytes) -> None:
        """A part of the address."""
        self.url += part
        self._count(len(part))

    def add_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self.headers.append((name.lower(), value))
        self._count(len(name) + len(value) + 4)
        if len(self.headers) > _MAX_HEADERS:
            raise HTTPProblem(431, f"the request has more than {_MAX_HEADERS} headers: send fewer")

    def add_unfinished(self, number: int) -> None:
        """So many bytes, none of which ended the head: a header without an end is counted by them alone."""
        self._fed += number
        if self._fed > MAX_HEAD_BYTES:
            raise _too_long()

    def _count(self, number: int) -> None:
        self._bytes += number
        if self._bytes > MAX_HEAD_BYTES:
            raise _too_long()

    def check(self, method: str, version: str) -> None:
        """Refuse what two readers could take for two different requests (RFC 9112, sections 3.2 and 6.3)."""
        if version not in ("1.0", "1.1"):
            raise HTTPProblem(505, "this is a service for HTTP/1.1: send that")
        if method == "CONNECT":
            raise HTTPProblem(405, "this service is no proxy: ask for an address of its own")
        names = [name for name, _ in self.headers]
        hosts = names.count(b"host")
        if hosts > 1 or (hosts == 0 and version == "1.1"):
            raise HTTPProblem(400, f"the request has {hosts} Host headers: send one")
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings and (codings != [b"chunked"] or version == "1.0" or b"content-length" in names):
            raise HTTPProblem(400, "the Transfer-Encoding is not chunked alone: send that, or a Content-Length")
        if names.count(b"content-length") > 1:
            raise HTTPProblem(400, "the request has two lengths: send one Content-Length")

    def scope(self, method: str, version: str) -> dict[str, Any]:
        """What ASGI says of it."""
        parsed = httptools.parse_url(self.url)
        raw_path = parsed.path or b""
        path = raw_path.decode("ascii")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "scheme": "http",
            "root_path": "",
            "method": method,
            "path": urllib.parse.unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": parsed.query or b"",
            "headers": self.headers,
        }

    def without_upgrade(self, method: str, version: str) -> bytes:
        """The head without the wish for another protocol, which a server may ignore (RFC 9110, section 7.8)."""
        lines = [f"{method} ".encode(), self.url, f" HTTP/{version}\r\n".encode()]
        for name, value in self.headers:
            if name == b"connection":
                kept = [word for word in value.split(b",") if word.strip().lower() not in _HOP_BY_HOP]
                value = b",".join(kept)
            if name not in _HOP_BY_HOP and (value or name != b"connection"):
                lines += [name, b": ", value, b"\r\n"]
        return b"".join([*lines, b"\r\n"])


def _too_long() -> HTTPProblem:
    return HTTPProblem(431, f"the request's head is longer than {MAX_HEAD_BYTES} bytes: send fewer or shorter headers")
