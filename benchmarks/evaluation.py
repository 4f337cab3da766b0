"""What counting costs per record, over predicting and learning alone: `python benchmarks/evaluation.py`.

Times are those of the processor for this thread: a difference of two small times would drown in what else the machine
does meanwhile.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from braided import MODLClassifier
from braided.evaluation import Evaluation
from braided.learners import LogisticConfig, MLPConfig
from braided.records import Records
from braided.streams import ArrayStream
from measured import parser, show

Floats = NDArray[np.float64]
CLASSES = (2, 10)
FEATURES = (20, 200)
_ROUNDS = 5
#: As little work as there is in a model of several learners, so that its noise does not hide what counting takes.
_LEARNERS = (LogisticConfig(full_covariance_up_to=0), MLPConfig(hidden=(8,)))


def _batches(records: int, classes: int, features: int) -> list[Records]:
    """Standard normal features, 70% available, and labels that depend on them, in batches as a run reads them."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(records, features))
    labels = (values @ rng.normal(size=(features, classes))).argmax(axis=1)
    values[rng.random(values.shape) >= 0.7] = np.nan
    names = tuple(f"x{j}" for j in range(features))
    return list(ArrayStream("bench", Records(names, values, labels.tolist())).batches())


def _seconds(batches: list[Records]) -> tuple[Floats, Floats]:
    """Seconds that each batch takes an evaluation, and an equal model alone."""
    evaluation, alone = Evaluation(MODLClassifier(learners=_LEARNERS)), MODLClassifier(learners=_LEARNERS)
    taken = []
    for batch in batches:
        start = time.thread_time()
        alone.predict_learn_many(batch.values, batch.targets, batch.names)
        middle = time.thread_time()
        evaluation.observe(batch)
        taken.append((time.thread_time() - middle, middle - start))
    whole, bare = np.array(taken).T
    return whole, bare


def _case(records: int, classes: int, features: int) -> dict[str, Any]:
    batches = _batches(records, classes, features)
    rounds = [_seconds(batches) for _ in range(1 + _ROUNDS)][1:]
    # The best of each batch, not of each round: a stream is long enough for something to disturb every round.
    whole, bare = (1e6 * np.min(seconds, axis=0).sum() / records for seconds in zip(*rounds, strict=True))
    return {
        "classes": classes,
        "features": features,
        "evaluation_us": float(whole),
        "model_us": float(bare),
        "counting_us": float(whole - bare),
    }


def measure(records: int, console: Console) -> dict[str, Any]:
    """Every number of classes and features: an evaluation and the model alone in turns, batch by batch."""
    cases = []
    for classes in CLASSES:
        for features in FEATURES:
            console.print(f"{classes} classes, {features} features", highlight=False)
            cases.append(_case(records, classes, features))
    return {"records": records, "cases": cases}


def table(result: dict[str, Any]) -> Table:
    """The figures for a person."""
    shown = Table(title=f"Counting outcomes, processor time per record, {result['records']:,} records")
    for name in ("classes", "features", "evaluation", "the model alone", "counting"):
        shown.add_column(name, justify="right")
    for case in result["cases"]:
        times = (f"{case[key]:.2f} us" for key in ("evaluation_us", "model_us", "counting_us"))
        shown.add_row(str(case["classes"]), str(case["features"]), *times)
    return shown


if __name__ == "__main__":
    show(measure, table, parser(__doc__, records=20_000).parse_args())
