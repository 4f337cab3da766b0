"""Who may do what: bearer tokens with a scope and models, read from a file and compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from braided.errors import BraidedError

Access = Literal["anybody", "read", "learn", "administer"]
_SHORTEST = 16
#: What a scope includes.
SCOPES: dict[str, tuple[Access, ...]] = {
    "read": ("read",),
    "learn": ("read", "learn"),
    "administer": ("read", "learn", "administer"),
}
_MODELS = re.compile(r"[a-z0-9_*?-]+(,[a-z0-9_*?-]+)*")
_FORM = "give `SCOPE TOKEN` or `SCOPE TOKEN MODEL,MODEL`, with a scope of " + ", ".join(SCOPES)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class TokenLine:
    """A line of a token file.

    Attributes
    ----------
    scope, digest
        What the token may do, and its digest: the token itself is not kept.
    models
        Patterns of the names it is for, such as `pump-*`; none at all is every model.
    number
        Of the line, by which logs call it.
    """

    scope: str
    digest: bytes
    models: tuple[str, ...] = ()
    number: int = 0

    def may(self, access: Access, model: str | None = None) -> bool:
        """Whether it may ask for this, of this model or of any."""
        return access in SCOPES[self.scope] and (model is None or self.is_for(model))

    def is_for(self, model: str) -> bool:
        """Whether it is for this model, which need not be there."""
        return not self.models or any(fnmatchcase(model, pattern) for pattern in self.models)


@dataclass(frozen=True)
class Grant:
    """What a token may do: any of its lines.

    >>> grant = Tokens([token_line("read", "a-long-read-token", ("pump-*",))]).grant("Bearer a-long-read-token")
    >>> grant.may("read", "pump-1"), grant.may("read", "fan"), grant.may("learn", "pump-1"), grant.limited
    (True, False, False, True)
    """

    lines: tuple[TokenLine, ...]

    def may(self, access: Access, model: str | None = None) -> bool:
        """Whether it may ask for this, of this model or of any."""
        return any(line.may(access, model) for line in self.lines)

    def sees(self, model: str) -> bool:
        """Whether lists show it this model."""
        return self.may("read", model)

    @property
    def limited(self) -> bool:
        """Whether some models are not for it."""
        return all(line.models for line in self.lines)

    @property
    def name(self) -> str | None:
        """What logs call the token."""
        numbers = [str(line.number) for line in self.lines if line.number]
        return f"line {', '.join(numbers)}" if numbers else None

    @property
    def scope(self) -> str:
        """The widest of its scopes."""
        return max((line.scope for line in self.lines), key=lambda scope: len(SCOPES[scope]))


#: Where there are no tokens, everybody may do everything; where there are, whoever has none may do nothing.
EVERYBODY, NOBODY = Grant((TokenLine("administer", b""),)), Grant(())


class Tokens:
    """Tokens, kept as digests only.

    Parameters
    ----------
    lines
        One for each token and scope. None at all lets everybody in.
    """

    def __init__(self, lines: Sequence[TokenLine] = ()) -> None:
        self._lines = tuple(lines)

    def __bool__(self) -> bool:
        return bool(self._lines)

    def grant(self, header: str | None) -> Grant | None:
        """What the Authorization header's token may do; None for none that is known."""
        if not self._lines:
            return EVERYBODY
        kind, _, token = (header or "").partition(" ")
        given = _digest(token.strip())
        # Every token is compared, so that the time does not tell which one came close.
        found = [line for line in self._lines if hmac.compare_digest(line.digest, given)]
        return Grant(tuple(found)) if found and kind.lower() == "bearer" else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def token_line(scope: str, token: str, models: tuple[str, ...] = (), number: int = 0) -> TokenLine:
    """A line that keeps the token's digest."""
    return TokenLine(scope, _digest(token), models, number)


def token_lines(path: Path) -> Iterator[tuple[str, TokenLine]]:
    """Each token of a file, and its line; empty lines and those with # are passed over."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise BraidedError(f"token file {path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BraidedError(f"token file {path} is not ASCII: use letters, digits and punctuation") from None
    for number, line in enumerate(lines, start=1):
        scope, *words = line.split() or ["#"]
        if scope.startswith("#"):
            continue
        # The message must not show the token.
        if scope not in SCOPES or len(words) not in (1, 2):
            raise BraidedError(f"token file {path}, line {number}: {_FORM}")
        token, models = words[0], words[1] if len(words) == 2 else None
        if len(token) < _SHORTEST:
            raise BraidedError(f"token file {path}, line {number}: the token is shorter than {_SHORTEST} characters")
        if models is not None and not _MODELS.fullmatch(models):
            raise BraidedError(
                f"token file {path}, line {number}: the models are not names or patterns such as pump-*, with commas "
                "and no spaces between them"
            )
        patterns = tuple(models.split(",")) if models is not None else ()
        yield token, token_line(scope, token, patterns, number)


def read_tokens(path: Path) -> Tokens:
    """The tokens of a file."""
    lines = [line for _, line in token_lines(path)]
    if not lines:
        raise BraidedError(f"token file {path} holds no token: {_FORM}")
    return Tokens(lines)
