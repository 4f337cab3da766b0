"""Refusals as HTTP tells them: problem documents (RFC 9457) that name the thing and the remedy, and no path."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from braided.fleet.cache import KeysLostError, KeysNotWrittenError

log = logging.getLogger("braided.serve")
PROBLEM = "application/problem+json"


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
        return {"title": HTTPStatus(self.status).phrase, "status": self.status, "detail": self.detail, **self.members}

    def body(self) -> bytes:
        """The document as bytes."""
        return json.dumps(self.document()).encode()


def too_busy(detail: str) -> HTTPProblem:
    """A refusal for now."""
    return HTTPProblem(429, f"{detail}: try again later", {"Retry-After": "1"})


def shown(value: Any) -> str:
    """A client's value in a sentence: what it prints as, in ASCII, cut short."""
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # an integer of 5,000 digits cannot be printed
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}..."


@contextmanager
def key_errors_as_problems() -> Iterator[None]:
    """Within this, keys of a fleet that the disk does not take or give back are problems; the log has the paths."""
    try:
        yield
    except KeysNotWrittenError as error:
        log.error("%s", error)
        detail = (
            "keys that are too many for memory cannot be put on disk: nothing of this request was learned, predictions "
            "go on; free some space and send it again"
        )
        raise HTTPProblem(507, detail) from None
    except KeysLostError as error:
        log.error("%s", error)
        detail = "a key's file cannot be read: other keys go on; restart the service, which has the key in its database"
        raise HTTPProblem(503, detail) from None
