"""All models of a service: opened together, made, found and removed by name.

A model that cannot be opened is quarantined: the others are served, its database stays as it is, and whoever asks for
it is told why.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from braided import files
from braided.errors import BraidedError
from braided.estimators import MODLClassifier
from braided.fleet import Fleet
from braided.serve.problems import HTTPProblem, shown
from braided.serve.recovery import Recovered, recover
from braided.serve.settings import Settings
from braided.serve.spec import ModelSpec, model_from, state_from_checkpoint
from braided.serve.state import ModelState
from braided.serve.storage import SUFFIX, Storage, StorageError, is_full
from braided.serve.worker import Deliver, Worker, deliver_here

log = logging.getLogger("braided.serve")
NAME_PATTERN = "^[a-z0-9][a-z0-9_-]{0,63}$"
_NAME = re.compile(NAME_PATTERN)
_CONFIRM_SECONDS = 120.0
#: How often in a row the service may end while it opens a model, before it starts without that one.
_MAX_ATTEMPTS = 3
#: Beginnings of the names of files that are being made or removed.
_NEW, _GONE = ".new-", ".gone-"
#: On a full disk not even an old record can be deleted without some room; this much is kept, and given up then.
_RESERVE_BYTES = 2**22
#: File systems on which several machines may write: SQLite's write-ahead log needs memory that all writers share.
_REMOTE = {"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "fuse.sshfs", "afs"}


def check_name(name: str) -> str:
    """A model's name; it becomes a file's, so the pattern leaves no way out."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or "\n" in name:
        raise HTTPProblem(422, f"the name {shown(name)} cannot be used: 1 to 64 of a-z, 0-9, - and _, not - or _ first")
    return name


