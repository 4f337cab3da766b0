"""Predictions of one record, answered while the last bytes of the request are still warm."""

from __future__ import annotations

import re

import orjson

from braided.errors import BraidedError
from braided.serve.guard import names_loopback
from braided.serve.problems import Problem
from braided.serve.protocol import BoundedProtocol
from braided.serve.records import decode_json
from braided.serve.security import Tokens
from braided.serve.service import Service

_PATH = re.compile(rb"/models/([^/?%]+)/predict")
_ONLY_FLOATS = {float}
_PLAIN = {b"host", b"content-type", b"authorization"}


class AtOnce:
    """Answers `POST /models/{name}/predict` of one plain record without task, routing and response objects.

    While a model learns at full speed, every layer that a request passes runs from a cold cache; together they took
    longer than the prediction. Only what is plain is answered here. All else, refusals among it, is left to the
    application, which begins anew: a prediction changes nothing.

    Parameters
    ----------
    service, tokens
        The models, and who may ask.
    """

    def __init__(self, service: Service, tokens: Tokens) -> None:
        self.service = service
        self.tokens = tokens
        self._limits = service.settings.limits

    def __call__(self, path: bytes, headers: list[tuple[bytes, bytes]], body: bytes) -> bytes | None:
        """The body of the answer; None if the application is to give it."""
        try:
            return self._answer(path, headers, body)
        except (Problem, BraidedError, AttributeError, KeyError, TypeError, ValueError):
            return None  # the application finds the same, and knows what to say

    def _answer(self, path: bytes, headers: list[tuple[bytes, bytes]], body: bytes) -> bytes | None:
        if len(body) > self._limits.body_bytes:
            return None
        match = _PATH.fullmatch(path)
        worker = None if match is None else self.service.workers.get(match[1].decode())
        if worker is None:
            return None
        known: dict[bytes, str] = {}
        for name, value in headers:
            if name in _PLAIN:
                if name in known:
                    return None
                known[name] = value.decode("latin-1")
        if known.get(b"content-type") != "application/json":
            return None
        if self.tokens:
            if "read" not in self.tokens.scopes(known.get(b"authorization")):
                return None
        elif not names_loopback(known.get(b"host", "")):
            return None
        document = decode_json(body)
        if document.keys() != {"x"}:
            return None
        x = document["x"]
        if (
            len(x) > self._limits.features
            or set(map(type, x.values())) != _ONLY_FLOATS
            or not x.keys() <= worker.state.features
        ):
            return None
        classes, found = worker.predict_one(x)
        answer: bytes = orjson.dumps({"classes": classes, "predictions": [found]})
        return answer


def protocol_for(service: Service, tokens: Tokens) -> type[BoundedProtocol]:
    """The HTTP protocol that takes the short way where it can."""
    short_way = AtOnce(service, tokens)

    class Protocol(BoundedProtocol):
        def at_once(self, path: bytes, headers: list[tuple[bytes, bytes]], body: bytes) -> bytes | None:
            return short_way(path, headers, body)

    return Protocol
