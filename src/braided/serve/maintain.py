"""`braided serve repair`, `restore` and `backup`: of a service that is stopped, but for a look and a backup."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from braided import files
from braided.errors import BraidedError
from braided.serve.problems import HTTPProblem
from braided.serve.recovery import Recovered, find, last_good, recover, replay, state_at
from braided.serve.requests import WriteRequest
from braided.serve.service import Attempts, databases, folder_lock, remove_database, write_model
from braided.serve.settings import Settings
from braided.serve.storage import SUFFIX, DamageError, Storage, StorageError, read_only

Remedy = Literal["rebuild", "set-aside", "retry"]
#: What can be done about a model that cannot be opened.
REMEDIES: dict[Remedy, str] = {
    "rebuild": "go on with what can be read, up to the damage; the damaged database is kept in DIR/aside",
    "set-aside": "move the database to DIR/aside, and start without the model",
    "retry": "open it at the next start, after the cause was removed by other means",
}


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
    damage
        Everything that is not as it was written, also where it does not matter to what the model is now.
    remedies
        What can be done, each with the number of records that it would leave; None where nothing is left or known.
    """

    name: str
    problem: str | None
    records: int | None
    damage: list[str] = field(default_factory=list)
    remedies: dict[Remedy, int | None] = field(default_factory=dict)


def look(path: Path, settings: Settings) -> Finding:
    """See whether a model can be opened, and what is damaged; on a copy, so that nothing is changed."""
    name = path.name.removesuffix(SUFFIX)
    with _copied(path) as copy:
        damage: list[str] = []
        try:
            storage = Storage.open(copy)
            with contextlib.closing(storage):
                damage = storage.damage()
                records = recover(storage, settings.limits, None).state.stats.records
        except Exception as error:  # as the service does, which quarantines a model whatever it is
            found: dict[Remedy, int | None] = {"set-aside": None, "retry": None}
            with contextlib.suppress(Exception), contextlib.closing(Storage.open(copy, checked=False)) as storage:
                damage = storage.damage()
                found = {"rebuild": _readable(storage, settings).state.stats.records, **found}
            return Finding(name, str(error), None, damage, found)
    if attempts := Attempts(path).count:
        problem = f"the service has ended {attempts} times in a row while it opened the model"
        return Finding(name, problem, records, damage, {"retry": records, "set-aside": None})
    return Finding(name, None, records, damage, {"rebuild": records} if damage else {})


@contextlib.contextmanager
def _copied(path: Path) -> Iterator[Path]:
    """A copy of a database with its log."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        with _log_kept(path):
            _copy_files(path, copy)
        yield copy


@contextlib.contextmanager
def _log_kept(path: Path) -> Iterator[None]:
    """Within this, a service that runs does not cut the log, whose commits the database may not have yet."""
    lock = files.lock_folder(path.parent.parent)
    if lock is not None:
        os.close(lock)
        yield  # nobody writes, and a connection would
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(sqlite3.Error):  # a damaged database
            reader = stack.enter_context(contextlib.closing(read_only(path)))
            reader.execute("BEGIN")
            reader.execute("SELECT last FROM meta").fetchone()
        yield


def _copy_files(source: Path, copy: Path) -> None:
    for suffix in ("", "-wal"):
        if (file := source.with_name(f"{source.name}{suffix}")).exists():
            shutil.copyfile(file, copy.with_name(f"{copy.name}{suffix}"))


def _readable(storage: Storage, settings: Settings) -> Recovered:
    """The model up to the damage."""
    found = last_good(storage, settings.limits, None, 2**62)
    with contextlib.suppress(DamageError):
        for request, _, refused in storage.requests(found.state.number, max(storage.last, found.state.number)):
            if refused is not None:
                found.state.pass_over(request)
            elif isinstance(replay(storage, found, request, settings.limits, None), HTTPProblem):
                break
    return found


def mend(path: Path, settings: Settings, remedy: Remedy) -> str:
    """Apply a remedy; what was done. Whatever is taken away is moved to DIR/aside."""
    Attempts(path).forget()
    if remedy == "retry":
        return "it is opened at the next start"
    aside = settings.folder / "aside" / f"{path.stem}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    state = None
    if remedy == "rebuild":
        with _copied(path) as copy, contextlib.closing(Storage.open(copy, checked=False)) as storage:
            state = _readable(storage, settings).state
    aside.mkdir(mode=0o700, parents=True)
    for suffix in ("-wal", "-shm", ""):
        if (file := path.with_name(f"{path.name}{suffix}")).exists():
            os.replace(file, aside / file.name)
    for folder in (aside, path.parent):
        files.sync_path(folder)
    if state is None:
        return f"it was moved to {aside}"
    write_model(path.parent, state, "sync").close()
    return f"{state.stats.records} records are left; the damaged database is in {aside}"


def restore(path: Path, settings: Settings, record: int | None, at: float | None) -> dict[str, Any]:
    """Bring a model of a service that is stopped back to an earlier moment."""
    with folder_lock(settings.folder), contextlib.closing(Storage.open(path)) as storage:
        before = recover(storage, settings.limits, settings.keys).state
        back_to, part = find(storage, record, at)
        state = state_at(storage, back_to, part, before.limits, settings.keys)
        request = WriteRequest("restore", time=time.time(), back_to=back_to, part=part, record=state.stats.records)
        try:
            storage.append([request])
        except StorageError as error:
            raise BraidedError(f"model {state.name}: nothing was changed, the disk says: {error}") from None
        state.number, state.time = request.number, request.time
        with contextlib.suppress(StorageError):  # the log says the same
            storage.write_snapshot(state.snapshot(), state.number, state.stats.records, state.time, restored=True)
    return {"model": state.name, "records": state.stats.records, "records_before": before.stats.records}


def snapshots(path: Path) -> list[dict[str, Any]]:
    """What a model can go back to."""
    with contextlib.closing(read_only(path)) as connection:
        return [one.document() for one in Storage(path, connection=connection).snapshots()]


def backup(settings: Settings, target: Path, say: Callable[[str], None]) -> dict[str, int | None]:
    """Copy all models to a new folder while they are served, and open each copy to see that it is whole.

    Everything that was acknowledged before the command began is in the copy. Returns how many records each has, None
    for one that cannot be opened.
    """
    if target.exists():
        raise BraidedError(f"{target}: is there already: give the name of a new folder")
    sources = databases(settings.folder)
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        (partial / "models").mkdir(mode=0o700, parents=True)
        found: dict[str, int | None] = {}
        for source in sources:
            if source.exists():
                found[source.stem] = _copy(source, partial / "models" / source.name, settings, say)
        for folder in (partial / "models", partial):
            files.sync_path(folder)
        os.replace(partial, target)
        files.sync_path(target.resolve().parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise BraidedError(f"{target}: cannot be written: {error.strerror or error}") from None
    return found


def _copy(source: Path, copy: Path, settings: Settings, say: Callable[[str], None]) -> int | None:
    """Copy one model; how many records it has, None if it cannot be opened and was copied as it is."""
    try:
        with contextlib.closing(Storage.open(source, look=True)) as storage:
            storage.copy_to(copy)
        with contextlib.closing(Storage.open(copy)) as storage:
            if damage := storage.damage():
                raise BraidedError("; ".join(damage))
            records = recover(storage, settings.limits, None).state.stats.records
    except Exception as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
        remove_database(copy)
        with _log_kept(source):
            _copy_files(source, copy)
        say(f"model {source.stem}: was copied as it is, and cannot be opened: {error}")
        return None
    say(f"model {source.stem}: {records} records")
    return records