def databases(folder: Path) -> list[Path]:
    """The databases in a service's folder, by name."""
    models = folder / "models"
    if not models.is_dir():
        raise BraidedError(f"{folder}: holds no models: give the folder that braided serve has as --dir")
    return sorted(path for path in models.glob(f"*{SUFFIX}") if _NAME.fullmatch(path.name.removesuffix(SUFFIX)))


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Within this, no other process uses the folder: two would write over each other."""
    lock = files.lock_folder(folder)
    if lock is None:
        raise BraidedError(f"{folder}: another braided serve uses it: stop that one, or give another folder")
    try:
        yield
    finally:
        os.close(lock)


class Attempts:
    """How often in a row the process has ended while it opened a model, in a file beside the database."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_suffix(".opening")

    @property
    def count(self) -> int:
        """How often."""
        try:
            return int(self.path.read_text(encoding="ascii")[:3])
        except (OSError, ValueError):
            return 0

    @contextlib.contextmanager
    def one_more(self) -> Iterator[None]:
        """Open the model within this: if the process ends here, the next one knows."""
        with contextlib.suppress(OSError):  # on a full disk predictions go on
            self.path.write_text(str(self.count + 1), encoding="ascii")
        try:
            yield
        finally:
            self.forget()

    def forget(self) -> None:
        """Let it be opened again."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


class Service:
    """The models in one folder.

    Parameters
    ----------
    settings
        Where they are and how to treat them.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.workers: dict[str, Worker] = {}
        #: Models that could not be opened, and why.
        self.quarantined: dict[str, str] = {}
        #: Takes results from the models' threads to those who wait for them.
        self.deliver: Deliver = deliver_here
        self._changes = threading.Lock()
        self._confirmations: dict[str, tuple[str, float]] = {}
        self._open = contextlib.ExitStack()

    def open(self, say: Callable[[str], None] = log.info) -> None:
        """Take the folder, recover every model in it, and begin."""
        models = self.settings.models
        try:
            models.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.settings.folder, self.settings.folder.resolve().parent):
                files.sync_path(folder)  # a new folder must be as durable as what will be in it
            self._open.enter_context(folder_lock(self.settings.folder))
        except OSError as error:
            raise BraidedError(f"{self.settings.folder}: cannot be used: {error.strerror or error}") from None
        if (kind := _file_system(models)) in _REMOTE:
            say(f"{models} is on {kind}: SQLite's write-ahead log needs a local disk, or the models may be damaged")
        self._keep_reserve()
        for path in sorted(models.iterdir()):
            name = path.name.removesuffix(SUFFIX)
            if path.name.startswith((_NEW, _GONE)) and path.is_file():
                path.unlink()
                say(f"removed {path.name}, which was being made or removed when the service stopped")
            elif path.is_dir():
                say(f"passed over {path.name}: a folder of braided 0.2, which this braided does not read")
            elif path.suffix == SUFFIX and _NAME.fullmatch(name):
                self._open_model(name, path, say)
            elif path.name.endswith((f"{SUFFIX}-wal", f"{SUFFIX}-shm")):
                if not path.with_name(path.name[:-4]).exists():
                    path.unlink()
                    say(f"removed {path.name}, whose database is not there")
            elif path.suffix != ".opening":
                say(f"passed over {path.name}: no model has such a name")

    def _open_model(self, name: str, path: Path, say: Callable[[str], None]) -> None:
        """Recover a model and serve it, or quarantine it."""
        attempts = Attempts(path)
        try:
            if attempts.count >= _MAX_ATTEMPTS:
                raise BraidedError(f"the service ended {_MAX_ATTEMPTS} times in a row while it was being opened")
            with attempts.one_more():
                storage = self._opened(path)
                try:
                    recovered = recover(storage, self.settings.limits, self.settings.keys)
                except BaseException:
                    storage.close()
                    raise
        except Exception as error:
            if not isinstance(error, BraidedError | OSError):
                log.exception("model %s cannot be opened", name)
            # What the system says of a file holds its path, which clients are not told.
            why = error.strerror or "a file cannot be used" if isinstance(error, OSError) else str(error)
            self.quarantined[name] = why
            say(f"model {name} is quarantined, and the others are served: {why}")
            say(f"model {name}: `braided serve repair {self.settings.folder}` shows what can be done")
            return
        for note in recovered.notes:
            say(f"model {name}: {note}")
        records = recovered.state.stats.records
        say(f"model {name}: {records} records, of which {recovered.replayed} were replayed from the log")
        self._add(recovered, storage)

    def _opened(self, path: Path) -> Storage:
        """A database; on a full disk with the help of the reserve."""
        try:
            return Storage.open(path, self.settings.durability)
        except (OSError, StorageError, sqlite3.Error) as error:
            if not is_full(error.__cause__ or error) or not self._give_up_reserve():
                raise
            return Storage.open(path, self.settings.durability)

    @property
    def _reserve(self) -> Path:
        return self.settings.folder / "reserve"

    def _keep_reserve(self) -> None:
        with contextlib.suppress(OSError):
            if not self._reserve.exists():
                files.write_atomically(self._reserve, bytes(_RESERVE_BYTES))

    def _give_up_reserve(self) -> bool:
        """Free some room on a full disk; whether there was any to free."""
        if not self._reserve.exists():
            return False
        self._reserve.unlink(missing_ok=True)
        log.warning("the disk is full: %s was removed, so that what is written can be finished", self._reserve)
        return True

    def _add(self, recovered: Recovered, storage: Storage) -> Worker:
        name = recovered.state.name
        worker = Worker(recovered, storage, self.settings, lambda found: self.deliver(found), self._give_up_reserve)
        self.workers = {**self.workers, name: worker}
        worker.start()
        return worker

    def get(self, name: str) -> Worker:
        """The model of that name."""
        worker = self.workers.get(name)
        if worker is None:
            self._check_sound(name)
            raise HTTPProblem(
                404, f"no model {shown(check_name(name))}: create it with PUT, or see the list at /models"
            )
        return worker

    def _check_sound(self, name: str) -> None:
        if name in self.quarantined:
            raise HTTPProblem(
                503, f"model {name!r} is quarantined and its database is kept: {self.quarantined[name]}; to repair it, "
                "stop the service and run `braided serve repair` on its folder"
            )  # fmt: skip

    def create(self, name: str, spec: ModelSpec) -> Worker:
        """Make a model."""
        limits, keys = self.settings.limits, self.settings.keys
        return self._make(name, lambda: ModelState(name, model_from(spec, limits, keys), limits, created=time.time()))

    def create_from_checkpoint(self, name: str, content: bytes) -> Worker:
        """Make a model from a checkpoint, to go on where it stands, with what clients had left with it."""
        return self._make(
            name, lambda: state_from_checkpoint(name, content, self.settings.limits, self.settings.keys)
        )  # fmt: skip

    def _make(self, name: str, build: Callable[[], ModelState]) -> Worker:
        check_name(name)
        with self._changes:
            self._check_sound(name)
            if name in self.workers:
                raise HTTPProblem(409, f"model {name!r} is there: take another name, or delete it first")
            models = len(self.workers) + len(self.quarantined)
            if models >= self.settings.limits.models:
                raise HTTPProblem(
                    409, f"there are {models} models, which is the limit: delete one first, or start `braided serve` "
                    "with a higher --max-models"
                )  # fmt: skip
            state = build()
            try:
                storage = write_model(self.settings.models, state, self.settings.durability)
            except (OSError, StorageError, sqlite3.Error) as error:
                why = getattr(error, "strerror", None) or str(error)
                log.error("model %s cannot be written: %s", name, why)
                raise HTTPProblem(507, f"model {name!r} cannot be written to disk: {why}") from None
            return self._add(Recovered(state), storage)

    def delete(self, name: str, confirmation: str | None) -> None:
        """Remove a model, once the token that the first call gives is given back."""
        with self._changes:
            worker = self.get(name)
            token, until = self._confirmations.get(name, ("", 0.0))
            fits = secrets.compare_digest(token.encode(), (confirmation or "").encode("utf-8", "surrogatepass"))
            if not token or not fits or time.monotonic() > until:
                token = secrets.token_hex(8)
                others = {other: kept for other, kept in self._confirmations.items() if kept[1] > time.monotonic()}
                self._confirmations = {**others, name: (token, time.monotonic() + _CONFIRM_SECONDS)}
                raise HTTPProblem(
                    428, f"deleting model {name!r} loses its {worker.state.stats.records} records for good: send the "
                    "same request with ?confirm= and the token of this answer within two minutes", confirm=token
                )  # fmt: skip
            del self._confirmations[name]
            self.workers = {key: value for key, value in self.workers.items() if key != name}
            worker.stop(snapshot=False)
            try:
                gone = worker.storage.path.with_name(f"{_GONE}{name}{SUFFIX}")
                os.replace(worker.storage.path, gone)
                files.sync_path(gone.parent)
                remove_database(gone)
                remove_database(worker.storage.path)  # what a reader left beside it
            except OSError as error:
                log.error("model %s cannot be removed from disk: %s", name, error.strerror or error)
                raise HTTPProblem(
                    503, f"model {name!r} is out of service, but its files could not be removed"
                ) from None

    def change(self, settings: Settings) -> None:
        """Go on with other settings, as far as `settings.changeable` lets them differ. Waits for nothing."""
        self.settings = settings
        for worker in self.workers.values():
            worker.settings = settings

    def close(self) -> None:
        """Learn what is queued, write snapshots, and end."""
        workers = list(self.workers.values())
        if workers:
            with ThreadPoolExecutor(len(workers)) as pool:
                list(pool.map(lambda worker: worker.stop(), workers))
        self._open.close()

    def troubles(self) -> dict[str, str]:
        """Models with which something is wrong, and in a word what."""
        found = dict.fromkeys(self.quarantined, "quarantined")
        for name, worker in self.workers.items():
            words = ["cannot learn"] if worker.trouble or worker.broken else []
            words += ["error jumped"] if worker.state.stats.alarm.since is not None else []
            if words:
                found[name] = ", ".join(words)
        return found

    @property
    def status(self) -> str:
        """`ok`, or `degraded` while something is wrong with some model."""
        return "degraded" if self.troubles() else "ok"


