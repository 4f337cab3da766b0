"""Runs MODL under CapyMOA and prints what it saw as JSON. A process of its own, since it starts a Java virtual machine.

python capymoa_script.py FOLDER [electricity]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from braided import BraidedError, MODLClassifier

ARFF = """@relation shop
@attribute price numeric
@attribute day {mon,tue,wed}
@attribute noise numeric
@attribute class {low,high}
@data
"""


def refusal(call: Callable[[], Any]) -> str:
    try:
        call()
    except BraidedError as error:
        return str(error)
    return "not refused"


def shop(folder: Path) -> Path:
    """The label depends on the day and, on the other days, on the price; a quarter of each is missing."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(1_500):
        price, day = rng.normal(), int(rng.integers(3))
        label = "high" if day == 2 or (day == 1 and price > 0) else "low"
        shown = ["?" if rng.random() < 0.25 else text for text in (f"{price:.4f}", ("mon", "tue", "wed")[day])]
        lines.append(f"{shown[0]},{shown[1]},{rng.normal():.4f},{label}")
    path = folder / "shop.arff"
    path.write_text(ARFF + "\n".join(lines) + "\n")
    return path


def main(folder: Path) -> dict[str, Any]:
    # Not at the top: whoever collects this file for its examples must not start Java.
    from capymoa.base import Classifier
    from capymoa.core import Instance, LabeledInstance
    from capymoa.evaluation import prequential_evaluation
    from capymoa.stream import ARFFStream, NumpyStream, Schema

    from braided.capymoa import MODL, MODLRegressor

    seen: dict[str, Any] = {}
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1_200, 4))
    values[rng.random(values.shape) < 0.2] = np.nan
    labels = (np.nan_to_num(values[:, 0]) * np.nan_to_num(values[:, 1]) > 0).astype(int)
    stream = NumpyStream(values, labels, target_type="categorical")
    schema = stream.get_schema()

    learner = MODL(schema, random_seed=3)
    seen["is a classifier"] = isinstance(learner, Classifier)
    seen["name"] = str(learner)
    seen["parameters"] = learner.get_params()
    first = next(iter(stream))
    seen["before training"] = [learner.predict_proba(first), learner.predict(first)]
    stream.restart()
    results = prequential_evaluation(stream, learner, window_size=400, store_predictions=True)
    seen["accuracy"] = results.cumulative.accuracy()
    seen["windows"] = list(results.windowed.metrics_per_window()["accuracy"])

    # The same records by hand: what CapyMOA was told is what the model says.
    model = MODLClassifier(seed=3)
    by_hand = []
    names = [str(schema.get_moa_header().attribute(i).name()) for i in range(4)]
    for row, label in zip(values, labels.tolist(), strict=True):
        x = {name: float(v) for name, v in zip(names, row, strict=True) if not np.isnan(v)}
        by_hand.append(model.predict_one(x))
        model.learn_one(x, label)
    seen["same as by hand"] = by_hand[1:] == [int(p) for p in results.predictions()[1:]]
    probabilities = learner.predict_proba(first)
    seen["probabilities"] = [probabilities.shape, float(probabilities.sum())]

    path = shop(folder)
    moa = ARFFStream(path)
    mixed = MODL(moa.get_schema())
    seen["nominal accuracy"] = prequential_evaluation(moa, mixed).cumulative.accuracy()
    seen["nominal features"] = sorted(mixed.model.feature_names)

    wide = Schema.from_custom(["a", "b", "y"], target="y", categories={"y": ["p", "q", "r"]})
    three = MODL(wide)
    three.train(LabeledInstance.from_array(wide, np.array([1.0, 2.0]), 2))
    seen["only the last class seen"] = three.predict_proba(Instance.from_array(wide, np.array([1.0, 2.0]))).tolist()
    unlabelled = LabeledInstance.from_array(wide, np.array([1.0, 2.0]), -1)
    seen["no label"] = refusal(lambda: three.train(unlabelled))
    seen["learned"] = three.model.records_learned
    seen["numeric target"] = refusal(lambda: MODL(Schema.from_custom(["a", "y"], target="y")))
    seen["nominal target"] = refusal(lambda: MODLRegressor(wide))

    target = 100.0 + 30.0 * np.nan_to_num(values[:, 0]) - 10.0 * np.nan_to_num(values[:, 1])
    numbers = NumpyStream(values, target, target_type="numeric")
    regressor = MODLRegressor(numbers.get_schema())
    seen["value before training"] = regressor.predict(next(iter(numbers)))
    numbers.restart()
    seen["regression r2"] = prequential_evaluation(numbers, regressor).cumulative.r2()
    return seen


def electricity() -> dict[str, Any]:
    from capymoa.classifier import NaiveBayes
    from capymoa.datasets import ElectricityTiny
    from capymoa.evaluation import prequential_evaluation

    from braided.capymoa import MODL

    try:
        stream = ElectricityTiny()
    except Exception as error:
        return {"not to be had": f"{type(error).__name__}: {str(error)[:100]}"}
    accuracy = prequential_evaluation(stream, MODL(stream.get_schema())).cumulative.accuracy()
    stream.restart()
    return {
        "accuracy": accuracy,
        "naive Bayes": prequential_evaluation(stream, NaiveBayes(stream.get_schema())).cumulative.accuracy(),
    }


if __name__ == "__main__":
    print(json.dumps(electricity() if sys.argv[2:] else main(Path(sys.argv[1]))))
