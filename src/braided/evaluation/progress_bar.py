"""How far a stream is, while it is recorded: tqdm's bar if it is installed, or a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_SECONDS = 5.0
#: Told of so many more records, and how it goes.
Advance = Callable[[int, str], None]


def records_of(stream: Any) -> int | None:
    """How many records a stream has, if it says so: one of ours, a data set of River's, or a list."""
    for name in ("n_records", "n_samples"):
        n = getattr(stream, name, None)
        if isinstance(n, int):
            return n
    return len(stream) if hasattr(stream, "__len__") else None


@contextmanager
def progress_bar(total: int | None) -> Iterator[Advance]:
    """Shows progress on standard error, or in a notebook, until the end of the block."""
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError:
        yield _lines(total)
        return
    with tqdm(total=total, unit=" records", unit_scale=True) as bar:

        def advance(n: int, words: str) -> None:
            bar.set_postfix_str(words, refresh=False)
            bar.update(n)

        yield advance


def _lines(total: int | None) -> Advance:
    """A line every few seconds, and at the end if that is known."""
    seen, printed = 0, time.monotonic()

    def advance(n: int, words: str) -> None:
        nonlocal seen, printed
        seen += n
        if time.monotonic() - printed > _SECONDS or seen == total:
            printed = time.monotonic()
            of = "" if total is None else f" of {total:,}"
            print(f"{seen:,}{of} records, {words}", file=sys.stderr, flush=True)

    return advance
