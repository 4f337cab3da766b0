"""Whole configurations as frozen dataclasses, and the paper's settings per data set."""

from __future__ import annotations

from dataclasses import dataclass, fields

from braided.errors import BraidedError
from braided.learners import (
    FourierConfig,
    FourierLinearConfig,
    LearnerConfig,
    LinearConfig,
    LogisticConfig,
    MLPConfig,
    SetConfig,
)
from braided.learners.gaussian import GaussianConfig


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
    """

    name: str
    learners: tuple[LearnerConfig, ...]
    standardise: bool
    combiner: str = "score-sum"

    def for_regression(self) -> tuple[LearnerConfig, ...]:
        """The same learners with Bayesian linear regression in place of the logistic ones, and linear outputs."""
        shared = [field.name for field in fields(GaussianConfig)]
        learners: list[LearnerConfig] = []
        for config in self.learners:
            if isinstance(config, LogisticConfig):
                learners.append(LinearConfig(**{name: getattr(config, name) for name in shared}))
            elif type(config) is FourierConfig:
                values = {field.name: getattr(config, field.name) for field in fields(config)}
                learners.append(FourierLinearConfig(**values))
            elif isinstance(config, SetConfig) and config.output == "softmax":
                values = {field.name: getattr(config, field.name) for field in fields(config)}
                learners.append(SetConfig(**{**values, "output": "linear"}))
            else:
                learners.append(config)
        return tuple(learners)


@dataclass(frozen=True)
class PaperSettings:
    """What the paper tuned for one data set, and how it masked it.

    The tuned settings are used by the presets `paper` and `released` alone, the masking by `braided run`.

    Attributes
    ----------
    learning_rate, released_learning_rate
        The printed rate, and the one that gives the printed tables.
    prior_variance
        P0 of the released code (the paper prints the identity).
    available
        Probability that a feature is available in a record.
    always
        How many features, from the first, are always available.
    n_features
        How many features of the file are used.
    auxdrop_learning_rate, auxdrop_layers, auxdrop_width
        Of Aux-Drop: its rate, its number of layers, the width of its AuxLayer.
    olvf_aggressiveness
        C of OLVF, the best of its published grid (.0001, .01, 1) here.
    set_blocks
        Blocks of the released set learner.
    """

    learning_rate: float
    released_learning_rate: float
    prior_variance: float
    available: float
    always: int
    n_features: int
    auxdrop_learning_rate: float
    auxdrop_layers: int
    auxdrop_width: int = 100
    olvf_aggressiveness: float = 0.01
    set_blocks: int = 6


PAPER_SETTINGS: dict[str, PaperSettings] = {
    "german": PaperSettings(0.01, 0.01, 0.1, 0.73, 2, 24, 0.1, 6, olvf_aggressiveness=0.0001),
    "svmguide3": PaperSettings(0.01, 0.03, 1.0, 0.72, 2, 21, 0.1, 6),
    "magic04": PaperSettings(0.001, 0.001, 0.001, 0.68, 2, 10, 0.01, 6, olvf_aggressiveness=0.0001),
    "a8a": PaperSettings(0.001, 0.005, 0.001, 0.75, 2, 123, 0.01, 6, auxdrop_width=400, set_blocks=1),
    "higgs": PaperSettings(0.005, 0.001, 0.001, 0.5, 5, 21, 0.05, 11),
    "susy": PaperSettings(0.005, 0.001, 0.001, 0.5, 2, 8, 0.05, 11),
    "mnist": PaperSettings(0.00005, 0.00005, 0.001, 1.0, 0, 784, 0.01, 6),
    "imnist": PaperSettings(0.00005, 0.00005, 0.001, 1.0, 0, 784, 0.01, 6),
    "cifar10": PaperSettings(0.00005, 0.00005, 0.001, 1.0, 0, 3_072, 0.01, 6),
}
#: For a stream that the paper does not know: its most careful settings.
OTHER_STREAMS = PaperSettings(0.001, 0.001, 0.001, 1.0, 0, 0, 0.01, 6)


def settings_for(dataset: str | None) -> PaperSettings:
    """The paper's settings for one of its data sets, or careful ones for any other stream."""
    return PAPER_SETTINGS.get(dataset or "", OTHER_STREAMS)


def paper(dataset: str | None = None) -> Preset:
    """The equations of the paper, on raw values."""
    settings = settings_for(dataset)
    rate = settings.learning_rate
    return Preset(
        "paper",
        (
            LogisticConfig(gain="paper", prior_variance=1.0, mask_inputs=True),
            MLPConfig(mask_inputs=True, learning_rate=rate, expected_features=settings.n_features),
            SetConfig(width=128, blocks=6, layers=3, binding="none", pooling="sum", learning_rate=rate),
        ),
        standardise=False,
    )


def released(dataset: str | None = None) -> Preset:
    """What produced the published tables, quirks included: see `docs/presets.md`. Its dropout acts on predictions."""
    settings = settings_for(dataset)
    rate = settings.released_learning_rate
    return Preset(
        "released",
        (
            LogisticConfig(gain="released", prior_variance=settings.prior_variance, score="probability", clamp=10.0),
            MLPConfig(hidden=(250, 250), mask_inputs=False, learning_rate=rate, expected_features=settings.n_features),
            SetConfig(
                width=250,
                blocks=settings.set_blocks,
                layers=2,
                binding="none",
                pooling="mean",
                normalise=True,
                slope=0.01,
                dropout=0.3,
                dropout_when_predicting=True,
                output="softmax",
                output_scale=0.25,
                learning_rate=rate,
            ),
        ),
        standardise=False,
    )


def default(dataset: str | None = None) -> Preset:
    """Ours, the same for every stream; how it was chosen is in `docs/default.md`."""
    return Preset(
        "default",
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


#: Name -> a function from the data set's name (or None) to the preset.
PRESETS = {"default": default, "paper": paper, "released": released}


def get(name: str, dataset: str | None = None) -> Preset:
    """The preset of that name, for that data set of the paper if it is one.

    >>> get("released", "svmguide3").learners[0].prior_variance
    1.0
    >>> get("tuned")
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: preset 'tuned' is not known: use one of default, paper, released
    """
    if name not in PRESETS:
        raise BraidedError(f"preset {name!r} is not known: use one of {', '.join(PRESETS)}")
    return PRESETS[name](dataset)
