"""One model used from several threads, and forked: what is learned is what it would be alone, and answers are whole."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import os
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from river import drift

from braided import Fleet, MODLClassifier, MODLRegressor
from braided.estimators.lock import ModelLock
from braided.learners import LogisticConfig
from braided.store import state_digest
from constant_learner import Constant

PROBES: list[dict[Any, float]] = [{0: 3.0, 1: 3.0}, {2: 1.0}, {0: -1.0, 4: 0.5}]


def made_up(n: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    random = np.random.default_rng(seed)
    values = random.normal(size=(n, 5))
    return values, (values[:, 0] * values[:, 1] > 0).astype(np.int64)


@contextmanager
def beside(work: Callable[[], Any], threads: int = 3) -> Iterator[list[BaseException]]:
    """Within this, threads do the work over and over; what goes wrong is in the list, and fails the test."""
    done, errors = threading.Event(), list[BaseException]()

    def loop() -> None:
        try:
            while not done.is_set():
                work()
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=loop) for _ in range(threads)]
    for thread in running:
        thread.start()
    try:
        yield errors
    finally:
        done.set()
        for thread in running:
            thread.join(30.0)
    assert not errors, errors[:3]
    assert not any(thread.is_alive() for thread in running)


def ask(model: Any) -> None:
    for x in PROBES:
        found = model.predict_proba_one(x)
        assert not found or abs(sum(found.values()) - 1.0) < 1e-6
    assert model.records_learned >= 0
    assert len(model.health) == len(model.learner_names)


def learn_chunk(model: Any, values: Any, labels: Any) -> None:
    model.learn_many(values, labels)


def learn_singly(model: Any, values: Any, labels: Any) -> None:
    for row, label in zip(values[:800].tolist(), labels[:800].tolist(), strict=True):
        model.learn_one(dict(enumerate(row)), label)


@pytest.mark.parametrize("preset", ["default", "lean"])
@pytest.mark.parametrize("learn", [learn_chunk, learn_singly])
def test_threads_that_predict_change_nothing_of_what_is_learned(preset: str, learn: Callable[..., None]) -> None:
    values, labels = made_up(2_000)
    alone, asked = MODLClassifier(preset), MODLClassifier(preset)
    learn(alone, values, labels)
    with beside(lambda: ask(asked)):
        learn(asked, values, labels)
    assert asked.records_learned == alone.records_learned
    assert state_digest(asked) == state_digest(alone)
    assert asked.coverage == alone.coverage
    np.testing.assert_array_equal(asked.predict_proba_many(values[:50]), alone.predict_proba_many(values[:50]))


def test_coverage_decision_and_drift_follow_however_a_chunk_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that says that somebody waits stops the engine after every single record."""
    values, labels = made_up(400)
    weights = np.random.default_rng(1).integers(0, 3, size=400).astype(np.float64)
    for settings in (
        {"drift_detector": drift.ADWIN()},
        {"delay": 20, "decision": "balanced"},
        {"class_weight": {1: 3.0}, "expire_after": 10, "max_features": 6},
        {"learners": [Constant(), LogisticConfig()]},
    ):
        for made, targets in ((MODLClassifier, labels), (MODLRegressor, values[:, 0] * values[:, 1])):
            if made is MODLRegressor:
                settings = {name: one for name, one in settings.items() if name in ("drift_detector", "delay")}
            whole, stopped = (made("lean", **copy.deepcopy(settings)) for _ in range(2))  # type: ignore[arg-type]
            stopped.lock.waiting[0] = 1
            monkeypatch.setattr(stopped.lock, "let_readers_in", lambda: None)
            said = [one.predict_learn_many(values, targets, sample_weight=weights) for one in (whole, stopped)]
            for first, second in zip(said[0][:3], said[1][:3], strict=True):
                np.testing.assert_array_equal(first, second)
            assert state_digest(stopped) == state_digest(whole)
            assert (stopped.coverage, stopped.drifts) == (whole.coverage, whole.drifts)


