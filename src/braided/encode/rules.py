"""What a user may say about how cells become features, and the counts of what did not fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from braided import checks
from braided.encode import dates
from braided.encode.number_form import SEPARATORS
from braided.encode.plan import Plan
from braided.errors import BraidedError
from braided.values import shown

ENCODINGS = ("onehot", "hash", "refuse")
POLICIES = ("stop", "skip", "missing")
_MAX_TEXT_FEATURES = 2**16


def _are_names(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(name, str) for name in value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


#: Fields whose type is looked at: what to give, and whether a value is that. What the others may be is checked by name.
_WORDS_OF: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("drop", "na", "text", "hashed", "category"), ("a tuple of text", _are_names)),
    **dict.fromkeys(
        ("hash_buckets", "max_features", "most_categories", "text_features"), ("a whole number", _is_whole)
    ),
    **dict.fromkeys(("unlabelled", "recognise"), ("True or False", lambda value: isinstance(value, bool))),
    "day_first": ("True, False or None", lambda value: value is None or isinstance(value, bool)),
    **dict.fromkeys(
        ("encoding", "weight", "key"), ("text or None", lambda value: value is None or isinstance(value, str))
    ),
}


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
    dates
        What becomes of dates and times: `parts` (the age in seconds since the first, hour, weekday, day of the year),
        the `age` alone, or `drop`.
    day_first
        Whether 1/2/2024 is in February; None: seen from the first records, or an error where they do not show it.
    decimal, thousands
        How numbers are spelled in text. None: points before decimals, or commas where fields are separated by
        semicolons and the first records have no points; nothing between thousands.
    unit
        Columns of numbers with a unit, such as $1,234 or 12.5 kg, which is taken off.
    na
        What stands for a missing value beside the usual: `VALUE` in every column but the target's, `COLUMN=VALUE` in
        one.
    text
        Columns of text whose words become features, `text_features` of them.
    category
        Columns that are categories, whatever their values look like: a code of digits, a version, a time of a race.
    hashed
        Columns whose values share `hash_buckets` features, also where nearly every record has another value.
    encoding
        Of text files; None: UTF-8, or UTF-16 where a byte order mark says so, or in CSV files Latin-1 where it cannot
        be UTF-8.
    recognise
        Whether identifiers, numbers of other spellings and encodings are recognised at all.
    weight
        The column that holds the records' weights, which is no feature. A record of weight 0 settles nothing.
    key
        The column that holds the records' keys, which is no feature.
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
    dates: str = "parts"
    day_first: bool | None = None
    decimal: str | None = None
    thousands: str | None = None
    na: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    text_features: int = 128
    hashed: tuple[str, ...] = ()
    encoding: str | None = None
    recognise: bool = True
    weight: str | None = None
    category: tuple[str, ...] = ()
    key: str | None = None
    unit: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, list):
                object.__setattr__(self, each.name, tuple(value))
            elif each.name in _WORDS_OF and not _WORDS_OF[each.name][1](value):
                raise BraidedError(f"`{each.name}` is {shown(value)}: give {_WORDS_OF[each.name][0]}")
        checks.choice("`categories`", self.categories, ENCODINGS)
        if self.hash_buckets < 1:
            raise BraidedError(f"`hash_buckets` is {self.hash_buckets}: give a whole number from 1 on")
        if self.most_categories < 1:
            raise BraidedError(f"`most_categories` is {self.most_categories}: give a whole number from 1 on")
        checks.choice("`on_error`", self.on_error, POLICIES)
        checks.choice("`dates`", self.dates, dates.CHOICES)
        if not 1 <= self.text_features <= _MAX_TEXT_FEATURES:
            raise BraidedError(
                f"`text_features` is {self.text_features}: give a whole number from 1 to {_MAX_TEXT_FEATURES:,}"
            )
        if self.decimal is not None:
            checks.choice("`decimal`", self.decimal, (".", ","))
        if self.thousands is not None:
            checks.choice("`thousands`", self.thousands, ("", *SEPARATORS))
            if self.thousands == (self.decimal or "."):
                raise BraidedError(f"`thousands` {self.thousands!r} is what stands before decimals: give `decimal` too")
        if self.encoding is not None:
            _check_encoding(self.encoding)

    def named_columns(self) -> list[tuple[str, str]]:
        """The columns that settings name, each with the setting."""
        found = [
            (setting, name)
            for setting in ("drop", "text", "hashed", "category", "unit")
            for name in getattr(self, setting)
        ]
        return found + [("na", column) for column, _ in map(_split_na, self.na) if column]

    def is_weight(self, column: Hashable) -> bool:
        """Whether a column has the records' weights."""
        return self.weight is not None and str(column) == self.weight

    def missing_words(self, column: Hashable) -> frozenset[str]:
        """What stands for a missing value in a column beside the usual."""
        return frozenset(value for of, value in map(_split_na, self.na) if of in ("", str(column)))

    def missing_labels(self, target: Hashable | None) -> frozenset[str]:
        """What stands for a missing label beside the usual: only what is said of the target by its name."""
        return frozenset(value for of, value in map(_split_na, self.na) if of and of == str(target))

    def state(self) -> dict[str, Any]:
        """All but `tell`, as JSON can hold it."""
        held = {field_.name: getattr(self, field_.name) for field_ in fields(self) if field_.name != "tell"}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in held.items()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Rules:
        """The rules that `state` is of; what is not there is as usual."""
        held: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in state.items()
        }
        return cls(**held)

    def say(self, message: str) -> None:
        """Call `tell`, if there is one."""
        if self.tell is not None:
            self.tell(message)


