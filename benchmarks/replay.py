"""Whether a change to the code changes a result: digests of what models say over a fixed list of cases.

    python benchmarks/replay.py                         digests of this tree
    python benchmarks/replay.py german fleet-braid      of these cases alone
    python benchmarks/replay.py --list                  the names of the cases
    python benchmarks/replay.py --against HEAD~3        compare with a commit, in a temporary git worktree
    python benchmarks/replay.py > before.txt            keep digests of this commit on this machine ...
    python benchmarks/replay.py --against before.txt    ... and compare with them later, which takes half the time

Each line has a digest of predictions (every answer of the case, and what the model answers after it was saved and
loaded) and one of state (the saved file). With `--against` the exit code is 1 if predictions differ; state also differs
where the layout of the file changes, so that is only reported. A case that fails shows its error in place of the
digests, and the exit code is 1.

This file is run against old and new code, so it uses nothing of braided but its public interface, and takes the results
of `predict_learn_many` by their place. `german` and `svmguide3` read the official files under `$BRAIDED_DATA`, or in
`../shared/data` beside the repository; without them these two are skipped. A fresh worktree compiles the kernels first,
which takes a minute or two; all cases then take about one minute of processor time.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import river.datasets
import river.drift
import river.evaluate
import river.metrics
from numpy.typing import NDArray
from scipy import sparse

import braided
from braided import Fleet, MODLClassifier, MODLRegressor

ROOT = Path(__file__).resolve().parents[1]
RIVER: Any = river
CHUNK = 100
PRESETS = ("default", "lean", "classic", "paper", "released")
COMBINERS = ("score-sum", "multiplication", "ensemble", "moe", "greedy", "kalman", "kalman-tanh")
MODELS = ("set", "forest", "modl-5", "fodl", "auxdrop-odl", "auxdrop-ogd", "olvf", "folklore", "majority")
Floats = NDArray[np.float64]


class Table(NamedTuple):
    """Records, (n, d), NaN for missing, their labels or targets, (n,), and names of the features."""

    X: Floats
    y: NDArray[Any]
    names: list[Hashable]

    def chunks(self, size: int = CHUNK) -> Iterator[Table]:
        """The records, `size` at a time."""
        for start in range(0, len(self.y), size):
            yield Table(self.X[start : start + size], self.y[start : start + size], self.names)

    def records(self) -> Iterator[tuple[dict[Hashable, Any], Any]]:
        """The records as dicts without what is missing, and labels as plain Python values."""
        for row, label in zip(self.X.tolist(), self.y.tolist(), strict=True):
            yield {name: value for name, value in zip(self.names, row, strict=True) if value == value}, label


class NoDataError(Exception):
    """A case whose data are not on this machine."""


class Witness:
    """Takes in what a case's models say, and their state at the end."""

    def __init__(self) -> None:
        self.predictions = hashlib.sha256()
        self.state = hashlib.sha256()

    def says(self, *answers: Any) -> None:
        """Note answers: arrays, numbers, texts, and containers of such."""
        for answer in answers:
            _feed(self.predictions, answer)

    def chunks(self, model: Any, table: Table) -> None:
        """Predict and learn all records, a chunk at a time."""
        for part in table.chunks():
            found = model.predict_learn_many(part.X, part.y, part.names)
            self.says(found[0], found[1], found[2])

    def saved(self, model: Any, probe: Any) -> Any:
        """Save the model and load it: both give the same answers to the probe from here on."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.braided"
            model.save(path)
            self.state.update(path.read_bytes())
            loaded = (Fleet if isinstance(model, Fleet) else type(model)).load(path)
        for one in (model, loaded):
            self.says(_answers(one, probe), one.learner_names, one.classes, one.records_learned)
        return loaded


def _feed(digest: Any, answer: Any) -> None:
    """Add an answer to a digest, to the last bit of its numbers."""
    if isinstance(answer, np.ndarray) and answer.dtype.kind != "O":
        digest.update(f"{answer.dtype.str}{answer.shape}".encode())
        digest.update(np.ascontiguousarray(answer).tobytes())
    elif isinstance(answer, dict):
        _feed(digest, [part for pair in answer.items() for part in pair])
    elif isinstance(answer, set | frozenset):
        _feed(digest, sorted(answer, key=repr))
    elif isinstance(answer, list | tuple | np.ndarray):
        digest.update(f"[{len(answer)}".encode())
        for part in answer:
            _feed(digest, part)
    else:
        value = answer.item() if isinstance(answer, np.generic) else answer
        text = value.hex() if isinstance(value, float) else repr(value)
        digest.update(f"{type(value).__name__} {text};".encode())


def _answers(model: Any, probe: Any) -> list[Any]:
    """What a model says of records, which it does not learn."""
    if isinstance(probe, Table):
        return [model.progress_many(probe.X, probe.names)[0], model.predict_many(probe.X, probe.names)]
    return [_answer_one(model, x) for x in probe]


def _answer_one(model: Any, x: Any) -> Any:
    return model.predict_one(x) if model.task == "regression" else (model.predict_proba_one(x), model.predict_one(x))


def concept(n: int, seed: int = 0, classes: int = 3, missing: float = 0.15, regression: bool = False) -> Table:
    """Six features, some missing at random, and a target that is not linear in them and changes halfway."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 6)) * [1, 1, 3, 10, 0.1, 1] + [0, 0, 1, 100, 0, 0]
    later = np.arange(n) >= n // 2
    signal = X[:, 0] * X[:, 1] + X[:, 2] / 3 + np.where(later, -1.0, 1.0) * X[:, 5] + 0.3 * random.normal(size=n)
    y: NDArray[Any] = signal
    if not regression:
        cuts = np.quantile(signal, [(i + 1) / classes for i in range(classes - 1)])
        y = np.array([f"class {i}" for i in np.searchsorted(cuts, signal)])
    X[random.random(X.shape) < missing] = np.nan
    return Table(X, y, list("abcdef"))


