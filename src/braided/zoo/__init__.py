"""The models that `braided run --model NAME` knows: MODL, its parts and variants, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, NamedTuple

from braided import checks, presets
from braided.datasets.protocol import PaperSettings, settings_for
from braided.errors import BraidedError
from braided.estimators import MODLClassifier, MODLRegressor
from braided.estimators.base import MODL
from braided.estimators.decision import DECISION_PARAMETERS
from braided.estimators.params import CLASSIFICATION, REGRESSION, TASKS, ModelParams
from braided.estimators.river import RiverClassifier, RiverModel, RiverRegressor
from braided.learners import LEARNERS, FolkloreConfig, HedgeConfig, LearnerConfig, MLPConfig, OLVFConfig
from braided.presets import OURS, Preset
from braided.zoo.rivals import rival


def preset_for(name: str, dataset: str | None = None) -> Preset:
    """The preset of that name, `paper` and `released` with the paper's settings for that data set.

    >>> preset_for("released", "svmguide3").learners[0].prior_variance
    1.0
    """
    tuned = settings_for(dataset)
    if name == "paper":
        return presets.paper(tuned.learning_rate, tuned.n_features)
    if name == "released":
        return presets.released(tuned.released_learning_rate, tuned.n_features, tuned.prior_variance, tuned.set_blocks)
    return presets.get(name)


@dataclass(frozen=True)
class ModelOptions:
    """What a model is built from.

    Attributes
    ----------
    params
        Of a MODL; a baseline takes the scaling of the preset, and `paper` and `released` give it the paper's settings.
    task
        `classification` or `regression`.
    dataset
        Name of the data set, if it is one of the paper's.
    base_features
        The always-available features, which Aux-Drop feeds to its first layer.
    overrides
        Settings `name=value` that replace those of every learner that has a setting of that name.
    """

    params: ModelParams = field(default_factory=ModelParams)
    task: str = CLASSIFICATION
    dataset: str | None = None
    base_features: tuple[Hashable, ...] = ()
    overrides: tuple[str, ...] = ()

    @property
    def preset(self) -> Preset:
        """The preset, by the data set if it has settings of its own."""
        preset = self.params.preset
        return preset if isinstance(preset, Preset) else preset_for(preset, self.dataset)

    @property
    def decides(self) -> bool:
        """Whether something is said of how a classifier answers."""
        usual = ModelParams()
        return any(getattr(self.params, name) != getattr(usual, name) for name in DECISION_PARAMETERS)

    @property
    def settings(self) -> PaperSettings:
        """The paper's settings; those for streams it does not know under our own preset."""
        return settings_for(None if self.preset.name in OURS else self.dataset)

    @property
    def learners(self) -> tuple[LearnerConfig, ...]:
        """The preset's, or their counterparts for regression."""
        return replace(self.params, preset=self.preset).resolved(self.task).learners

    def model(
        self, learners: tuple[LearnerConfig, ...] | None = None, first_features: tuple[Hashable, ...] | None = None
    ) -> MODL:
        """A MODL with these learners, or the preset's, after the options; for regression with their counterparts."""
        regression = self.task == REGRESSION
        if regression and self.decides:
            raise BraidedError("--decision, --class-weight and --costs are for classes: leave them out")
        if learners is not None and regression:
            learners = tuple(config.for_regression() for config in learners)
        chosen = learners or self.learners
        for option in self.overrides:
            chosen = with_option(chosen, option)
        if chosen != self.learners:
            learners = chosen
        params = replace(self.params, preset=self.preset, learners=learners, first_features=first_features)
        return (MODLRegressor if regression else MODLClassifier)(**params.arguments(self.task))


def with_option(learners: tuple[LearnerConfig, ...], option: str) -> tuple[LearnerConfig, ...]:
    """The learners with one setting replaced wherever they have it.

    >>> [config.learning_rate for config in with_option((HedgeConfig(), MLPConfig()), "learning_rate=0.5")]
    [0.5, 0.5]
    """
    name, _, text = option.partition("=")
    have = [getattr(config, name, None) for config in learners]
    return tuple(
        config if current is None else replace(config, **{name: _parsed(option, text, current)})
        for config, current in zip(learners, have, strict=True)
    )


