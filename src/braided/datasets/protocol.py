"""The paper's protocol: what it tuned for each of its data sets, and how it masked them."""

from __future__ import annotations

from dataclasses import dataclass


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