@pytest.mark.parametrize("grows", ["names", "classes"])
def test_names_and_classes_may_grow_beside_predictions(grows: str) -> None:
    def teach(model: MODLClassifier) -> MODLClassifier:
        for i in range(400):
            x = {0: float(i % 3)} | ({f"n{i // 5}": 1.0} if grows == "names" else {})
            model.learn_one(x, f"c{i // 10}" if grows == "classes" else "uv"[i % 2])
        return model

    alone, asked = teach(MODLClassifier("lean")), MODLClassifier("lean")
    with beside(lambda: ask(asked), threads=4):
        teach(asked)
    assert state_digest(asked) == state_digest(alone)


def test_each_answer_is_that_of_a_moment_between_two_records() -> None:
    """Names and classes come late in the chunk; intervals and sets are of the same moment as the prediction."""
    half = 4_000  # long enough for other threads to wake up
    values, labels = made_up(2 * half)
    values[:half, 4] = np.nan
    words = np.where(np.arange(2 * half) > 1.5 * half, "late", labels.astype(str))
    classifier, regressor = MODLClassifier("lean"), MODLRegressor("lean")
    seen: list[tuple[int, Any]] = []
    seen_numbers: list[tuple[int, Any]] = []

    def look() -> None:
        x = PROBES[0]
        with classifier.lock:
            seen.append((classifier.records_learned, (classifier.predict_proba_one(x), classifier.predict_set_one(x))))
        with regressor.lock:
            seen_numbers.append((regressor.records_learned, regressor.predict_interval_one(x)))

    with beside(look, threads=2):
        for start in (0, half):
            classifier.learn_many(values[start : start + half], words[start : start + half])
            regressor.learn_many(values[start : start + half], values[start : start + half, 0])
    assert {version for version, _ in seen} - {0, half, 2 * half}, "no thread got in before a chunk was done"
    other, numbers = MODLClassifier("lean"), MODLRegressor("lean")
    expected, expected_numbers = [], []
    for t in range(2 * half + 1):
        expected.append((other.predict_proba_one(PROBES[0]), other.predict_set_one(PROBES[0])))
        expected_numbers.append(numbers.predict_interval_one(PROBES[0]))
        if t < 2 * half:
            x = {i: value for i, value in enumerate(values[t].tolist()) if value == value}
            other.learn_one(x, str(words[t]))
            numbers.learn_one(x, float(values[t, 0]))
    assert all(expected[version] == found for version, found in seen)
    assert all(expected_numbers[version] == found for version, found in seen_numbers)


@pytest.mark.parametrize("share", ["braid", "start", "none"])
def test_a_fleet_is_learned_and_asked_by_several_threads(share: str, tmp_path: Path) -> None:
    n = 500 if share == "braid" else 120
    values, labels = made_up(n)
    keys = [f"pump {i}" for i in np.random.default_rng(3).integers(0, 6, size=n)]
    in_memory = 3 if share == "braid" else 5

    def made() -> Fleet:
        return Fleet(MODLClassifier("lean"), key="key", share=share, in_memory=in_memory)

    def teach(fleet: Fleet) -> str:
        fleet.learn_many(values[:-20], labels[:-20], keys=keys[:-20])
        for row, label, key in zip(values[-20:].tolist(), labels[-20:].tolist(), keys[-20:], strict=True):
            fleet.learn_one(dict(enumerate(row)) | {"key": key}, label)
        metadata, arrays = fleet.snapshot()
        digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
        for name in sorted(arrays):
            digest.update(arrays[name].tobytes())
        return digest.hexdigest()

    asked = made()

    def look() -> None:
        for x in PROBES:
            for key in ("pump 1", "pump 5", "new"):
                found = asked.predict_proba_one(x | {"key": key})
                assert not found or not any(found.values()) or abs(sum(found.values()) - 1.0) < 1e-6

    copies: list[int] = []

    def save() -> None:
        path = tmp_path / "fleet.braided"
        asked.save(path)
        copies.append(Fleet.load(path).records_learned)
        time.sleep(0.05)

    alone = teach(made())
    with beside(look, threads=1), beside(save, threads=1):
        found = teach(asked)
    assert found == alone
    assert asked.records_learned == n
    assert copies == sorted(copies)


