"""What a fleet was made with, and what can be asked of it."""

from __future__ import annotations

import os
from collections.abc import Hashable

from braided import checks, notebook
from braided.checkpoint import pack_name
from braided.errors import BraidedError
from braided.estimators.base import MODL
from braided.estimators.tasks import REGRESSION
from braided.fleet.separate import SeparateModels
from braided.fleet.shared import SharedModel
from braided.streams.encode.encoder import Encoder as RawEncoder
from braided.values import shown

BRAID, START, NONE = SHARES = ("braid", "start", "none")
OLDEST = "oldest"
MOST_KEYS = 10**9


class FleetFacts:
    """The settings of a `Fleet`, as they were given, and what is inside of it."""

    model: MODL
    key: Hashable
    share: str
    in_memory: int | None
    folder: str | os.PathLike[str] | None
    max_keys: int
    evict: str | None
    _learned: int
    _inside: SharedModel | SeparateModels

    def _check(self) -> None:
        if not isinstance(self.model, MODL):
            raise BraidedError(f"model is {shown(self.model)}: give a MODLClassifier or MODLRegressor")
        if self.model.records_learned:
            raise BraidedError("the model has learned something, and a fleet starts from nothing: give a new one")
        if getattr(self.model, "decides", False):
            raise BraidedError(
                "the model chooses its answers by decision, class_weight or costs, and a fleet answers with the "
                "likeliest class: leave them out"
            )
        checks.choice("share", self.share, SHARES)
        if self.evict not in (None, OLDEST):
            raise BraidedError(f"evict is {shown(self.evict)}: give None or {OLDEST!r}")
        for name in ("in_memory", "max_keys"):
            value = getattr(self, name)
            if name == "in_memory" and value is None:
                continue
            if type(value) is not int or not 1 <= value <= MOST_KEYS:
                raise BraidedError(f"{name} is {shown(value)}: give a whole number from 1 to {MOST_KEYS:,}")
        pack_name(self.key)

    def __repr__(self) -> str:
        task = "regressor" if self.task == REGRESSION else "classifier"
        return f"Fleet({task} by {self.key!r}, share={self.share!r}, {self.n_keys:,} keys)"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        about = f"a {type(self.model).__name__} for each {self.key}, share {self.share}"
        figures = [(f"{self.records_learned:,}", "records learned"), (f"{self.n_keys:,}", "keys")]
        return notebook.card("Fleet", about, figures)

    @property
    def task(self) -> str:
        """`classification` or `regression`."""
        return self.model.task

    @property
    def shared(self) -> MODL | None:
        """The model that learns every record; None if there is none."""
        return None if self.share == NONE else self._inside.model

    @property
    def keys(self) -> list[str]:
        """The keys that have learned something, as their text, those that did last at the end."""
        return list(self._inside.known)

    @property
    def n_keys(self) -> int:
        """How many there are."""
        return len(self._inside.known)

    @property
    def n_in_memory(self) -> int:
        """How many of them are in memory; the others are on disk."""
        return self._inside.n_in_memory

    @property
    def classes(self) -> list[Hashable]:
        """The labels seen so far, in the order of the columns of `predict_proba_many`; none for regression."""
        return self._inside.classes

    @property
    def learner_names(self) -> list[str]:
        """Names of the learners inside, with `shared` for what the shared model alone would say."""
        return self._inside.learner_names

    @property
    def health(self) -> dict[str, dict[str, int]]:
        """Updates that the shared model's learners skipped, and how often they were reset."""
        return self._inside.health

    @property
    def n_features(self) -> int:
        """How many features the shared model has seen; 0 where there is none."""
        return 0 if self.shared is None else self.shared.n_features

    @property
    def feature_names(self) -> list[Hashable]:
        """The features that the shared model has seen."""
        return [] if self.shared is None else self.shared.feature_names

    @property
    def records_learned(self) -> int:
        """How many records this fleet has learned."""
        return self._learned

    def expect_delay(self, delay: int) -> None:
        """Be told before the first record is learned that labels come late, if nobody has said so yet."""
        if not self._learned:
            self._inside.model.expect_delay(delay)

    @property
    def encoder(self) -> RawEncoder | None:
        """What makes numbers of raw records, for all keys; None if they are numbers."""
        return self._inside.encoder

    @property
    def shared_is_held(self) -> bool:
        """Whether keys alone learn; see `hold_shared`."""
        return self._inside.held
