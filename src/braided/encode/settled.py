"""What an encoder has settled of the columns of a stream: kinds, forms of dates and numbers, categories."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, replace
from typing import Any, Self

from braided.encode import words
from braided.encode.categories import Categories
from braided.encode.cells import Kind
from braided.encode.dates import DateForm
from braided.encode.number_form import PLAIN, number_form, recognised
from braided.encode.plan import Plan
from braided.encode.rules import DEFAULT_RULES, ReadingCounts, Rules
from braided.encode.units import Unit

#: One thing that is settled: `["kind", column, kind]`, `["date", column, *form]`, `["unit", column, before, after]` or
#: `["category", column, value]`.
Step = list[Any]
#: Columns that are known and not read.
MAX_DROPPED = 100_000


class Settled:
    """What is known of the columns, how it grows, and how it is kept; parameters as of `Encoder`."""

    def __init__(self, rules: Rules = DEFAULT_RULES, counts: ReadingCounts | None = None) -> None:
        self.rules = rules
        self.counts = ReadingCounts() if counts is None else counts
        self.target: Hashable | None = None
        self.kinds: dict[Hashable, Kind] = {}
        self.kinds_known = False
        self.dates: dict[Hashable, DateForm] = {}
        self.units: dict[Hashable, Unit] = {}
        self.form = recognised([], None, rules.decimal, rules.thousands)
        #: What the reader found of the file, for the plan: `delimiter`, `encoding`, the column of the IDs as `id`, and
        #: as `header` the line in which the header seems to be, where it is not in the first.
        self.found: dict[str, str] = {}
        self.categories = Categories(
            rules.categories, rules.hash_buckets, rules.most_categories, self._tell_crowded, rules.hashed
        )
        #: Where to note each thing that is settled from now on; None: nowhere.
        self.growth: list[Step] | None = None
        self._declared: set[Hashable] = set()

    def copy(self) -> Self:
        """An independent copy of what is settled; it counts nothing, and tells nobody."""
        other = type(self)(replace(self.rules, tell=None))
        other.target, other.kinds, other.kinds_known = self.target, dict(self.kinds), self.kinds_known
        other.dates, other.units, other.form = dict(self.dates), dict(self.units), self.form
        other.categories.known = {column: dict(places) for column, places in self.categories.known.items()}
        return other

    def declare(self, column: Hashable, kind: Kind) -> None:
        """Take a column's kind from the file, which says it, not from the values."""
        self._declared.add(column)
        self.kinds[column] = kind

    def all_numbers(self, columns: Sequence[Hashable]) -> bool:
        """Whether these columns are known to be plain numbers, or without any value so far."""
        plain = self.kinds_known and self.form is PLAIN and not self.rules.na
        return plain and all(self.kinds.get(name, Kind.NUMERIC) is Kind.NUMERIC for name in columns)

    @contextmanager
    def trial(self) -> Iterator[list[Step]]:
        """Note what is settled within this, and take it back if it ends with an error."""
        noted: list[Step] = []
        self.growth = noted
        before = self.form, self.kinds_known, self.counts.plan
        try:
            yield noted
        except BaseException:
            self.undo(noted)
            self.form, self.kinds_known, self.counts.plan = before
            raise
        finally:
            self.growth = None

    def grow(self, step: Step) -> None:
        """Settle what another encoder with the same rules has noted."""
        what, column, *more = step
        if what == "kind":
            self.kinds[column] = Kind(more[0])
        elif what == "date":
            self.dates[column] = DateForm(*more)
        elif what == "unit":
            self.units[column] = Unit(*more)
        else:
            places = self.categories.known.setdefault(column, {})
            places.setdefault(more[0], len(places))

    def undo(self, steps: Sequence[Step]) -> None:
        """Take back the last things that were settled."""
        for what, column, *more in reversed(steps):
            if what == "kind":
                del self.kinds[column]
            elif what == "unit":
                del self.units[column]
            elif what == "category":
                del self.categories.known[column][more[0]]
            elif self.dates[column].first_us is None:
                del self.dates[column]
            else:
                self.dates[column] = replace(self.dates[column], first_us=None)

    def _note(self, *step: Any) -> None:
        if self.growth is not None:
            self.growth.append(list(step))

    def n_dropped(self) -> int:
        """Columns that are known and not read."""
        return sum(kind is Kind.DROPPED for kind in self.kinds.values())

    def _n_settled(self) -> int:
        """Features of the columns whose number does not grow with the values."""
        widths = {Kind.NUMERIC: 1, Kind.TEXT: self.rules.text_features}
        n = sum(widths.get(kind, 0) for name, kind in self.kinds.items() if not self.rules.is_weight(name))
        return n + sum(len(form.names(name, self.rules.dates)) for name, form in self.dates.items())

    def feature_columns(self) -> dict[Hashable, Hashable]:
        """For each feature that has another name than its column, the column."""
        found: dict[Hashable, Hashable] = {}
        for column, kind in self.kinds.items():
            names: Iterable[Hashable] = ()
            if kind is Kind.DATE and column in self.dates:
                names = self.dates[column].names(column, self.rules.dates)
            elif kind is Kind.TEXT:
                names = words.names(column, self.rules.text_features)
            elif column in self.categories.known:
                names = [self.categories.name(column, value) for value in self.categories.known[column]]
            found |= dict.fromkeys(names, column)
        return found

    def _tell_crowded(self, column: Hashable) -> None:
        """Warn of a column with ever new values, once for all passes over the stream."""
        if column not in self.counts.crowded:
            self.counts.crowded.add(column)
            self.rules.say(
                f"column {column!r} has more than {self.rules.most_categories:,} different values: those that follow "
                f"share {self.rules.hash_buckets} features; leave the column out with `drop={[str(column)]!r}`, "
                f"or give more of them a feature with `most_categories`"
            )

    def state(self) -> dict[str, Any]:
        """What `load_state` and `from_state` take, as JSON can hold it; of columns with text names."""
        return {
            "rules": self.rules.state(),
            "target": self.target,
            "kinds": [[name, kind.value] for name, kind in self.kinds.items()],
            "categories": self.categories.state(),
            "dates": [[name, *astuple(form)] for name, form in self.dates.items()],
            "units": [[name, *unit] for name, unit in self.units.items()],
            "numbers": astuple(self.form),
            "found": [*self.counts.state(), None],
            "plan": None if self.counts.plan is None else self.counts.plan.document(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """An encoder that goes on as the one that `state` is of, by its rules."""
        encoder = cls(Rules.from_state(state["rules"]))
        encoder.target = state["target"]
        encoder.load_state(state)
        return encoder

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on as another encoder would have; the rules stay this one's."""
        self.kinds = {name: Kind(kind) for name, kind in state["kinds"]}
        self.categories.load_state(state["categories"])
        self.dates = {name: DateForm(*form) for name, *form in state["dates"]}
        self.units = {name: Unit(*unit) for name, *unit in state["units"]}
        self.form = number_form(*state["numbers"])
        plan = state["plan"]
        self.counts.plan = None if plan is None else Plan.from_document(plan)
        *counts, _ = state["found"]
        self.counts.load_state(counts)
        self.kinds_known = True