DEFAULT_RULES = Rules()


def _split_na(given: str) -> tuple[str, str]:
    """Column and value of `--na COLUMN=VALUE`; `=VALUE` is a value of every column that has such a sign itself."""
    column, equals, value = given.partition("=")
    return (column.strip(), value.strip()) if equals else ("", given.strip())


def _check_encoding(name: str) -> None:
    try:
        "".encode(name)
    except (LookupError, ValueError):
        raise BraidedError(f"`encoding` {name!r} is not known: give one such as utf-8, latin-1 or utf-16") from None


@dataclass
class ReadingCounts:
    """What was noticed while a stream was read, up to the records given so far.

    Attributes
    ----------
    skipped_records, misfit_values
        What `on_error` let pass: records left out, and values that are taken as missing.
    first_problem
        The first of these, with its file and line.
    empty_cells
        Cells of a table without a value, in the records that are not left out.
    plan
        How each column is read, once that is known.
    crowded
        Columns with more values than have a feature of their own.
    encoder
        The encoder of the pass that goes on, or of the last one: what it has settled is saved with the model.
    """

    skipped_records: int = 0
    misfit_values: int = 0
    first_problem: str | None = None
    empty_cells: int = 0
    crowded: set[Hashable] = field(default_factory=set)
    plan: Plan | None = None
    encoder: Any = field(default=None, compare=False, repr=False)

    @property
    def missing_values(self) -> int:
        """Values that are missing, for either reason."""
        return self.misfit_values + self.empty_cells

    def restart(self) -> None:
        """Nothing was skipped yet."""
        self.load_state([0, 0, None, 0])

    def add(self, problem: str, records: int = 0, values: int = 0) -> None:
        """Count records that were skipped and values that are taken as missing, for this reason."""
        self.skipped_records += records
        self.misfit_values += values
        self.first_problem = self.first_problem or problem

    def state(self) -> list[Any]:
        """What `load_state` takes."""
        return [self.skipped_records, self.misfit_values, self.first_problem, self.empty_cells]

    def load_state(self, state: Sequence[Any]) -> None:
        """Go on counting from there."""
        self.skipped_records, self.misfit_values, self.first_problem, self.empty_cells = state
