"""The models that `braided run --model NAME` knows: MODL, its parts and variants, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from braided.datasets.protocol import PaperSettings, settings_for
from braided.errors import BraidedError
from braided.estimators import MODLClassifier, drift
from braided.estimators.river_model import RiverModel, majority, river_arf, river_logistic
from braided.learners import LEARNERS, HedgeConfig, LearnerConfig, LogisticConfig, MLPConfig, OLVFConfig
from braided.presets import Preset


@dataclass(frozen=True)
class ModelOptions:
    """What a model is built from.

    Attributes
    ----------
    preset
        Learners and scaling; a baseline takes the scaling, and `paper` and `released` give it the paper's settings.
    combiner
        How scores are joined; None for the preset's.
    seed
        Fixes every random choice.
    dataset
        Name of the data set, if it is one of the paper's.
    base_features
        The always-available features, which Aux-Drop feeds to its first layer.
    max_features, max_classes
        Limits beyond which a stream is refused.
    overrides
        Settings `name=value` that replace those of every learner that has a setting of that name.
    drift
        Name of the drift detector, if there is to be one.
    """

    preset: Preset
    combiner: str | None = None
    seed: int = 0
    dataset: str | None = None
    base_features: tuple[Hashable, ...] = ()
    max_features: int = 10_000
    max_classes: int = 1_000
    overrides: tuple[str, ...] = ()
    drift: str | None = None

    @property
    def settings(self) -> PaperSettings:
        """The paper's settings; those for streams it does not know under our own preset."""
        return settings_for(None if self.preset.name == "default" else self.dataset)

    def model(
        self, learners: tuple[LearnerConfig, ...] | None = None, first_features: tuple[Hashable, ...] | None = None
    ) -> MODLClassifier:
        """A MODL with these learners, or the preset's, after the options."""
        chosen = learners or self.preset.learners
        for option in self.overrides:
            chosen = with_option(chosen, option)
        return MODLClassifier(
            preset=self.preset,
            learners=learners if chosen == self.preset.learners else chosen,
            combiner=self.combiner,
            seed=self.seed,
            max_features=self.max_features,
            max_classes=self.max_classes,
            first_features=first_features,
            drift_detector=None if self.drift is None else drift.build(self.drift),
        )


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


Builder = Callable[[ModelOptions], MODLClassifier | RiverModel]


def _named(*names: str) -> Builder:
    """The preset's learners of these names, without the others."""
    return lambda options: options.model(tuple(c for c in options.preset.learners if LEARNERS[type(c)].name in names))


def _gradient_logistic(options: ModelOptions) -> MODLClassifier:
    """The fast learner trained by gradient, with the steps of the preset's MLP; at the paper's rate if it has one."""
    mlp = next(config for config in options.preset.learners if isinstance(config, MLPConfig))
    rate = mlp.learning_rate
    if options.preset.name != "default":
        rate = 0.01 if options.dataset in {"german", "svmguide3"} else 0.001
    learners: list[LearnerConfig] = []
    for config in options.preset.learners:
        if isinstance(config, LogisticConfig):
            plain = replace(mlp, hidden=(), encoding="plain", mask_inputs=config.mask_inputs, learning_rate=rate)
            learners.append(plain)
        else:
            learners.append(config)
    return options.model(tuple(learners))


def _five(options: ModelOptions) -> MODLClassifier:
    """Two more MLPs, of one and two more layers."""
    mlp = next(config for config in options.preset.learners if isinstance(config, MLPConfig))
    deeper = tuple(replace(mlp, hidden=(*mlp.hidden, *mlp.hidden[-1:] * more)) for more in (1, 2))
    return options.model((*options.preset.learners, *deeper))


def _hedge(fast: bool) -> Builder:
    def build(options: ModelOptions) -> MODLClassifier:
        settings = options.settings
        return options.model(
            (
                HedgeConfig(
                    layers=settings.auxdrop_layers,
                    learning_rate=settings.auxdrop_learning_rate,
                    fast=fast,
                    expected_features=settings.n_features,
                ),
            )
        )

    return build


def _auxdrop(base: str) -> Builder:
    def build(options: ModelOptions) -> MODLClassifier:
        settings = options.settings
        config = HedgeConfig(
            layers=settings.auxdrop_layers,
            learning_rate=settings.auxdrop_learning_rate,
            fast=base != "odl",
            exits="last" if base == "ogd" else "hedge",
            aux_layer=3,
            aux_width=settings.auxdrop_width,
            base_features=len(options.base_features),
            softmax_twice=options.preset.name == "released",
            dropout_when_predicting=options.preset.name == "released",
            expected_features=settings.n_features,
        )
        return options.model((config,), options.base_features or None)

    return build


def _olvf(options: ModelOptions) -> MODLClassifier:
    return options.model((OLVFConfig(aggressiveness=options.settings.olvf_aggressiveness),))


#: Name -> how it is built. Adding a model is one line here.
MODELS: dict[str, Builder] = {
    "modl": lambda options: options.model(),
    "olr": _named("olr"),
    "mlp": _named("mlp"),
    "set": _named("set"),
    "modl-olr+mlp": _named("olr", "mlp"),
    "modl-olr+set": _named("olr", "set"),
    "modl-glr": _gradient_logistic,
    "modl-5": _five,
    "odl": _hedge(fast=False),
    "fodl": _hedge(fast=True),
    "auxdrop-odl": _auxdrop("odl"),
    "auxdrop-fodl": _auxdrop("fodl"),
    "auxdrop-ogd": _auxdrop("ogd"),
    "olvf": _olvf,
    "majority": lambda options: majority(),
    "river-logistic": lambda options: river_logistic(),
    "river-arf": lambda options: river_arf(options.seed),
}


def check(names: Iterable[str], options: ModelOptions) -> None:
    """Refuse names, options and a combiner that no model of these could use, before any record is read."""
    models = [build(name, replace(options, overrides=())) for name in names]
    ours = [model for model in models if isinstance(model, MODLClassifier)]
    if not ours and (options.overrides or options.combiner or options.drift):
        given = f"--combiner {options.combiner!r}" if options.combiner else f"--drift {options.drift!r}"
        given = f"--option {options.overrides[0]!r}" if options.overrides else given
        raise BraidedError(f"{given} has no effect on {', '.join(names)}: leave it out")
    settings = {
        field.name
        for model in ours
        for config in model.learners or options.preset.learners
        if is_dataclass(config)
        for field in fields(config)
    }
    for option in options.overrides:
        name, equals, _ = option.partition("=")
        if not equals or name not in settings:
            raise BraidedError(f"--option {option!r}: give NAME=VALUE with one of {', '.join(sorted(settings))}")
    for name in names:
        model = build(name, options)
        if isinstance(model, MODLClassifier):
            model.braid  # noqa: B018 (made here, so that a bad combiner or setting is named now)


def build(name: str, options: ModelOptions) -> MODLClassifier | RiverModel:
    """A fresh model of that name."""
    if name not in MODELS:
        raise BraidedError(f"model {name!r} is not known: use one of {', '.join(MODELS)}")
    return MODELS[name](options)