def remove_database(path: Path) -> None:
    """Remove a database with the files beside it."""
    for suffix in ("-wal", "-shm", ""):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def write_model(folder: Path, state: ModelState, durability: str) -> Storage:
    """A new database for a model, which gets its name when it is whole."""
    path, temporary = folder / f"{state.name}{SUFFIX}", folder / f"{_NEW}{state.uid}{SUFFIX}"
    try:
        storage = Storage.create(temporary, state.name, state.uid, state.created, durability, state.number)
        try:
            storage.write_snapshot(state.snapshot(), state.number, state.stats.records, state.time, restored=False)
        finally:
            storage.close()
        files.sync_path(temporary)
        remove_database(path)  # nothing may be left there of a log
        os.replace(temporary, path)
        files.sync_path(folder)
    except BaseException:
        remove_database(temporary)
        raise
    return Storage.open(path, durability)


def _file_system(path: Path) -> str:
    """The kind of file system that a path is on; empty where the system does not say."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return ""
    found = [(len(point), kind) for point, kind in mounts if path.resolve().is_relative_to(point)]
    return max(found, default=(0, ""))[1]


def n_features(state: ModelState, summary: dict[str, Any]) -> int:
    """Features that a model knows, also those from before it came here; of a fleet that shares none, those counted."""
    return max(state.model.n_features, len(summary["availability"]))


def brief(worker: Worker) -> dict[str, Any]:
    """A model in a list."""
    summary = worker.state.stats.summary()
    kept = ("records", "error_is", "error", "window_error", "alarm", "records_per_second")
    return {
        "name": worker.state.name,
        "task": worker.state.model.task,
        **{key: summary[key] for key in kept},
        "features": n_features(worker.state, summary),
        "trouble": worker.trouble,
    }


def keys(state: ModelState) -> dict[str, Any]:
    """What is told of a fleet; nothing of another model."""
    fleet = state.model
    if not isinstance(fleet, Fleet):
        return {}
    with state.lock:
        counted = {"keys": fleet.n_keys, "keys_in_memory": fleet.n_in_memory}
    return {"key": state.key, "share": fleet.share, **counted, "max_keys": fleet.max_keys, "evict": fleet.evict}


def details(worker: Worker) -> dict[str, Any]:
    """A model by itself."""
    summary = worker.state.stats.summary()
    health = worker.health()
    for learner in summary["learners"]:
        learner.update(health[learner["name"]])
    model, storage = worker.state.template, worker.storage
    return {
        "name": worker.state.name,
        "task": worker.state.model.task,
        "created": worker.state.created,
        "features": n_features(worker.state, summary),
        **summary,
        **worker.state.stats.metrics(),
        "version": worker.version(),
        "resets": sum(learner["resets"] for learner in summary["learners"]),
        "classes": worker.classes(),
        "max_features": model.max_features,
        "expire_after": model.expire_after,
        "max_classes": model.core.classes.limit if isinstance(model, MODLClassifier) else None,
        "combiner": model.braid.combiner.name,
        "seed": int(model.seed),
        "encode": worker.rules(),
        **keys(worker.state),
        "waiting_for_labels": len(worker.state.late),
        "clients": len(worker.state.clients),
        "queued_records": worker.queued_records,
        "durability": worker.settings.durability,
        "log": {"requests": storage.last, "snapshots": worker.snapshots},
        "recovery": {"replayed": worker.recovered.replayed, "notes": worker.recovered.notes},
        "trouble": worker.trouble,
    }
