"""Keep Numba's disk cache honest when a kernel's source changes.

Numba stamps a cached function with the date of the file it is written in, not of the files of the kernels it
calls: after an edit to `kernels/dense.py`, a learner's cached code would silently go on using the old one.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_KERNEL_SOURCES = ("kernels", "learners", "combiners", "streams", "datasets", "bench")


def drop_stale_caches() -> None:
    """Remove every cache index beside the package's kernels that is older than the newest of them."""
    folders = [_PACKAGE / name for name in _KERNEL_SOURCES]
    newest = max((path.stat().st_mtime for folder in folders for path in folder.glob("*.py")), default=0.0)
    for folder in folders:
        for index in folder.glob("__pycache__/*.nbi"):
            try:
                if index.stat().st_mtime < newest:
                    index.unlink()
            except OSError:
                continue  # another process removed it first, or the folder is read-only
