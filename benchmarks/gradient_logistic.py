"""What bounds the fast learner trained by gradient, on raw values: `python benchmarks/gradient_logistic.py`.

`modl-glr` adds the latent score of a linear layer to the sum. Under `released` the closed form that it replaces adds
its two probabilities instead, which are never larger than 1. Here the linear layer does so, too.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import numpy as np
import typer

from braided import MODLClassifier
from braided.datasets.protocol import PAPER_SETTINGS
from braided.evaluation import Evaluation
from braided.run import Job, RunOptions
from braided.zoo import gradient_rate, preset_for


class Probabilities:
    """A linear layer whose softmax enters the sum: p = softmax(W x + b), W and b follow dL/dp through it."""

    name = "glr, probabilities"
    task = "classification"

    def __init__(self, rate: float, n_features: int, seed: int) -> None:
        self.rate = rate
        self.bound = n_features**-0.5
        self.rng = np.random.default_rng(seed)
        self.weights, self.bias = np.zeros((0, 0)), np.zeros(0)

    def scores(self, x: Any, mask: Any) -> Any:
        """The probabilities."""
        latent = self.weights @ np.where(mask, x, 0.0) + self.bias
        powers = np.exp(latent - latent.max())
        return (powers / powers.sum()).astype(np.float32)

    def learn(self, x: Any, mask: Any, y: float, gradient: Any) -> bool:
        """One step of gradient descent."""
        p = self.scores(x, mask).astype(np.float64)
        step = self.rate * p * (gradient - p @ gradient)
        self.weights -= np.outer(step, np.where(mask, x, 0.0))
        self.bias -= step
        return True

    def grow(self, n_features: int, n_outputs: int) -> None:
        """New weights are drawn as the MLP's are."""
        weights = self.rng.uniform(-self.bound, self.bound, (n_outputs, n_features))
        bias = self.rng.uniform(-self.bound, self.bound, n_outputs)
        weights[: self.weights.shape[0], : self.weights.shape[1]] = self.weights
        bias[: len(self.bias)] = self.bias
        self.weights, self.bias = weights, bias

    def reset(self) -> None:
        """Forget."""
        self.weights[:], self.bias[:] = 0.0, 0.0

    def state(self) -> dict[str, Any]:
        """What was learned."""
        return {"weights": self.weights, "bias": self.bias}

    def load_state(self, arrays: Any) -> None:
        """Take it over."""
        self.weights, self.bias = arrays["weights"].copy(), arrays["bias"].copy()


def errors(dataset: str, seed: int, data_dir: Path | None) -> int:
    """Of MODL under `released`, with that layer in place of the closed form."""
    preset = preset_for("released", dataset)
    layer = Probabilities(gradient_rate(dataset), PAPER_SETTINGS[dataset].n_features, seed)
    evaluation = Evaluation(MODLClassifier(preset=preset, learners=(layer, *preset.learners[1:]), seed=seed))
    for _ in evaluation.run(Job(RunOptions(dataset, preset="released", seed=seed), data_dir).stream(seed)):
        pass
    return int(evaluation.history.tally.totals[0])


def main(
    dataset: Annotated[list[str], typer.Argument(help="Of the paper, such as german or magic04.")],
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each data set.")] = 1,
    data_dir: Annotated[
        Path | None, typer.Option(envvar="BRAIDED_DATA", help="Folder with the data sets, one sub-folder each.")
    ] = None,
) -> None:
    """Errors of MODL whose fast learner is trained by gradient and adds its probabilities (10 s to minutes)."""
    for name in dataset:
        typer.echo(
            f"{name}: {fmean(errors(name, seed, data_dir) for seed in range(seeds)):,.1f} errors, "
            f"{seeds} {'seed' if seeds == 1 else 'seeds'}"
        )


if __name__ == "__main__":
    typer.run(main)