def from_river(stream: Any, n: int) -> Table:
    """The first numeric records of one of River's bundled data sets."""
    pairs = list(stream.take(n))
    names = [name for name, value in pairs[0][0].items() if isinstance(value, int | float)]
    X = np.array([[float(x[name]) for name in names] for x, _ in pairs])
    return Table(X, np.array([y for _, y in pairs]), names)


def shuttle(witness: Witness) -> None:
    """Nine sensors, in chunks."""
    table = from_river(RIVER.datasets.Shuttle(), 6_000)
    model = MODLClassifier()
    witness.chunks(model, table)
    witness.says(model.coverage, model.health)
    witness.saved(model, table)


def regression(witness: Witness) -> None:
    """River's bundled regressions, in chunks and by `braided.record`."""
    for stream in (RIVER.datasets.TrumpApproval(), RIVER.datasets.ChickWeights()):
        table = from_river(stream, 1_000)
        model = MODLRegressor()
        witness.chunks(model, table)
        witness.says(model.coverage)
        witness.saved(model, table)
        for delay in (0, 30):
            history = braided.record(MODLRegressor("lean"), table.records(), delay=delay)
            witness.says(history.error, history.metrics())


def preset(name: str, witness: Witness) -> None:
    """A preset's learners on classes, on two classes, and on numbers, with missing values."""
    n = 300 if name in {"paper", "released"} else 800
    for model, table in (
        (MODLClassifier(name), concept(n)),
        (MODLClassifier(name, seed=3), concept(n, classes=2, missing=0.5)),
        (MODLRegressor(name), concept(n, regression=True)),
    ):
        witness.chunks(model, table)
        witness.says(model.health, model.coverage)
        witness.saved(model, table)


def combiners(witness: Witness) -> None:
    """Every way to join scores, over the preset that has learners of each kind."""
    table = concept(300)
    for name in COMBINERS:
        model = MODLClassifier("classic", combiner=name)
        witness.chunks(model, table)
        witness.saved(model, table)


