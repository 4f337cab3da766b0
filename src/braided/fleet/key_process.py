"""A process that has the models of some of a fleet's keys, and the line between it and the one that asks.

It reads messages from standard input and answers on standard output, each a length in 8 bytes and a pickle; nobody else
writes into these pipes. It says nothing until it is asked to, so that neither side waits for the other to read, and it
ends when its input does: whoever started it may be killed, and leaves nothing behind.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from braided import option_names, portable
from braided.errors import BraidedError
from braided.fleet.separate import SeparateModels

#: Keys, and at which rows of a table their records are.
Groups = Sequence[tuple[str, NDArray[np.int64]]]
_LENGTH = struct.Struct("<Q")
_PROGRAM = "from braided.fleet.key_process import main; main()"
#: Messages on their way to a process; a new key's model is a large one.
_MOST_WAITING = 8
#: Seconds that a process whose pipes have ended has to end as well, so that it can be said how it did.
_PATIENCE = 1.0


class Said(NamedTuple):
    """What the model of a key said of some records."""

    classes: list[Any]
    predictions: Any
    own: Any


def _write(pipe: Any, content: bytes) -> None:
    pipe.write(_LENGTH.pack(len(content)))
    pipe.write(content)
    pipe.flush()


def _read(pipe: BinaryIO) -> Any:
    """The next message; None at the end."""
    start = pipe.read(_LENGTH.size)
    if len(start) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(start)
    content = pipe.read(length)
    return pickle.loads(content) if len(content) == length else None


class KeyProcess:
    """One such process, seen from the one that has started it."""

    def __init__(self, models: SeparateModels) -> None:
        package = str(Path(__file__).parents[2])
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        # In a session of its own, so that Ctrl-C reaches only the one that asks; with -P, so that it imports nothing
        # from the working folder.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, start_new_session=portable.POSIX,
        )  # fmt: skip
        self._writer = ThreadPoolExecutor(1, "keys")
        self._waiting: deque[Future[None]] = deque()
        self._closed = False
        self.send("begin", models, option_names.user())

    def send(self, *message: Any) -> None:
        """Send a message, as it is now; the process may be at work on others."""
        if self._closed:
            raise self._gone()
        content = pickle.dumps(message, protocol=5)
        self._waiting.append(self._writer.submit(_write, self._process.stdin, content))
        while len(self._waiting) > _MOST_WAITING:
            self._written()

    def _written(self) -> None:
        try:
            self._waiting.popleft().result()
        except (OSError, ValueError):
            raise self._gone() from None

    def collect(self) -> list[Any]:
        """All that it has to say to what it was sent, once `send("collect")` has asked for it."""
        assert self._process.stdout is not None
        while self._waiting:
            self._written()
        answer = _read(self._process.stdout)  # type: ignore[arg-type]
        if answer is None:
            raise self._gone()
        found, refusal, fault = answer
        if refusal is not None:
            raise BraidedError(refusal)
        if fault is not None:
            raise RuntimeError(f"a process with a part of the keys failed:\n{fault}")
        said: list[Any] = found
        return said

    def _gone(self) -> BraidedError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        self.close()
        code = self._process.returncode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with status {code}"
        return BraidedError(
            f"process {self._process.pid}, which had a part of the keys, has ended {how}, perhaps for want of memory: "
            f"go on with {option_names.option('resume', True)} if there is a checkpoint, or start again with fewer "
            f"{option_names.option('jobs')}"
        )

    def close(self) -> None:
        """End it, whatever it is at. May be called again."""
        self._closed = True
        self._writer.shutdown(wait=False, cancel_futures=True)
        # First, as to close a pipe is to wait for a write that blocks, and that one for a process that reads.
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        self._process.wait()


class _Keys:
    """What the process does."""

    def __init__(self, models: SeparateModels) -> None:
        self.models = models

    def take(self, key: str, model: Any) -> list[Any]:
        """Have a key, with its model or with a new one."""
        self.models._make_known(key, self.models.model.clone() if model is None else model)
        return []

    def ready(self, keys: Sequence[str]) -> list[Any]:
        """Refuse to learn records of some keys, before anything has changed, if the disk does not allow it."""
        self.models.make_ready(keys)
        return []

    def _model(self, key: str, learn: bool) -> Any:
        found = self.models._model(key, learn)
        assert found is not None
        return found

    def check(self, keys: Sequence[str], table: Any, labels: list[Any], columns: Any, weights: Any) -> list[Any]:
        """Refuse what the models would refuse."""
        self.models.dry_run().learn_many(keys, table, labels, columns, weights)
        return []

    def learn(self, groups: Groups, table: Any, labels: list[Any], columns: Any, weights: Any) -> Iterator[Said]:
        """Predict each record by its key's model, then learn it; others learn as well, so that `ready` comes first."""
        for key, rows in groups:
            model = self._model(key, learn=True)
            said = model.predict_learn_many(table[rows], [labels[i] for i in rows], columns, weights[rows])
            yield Said(model.classes, said.values, said.own)

    def predict(self, groups: Groups, table: Any, columns: Any) -> Iterator[Said]:
        """Predict each record by its key's model."""
        for key, rows in groups:
            model = self._model(key, learn=False)
            said = model.progress_many(table[rows], columns)
            yield Said(model.classes, said.values, said.own)

    def snapshot(self) -> list[Any]:
        """The keys and their models' snapshots."""
        return [(key, *self.models._known_model(key).snapshot()) for key in self.models.known]

    def count(self) -> list[int]:
        """How many keys are in memory."""
        return [self.models.n_in_memory]


def serve_keys(requests: BinaryIO, answers: BinaryIO) -> None:
    """Do as messages say until there are none."""
    keys: _Keys | None = None
    found: list[Any] = []
    refusal = fault = None
    user = option_names.PYTHON
    while (message := _read(requests)) is not None:
        kind, *what = message
        if kind == "collect":
            _write(answers, pickle.dumps((found, refusal, fault), protocol=5))
            found, refusal, fault = [], None, None
        elif refusal is None and fault is None:
            try:
                if kind == "begin":
                    models, user = what
                    keys = _Keys(models)
                else:
                    with option_names.options_for(user):
                        found += getattr(keys, kind)(*what)
            except BraidedError as error:
                refusal = str(error)
            except Exception:
                fault = traceback.format_exc()


def main() -> None:
    """Talk over standard input and output; whatever else is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        serve_keys(sys.stdin.buffer, answers)
    except BrokenPipeError:  # nobody listens any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), answers.fileno())
