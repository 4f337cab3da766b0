"""Whole configurations as frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, replace

from braided import checks
from braided.learners import (
    ExactConfig,
    ForestConfig,
    FourierConfig,
    LearnerConfig,
    LinearConfig,
    LogisticConfig,
    MLPConfig,
    RecentConfig,
    RecentValueConfig,
    SetConfig,
)


@dataclass(frozen=True)
class Preset:
    """A whole model.

    Attributes
    ----------
    name
        How it is called on the command line and in reports.
    learners
        One configuration per learner, fast to slow.
    standardise
        Whether learners see running-standardised values; otherwise raw ones.
    combiner
        How scores are joined.
    first_weights
        What a combiner that learns weights starts from, one per learner; () for the same weight each.
    numeric
        The learners where targets are numbers; () for the same ones, each as it is for these.
    """

    name: str
    learners: tuple[LearnerConfig, ...]
    standardise: bool
    combiner: str = "score-sum"
    first_weights: tuple[float, ...] = ()
    numeric: tuple[LearnerConfig, ...] = ()

    def for_regression(self) -> Preset:
        """The preset where targets are numbers."""
        if self.numeric:
            return replace(self, learners=self.numeric, first_weights=())
        return replace(self, learners=tuple(config.for_regression() for config in self.learners))


def paper(learning_rate: float = 0.001, n_features: int = 0) -> Preset:
    """The equations of the paper, on raw values; `n_features` are expected, if that is known."""
    return Preset(
        "paper",
        (
            LogisticConfig(gain="paper", prior_variance=1.0, mask_inputs=True),
            MLPConfig(mask_inputs=True, learning_rate=learning_rate, expected_features=n_features),
            SetConfig(width=128, blocks=6, layers=3, binding="none", pooling="sum", learning_rate=learning_rate),
        ),
        standardise=False,
    )


def released(
    learning_rate: float = 0.001, n_features: int = 0, prior_variance: float = 0.001, set_blocks: int = 6
) -> Preset:
    """What produced the published tables, quirks included: see `docs/presets.md`. Its dropout acts on predictions."""
    return Preset(
        "released",
        (
            LogisticConfig(gain="released", prior_variance=prior_variance, score="probability", clamp=10.0),
            MLPConfig(hidden=(250, 250), mask_inputs=False, learning_rate=learning_rate, expected_features=n_features),
            SetConfig(
                width=250,
                blocks=set_blocks,
                layers=2,
                binding="none",
                pooling="mean",
                normalise=True,
                slope=0.01,
                dropout=0.3,
                dropout_when_predicting=True,
                output="softmax",
                output_scale=0.25,
                learning_rate=learning_rate,
            ),
        ),
        standardise=False,
    )


def classic() -> Preset:
    """The default until version 0.2."""
    return Preset(
        "classic",
        (
            LogisticConfig(gain="kalman", prior_variance=0.1),
            FourierConfig(functions=192, prior_variance=0.05, forgetting=1e-5),
            MLPConfig(
                hidden=(128, 128),
                mask_inputs=False,
                encoding="piecewise",
                optimiser="rmsprop",
                learning_rate=7e-4,
                zero_output=True,
            ),
            SetConfig(
                width=96,
                blocks=1,
                layers=1,
                binding="scaled",
                pooling="sum",
                optimiser="rmsprop",
                learning_rate=3e-4,
                zero_output=True,
            ),
        ),
        standardise=True,
        combiner="kalman",
    )


def default() -> Preset:
    """Ours, the same for every stream; how it was chosen is in `docs/default.md`."""
    of_ranks = FourierConfig(
        functions=256,
        prior_variance=0.05,
        forgetting=1e-5,
        inputs="scores",
        subset=5,
        frequency_rate=1e-3,
        single=True,
    )
    of_values = replace(of_ranks, prior_variance=0.02, inputs="scaled", subset=0, frequency_rate=2e-3)
    network = MLPConfig(
        hidden=(128, 128),
        mask_inputs=False,
        encoding="piecewise",
        optimiser="rmsprop",
        learning_rate=1e-3,
        zero_output=True,
        inputs="filled",
    )
    return Preset(
        "default",
        (
            LogisticConfig(prior_variance=0.03, inputs="filled"),
            LogisticConfig(prior_variance=0.1, forgetting=1e-4, inputs="filled"),
            LogisticConfig(prior_variance=0.1, forgetting=3e-3, inputs="filled"),
            of_ranks,
            of_values,
            network,
            RecentConfig(),
            ForestConfig(trees=8, inputs="steady"),
        ),
        standardise=True,
        combiner="aggregate",
        first_weights=(0.25, 0.0, 0.0, 0.25, 0.4, 0.1, 0.1, 0.1),
        numeric=(
            LinearConfig(prior_variance=0.03, inputs="filled"),
            of_ranks.for_regression(),
            of_values.for_regression(),
            network,
            replace(network, change=True),
            RecentValueConfig(prior_variance=0.01),
            ExactConfig(),
        ),
    )


def lean() -> Preset:
    """The closed-form parts of the default alone, for those who need speed first."""
    whole = default()
    fast, cosines = whole.learners[0], next(one for one in whole.learners if isinstance(one, FourierConfig))
    cosines = replace(cosines, functions=192)
    return Preset(
        "lean",
        (fast, cosines, RecentConfig()),
        standardise=True,
        combiner=whole.combiner,
        first_weights=(0.3, 0.5, 0.2),
        numeric=(whole.numeric[0], cosines.for_regression(), *whole.numeric[-2:]),
    )


#: Those whose settings will stay as they are, so that a saved model may hold the name alone.
SETTLED = ("classic", "paper", "released")
#: Those that are the same for every stream.
OURS = ("default", "lean", "classic")
#: Name -> the function that makes it.
PRESETS = {"default": default, "lean": lean, "classic": classic, "paper": paper, "released": released}


def get(name: str) -> Preset:
    """The preset of that name; `braided.zoo.preset_for` has the paper's settings for its data sets.

    >>> get("released").learners[0].prior_variance
    0.001
    >>> get("tuned")
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: preset 'tuned' is not known: use one of default, lean, classic, paper, released
    """
    checks.choice("preset", name, PRESETS)
    return PRESETS[name]()
