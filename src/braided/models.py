"""The models that `braided run --model NAME` knows."""

from __future__ import annotations

from collections.abc import Callable

from braided.errors import BraidedError
from braided.learners import LEARNERS
from braided.model import MODLClassifier
from braided.presets import Preset


def _modl(preset: Preset, combiner: str | None, seed: int) -> MODLClassifier:
    return MODLClassifier(preset=preset, combiner=combiner, seed=seed)


def _alone(name: str) -> Callable[[Preset, str | None, int], MODLClassifier]:
    """The preset's learner of that name by itself."""

    def build(preset: Preset, combiner: str | None, seed: int) -> MODLClassifier:
        chosen = tuple(config for config in preset.learners if LEARNERS[type(config)].name == name)
        return MODLClassifier(preset=preset, learners=chosen, combiner=combiner, seed=seed)

    return build


#: Name -> a function from preset, combiner and seed to the model. Adding a model is one line here.
MODELS: dict[str, Callable[[Preset, str | None, int], MODLClassifier]] = {
    "modl": _modl,
    "olr": _alone("olr"),
    "mlp": _alone("mlp"),
    "set": _alone("set"),
}


def build(name: str, preset: Preset, combiner: str | None, seed: int) -> MODLClassifier:
    """A fresh model of that name."""
    if name not in MODELS:
        raise BraidedError(f"model {name!r} is not known: use one of {', '.join(MODELS)}")
    return MODELS[name](preset, combiner, seed)