def _parsed(option: str, text: str, current: Any) -> Any:
    """The value of an option, read as the kind of value that the setting has."""
    try:
        if isinstance(current, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(current, tuple):
            return tuple(int(part) for part in text.split(",") if part)
        return type(current)(text)
    except (KeyError, ValueError):
        kind = "true or false" if isinstance(current, bool) else f"like {current!r}"
        raise BraidedError(f"--option {option!r}: the value must be {kind}") from None


Model = MODL | RiverModel
Builder = Callable[[ModelOptions], Model]


def _named(options: ModelOptions, names: tuple[str, ...]) -> Model:
    """The first learner of each name in the preset; our own presets lend each other what they do not have."""
    lenders = OURS if options.preset.name in OURS else ()
    found: dict[str, LearnerConfig] = {}
    for lender in (options, *(replace(options, params=ModelParams(name)) for name in lenders)):
        for config in lender.learners:
            found.setdefault(_called(config), config)
    if missing := [name for name in names if name not in found]:
        raise BraidedError(
            f"preset {options.preset.name!r} has no learner {missing[0]!r} for {options.task}, it has "
            f"{', '.join(found)}: use one of these, or another preset"
        )
    return options.model(tuple(found[name] for name in names))


def _called(config: LearnerConfig) -> str:
    """What a learner is called on the command line: the linear one stands for the logistic one."""
    name = LEARNERS[type(config)].name
    return "olr" if name == "linear" else name


def _network(options: ModelOptions) -> MLPConfig:
    """The preset's first MLP."""
    for config in options.learners:
        if isinstance(config, MLPConfig):
            return config
    raise BraidedError(f"preset {options.preset.name!r} has no MLP, which this model is made from: use another preset")


def gradient_rate(dataset: str | None) -> float:
    """The paper's learning rate of a logistic regression by gradient."""
    return 0.01 if dataset in {"german", "svmguide3"} else 0.001


def _gradient_logistic(options: ModelOptions) -> Model:
    """The fast learner trained by gradient, with the steps of the preset's MLP; at the paper's rate if it has one."""
    mlp = _network(options)
    rate = mlp.learning_rate if options.preset.name in OURS else gradient_rate(options.dataset)
    masks = getattr(options.preset.learners[0], "mask_inputs", False)
    plain = replace(mlp, hidden=(), encoding="plain", mask_inputs=masks, learning_rate=rate)
    return options.model((plain, *(config for config in options.learners if _called(config) != "olr")))


def _five(options: ModelOptions) -> Model:
    """Two more MLPs, of one and two more layers."""
    mlp = _network(options)
    deeper = tuple(replace(mlp, hidden=(*mlp.hidden, *mlp.hidden[-1:] * more)) for more in (1, 2))
    return options.model((*options.learners, *deeper))


def _hedge(options: ModelOptions, base: str, aux: bool = False) -> Model:
    """Hedge backpropagation, or Aux-Drop on it, with the layers and the rate that the paper gives them."""
    settings, as_released = options.settings, options.preset.name == "released"
    config = HedgeConfig(
        layers=settings.auxdrop_layers,
        learning_rate=settings.auxdrop_learning_rate,
        fast=base != "odl",
        expected_features=settings.n_features,
    )
    if not aux:
        return options.model((config,))
    config = replace(
        config,
        exits="last" if base == "ogd" else "hedge",
        aux_layer=3,
        aux_width=settings.auxdrop_width,
        base_features=len(options.base_features),
        softmax_twice=as_released,
        dropout_when_predicting=as_released,
    )
    return options.model((config,), options.base_features or None)


def _olvf(options: ModelOptions) -> Model:
    return options.model((OLVFConfig(aggressiveness=options.settings.olvf_aggressiveness),))


def _river(options: ModelOptions, name: str, words_for: tuple[str, ...] = ()) -> Model:
    """A rival, which is given categories as words for these tasks, else as numbers.

    Regression trees want numbers: the linear models in their leaves take nothing else.
    """
    kind = RiverRegressor if options.task == REGRESSION else RiverClassifier
    return kind(rival(name, options.task, options.params.seed), words=options.task in words_for)


class NamedModel(NamedTuple):
    """How a fresh model of a name is built, and the tasks that it is for."""

    build: Builder
    tasks: tuple[str, ...] = TASKS


_CLASSES_ONLY, _VALUES_ONLY = (CLASSIFICATION,), (REGRESSION,)
#: Name -> how it is built, and what for. Adding a model is one line here.
MODELS: dict[str, NamedModel] = {
    "modl": NamedModel(ModelOptions.model),
    "olr": NamedModel(partial(_named, names=("olr",))),
    "mlp": NamedModel(partial(_named, names=("mlp",))),
    "set": NamedModel(partial(_named, names=("set",))),
    "fourier": NamedModel(partial(_named, names=("fourier",))),
    "recent": NamedModel(partial(_named, names=("recent",))),
    "forest": NamedModel(partial(_named, names=("forest",))),
    "modl-olr+mlp": NamedModel(partial(_named, names=("olr", "mlp"))),
    "modl-olr+set": NamedModel(partial(_named, names=("olr", "set"))),
    "modl-glr": NamedModel(_gradient_logistic),
    "modl-5": NamedModel(_five),
    "odl": NamedModel(partial(_hedge, base="odl"), _CLASSES_ONLY),
    "fodl": NamedModel(partial(_hedge, base="fodl"), _CLASSES_ONLY),
    "auxdrop-odl": NamedModel(partial(_hedge, base="odl", aux=True), _CLASSES_ONLY),
    "auxdrop-fodl": NamedModel(partial(_hedge, base="fodl", aux=True), _CLASSES_ONLY),
    "auxdrop-ogd": NamedModel(partial(_hedge, base="ogd", aux=True), _CLASSES_ONLY),
    "olvf": NamedModel(_olvf, _CLASSES_ONLY),
    "folklore": NamedModel(lambda options: options.model((FolkloreConfig(),)), _CLASSES_ONLY),
    "majority": NamedModel(partial(_river, name="majority"), _CLASSES_ONLY),
    "mean": NamedModel(partial(_river, name="mean"), _VALUES_ONLY),
    "river-logistic": NamedModel(partial(_river, name="logistic"), _CLASSES_ONLY),
    "river-linear": NamedModel(partial(_river, name="linear"), _VALUES_ONLY),
    "river-nb": NamedModel(partial(_river, name="nb"), _CLASSES_ONLY),
    "river-tree": NamedModel(partial(_river, name="tree", words_for=_CLASSES_ONLY)),
    "river-arf": NamedModel(partial(_river, name="arf", words_for=_CLASSES_ONLY)),
    "river-srp": NamedModel(partial(_river, name="srp", words_for=_CLASSES_ONLY)),
    "river-amf": NamedModel(partial(_river, name="amf")),
    "river-knn": NamedModel(partial(_river, name="knn", words_for=TASKS)),
}


def names_for(task: str) -> list[str]:
    """The models that can do a task.

    Examples
    --------
    >>> names_for("regression")[-7:]
    ['mean', 'river-linear', 'river-tree', 'river-arf', 'river-srp', 'river-amf', 'river-knn']
    """
    return [name for name, model in MODELS.items() if task in model.tasks]


def has_state(name: str) -> bool:
    """Whether a model of this name can be saved before its run is over: ours can, River's cannot.

    >>> has_state("olr"), has_state("river-nb")
    (True, False)
    """
    return isinstance(MODELS[name].build(ModelOptions(task=MODELS[name].tasks[0])), MODL)


def check(names: Iterable[str], options: ModelOptions) -> None:
    """Refuse names, options and a combiner that no model of these could use, before any record is read."""
    models = [build(name, replace(options, overrides=())) for name in names]
    ours = [model for model in models if isinstance(model, MODL)]
    without_effect = {
        "--decision, --class-weight or --costs": options.decides,
        f"--option {next(iter(options.overrides), None)!r}": options.overrides,
        f"--combiner {options.params.combiner!r}": options.params.combiner,
        "--drift": options.params.drift_detector is not None,
    }
    if not ours and (given := next((option for option, value in without_effect.items() if value), None)):
        raise BraidedError(f"{given} has no effect on {', '.join(names)}: leave it out")
    configs: list[Any] = [config for model in ours for config in model.learners or options.learners]
    settings = {field.name for config in configs for field in fields(config)}
    for option in options.overrides:
        name, equals, _ = option.partition("=")
        if not equals or name not in settings:
            raise BraidedError(f"--option {option!r}: give NAME=VALUE with one of {', '.join(sorted(settings))}")
    for name in names:
        build(name, options)  # which refuses a bad value


def build(name: str, options: ModelOptions) -> Model:
    """A fresh model of that name."""
    checks.choice("model", name, MODELS)
    if options.task not in MODELS[name].tasks:
        raise BraidedError(f"model {name!r} is not for {options.task}: use one of {', '.join(names_for(options.task))}")
    return MODELS[name].build(options)
