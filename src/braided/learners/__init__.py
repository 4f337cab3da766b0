"""The learners of the braid, one per file, each registered here with its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from braided.errors import BraidedError
from braided.learners.base import CompiledLearner, LearnerConfig
from braided.learners.exact import ExactConfig, ExactLinear
from braided.learners.folklore import Folklore, FolkloreConfig
from braided.learners.forest import ForestConfig, ForestValueConfig, MondrianForest, MondrianForestRegressor
from braided.learners.fourier import FourierConfig, FourierLinear, FourierLinearConfig, FourierLogistic
from braided.learners.hedge import HedgeConfig, HedgeNetwork
from braided.learners.linear import LinearConfig, LinearRegression
from braided.learners.logistic import LogisticConfig, LogisticRegression
from braided.learners.mlp import MLP, MLPConfig
from braided.learners.olvf import OLVF, OLVFConfig
from braided.learners.protocol import Learner
from braided.learners.recent import RecentConfig, RecentLabels, RecentValueConfig, RecentValues
from braided.learners.set_learner import SetConfig, SetLearner
from braided.learners.steps import StepConfig

if TYPE_CHECKING:
    from braided.learners.river_learner import RiverLearner
    from braided.learners.torch_learner import TorchLearner

#: Configuration class -> learner class. Adding a learner is its file and one line here (CONTRIBUTING.md).
LEARNERS: dict[type, type[CompiledLearner]] = {
    LogisticConfig: LogisticRegression,
    LinearConfig: LinearRegression,
    ExactConfig: ExactLinear,
    FourierConfig: FourierLogistic,
    FourierLinearConfig: FourierLinear,
    MLPConfig: MLP,
    SetConfig: SetLearner,
    HedgeConfig: HedgeNetwork,
    OLVFConfig: OLVF,
    FolkloreConfig: Folklore,
    RecentConfig: RecentLabels,
    RecentValueConfig: RecentValues,
    ForestConfig: MondrianForest,
    ForestValueConfig: MondrianForestRegressor,
}


def build(config: LearnerConfig, seed: int, place: int) -> CompiledLearner:
    """The learner that a configuration describes.

    >>> build(MLPConfig(hidden=(8,)), seed=0, place=1).name
    'mlp'
    """
    if type(config) not in LEARNERS:
        known = ", ".join(kind.__name__ for kind in LEARNERS)
        raise BraidedError(f"learner configuration {config!r} is of no registered kind: use one of {known}")
    return LEARNERS[type(config)](config, seed, place)


def __getattr__(name: str) -> Any:
    """Learners around other libraries are imported when they are asked for, so that all else starts sooner."""
    if name == "RiverLearner":
        from braided.learners.river_learner import RiverLearner

        return RiverLearner
    if name == "TorchLearner":
        from braided.learners.torch_learner import TorchLearner

        return TorchLearner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "LEARNERS",
    "MLP",
    "OLVF",
    "CompiledLearner",
    "ExactConfig",
    "ExactLinear",
    "Folklore",
    "FolkloreConfig",
    "ForestConfig",
    "ForestValueConfig",
    "FourierConfig",
    "FourierLinear",
    "FourierLinearConfig",
    "FourierLogistic",
    "HedgeConfig",
    "HedgeNetwork",
    "Learner",
    "LearnerConfig",
    "LinearConfig",
    "LinearRegression",
    "LogisticConfig",
    "LogisticRegression",
    "MLPConfig",
    "MondrianForest",
    "MondrianForestRegressor",
    "OLVFConfig",
    "RecentConfig",
    "RecentLabels",
    "RecentValueConfig",
    "RecentValues",
    "RiverLearner",
    "SetConfig",
    "SetLearner",
    "StepConfig",
    "TorchLearner",
    "build",
]
