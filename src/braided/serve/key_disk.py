"""Keys of a fleet that the disk does not take, or does not give back, as HTTP tells it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from braided.fleet.cache import KeysLostError, KeysNotWrittenError
from braided.serve.problems import HTTPProblem

log = logging.getLogger("braided.serve")


@contextmanager
def told_as_problems() -> Iterator[None]:
    """Within this, the disk's refusals are problems, without the paths that the log has."""
    try:
        yield
    except KeysNotWrittenError as error:
        log.error("%s", error)
        raise HTTPProblem(
            507, "keys that are too many for memory cannot be put on disk: nothing of this request was done, "
            "predictions go on; free some space and send it again"
        ) from None  # fmt: skip
    except KeysLostError as error:
        log.error("%s", error)
        raise HTTPProblem(
            503, "what a key has on disk cannot be read: other keys go on; restart the service, which has "
            "it in the journal"
        ) from None  # fmt: skip
