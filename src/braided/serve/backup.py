"""`braided serve backup`: a copy of all models, made while they are served.

Snapshots are never changed once they have their name, and journal files only grow, so plain copies will do if they are
made in the right order: the mark before the journal, whose end it must not be ahead of. Everything that was
acknowledged before the command began is in the copy. Its last frame may be incomplete, and is then cut on opening, as
after a kill. Where the service removes old files in the meantime, the model is copied again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from braided import files
from braided.errors import BraidedError
from braided.serve.disk import Disk, LookingDisk
from braided.serve.journal import HIGH_WATER
from braided.serve.model_folder import ModelFolder
from braided.serve.repair import model_folders
from braided.serve.settings import Settings

_MAX_TRIES = 10
_CHUNK = 2**20


def backup(settings: Settings, target: Path, say: Callable[[str], None]) -> dict[str, int | None]:
    """Copy all models to a new folder, and open each copy to see that it is whole.

    Returns how many records each has, None for one that cannot be opened.
    """
    if target.exists():
        raise BraidedError(f"{target}: is there already: give the name of a new folder")
    sources = model_folders(settings)
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    found: dict[str, int | None] = {}
    there = Settings(partial, limits=settings.limits)
    for source in sources:
        copy = partial / "models" / source.name
        if not _copied(source, copy):
            say(f"model {source.name}: was removed in the meantime")
            continue
        try:
            found[source.name] = ModelFolder(copy, there, LookingDisk()).open()[0].stats.records
            say(f"model {source.name}: {found[source.name]} records")
        except BraidedError as error:
            found[source.name] = None
            say(f"model {source.name}: was copied as it is, and cannot be opened: {error}")
    (partial / "models").mkdir(parents=True, exist_ok=True)
    disk = Disk()
    for folder in [*partial.rglob("*"), partial]:
        if folder.is_dir():
            disk.sync_folder(folder)
    disk.rename(partial, target)
    return found


def _copied(source: Path, copy: Path) -> bool:
    """Copy one model; False if it is no longer there."""
    for _ in range(_MAX_TRIES):
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir(mode=0o700, parents=True)
        try:
            mark = source / HIGH_WATER
            if mark.exists():
                _copy_file(mark, copy / HIGH_WATER)
            for file in [*sorted(source.glob("snapshot-*.braided")), *sorted(source.glob("journal-*.log"))]:
                _copy_file(file, copy / file.name)
            return True
        except FileNotFoundError:
            if not source.is_dir():
                shutil.rmtree(copy, ignore_errors=True)
                return False
    raise BraidedError(f"model {source.name}: its files changed {_MAX_TRIES} times while they were copied: try again")


def _copy_file(source: Path, copy: Path) -> None:
    with source.open("rb") as old, copy.open("xb") as new:
        os.chmod(copy, 0o600)
        shutil.copyfileobj(old, new, _CHUNK)
        new.flush()
        files.sync(new.fileno())
        written = os.fstat(old.fileno()).st_mtime
    os.utime(copy, (written, written))  # by which it is known how long a snapshot is kept
