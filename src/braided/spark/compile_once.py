"""Kernels are compiled by one process of a machine, while the others wait, and not by each of them."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import numba

import braided
from braided import files
from braided.estimators.warm_up import warm_up
from braided.fleet import Fleet, warm_up_fleet
from braided.kernels import loop

#: Seconds that a process waits for another to compile; then it compiles itself.
_LONGEST_S = 600.0
_PAUSE_S = 0.1


def _folder() -> Path | None:
    """A folder beside Numba's cache of the record loop; None if nothing is kept on disk."""
    index = getattr(getattr(loop.run._cache, "_cache_file", None), "_index_path", None)
    return None if index is None else Path(index).parent / "braided-compiled"


def _mark(fleet: Fleet) -> str:
    """A name for all that decides what is compiled: the code, and the model's settings."""
    sources = Path(braided.__file__).parent.rglob("*.py")
    newest = max(path.stat().st_mtime_ns for path in sources)
    settings = {**fleet.model.snapshot()[0], "share": fleet.share}
    text = f"{numba.__version__} {sys.version} {newest} {json.dumps(settings, sort_keys=True)}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def compile_once(fleet: Fleet) -> None:
    """Have a fleet's kernels compiled: by this process if it is the first of this machine, else wait for that one."""
    folder = _folder()
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mark, end = folder / _mark(fleet), time.monotonic() + _LONGEST_S
        while not mark.exists() and time.monotonic() < end:
            lock = files.lock_folder(folder)
            if lock is None:
                time.sleep(_PAUSE_S)
                continue
            try:
                if not mark.exists():
                    _compile(fleet)
                    mark.touch()
            finally:
                os.close(lock)
    except OSError:
        return  # a folder that cannot be written: each process compiles what it meets


def _compile(fleet: Fleet) -> None:
    warm_up(fleet.model)
    warm_up_fleet(fleet)
