"""Where Numba keeps compiled kernels, and how its disk cache is kept honest when a kernel's source changes.

Numba stamps a cached function with the date of the file it is written in, not of the files of the kernels it
calls: after an edit to `kernels/dense.py`, a learner's cached code would silently go on using the old one.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from pathlib import Path

import numba
from numba.misc.appdirs import AppDirs

_PACKAGE = Path(__file__).resolve().parent.parent
_KERNEL_SOURCES = ("kernels", "learners", "combiners", "streams", "datasets", "bench")
#: In memory, and writable in most containers whose disks are not.
_SHARED_MEMORY = Path("/dev/shm")


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


def choose_cache() -> bool:
    """Whether compiled kernels can be kept on disk, in a temporary folder where Numba's own places are read-only.

    Numba refuses to compile a function that is to be kept and cannot be.
    """
    if numba.config.CACHE_DIR:
        return True
    if _writable(_PACKAGE / "kernels" / "__pycache__") or _writable(Path(AppDirs("numba", False).user_cache_dir)):
        return True
    folder = _temporary_folder()
    remedy = "set NUMBA_CACHE_DIR to a folder that stays, so that kernels are compiled once"
    if folder is None:
        logging.getLogger("braided").warning(
            "no folder can be written, so kernels are compiled in each run: %s", remedy
        )
        return False
    numba.config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"] = str(folder)  # also for processes that this one starts
    logging.getLogger("braided").warning(
        "kernels are kept in %s, as no usual folder can be written: %s", folder, remedy
    )
    return True


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _temporary_folder() -> Path | None:
    """A folder of this user's alone, for what is in it will be run: the same one each time, if it is safe."""
    try:
        places = [Path(tempfile.gettempdir()), _SHARED_MEMORY]
    except FileNotFoundError:
        places = [_SHARED_MEMORY]
    for place in places:
        try:
            folder = place / f"braided-kernels-{os.getuid()}"
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
            mine = found.st_uid == os.getuid() and not found.st_mode & 0o077
            if not stat.S_ISDIR(found.st_mode) or not mine:
                folder = Path(tempfile.mkdtemp(prefix="braided-kernels-", dir=place))
            if _writable(folder):
                return folder
        except OSError:
            continue
    return None
