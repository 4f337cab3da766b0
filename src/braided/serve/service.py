"""All models of a service: opened together, made, found and removed by name.

A model that cannot be opened is quarantined: the others are served, its files stay as they are, and whoever asks for it
is told why.
"""

from __future__ import annotations

import logging
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from braided.errors import BraidedError
from braided.estimators import MODLClassifier
from braided.fleet import Fleet
from braided.serve.disk import Disk
from braided.serve.folder_lock import FolderLock
from braided.serve.model_folder import GONE, NEW, ModelFolder, Recovery, keys_folder
from braided.serve.model_spec import ModelSpec, model_from, state_from_checkpoint
from braided.serve.model_state import ModelState
from braided.serve.problems import HTTPProblem, shown
from braided.serve.settings import Settings
from braided.serve.worker import Deliver, Worker, deliver_here

log = logging.getLogger("braided.serve")
NAME_PATTERN = "^[a-z0-9][a-z0-9_-]{0,63}$"
_NAME = re.compile(NAME_PATTERN)
_CONFIRM_SECONDS = 120.0
#: How often in a row the service may end while it opens a model, before it starts without that one.
_MAX_ATTEMPTS = 3


def check_name(name: str) -> str:
    """A model's name; it becomes a folder's, so the pattern leaves no way out."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or "\n" in name:
        raise HTTPProblem(422, f"the name {shown(name)} cannot be used: 1 to 64 of a-z, 0-9, - and _, not - or _ first")
    return name


class Service:
    """The models in one folder.

    Parameters
    ----------
    settings
        Where they are and how to treat them.
    disk
        How files are written.
    """

    def __init__(self, settings: Settings, disk: Disk | None = None) -> None:
        self.settings = settings
        self.disk = disk or Disk()
        self.workers: dict[str, Worker] = {}
        #: Models that could not be opened, and why.
        self.quarantined: dict[str, str] = {}
        #: Takes results from the models' threads to those who wait for them.
        self.deliver: Deliver = deliver_here
        self._changes = threading.Lock()
        self._confirmations: dict[str, tuple[str, float]] = {}
        self._lock: FolderLock | None = None

    @property
    def folder(self) -> Path:
        """The folder with one sub-folder per model."""
        return self.settings.folder / "models"

    def open(self, say: Callable[[str], None] = log.info) -> None:
        """Take the folder, recover every model in it, and begin."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.settings.folder, self.settings.folder.resolve().parent):
                self.disk.sync_folder(folder)  # a new folder must be as durable as what will be in it
            self._lock = FolderLock(self.settings.folder)
        except OSError as error:
            raise BraidedError(f"{self.settings.folder}: cannot be used: {error.strerror or error}") from None
        for path in sorted(self.folder.iterdir()):
            if path.name.startswith((NEW, GONE)):
                shutil.rmtree(path, ignore_errors=True)
                say(f"removed {path.name}, which was being made or removed when the service stopped")
            elif not _NAME.fullmatch(path.name) or not path.is_dir():
                say(f"passed over {path.name}: no model has such a name")
            else:
                self._open_model(path, say)

    def _open_model(self, path: Path, say: Callable[[str], None]) -> None:
        """Recover a model and serve it, or quarantine it."""
        model_folder = ModelFolder(path, self.settings, self.disk)
        try:
            if model_folder.attempts() >= _MAX_ATTEMPTS:
                raise BraidedError(f"the service ended {_MAX_ATTEMPTS} times in a row while it was being opened")
            with model_folder.attempt():
                state, recovery = model_folder.open()
        except Exception as error:
            if not isinstance(error, BraidedError | OSError):
                log.exception("model %s cannot be opened", path.name)
            # What the system says of a file holds its path, which clients are not told.
            why = error.strerror or "a file cannot be used" if isinstance(error, OSError) else str(error)
            self.quarantined[path.name] = why
            say(f"model {path.name} is quarantined, and the others are served: {why}")
            say(f"model {path.name}: `braided serve repair {self.settings.folder}` shows what can be done")
            return
        for note in recovery.notes:
            say(f"model {path.name}: {note}")
        say(
            f"model {path.name}: {state.stats.records} records, of which {recovery.replayed} were replayed "
            "from the journal"
        )
        self._add(state, model_folder, recovery)

    def _add(self, state: ModelState, folder: ModelFolder, recovery: Recovery) -> Worker:
        worker = Worker(state, folder, recovery, lambda results: self.deliver(results))
        self.workers = {**self.workers, state.name: worker}
        worker.settings = folder.settings = self.settings  # which may have changed while it was made
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
                503, f"model {name!r} is quarantined and its files are kept: {self.quarantined[name]}; to repair it, "
                "stop the service and run `braided serve repair` on its folder"
            )  # fmt: skip

    def create(self, name: str, spec: ModelSpec) -> Worker:
        """Make a model."""
        limits = self.settings.limits
        keys = keys_folder(self.settings)
        return self._make(name, lambda: ModelState(name, model_from(spec, limits, keys), limits, created=time.time()))

    def create_from_checkpoint(self, name: str, content: bytes) -> Worker:
        """Make a model from a checkpoint, to go on where it stands, with what clients had left with it."""
        keys = keys_folder(self.settings)
        return self._make(name, lambda: state_from_checkpoint(name, content, self.settings.limits, keys))

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
                folder = ModelFolder.create(self.folder, state, self.settings, self.disk)
            except OSError as error:
                log.error("model %s cannot be written: %s", name, error.strerror or error)
                raise HTTPProblem(
                    507, f"model {name!r} cannot be written to disk: {error.strerror or 'try again'}"
                ) from None
            return self._add(state, folder, Recovery(0, 0, []))

    def delete(self, name: str, confirmation: str | None) -> None:
        """Remove a model, once the token that the first call gives is given back."""
        with self._changes:
            worker = self.get(name)
            token, until = self._confirmations.get(name, ("", 0.0))
            fits = secrets.compare_digest(token.encode(), (confirmation or "").encode("utf-8", "surrogatepass"))
            if not token or not fits or time.monotonic() > until:
                token = secrets.token_hex(8)
                self._confirmations = {name: (token, time.monotonic() + _CONFIRM_SECONDS)}
                raise HTTPProblem(
                    428, f"deleting model {name!r} loses its {worker.state.stats.records} records for good: send the "
                    "same request with ?confirm= and the token of this answer within two minutes", confirm=token
                )  # fmt: skip
            del self._confirmations[name]
            self.workers = {key: value for key, value in self.workers.items() if key != name}
            worker.stop(snapshot=False)
            try:
                worker.folder.delete()
            except OSError as error:
                log.error("model %s cannot be removed from disk: %s", name, error.strerror or error)
                raise HTTPProblem(
                    503, f"model {name!r} is out of service, but its files could not be removed"
                ) from None

    def change(self, settings: Settings) -> None:
        """Go on with other settings, as far as `settings.changeable` lets them differ. Waits for nothing."""
        self.settings = settings
        for worker in self.workers.values():
            worker.settings = worker.folder.settings = settings

    def close(self) -> None:
        """Learn what is queued, write snapshots, and end."""
        workers = list(self.workers.values())
        if workers:
            with ThreadPoolExecutor(len(workers)) as pool:
                list(pool.map(lambda worker: worker.stop(), workers))
        if self._lock is not None:
            self._lock.release()
            self._lock = None

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
    model, journal = worker.state.template, worker.folder.journal
    assert journal is not None
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
        "journal": {"frames": journal.number - 1, "durable_frames": journal.durable, "snapshots": worker.snapshots},
        "recovery": {"replayed": worker.recovery.replayed, "notes": worker.recovery.notes},
        "trouble": worker.trouble,
    }
