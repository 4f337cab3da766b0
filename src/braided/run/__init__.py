"""`braided run`: models times seeds over one stream, resumable."""

from __future__ import annotations

from braided.run.job import Job
from braided.run.options import ReadingOptions, RunOptions

__all__ = ["Job", "ReadingOptions", "RunOptions"]
