"""What a user may say about how cells become features, and the counts of what did not fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from braided import checks
from braided.errors import BraidedError

ENCODINGS = ("onehot", "hash", "refuse")
POLICIES = ("stop", "skip", "missing")


@dataclass(frozen=True)
class Rules:
    """How cells become features.

    Attributes
    ----------
    categories
        Text columns: `onehot`, `hash` or `refuse`.
    hash_buckets
        Features that a hashed column becomes at most.
    most_categories
        Values of a text column that have a feature of their own under `onehot`; those that come after them share
        `hash_buckets` features.
    on_error
        A value that does not fit its column: `stop` with an error, `skip` the record, or take the value as `missing`.
        A record that cannot be read at all, or has no label, is skipped under both of the latter.
    drop
        Columns that are not read.
    max_features
        How many features there may be; only categories are counted against it here.
    unlabelled
        Whether a record without a label passes, with None for its label; if not, it counts as one that does not fit.
    tell
        A function that is called with a line of text when the kinds of the columns are known, and when something
        else happens that a user should know, such as that a followed file was replaced.
    """

    categories: str = "onehot"
    hash_buckets: int = 64
    on_error: str = "stop"
    drop: tuple[str, ...] = ()
    max_features: int = 10_000
    unlabelled: bool = False
    tell: Callable[[str], None] | None = field(default=None, compare=False)
    most_categories: int = 100

    def __post_init__(self) -> None:
        checks.choice("--categories", self.categories, ENCODINGS)
        if self.hash_buckets < 1:
            raise BraidedError(f"--hash-buckets is {self.hash_buckets}: give a whole number from 1 on")
        if self.most_categories < 1:
            raise BraidedError(f"--most-categories is {self.most_categories}: give a whole number from 1 on")
        checks.choice("--on-error", self.on_error, POLICIES)

    def state(self) -> dict[str, Any]:
        """All but `tell`, as JSON can hold it."""
        held = {field_.name: getattr(self, field_.name) for field_ in fields(self) if field_.name != "tell"}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in held.items()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Rules:
        """The rules that `state` is of; what an earlier version did not have is as usual."""
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in state.items()})

    def say(self, message: str) -> None:
        """Call `tell`, if there is one."""
        if self.tell is not None:
            self.tell(message)


DEFAULT_RULES = Rules()


@dataclass
class ReadingCounts:
    """What was noticed while a stream was read, up to the records given so far.

    Attributes
    ----------
    kinds
        The columns in words, once they are known.
    skipped_records, misfit_values
        What `on_error` let pass: records left out, and values that are taken as missing.
    first_problem
        The first of these, with its file and line.
    empty_cells
        Cells of a table without a value, in the records that are not left out.
    crowded
        Columns with more values than have a feature of their own.
    """

    kinds: str | None = None
    skipped_records: int = 0
    misfit_values: int = 0
    first_problem: str | None = None
    empty_cells: int = 0
    crowded: set[Hashable] = field(default_factory=set)

    @property
    def missing_values(self) -> int:
        """Values that are missing, for either reason."""
        return self.misfit_values + self.empty_cells

    def restart(self) -> None:
        """Nothing was skipped yet."""
        self.load_state([0, 0, None])

    def add(self, problem: str, records: int = 0, values: int = 0) -> None:
        """Count records that were skipped and values that are taken as missing, for this reason."""
        self.skipped_records += records
        self.misfit_values += values
        self.first_problem = self.first_problem or problem

    def state(self) -> list[Any]:
        """What `load_state` takes."""
        return [self.skipped_records, self.misfit_values, self.first_problem, self.empty_cells]

    def load_state(self, state: Sequence[Any]) -> None:
        """Go on counting from there; an earlier version counted no empty cells."""
        self.skipped_records, self.misfit_values, self.first_problem, self.empty_cells = [*state, 0][:4]
