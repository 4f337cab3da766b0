"""The models that `braided run --model NAME` knows: MODL, its parts and variants, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

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
        return preset if isinstance(preset, Preset) else presets.get(preset, self.dataset)

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
        return (self.preset.for_regression() if self.task == REGRESSION else self.preset).learners

    def model(
        self, learners: tuple[LearnerConfig, ...] | None = None, first_features: tuple[Hashable, ...] | None = None
    ) -> MODLClassifier | MODLRegressor:
        """A MODL with these learners, or the preset's, after the options; for regression with their counterparts."""
        regression = self.task == REGRESSION
        if learners is not None and regression:
            learners = tuple(config.for_regression() for config in learners)
        chosen = learners or self.learners
        for option in self.overrides:
            chosen = with_option(chosen, option)
        if regression and self.decides:
            raise BraidedError("--decision, --class-weight and --costs are for classes: leave them out")
        params = replace(
            self.params,
            preset=self.preset,
            learners=learners if chosen == self.learners else chosen,
            first_features=first_features,
        )
        return (MODLRegressor if regression else MODLClassifier)(**params.arguments(self.task))


def with_option(learners: tuple[LearnerConfig, ...], option: str) -> tuple[LearnerConfig, ...]:
    """The learners with one setting replaced wherever they have it.

    >>> [config.learning_rate for config in with_option((HedgeConfig(), MLPConfig()), "learning_rate=0.5")]
    [0.5, 0.5]
    """
    name, _, text = option.partition("=")
    changed = []
    for config in learners:
        current = getattr(config, name, None)
        changed.append(config if current is None else replace(config, **{name: _parsed(option, text, current)}))
    return tuple(changed)


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


Model = MODLClassifier | MODLRegressor | RiverModel
Builder = Callable[[ModelOptions], Model]


def _named(*names: str) -> Builder:
    """The preset's learners of these names, of each the first, without the others.

    Our own presets lend each other what they do not have.
    """

    def build(options: ModelOptions) -> Model:
        found: dict[str, LearnerConfig] = {}
        lenders = OURS if options.preset.name in OURS else ()
        ours = [replace(options, params=ModelParams(presets.get(name))) for name in lenders]
        for config in (config for lender in (options, *ours) for config in lender.learners):
            found.setdefault(_called(config), config)
        if missing := [name for name in names if name not in found]:
            name = options.preset.name
            raise BraidedError(
                f"preset {name!r} has no learner {missing[0]!r} for {options.task}, it has {', '.join(found)}: use one "
                "of these, or another preset"
            )
        return options.model(tuple(found[name] for name in names))

    return build


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
    rate = mlp.learning_rate
    if options.preset.name not in OURS:
        rate = gradient_rate(options.dataset)
    masks = getattr(options.preset.learners[0], "mask_inputs", False)
    plain = replace(mlp, hidden=(), encoding="plain", mask_inputs=masks, learning_rate=rate)
    others = tuple(config for config in options.learners if _called(config) != "olr")
    return options.model((plain, *others))


def _five(options: ModelOptions) -> Model:
    """Two more MLPs, of one and two more layers."""
    mlp = _network(options)
    deeper = tuple(replace(mlp, hidden=(*mlp.hidden, *mlp.hidden[-1:] * more)) for more in (1, 2))
    return options.model((*options.learners, *deeper))


def _hedge_config(options: ModelOptions, fast: bool) -> HedgeConfig:
    """The layers and the rate that the paper gives to hedge backpropagation."""
    settings = options.settings
    return HedgeConfig(
        layers=settings.auxdrop_layers,
        learning_rate=settings.auxdrop_learning_rate,
        fast=fast,
        expected_features=settings.n_features,
    )


def _hedge(fast: bool) -> Builder:
    return lambda options: options.model((_hedge_config(options, fast),))


def _auxdrop(base: str) -> Builder:
    def build(options: ModelOptions) -> Model:
        as_released = options.preset.name == "released"
        config = replace(
            _hedge_config(options, fast=base != "odl"),
            exits="last" if base == "ogd" else "hedge",
            aux_layer=3,
            aux_width=options.settings.auxdrop_width,
            base_features=len(options.base_features),
            softmax_twice=as_released,
            dropout_when_predicting=as_released,
        )
        return options.model((config,), options.base_features or None)

    return build


def _olvf(options: ModelOptions) -> Model:
    return options.model((OLVFConfig(aggressiveness=options.settings.olvf_aggressiveness),))


