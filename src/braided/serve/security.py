"""Who may do what: bearer tokens with a scope, read from a file and compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from pathlib import Path

from braided.errors import BraidedError

_SHORTEST = 16
_SCOPES = ("read", "write")


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


class Tokens:
    """Tokens, kept as digests only.

    Parameters
    ----------
    tokens
        (scope, token) pairs; `write` includes `read`. None at all lets everybody in.

    Examples
    --------
    >>> tokens = Tokens([("read", "a-long-read-token"), ("write", "a-long-write-token")])
    >>> tokens.scopes("Bearer a-long-read-token"), sorted(tokens.scopes("Bearer a-long-write-token"))
    ({'read'}, ['read', 'write'])
    """

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._digests = [(scope, hashlib.sha256(token.encode()).digest()) for scope, token in tokens]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def scopes(self, header: str | None) -> set[str]:
        """What the Authorization header's token may do."""
        if not self._digests:
            return set(_SCOPES)
        kind, _, token = (header or "").partition(" ")
        given = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        found: set[str] = set()
        for scope, digest in self._digests:
            # Every token is compared, so that the time does not tell which one came close.
            if hmac.compare_digest(digest, given) and kind.lower() == "bearer":
                found |= set(_SCOPES) if scope == "write" else {"read"}
        return found


def read_tokens(path: Path) -> Tokens:
    """Tokens from a file of lines `read TOKEN` and `write TOKEN`; empty lines and those with # are passed over."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise BraidedError(f"token file {path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BraidedError(f"token file {path} is not ASCII: use letters, digits and punctuation") from None
    tokens = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        scope, _, token = line.strip().partition(" ")
        token = token.strip()
        # The message must not show the token.
        if scope not in _SCOPES or not token or " " in token:
            raise BraidedError(f"token file {path}, line {number}: give `read TOKEN` or `write TOKEN`")
        if len(token) < _SHORTEST:
            raise BraidedError(f"token file {path}, line {number}: the token is shorter than {_SHORTEST} characters")
        tokens.append((scope, token))
    if not tokens:
        raise BraidedError(f"token file {path} holds no token: give lines `read TOKEN` or `write TOKEN`")
    return Tokens(tokens)
