"""`braided serve repair`: what is wrong with the models in a folder, and what can be done."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from braided.errors import BraidedError
from braided.serve.disk import Disk, LookingDisk
from braided.serve.journal import HIGH_WATER, CorruptJournalError
from braided.serve.model_folder import ModelFolder
from braided.serve.settings import Settings

#: Beside the models: what was moved out of the way.
ASIDE = "aside"
Remedy = Literal["cut", "snapshot", "set-aside", "retry"]
REMEDIES: dict[Remedy, str] = {
    "cut": "keep everything up to the damage in the journal",
    "snapshot": "go back to the newest good snapshot, without the journal after it",
    "set-aside": "move the whole model out of the way, and start without it",
    "retry": "open it at the next start, after the cause was removed by other means",
}

_THAT_LEAVE_RECORDS: tuple[Remedy, ...] = ("cut", "snapshot")


@dataclass(frozen=True)
class Finding:
    """What a look at a model has shown.

    Attributes
    ----------
    name
        The model.
    problem
        Why it is not opened; None if it is.
    records
        How many records it has, if it can be opened.
    remedies
        What can be done, each with the number of records that it would leave; None where nothing is left or known.
    """

    name: str
    problem: str | None
    records: int | None
    remedies: dict[Remedy, int | None]


def model_folders(settings: Settings) -> list[Path]:
    """The folders of the models, by name."""
    folder = settings.folder / "models"
    if not folder.is_dir():
        raise BraidedError(f"{settings.folder}: holds no models: give the folder that braided serve has as --dir")
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def look(path: Path, settings: Settings) -> Finding:
    """See whether a model can be opened, without changing anything."""
    folder = ModelFolder(path, settings, LookingDisk())
    try:
        records = folder.open()[0].stats.records
    except Exception as error:  # as the service does, which quarantines a model whatever it is
        remedies: dict[Remedy, int | None] = {}
        for remedy in _THAT_LEAVE_RECORDS:
            left = _left_by(path, settings, remedy)
            if left is not None:
                remedies[remedy] = left
        return Finding(path.name, str(error), None, {**remedies, "set-aside": None, "retry": None})
    if folder.attempts():
        problem = f"the service has ended {folder.attempts()} times in a row while it opened the model"
        return Finding(path.name, problem, records, {"retry": records, "set-aside": None})
    return Finding(path.name, None, records, {})


def _left_by(path: Path, settings: Settings, remedy: Remedy) -> int | None:
    """How many records a remedy would leave, tried on a copy; None if it would not help."""
    with tempfile.TemporaryDirectory() as elsewhere:
        there = replace(settings, folder=Path(elsewhere))
        copy = there.folder / "models" / path.name
        try:
            shutil.copytree(path, copy)
            mend(copy, there, remedy)
            return ModelFolder(copy, there, LookingDisk()).open()[0].stats.records
        except Exception:  # it is for models of which anything may be wrong
            return None


def mend(path: Path, settings: Settings, remedy: Remedy) -> str:
    """Apply a remedy; what was done. Whatever is taken away is moved to the folder of what was set aside."""
    disk = Disk()
    aside = settings.folder / ASIDE / f"{path.name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    ModelFolder(path, settings, disk).forget_attempts()
    if remedy == "retry":
        return "it is opened at the next start"
    aside.parent.mkdir(mode=0o700, exist_ok=True)
    if aside.exists():
        raise BraidedError(f"{aside}: is there already: try again in a second")
    if remedy == "set-aside":
        disk.rename(path, aside)
        disk.sync_folder(path.parent)
        return f"it was moved to {aside}"
    taken = _journal_files(path) if remedy == "snapshot" else None
    if taken is None:
        try:
            ModelFolder(path, settings, LookingDisk()).open()
        except CorruptJournalError as damage:
            taken = _cut(path, damage, aside, disk)
        else:
            return "nothing is damaged, and nothing was changed"
    aside.mkdir(mode=0o700, exist_ok=True)
    for file in [*taken, path / HIGH_WATER]:
        if file.exists():
            disk.rename(file, aside / file.name)
    disk.sync_folder(path)
    records = ModelFolder(path, settings, disk).open()[0].stats.records
    return f"{records} records are left; what was taken away is in {aside}"


def _journal_files(path: Path) -> list[Path]:
    return sorted(path.glob("journal-*.log"))


def _cut(path: Path, damage: CorruptJournalError, aside: Path, disk: Disk) -> list[Path]:
    """Cut the damaged file, after a copy of it was set aside; the files that have to go with what was cut."""
    if damage.path is None:  # files are missing at the end: what is there is whole
        return []
    later = [file for file in _journal_files(path) if file.name > damage.path.name]
    if damage.at == 0:
        return [damage.path, *later]
    aside.mkdir(mode=0o700)
    disk.write_file(aside / damage.path.name, disk.read(damage.path))
    disk.truncate(damage.path, damage.at)
    return later
