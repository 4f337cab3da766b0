"""Refusals as HTTP tells them: problem documents (RFC 9457) that name the thing and the remedy, and no path."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

PROBLEM = "application/problem+json"
#: Headers of every answer.
SAFE_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


class HTTPProblem(Exception):  # noqa: N818 (the standard calls it that)
    """A request that is refused.

    Parameters
    ----------
    status
        The HTTP status.
    detail
        One sentence: the thing, the value, the remedy.
    headers
        Further headers of the answer.
    members
        Further members of the document.
    """

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None, **members: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers or {}
        self.members = members

    def document(self) -> dict[str, Any]:
        """The document.

        >>> HTTPProblem(404, "no model 'a': create it first").document()
        {'title': 'Not Found', 'status': 404, 'detail': "no model 'a': create it first"}
        """
        try:
            title = HTTPStatus(self.status).phrase
        except ValueError:
            title = "Refused"
        return {"title": title, "status": self.status, "detail": self.detail, **self.members}

    def body(self) -> bytes:
        """The document as bytes."""
        return json.dumps(self.document()).encode()


def shown(value: Any) -> str:
    """A client's value in a sentence: what it prints as, in ASCII, cut short."""
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # an integer of 5,000 digits cannot be printed
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}..."