def test_a_table_is_predicted_whole_while_others_wait() -> None:
    """A chunk is run in pieces, of which the first has 64 records; only one that is learned may end early."""
    model, X = MODLClassifier("lean"), np.random.default_rng(0).normal(size=(300, 3))
    model.learn_many(X, (X[:, 0] > 0).tolist())
    alone = model.predict_proba_many(X)
    model.lock.waiting[0] = 1
    np.testing.assert_array_equal(model.predict_proba_many(X), alone)


def test_two_writers_do_not_interleave_within_a_chunk() -> None:
    values, labels = made_up(1_000)
    chunks = [(values, labels, ["a", "b", "c", "d", "e"]), (values[:, :3], labels + 5, ["c", "x", "y"])]
    orders = []
    for order in ([0, 1], [1, 0]):
        model = MODLClassifier("lean")
        for i in order:
            model.learn_many(*chunks[i])
        orders.append(state_digest(model))
    model = MODLClassifier("lean")
    writers = [threading.Thread(target=model.learn_many, args=chunk) for chunk in chunks]
    with beside(lambda: ask(model), threads=1):
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    assert state_digest(model) in orders


def test_asyncio_may_use_a_thread_pool() -> None:
    values, labels = made_up(1_500)
    alone, model = MODLClassifier("lean"), MODLClassifier("lean")
    alone.learn_many(values, labels)

    async def serve() -> list[Any]:
        learning = asyncio.to_thread(model.learn_many, values, labels)
        asking = [asyncio.to_thread(model.predict_proba_one, PROBES[i % 3]) for i in range(200)]
        return (await asyncio.gather(learning, *asking))[1:]

    answers = asyncio.run(serve())
    assert all(not found or abs(sum(found.values()) - 1.0) < 1e-6 for found in answers)
    assert state_digest(model) == state_digest(alone)


