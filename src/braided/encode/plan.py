"""The plan of a stream: how each column is read, as the first records show it, in words and as a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

#: Columns that are shown one by one; a file with more has its plain ones together.
_MAX_LINES = 40
_SHOWN_NAMES = 5
#: Names that are compared with one that is not there.
_MAX_COMPARED = 10_000


@dataclass(frozen=True)
class ColumnPlan:
    """How one column is read.

    Attributes
    ----------
    name
        The column.
    read_as
        `number`, `category`, `date`, `text`, `weight`, `key`, `ID`, `dropped`, `empty` where there was no value yet,
        or `unclear` where a user has to say it.
    missing
        Values that are missing in the records looked at.
    values
        Different values of a category or key in these records.
    features
        Features that it becomes; None where that grows with the values.
    note
        More about how, or why not.
    hint
        What looks odd in it, with the option for it.
    misfits, misfit
        How many values do not fit, and the first of them.
    """

    name: str
    read_as: str
    missing: int = 0
    values: int | None = None
    features: int | None = None
    note: str = ""
    hint: str = ""
    misfits: int = 0
    misfit: str = ""

    def words(self) -> str:
        """How it is read."""
        counted = f" with {self.values} {'value' if self.values == 1 else 'values'}"
        what = f"{self.read_as}{counted}" if self.read_as in ("category", "key") else self.read_as
        told = self.read_as in ("dropped", "unclear")
        note = f": {self.note}" if self.note and told else f" ({self.note})" if self.note else ""
        missing = f", {self.missing:,} missing" if self.missing else ""
        misfits = f", {self.misfits:,} that do not fit, such as {self.misfit}" if self.misfits else ""
        return f"{what}{note}{missing}{misfits}"

    @property
    def plain(self) -> bool:
        """Whether there is nothing to say but that these are numbers."""
        return self.read_as == "number" and not (self.missing or self.note or self.hint or self.misfits)


@dataclass(frozen=True)
class Plan:
    """How a stream is read.

    Attributes
    ----------
    records
        Records looked at, from the first on.
    target, target_values
        The label's column, None where it has no name, and its different values in these records.
    encoding, delimiter, decimal, thousands
        Of text; None where it does not apply.
    notes
        What was recognised and not said by the user.
    columns
        Each column.
    """

    records: int
    target: str | None
    target_values: int
    encoding: str | None
    delimiter: str | None
    decimal: str | None
    thousands: str | None
    notes: tuple[str, ...]
    columns: tuple[ColumnPlan, ...]

    def document(self) -> dict[str, Any]:
        """The plan as JSON can hold it."""
        return {**asdict(self), "notes": list(self.notes), "columns": [asdict(column) for column in self.columns]}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Plan:
        """The plan that a document is of."""
        columns = tuple(ColumnPlan(**column) for column in document["columns"])
        return cls(**{**document, "notes": tuple(document["notes"]), "columns": columns})

    def headline(self) -> str:
        """Kinds of columns and the target, in one line."""
        groups: dict[str, list[str]] = {}
        for column in self.columns:
            groups.setdefault(column.read_as, []).append(column.name)
        words = {"category": "categorical", "empty": "empty so far"}
        parts = [f"{len(groups.pop('number', ()))} numeric"]
        for read_as in ("category", "date", "text", "weight", "key", "ID", "dropped", "unclear", "empty"):
            if read_as in groups:
                names = groups[read_as]
                parts.append(f"{len(names)} {words.get(read_as, read_as)} ({listed(names)})")
        target = "target" if self.target is None else f"target {self.target}"
        seen = f"{self.target_values} different {'value' if self.target_values == 1 else 'values'} seen"
        return ", ".join([*parts, f"{target}: {seen}"])

    def lines(self) -> Iterator[str]:
        """The plan in words: the headline, what was recognised, and the columns."""
        yield self.headline()
        for note in self.notes:
            yield f"  {note}"
        together = [column for column in self.columns if column.plain] if len(self.columns) > _MAX_LINES else []
        alone = [column for column in self.columns if column not in together] if together else list(self.columns)
        width = min(max((len(column.name) for column in alone), default=0), 30)
        for column in alone[:_MAX_LINES]:
            yield f"  {column.name:<{width}}  {column.words()}"
            if column.hint:
                yield f"  {'':<{width}}  hint: {column.hint}"
        if len(alone) > _MAX_LINES:
            yield f"  and {len(alone) - _MAX_LINES:,} more columns: braided inspect --json has all"
        if together:
            yield f"  {len(together):,} columns ({listed([column.name for column in together])}): numbers, none missing"


def listed(names: list[str], wanted: str | None = None) -> str:
    """The first few names, and how many more there are; before them those that are spelled much like `wanted`.

    >>> listed(["a", "b", "c", "d", "e", "churn"], "Chrun")
    'churn, a, b, c, d and 1 more'
    """
    if wanted is not None:
        spelled = {name.lower(): name for name in reversed(names[:_MAX_COMPARED])}
        near = [spelled[word] for word in get_close_matches(wanted.lower(), spelled)]
        names = [*near, *(name for name in names if name not in near)]
    more = len(names) - _SHOWN_NAMES
    return ", ".join(names[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