def _river(name: str, words_for: tuple[str, ...] = ()) -> Builder:
    """A rival, which is given categories as words for these tasks, else as numbers.

    Regression trees want numbers: the linear models in their leaves take nothing else.
    """

    def build(options: ModelOptions) -> Model:
        kind = RiverRegressor if options.task == REGRESSION else RiverClassifier
        return kind(rival(name, options.task, options.params.seed), words=options.task in words_for)

    return build


@dataclass(frozen=True)
class NamedModel:
    """A model that has a name.

    Attributes
    ----------
    build
        Makes a fresh one.
    tasks
        What it is for.
    """

    build: Builder
    tasks: tuple[str, ...] = TASKS


_CLASSES_ONLY, _VALUES_ONLY = (CLASSIFICATION,), (REGRESSION,)
#: Name -> how it is built, and what for. Adding a model is one line here.
MODELS: dict[str, NamedModel] = {
    "modl": NamedModel(lambda options: options.model()),
    "olr": NamedModel(_named("olr")),
    "mlp": NamedModel(_named("mlp")),
    "set": NamedModel(_named("set")),
    "fourier": NamedModel(_named("fourier")),
    "recent": NamedModel(_named("recent")),
    "forest": NamedModel(_named("forest")),
    "modl-olr+mlp": NamedModel(_named("olr", "mlp")),
    "modl-olr+set": NamedModel(_named("olr", "set")),
    "modl-glr": NamedModel(_gradient_logistic),
    "modl-5": NamedModel(_five),
    "odl": NamedModel(_hedge(fast=False), _CLASSES_ONLY),
    "fodl": NamedModel(_hedge(fast=True), _CLASSES_ONLY),
    "auxdrop-odl": NamedModel(_auxdrop("odl"), _CLASSES_ONLY),
    "auxdrop-fodl": NamedModel(_auxdrop("fodl"), _CLASSES_ONLY),
    "auxdrop-ogd": NamedModel(_auxdrop("ogd"), _CLASSES_ONLY),
    "olvf": NamedModel(_olvf, _CLASSES_ONLY),
    "folklore": NamedModel(lambda options: options.model((FolkloreConfig(),)), _CLASSES_ONLY),
    "majority": NamedModel(_river("majority"), _CLASSES_ONLY),
    "mean": NamedModel(_river("mean"), _VALUES_ONLY),
    "river-logistic": NamedModel(_river("logistic"), _CLASSES_ONLY),
    "river-linear": NamedModel(_river("linear"), _VALUES_ONLY),
    "river-nb": NamedModel(_river("nb"), _CLASSES_ONLY),
    "river-tree": NamedModel(_river("tree", words_for=_CLASSES_ONLY)),
    "river-arf": NamedModel(_river("arf", words_for=_CLASSES_ONLY)),
    "river-srp": NamedModel(_river("srp", words_for=_CLASSES_ONLY)),
    "river-amf": NamedModel(_river("amf")),
    "river-knn": NamedModel(_river("knn", words_for=TASKS)),
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
    params = options.params
    without_effect = {
        "--decision, --class-weight or --costs": options.decides,
        f"--option {next(iter(options.overrides), None)!r}": options.overrides,
        f"--combiner {params.combiner!r}": params.combiner,
        "--drift": params.drift_detector is not None,
    }
    if not ours and (given := next((option for option, value in without_effect.items() if value), None)):
        raise BraidedError(f"{given} has no effect on {', '.join(names)}: leave it out")
    settings = {
        field.name
        for model in ours
        for config in model.learners or options.learners
        if is_dataclass(config)
        for field in fields(config)
    }
    for option in options.overrides:
        name, equals, _ = option.partition("=")
        if not equals or name not in settings:
            raise BraidedError(f"--option {option!r}: give NAME=VALUE with one of {', '.join(sorted(settings))}")
    for name in names:
        model = build(name, options)
        if isinstance(model, MODL):
            model.braid  # noqa: B018 (made here, so that a bad combiner or setting is named now)


def build(name: str, options: ModelOptions) -> Model:
    """A fresh model of that name."""
    checks.choice("model", name, MODELS)
    if options.task not in MODELS[name].tasks:
        raise BraidedError(f"model {name!r} is not for {options.task}: use one of {', '.join(names_for(options.task))}")
    return MODELS[name].build(options)