def in_a_fork(check: Callable[[], bool]) -> None:
    """Run the check in a child, which must come to an end by itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads is what is tested
        child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if check() else 1
        finally:
            os._exit(code)
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child did not come to an end")


def test_a_fork_while_another_thread_learns_has_a_whole_model() -> None:
    values, labels = made_up(6_000)
    model, fleet = MODLClassifier("lean"), Fleet(MODLClassifier("lean"), key="key")
    whole = MODLClassifier("lean")
    whole.learn_many(values, labels)
    keys = ["a", "b"] * 500
    threads = [
        threading.Thread(target=model.learn_many, args=(values, labels)),
        threading.Thread(target=fleet.learn_many, args=(values[:1_000], labels[:1_000]), kwargs={"keys": keys}),
    ]

    def check() -> bool:
        n = model.records_learned
        reference = MODLClassifier("lean")
        reference.learn_many(values[:n], labels[:n]) if n else None
        same = state_digest(reference) == state_digest(model)
        model.learn_many(values[n : n + 50], labels[n : n + 50])
        fleet.learn_one(dict(enumerate(values[0])) | {"key": "a"}, 1)
        return same and model.records_learned >= n and bool(fleet.predict_proba_one(PROBES[0] | {"key": "a"}))

    for thread in threads:
        thread.start()
    while model.records_learned == 0:
        time.sleep(0.001)
    for _ in range(3):
        in_a_fork(check)
    for thread in threads:
        thread.join()
    assert state_digest(model) == state_digest(whole), "the parent goes on as if it had not forked"


def test_a_fork_while_another_thread_holds_the_lock_can_use_the_model() -> None:
    values, labels = made_up(100)
    model = MODLClassifier("lean")
    model.learn_many(values, labels)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with model.lock.writing:
            held.set()
            release.wait(30.0)

    threads = [threading.Thread(target=hold), threading.Thread(target=model.predict_proba_one, args=(PROBES[0],))]
    threads[0].start()
    held.wait()
    threads[1].start()

    def check() -> bool:
        model.learn_many(values, labels)
        return model.records_learned == 200 and model.lock.waiting[0] == 0

    in_a_fork(check)
    release.set()
    for thread in threads:
        thread.join()
    ask(model)


def test_a_fork_within_the_lock_goes_on_within_it() -> None:
    model = MODLClassifier("lean")

    def check() -> bool:
        model.learn_one({0: 1.0}, 1)
        return not other_thread_gets_in(model.lock)

    with model.lock.writing:
        in_a_fork(check)
    assert other_thread_gets_in(model.lock)


def other_thread_gets_in(lock: ModelLock) -> bool:
    """Whether a thread gets the lock soon; one that does not is left waiting."""
    entered = threading.Event()

    def enter() -> None:
        with lock:
            entered.set()

    threading.Thread(target=enter, daemon=True).start()
    return entered.wait(0.2)


def test_a_copy_has_a_lock_of_its_own() -> None:
    values, labels = made_up(50)
    model = MODLClassifier("lean")
    model.learn_many(values, labels)
    with model.lock.writing:
        for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), model.clone()):
            assert other_thread_gets_in(copied.lock)
        assert not other_thread_gets_in(model.lock)


def test_a_public_method_may_call_another() -> None:
    class Careful(MODLClassifier):
        def learn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
            with self.lock.writing:
                self.predict_one(x)
                super().learn_one(x, y, w)

    model = Careful("lean")
    with beside(lambda: ask(model), threads=1):
        for i in range(50):
            model.learn_one({0: float(i % 3)}, i % 2)
    assert model.records_learned == 50


def test_readers_who_wait_come_before_the_next_record() -> None:
    lock, order = ModelLock(), list[str]()

    def read() -> None:
        with lock:
            order.append("reader")

    readers = [threading.Thread(target=read) for _ in range(2)]
    with lock.writing:
        for reader in readers:
            reader.start()
        while lock.waiting[0] < 2:
            time.sleep(0.001)
        lock.let_readers_in()
        order.append("writer")
        with lock.writing:
            lock.let_readers_in()
    for reader in readers:
        reader.join()
    assert order.count("reader") == 2
    assert lock.waiting[0] == 0


def test_readers_without_a_pause_do_not_keep_a_writer_out() -> None:
    lock, turns = ModelLock(), 0

    def read() -> None:
        with lock:
            pass

    with beside(read, threads=4):
        end = time.monotonic() + 1.0
        while time.monotonic() < end and turns < 200:
            with lock.writing:
                lock.let_readers_in()
                turns += 1
    assert turns > 20


def test_an_interrupted_writer_lets_go_of_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = ModelLock()

    def interrupted(*arguments: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    def write() -> None:
        with lock.writing:
            lock.waiting[0] = 1
            monkeypatch.setattr(lock, "_wait", interrupted)
            lock.let_readers_in()

    with pytest.raises(KeyboardInterrupt):
        write()
    assert other_thread_gets_in(lock)


def test_an_interrupted_reader_leaves_nothing_behind() -> None:
    lock = ModelLock()
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            release.wait(30.0)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    timer = threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process of pytest-xdist ignores it
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt), lock:
            pass
    finally:
        signal.signal(signal.SIGINT, before)
    assert lock.waiting[0] == 0
    release.set()
    thread.join()
    assert other_thread_gets_in(lock)


@pytest.mark.parametrize("kind", ["classes", "numbers", "delay", "expire", "drift"])
def test_an_interrupted_chunk_is_learned_up_to_a_record(kind: str) -> None:
    settings: dict[str, Any] = {
        "delay": {"delay": 20},
        "expire": {"expire_after": 50, "max_features": 5},
        "drift": {"drift_detector": drift.ADWIN()},
    }.get(kind, {})
    made = MODLRegressor if kind == "numbers" else MODLClassifier
    model, same = made(**settings), made(**settings)
    values, labels = made_up(60_000)
    y: Any = values[:, 0] if kind == "numbers" else labels
    for one in (model, same):
        one.learn_many(values[:100], y[:100])
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.perf_counter())
        signal.pthread_kill(ident, signal.SIGINT)

    ident = threading.main_thread().ident
    assert ident is not None
    timer = threading.Timer(0.3, interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process of pytest-xdist ignores it
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            model.learn_many(values[100:], y[100:])
        heard = time.perf_counter() - sent[0]
    finally:
        signal.signal(signal.SIGINT, before)
    assert 100 < model.records_learned < 60_000
    assert heard < 2.0, "a few tenths of a second on a quiet machine"
    same.learn_many(values[100 : model.records_learned], y[100 : model.records_learned])
    assert state_digest(model) == state_digest(same)
    for one in (model, same):
        one.learn_many(values[:50], y[:50])
    assert state_digest(model) == state_digest(same)
