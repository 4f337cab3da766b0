"""Models that have a name, under presets that have or lack what they are made from."""

from __future__ import annotations

import pytest

from braided import BraidedError, MODLRegressor, presets, zoo
from braided.estimators.params import ModelParams
from braided.zoo import ModelOptions


def test_a_variant_of_an_mlp_needs_a_preset_that_has_one() -> None:
    for name in ("modl-glr", "modl-5"):
        with pytest.raises(BraidedError, match="has no MLP"):
            zoo.build(name, ModelOptions(ModelParams("lean")))
    deeper, names = zoo.build("modl-5", ModelOptions(task="regression")).learner_names, MODLRegressor().learner_names
    assert deeper[: len(names)] == names


def test_our_presets_lend_each_other_what_they_do_not_have() -> None:
    for preset in (presets.default(), presets.lean(), presets.classic()):
        for name in ("olr", "fourier", "mlp", "set", "recent", "forest"):
            assert zoo.build(name, ModelOptions(ModelParams(preset))).learner_names == [name]
    with pytest.raises(BraidedError, match="preset 'paper' has no learner 'recent'"):
        zoo.build("recent", ModelOptions(ModelParams("paper")))
