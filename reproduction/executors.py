"""Where jobs are done: processes of this machine, or a Ray cluster. Both give the same results."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Protocol

from braided import extras
from braided.errors import BraidedError
from reproduction.jobs import JobSpec, perform

#: The most processes to start, unless the machine has more cores: each takes memory of its own.
_MAX_PROCESSES = 64
Done = tuple[JobSpec, dict[str, Any]]


class Executor(Protocol):
    """Does jobs and yields each as it is done, in any order."""

    def run(self, specs: Sequence[JobSpec], data_dir: Path | None, begun: Path) -> Iterator[Done]:
        """The jobs with their results; `begun` is the folder for checkpoints of long ones."""


def _leave_with_parent() -> None:
    """End this worker when the process that started it is gone: a killed run must not leave workers behind.

    It may be gone before this is called: its number is then another's already, and only its pipe tells.
    """
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Processes:
    """Some processes of this machine: as many as `workers`, or one for each core."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1
        limit = max(_MAX_PROCESSES, os.cpu_count() or 1)
        if self.workers > limit:
            raise BraidedError(
                f"--jobs is {self.workers:,}, and this machine takes {limit} processes at most: give one for each core"
            )

    def run(self, specs: Sequence[JobSpec], data_dir: Path | None, begun: Path) -> Iterator[Done]:
        """The jobs with their results; if a worker dies, the jobs that are left come back as failed."""
        pool = ProcessPoolExecutor(self.workers, get_context("spawn"), initializer=_leave_with_parent)
        try:
            waiting = {pool.submit(perform, spec, data_dir, begun): spec for spec in specs}
            for future in as_completed(waiting):
                spec = waiting.pop(future)  # a result is as large as its curve: let go of it
                try:
                    yield spec, future.result()
                except BrokenProcessPool:
                    yield spec, {"error": "a worker process died (out of memory?): run the command again to go on"}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _check_listening(address: str) -> None:
    """Fail at once where nothing listens: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


class Ray:
    """A Ray cluster: a running one at `address`, or `local`, one on this machine for the time of the run.

    `workers` are the CPUs of a local one; all if None. A running one is sent this package, and must have braided.
    """

    def __init__(self, address: str, workers: int | None = None) -> None:
        self._ray = extras.require("ray", "ray")
        self.address = address
        self.workers = workers

    def run(self, specs: Sequence[JobSpec], data_dir: Path | None, begun: Path) -> Iterator[Done]:
        """The jobs with their results, each a Ray task on one CPU; what a task died of is its job's error.

        Only on this machine do they write checkpoints: the next one may be given another machine.
        """
        ray = self._ray
        checkpoints = begun.absolute() if self.address == "local" else None
        quiet = {"logging_level": "ERROR", "log_to_driver": False}
        try:
            if self.address == "local":
                ray.init(address="local", num_cpus=self.workers, include_dashboard=False, **quiet)
            else:
                _check_listening(self.address)
                here = {"py_modules": [str(Path(__file__).parent)]}
                ray.init(address=self.address, runtime_env=here, **quiet)
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise BraidedError(
                f"--ray {self.address}: no cluster answers there ({reason}): start one with `ray start --head`, or "
                "give --ray local"
            ) from None
        try:
            task = ray.remote(num_cpus=1)(perform)
            waiting = {task.remote(spec, data_dir, checkpoints): spec for spec in specs}
            while waiting:
                for reference in ray.wait(list(waiting), num_returns=1)[0]:
                    spec = waiting.pop(reference)
                    try:
                        yield spec, ray.get(reference)
                    except ray.exceptions.RayError as error:
                        yield spec, {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
        finally:
            ray.shutdown()