def _learn_late(witness: Witness, model: Any, table: Table, delay: int) -> None:
    """Ask for each record when it comes, and learn it `delay` records later."""
    waiting: deque[tuple[Any, Any]] = deque()
    for x, y in table.records():
        if len(waiting) == delay:
            model.learn_one(*waiting.popleft())
        witness.says(_answer_one(model, x))
        waiting.append((x, y))
    for x, y in waiting:
        model.learn_one(x, y)


def fleet(share: str, witness: Witness) -> None:
    """Keys that come in turn and late, some on disk, with labels at once, late, with weights and without a key."""
    random = np.random.default_rng(1)
    memory = {"braid": 5, "start": 3, "none": 3}[share]
    for regression in (False, True):
        table = concept(420, regression=regression)
        keys = [f"pump {k}" for k in random.integers(0, 4 + np.arange(len(table.y)) // 60)]
        made: Any = MODLRegressor("lean") if regression else MODLClassifier("lean")
        model = Fleet(made, key="key", share=share, in_memory=memory)
        weights = random.integers(0, 3, size=CHUNK).astype(np.float64)
        parts = list(table.chunks())
        for i, part in enumerate(parts[:3]):
            of_part = keys[i * CHUNK : (i + 1) * CHUNK]
            found = model.predict_learn_many(part.X, part.y, part.names, weights if i == 1 else None, of_part)
            witness.says(found[0], found[1])
        waiting: deque[tuple[Any, Any]] = deque()
        for (x, y), key in zip(parts[3].records(), keys[3 * CHUNK :], strict=False):
            record = x | {"key": key}
            witness.says(_answer_one(model, record))
            waiting.append((record, y))
            if len(waiting) > 20:
                model.learn_one(*waiting.popleft())
        late = braided.record(model, ((x | {"key": "late"}, y) for x, y in parts[4].records()), delay=7)
        witness.says(late.error, late.metrics(), model.n_keys)
        probe = [x | {"key": key} for (x, _), key in zip(table.records(), keys[:60], strict=False)]
        loaded = witness.saved(model, [*probe, {"a": 1.0}, {"a": 1.0, "key": "never seen"}])
        found = loaded.predict_learn_many(parts[0].X, parts[0].y, parts[0].names, None, keys[:CHUNK])
        witness.says(found[0], found[1], loaded.predict_many(parts[1].X, parts[1].names, keys[:CHUNK]))


def delay_weights_drift(witness: Witness) -> None:
    """Labels 50 records late, weights of which some are 0, and detectors of drift: in Python and in the command."""
    for regression, detector, name in (
        (False, RIVER.drift.binary.DDM(), "ddm"),
        (False, RIVER.drift.ADWIN(), "adwin"),
        (True, RIVER.drift.PageHinkley(), "page-hinkley"),
    ):
        table = concept(700, regression=regression)
        weights = np.random.default_rng(2).integers(0, 4, size=len(table.y)) / 2.0
        made: Any = MODLRegressor if regression else MODLClassifier
        model = made("lean", delay=50, drift_detector=detector)
        earlier: deque[tuple[Table, Floats, Any]] = deque()
        for i, part in enumerate(table.chunks(50)):
            progress = model.progress_many(part.X, part.names)
            witness.says(progress[0], progress[1], progress[2])
            earlier.append((part, weights[i * 50 : (i + 1) * 50], progress))
            if len(earlier) > 1:
                old, of_old, answered = earlier.popleft()
                model.learn_many(old.X, old.y, old.names, of_old, answered)
        witness.says(model.coverage, model.drifts)
        witness.saved(model, table)
        extra = ["--delay", "50", "--weight", "w", "--drift", name]
        _command(witness, _csv_rows(table, weights), "regression" if regression else "classification", *extra)


def river_delay(witness: Witness) -> None:
    """River's own progressive validation, with labels that come late, and one record at a time at once."""
    for table, model, metric in (
        (concept(400), MODLClassifier("lean", delay=20), RIVER.metrics.LogLoss()),
        (concept(400, regression=True), MODLRegressor("lean", delay=20), RIVER.metrics.MAE()),
    ):
        steps = RIVER.evaluate.iter_progressive_val_score(
            table.records(), model, metric, delay=20, step=50, yield_predictions=True
        )
        for step in steps:
            witness.says(step["Prediction"], metric.get())
        witness.says(model.coverage)
        _learn_late(witness, model, concept(150, seed=5, regression=model.task == "regression"), 20)
        witness.saved(model, table)


def late_names(witness: Witness) -> None:
    """Features and classes that come one after the other, in chunks and one by one, with names of several types."""
    random = np.random.default_rng(4)
    table = concept(600, classes=6)
    names: list[Hashable] = ["a", 1, ("pair", 2), "d", "e", "f"]
    order = np.argsort(table.y, kind="stable")[:300]
    X = table.X.copy()
    for column in range(6):
        X[: column * 80, column] = np.nan
    X[random.random(X.shape) < 0.2] = np.nan
    mixed = Table(np.concatenate([X[order], X]), np.concatenate([table.y[order], table.y]), names)
    for model in (MODLClassifier(), MODLClassifier("lean", first_features=("f", "a"))):
        witness.chunks(model, mixed)
        witness.saved(model, mixed)
    single = MODLClassifier("classic")
    for x, y in list(mixed.records())[:300]:
        witness.says(single.predict_proba_one(x), single.predict_one(x))
        single.learn_one(x, y)
    witness.saved(single, [x for x, _ in mixed.records()][:50])


def expire(witness: Witness) -> None:
    """More features than there is room for: the one not seen for longest gives up its place."""
    random = np.random.default_rng(6)
    for model in (
        MODLClassifier("lean", max_features=12, expire_after=20),
        MODLClassifier("classic", max_features=12, expire_after=20),
        MODLRegressor(max_features=12, expire_after=20),
    ):
        probe: list[dict[Hashable, Any]] = []
        for t in range(300):
            x: dict[Hashable, Any] = {f"n{t // 15 + int(k)}": random.normal() for k in random.integers(0, 5, size=4)}
            value = sum(x.values())
            witness.says(_answer_one(model, x))
            model.learn_one(x, value if model.task == "regression" else int(value > 0), float(t % 7 > 0))
            probe = [*probe[-30:], x]
        witness.says(model.feature_names)
        witness.saved(model, probe)


def sparse_matrices(witness: Witness) -> None:
    """Matrices of SciPy in which zeros are missing, or values."""
    table = concept(500)
    dense = np.where(np.abs(np.nan_to_num(table.X)) < 0.8, 0.0, np.nan_to_num(table.X))
    matrix = sparse.csr_array(dense)
    for zeros in ("missing", "value"):
        for model in (MODLClassifier("lean", zeros=zeros), MODLClassifier(zeros=zeros)):
            for start in range(0, 500, CHUNK):
                found = model.predict_learn_many(matrix[start : start + CHUNK], table.y[start : start + CHUNK])
                witness.says(found[0], found[1])
            witness.says(model.predict_proba_many(matrix), model.predict_many(matrix))
            witness.saved(model, [dict(enumerate(row)) for row in dense[:20].tolist()])


def ordinary(n: int = 500, regression: bool = False) -> list[dict[str, str]]:
    """Rows of a CSV file as people have them: text, a category, dates, numbers with blanks, a code, a yes or no."""
    random = np.random.default_rng(8)
    start = datetime(2026, 1, 5, tzinfo=UTC)
    rows = []
    for i in range(n):
        site, load = ("north", "south", "harbour, old")[int(random.integers(3))], random.normal(50.0, 12.0)
        at = start + timedelta(minutes=37 * i)
        hot = (site == "south" and load > 50) or at.hour > 20
        value = load * (2.0 if hot else 1.0) + random.normal()
        rows.append(
            {
                "site": site,
                "at": at.strftime("%Y-%m-%d %H:%M"),
                "load": "" if random.random() < 0.1 else f"{load:.2f}",
                "pressure": "NA" if random.random() < 0.1 else f"{random.integers(1, 9)}",
                "code": f"P-{int(random.integers(40)):03d}",
                "checked": "yes" if random.random() < 0.5 else "no",
                "note": " ".join(random.choice(["leak", "noise", "fine", "replaced", "ok"], size=3).tolist()),
                "target": f"{value:.3f}" if regression else ("alarm" if hot else "normal"),
            }
        )
    return rows


def encoded(witness: Witness) -> None:
    """The same CSV file through models that take raw records, `braided.record` and the command line."""
    for regression in (False, True):
        rows = ordinary(regression=regression)
        task = "regression" if regression else "classification"
        made: Any = MODLRegressor if regression else MODLClassifier
        label: Callable[[str], Any] = float if regression else str
        pairs = [({k: v for k, v in row.items() if k != "target"}, label(row["target"])) for row in rows]
        model = made("lean", encode=True)
        for x, y in pairs[:250]:
            witness.says(_answer_one(model, x))
            model.learn_one(x, y)
        witness.says(model.feature_names, model.explain_one(pairs[300][0]).effects)
        again = witness.saved(model, [x for x, _ in pairs[250:300]])
        late = braided.record(again, pairs[250:], delay=10)
        witness.says(late.error, late.metrics())
        plain = made(encode=True)
        whole = braided.record(plain, pairs)
        witness.says(whole.error, whole.metrics())
        witness.saved(plain, [x for x, _ in pairs[:50]])
        _command(witness, rows, task)
        _command(witness, rows, task, "--text", "note", "--hash", "code", "--drop", "pressure", "--preset", "lean")
    _command(witness, ordinary(), "classification", "--key", "site", "--preset", "lean", "--delay", "5")


def _csv_rows(table: Table, weights: Floats) -> list[dict[str, str]]:
    """A table as rows of text, with a column of weights."""
    return [
        {str(name): "" if value != value else repr(value) for name, value in zip(table.names, row, strict=True)}
        | {"w": repr(weight), "target": str(label)}
        for row, label, weight in zip(table.X.tolist(), table.y.tolist(), weights.tolist(), strict=True)
    ]


def _command(witness: Witness, rows: Sequence[dict[str, str]], task: str, *options: str) -> None:
    """Write rows to a file, and note what `braided run` predicts and what the model in its checkpoint says."""
    with tempfile.TemporaryDirectory() as folder:
        with (Path(folder) / "rows.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        _run(witness, folder, ["rows.csv", "--target", "target", "--task", task, *options])
        kind: Any = Fleet if "--key" in options else MODLRegressor if task == "regression" else MODLClassifier
        model = kind.load(Path(folder) / "model.braided")
    left_out = {"target", "w"} & {"target", *options}
    witness.saved(model, [{k: v for k, v in row.items() if k not in left_out} for row in rows[:40]])


def _run(witness: Witness, folder: str, arguments: list[str]) -> None:
    """`braided run`, with every prediction and the metrics that do not depend on time."""
    files = ["--predictions", "predictions.csv", "--checkpoint", "model.braided"]
    done = subprocess.run(
        [sys.executable, "-m", "braided", "run", *arguments, *files, "--quiet", "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"braided run {' '.join(arguments)}: {done.stderr.strip()[-300:]}")
    witness.says((Path(folder) / "predictions.csv").read_text(encoding="utf-8"))


def paper_data(name: str, witness: Witness) -> None:
    """One of the paper's data sets by its protocol, from its official file."""
    if not os.environ.get("BRAIDED_DATA"):
        raise NoDataError(f"put the file of {name} into $BRAIDED_DATA or ../shared/data")
    with tempfile.TemporaryDirectory() as folder:
        _run(witness, folder, [name, "--seeds", "2"])
    with tempfile.TemporaryDirectory() as folder:
        _run(witness, folder, [name, "--preset", "lean", "--mask", "burst", "--no-shuffle", "--delay", "50"])
        witness.saved(MODLClassifier.load(Path(folder) / "model.braided"), [{}, {"0": 1.0}, {"1": -2.0, "new": 1.0}])


def models(witness: Witness) -> None:
    """The other models that have a name, two classes each."""
    rows = _csv_rows(concept(200, classes=2, missing=0.3), np.ones(200))
    with tempfile.TemporaryDirectory() as folder:
        with (Path(folder) / "rows.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        named = [part for name in MODELS for part in ("--model", name)]
        _run(witness, folder, ["rows.csv", "--target", "target", "--task", "classification", *named])


def decisions(witness: Witness) -> None:
    """Answers other than the likeliest class: by balance, by weights of classes, by costs."""
    table = concept(500)
    rare = Table(table.X, np.where(np.arange(500) % 9 == 0, "rare", table.y), table.names)
    ways: list[dict[str, Any]] = [
        {"decision": "balanced"},
        {"class_weight": {"rare": 5.0, "class 0": 0.5}},
        {"class_weight": "balanced"},
        {"costs": {"rare": {"class 0": 8.0, "class 1": 4.0}, "class 1": {"rare": 0.25}}},
    ]
    for way in ways:
        model = MODLClassifier("lean", **way)
        witness.chunks(model, rare)
        witness.says(model.predict_many(rare.X, rare.names))
        for x, y in list(rare.records())[:100]:
            witness.says(model.predict_one(x))
            model.learn_one(x, y)
        witness.saved(model, rare)


def certainty(witness: Witness) -> None:
    """Intervals and sets at several levels, with the coverage that was counted."""
    numbers, labels = concept(600, regression=True), concept(600)
    for delay in (0, 25):
        regressor, classifier = MODLRegressor(delay=delay), MODLClassifier(delay=delay)
        for level, part, other in zip((0.5, 0.8, 0.9, 0.95, 0.99) * 2, numbers.chunks(), labels.chunks(), strict=False):
            witness.says(regressor.predict_interval_many(part.X, level, part.names))
            witness.says(classifier.predict_set_many(other.X, level, other.names))
            regressor.learn_many(part.X, part.y, part.names)
            classifier.learn_many(other.X, other.y, other.names)
        for (x, value), (z, label) in zip(list(numbers.records())[:80], labels.records(), strict=False):
            witness.says(regressor.predict_interval_one(x, 0.9), classifier.predict_set_one(z, 0.9))
            regressor.learn_one(x, value)
            classifier.learn_one(z, label)
        witness.says(regressor.coverage, classifier.coverage)
        again = witness.saved(regressor, numbers)
        witness.says(again.predict_interval_many(numbers.X, 0.9, numbers.names))
        witness.says(witness.saved(classifier, labels).predict_set_many(labels.X, 0.9, labels.names))


def save_and_load(witness: Witness) -> None:
    """A model that is saved and loaded every hundred records goes on as if it were not."""
    for table, start in ((concept(500), MODLClassifier()), (concept(500, regression=True), MODLRegressor("classic"))):
        model: Any = start
        for part in table.chunks():
            model = witness.saved(model, part)
            found = model.predict_learn_many(part.X, part.y, part.names)
            witness.says(found[0], found[1])


def one_by_one(witness: Witness) -> None:
    """The same records one at a time, in chunks, and in turn, with weights."""
    for table, made in ((concept(250), MODLClassifier), (concept(250, regression=True), MODLRegressor)):
        for preset_name in ("default", "lean"):
            single, whole, turns = (made(preset_name) for _ in range(3))
            for i, (x, y) in enumerate(table.records()):
                witness.says(_answer_one(single, x))
                single.learn_one(x, y, 1.0 + i % 3)
            witness.chunks(whole, table)
            for i, part in enumerate(table.chunks(25)):
                if i % 2:
                    turns.learn_many(part.X, part.y, part.names, 1.0 + np.arange(len(part.y)) % 3)
                else:
                    for x, y in part.records():
                        turns.learn_one(x, y)
            for model in (single, whole, turns):
                witness.saved(model, table)
                witness.says(model.explain_one(dict(zip(table.names, range(6), strict=True))).effects)


CASES: dict[str, Callable[[Witness], None]] = {
    "shuttle": shuttle,
    "german": partial(paper_data, "german"),
    "svmguide3": partial(paper_data, "svmguide3"),
    "regression": regression,
    **{f"preset-{name}": partial(preset, name) for name in PRESETS},
    "combiners": combiners,
    "models": models,
    **{f"fleet-{share}": partial(fleet, share) for share in ("braid", "start", "none")},
    "delay-weights-drift": delay_weights_drift,
    "river-delay": river_delay,
    "late-names": late_names,
    "expire": expire,
    "sparse": sparse_matrices,
    "encoded": encoded,
    "decisions": decisions,
    "certainty": certainty,
    "save-and-load": save_and_load,
    "one-by-one": one_by_one,
}


class Digests(NamedTuple):
    """Of a case: of what was predicted, and of the saved files; or `failed` and why."""

    predictions: str
    state: str


def replay(names: Sequence[str]) -> None:
    """Run cases on the code that is imported here, and print a line for each; seconds go to standard error."""
    found = Path(braided.__file__).resolve()
    if not found.is_relative_to(Path.cwd().resolve()):
        raise SystemExit(f"braided is imported from {found.parent}, which is not in {Path.cwd()}")
    for name in names:
        start, witness = time.perf_counter(), Witness()
        try:
            CASES[name](witness)
            line = f"{name} {witness.predictions.hexdigest()[:16]} {witness.state.hexdigest()[:16]}"
        except NoDataError as error:
            line = f"{name} skipped {json.dumps(str(error))}"
        except Exception as error:
            line = f"{name} failed {json.dumps(f'{type(error).__name__}: {error}')}"
        print(line, flush=True)
        print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)


def replay_in(tree: Path, names: Sequence[str], show: bool) -> dict[str, Digests]:
    """Run cases with the code of that tree, in a process of its own."""
    given = os.environ.get("BRAIDED_DATA") or ROOT.parent / "shared" / "data"
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "PYTHONHASHSEED": "0"}
    environment.pop("BRAIDED_DATA", None)
    if Path(given).is_dir():
        environment["BRAIDED_DATA"] = str(Path(given).resolve())
    lines = []
    command = [sys.executable, str(Path(__file__).resolve()), "--here", *names]
    with subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if show:
                print(line, end="", flush=True)
    if process.returncode != 0:
        raise SystemExit(f"the replay in {tree} ended with {process.returncode}")
    return parsed(lines)


def parsed(lines: Sequence[str]) -> dict[str, Digests]:
    """Digests by case, as printed."""
    split = [line.rstrip().split(" ", 2) for line in lines]
    return {name: Digests(predictions, state) for name, predictions, state in split}


def reference(against: str, names: Sequence[str]) -> dict[str, Digests]:
    """Digests of a file that this command printed, or of a commit."""
    if Path(against).is_file():
        return parsed(Path(against).read_text(encoding="utf-8").splitlines())
    with tempfile.TemporaryDirectory(prefix="braided-replay-") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), against], check=True)
        try:
            return replay_in(tree, names, show=False)
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Digests of what models say over a fixed list of cases.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases; all if not given")
    parser.add_argument("--against", metavar="COMMIT", help="a commit, or a file of digests, to compare with")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.names or list(CASES)
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"case {unknown[0]!r} is not known: use one of {', '.join(CASES)}")
    if options.list:
        print("\n".join(CASES))
        return 0
    if options.here:
        replay(names)
        return 0
    found = replay_in(ROOT, names, show=True)
    failed = [name for name in names if found[name].predictions == "failed"]
    if options.against is None:
        return int(bool(failed))
    before = reference(options.against, names)
    skipped = [n for n in names if n not in before or "skipped" in (found[n].predictions, before[n].predictions)]
    both = [name for name in names if name not in skipped]
    changed = [name for name in both if found[name].predictions != before[name].predictions]
    other_state = [name for name in both if name not in changed and found[name].state != before[name].state]
    print(f"against {options.against}: {len(both)} cases compared, not compared: {', '.join(skipped) or 'none'}")
    print(f"predictions differ: {', '.join(changed) or 'nowhere'}")
    print(f"only state differs: {', '.join(other_state) or 'nowhere'}")
    return int(bool(changed or failed))


if __name__ == "__main__":
    raise SystemExit(main())
