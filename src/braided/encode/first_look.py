"""What the first records of a column show: identifiers, codes for missing values, counters, and text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.encode.cells import (
    Cells,
    Kind,
    as_category,
    kind_of,
    lacks_label,
    moments,
    numbers,
    plain_numbers,
)
from braided.encode.chunk import Chunk
from braided.encode.dates import DateForm, may_be_a_code
from braided.encode.number_form import (
    PLAIN,
    NumberForm,
    like_thousands,
    number_words,
    readings,
    signed_otherwise,
    spelled,
)
from braided.encode.plan import ColumnPlan
from braided.encode.rules import Rules
from braided.encode.units import unit_of
from braided.records import Records
from braided.values import shown

#: Fewer values than this say nothing about what a column is.
_LEAST = 50
#: A text column is one of identifiers if at least this share of its values are different.
_SHARE = 0.9
#: A code for missing values is in at least this share of the records, so many times as far off as all others span.
_CODE_SHARE, _FAR = 0.02, 2.0
#: Codes for missing values of a few numbers are spelled like one: 9, -99, 777; or the others are at least so many.
_LIKE_A_CODE, _MANY = re.compile(r"-1|-?([789])\1*"), 10
#: Seconds since 1970 of the years from 2001 to 2065.
_EPOCH = (1e9, 3e9)
#: Dates of more years than this, written with two digits each, may be versions.
_YEARS = 10
#: A column with some words in it that is so much of it numbers, or dates, may be one of these.
_MOSTLY = 0.5
#: Letters of a word that may stand for a missing value.
_LONGEST = 40
#: Values of so many words on average are text.
_WORDS = 3.0
#: Digits from which on a leading zero is that of a code, not of a month or an hour.
_CODE_DIGITS, _MAX_CODE_DIGITS = 3, 40


def is_identifier(cells: Cells) -> tuple[int, int] | None:
    """Different values and values of a text column in which nearly each is another; None for any other."""
    present = [word for cell in cells if (word := as_category(cell)) is not None]
    different = len(set(present))
    return (different, len(present)) if len(present) >= _LEAST and different >= _SHARE * len(present) else None


def why_dropped(name: Hashable, cells: Cells, form: NumberForm) -> str:
    """What to say of a column of identifiers."""
    found = is_identifier(cells)
    assert found is not None
    if hint := _spelling_hint(name, cells, form):
        return f"{hint}; `hashed={[str(name)]!r}` keeps it as it is"
    words = [len(word.split()) for cell in cells if (word := as_category(cell)) is not None]
    if sum(words) >= _WORDS * len(words):
        return f"{found[0]} different texts in {found[1]} records; `text={[str(name)]!r}` reads their words"
    return f"{found[0]} different values in {found[1]} records; `hashed={[str(name)]!r}` keeps it"


def _spelling_hint(name: Hashable, cells: Cells, form: NumberForm) -> str:
    """What to say of a column of numbers whose spelling is not sure, or that have a unit."""
    if unit_of(cells) is not None:
        some = ", ".join(list(dict.fromkeys(word for cell in cells if (word := as_category(cell))))[:3])
        return f"looks like numbers with a unit, such as {some}: give `unit={[str(name)]!r}`"
    words = spelled(cells)
    if not words:
        odd = signed_otherwise(cells)
        plain = "" if odd is None else f"-{odd.strip('()-').strip()}"
        return "" if odd is None else f"looks like numbers, such as {odd}: if that is {plain}, write it so"
    ways = []
    for other, plain in readings(words, form):
        settings = [f"`decimal={other.decimal!r}`"] if other.decimal != form.decimal else []
        settings += [f"`thousands={other.thousands!r}`"] if other.thousands else []
        ways.append(f"{' '.join(settings)} for {plain}")
    either = " or ".join(ways) or "`decimal` or `thousands`"
    return f"looks like numbers, such as {words[0]}: give {either}"


def _odd_word(name: Hashable, cells: Cells, form: NumberForm) -> str:
    """What to say of a column that is one of numbers or dates but for some words, most of them the same one."""
    kinds = [(kind, cell) for cell in cells if (kind := kind_of(cell, form)) is not None]
    words = Counter(str(cell).strip() for kind, cell in kinds if kind is Kind.CATEGORICAL)
    others = Counter(kind for kind, _ in kinds if kind is not Kind.CATEGORICAL)
    if len(kinds) < _LEAST or not words or not others or others.most_common(1)[0][1] < _MOSTLY * len(kinds):
        return ""
    what = {Kind.NUMERIC: "numbers", Kind.DATE: "dates"}[others.most_common(1)[0][0]]
    word, times = words.most_common(1)[0]
    if times < _MOSTLY * words.total() or len(word) > _LONGEST:
        return ""
    return f"mostly {what}: if {word!r} means missing, give {as_missing(name, word)}"


def may_mean_missing(cell: Any) -> bool:
    """Whether a cell in a column of numbers or dates may stand for a missing value: n/d, or 0000-00-00."""
    word = cell.strip() if isinstance(cell, str) else ""
    return 0 < len(word) <= _LONGEST and not any(digit in word for digit in "123456789")


def as_missing(name: Hashable, cell: str) -> str:
    """The setting that takes a value of a column for a missing one."""
    return f"`na={[f'{name}={cell.strip()}']!r}`"


def plan_of(
    name: Hashable,
    cells: Cells,
    kind: Kind | None,
    form: NumberForm,
    date: DateForm | None,
    rules: Rules,
    why: str,
    declared: bool = False,
) -> ColumnPlan:
    """The plan of one column, from its first cells; `declared` if the file says its kind."""
    if rules.is_weight(name) and kind in (Kind.NUMERIC, None):
        return ColumnPlan(str(name), "weight", sum(as_category(cell) is None for cell in cells), features=0)
    if kind is Kind.NUMERIC:
        values, wrong = numbers(cells, form)
        missing = int(np.isnan(values).sum()) - len(wrong)
        hint = _leading_zero(name, cells) or _number_hint(name, values) or _thousands_hint(cells, form, rules)
        plan = ColumnPlan(str(name), "number", missing, features=1, note=why, hint=hint)
        return _with_misfits(plan, name, cells, [row for row, _ in wrong], form)
    missing = sum(as_category(cell) is None for cell in cells)
    if kind is None:
        return ColumnPlan(str(name), "unclear" if why else "empty", missing, note=why)
    if kind is Kind.DROPPED:
        return ColumnPlan(str(name), "dropped", missing, features=0, note=why)
    if kind is Kind.TEXT:
        n = rules.text_features
        return ColumnPlan(str(name), "text", missing, features=n, note=f"words and pairs of words in {n} features")
    if kind is Kind.DATE:
        assert date is not None
        names = date.names(name, rules.dates)
        note, hint = _date_note(name, names, date), _like_versions(name, cells)
        plan = ColumnPlan(str(name), "date", missing, features=len(names), note=note, hint=hint)
        return _with_misfits(plan, name, cells, [row for row, _ in moments(cells, date)[1]], form)
    return _category_plan(name, cells, missing, form, rules, declared or name in rules.category)


def key_and_id(parts: Sequence[Chunk | Records], key: str | None, record_id: str | None) -> list[ColumnPlan]:
    """The plans of the columns of some records that are no features: whose each is, and under which ID it comes."""
    found = []
    if key is not None and any(part.keys is not None for part in parts):
        keys = [one for part in parts for one in part.keys or [None] * len(part)]
        different = len({one for one in keys if isinstance(one, str)})
        found.append(ColumnPlan(key, "key", keys.count(None), different, features=0))
    if record_id is not None:
        ids = [one for part in parts for one in part.ids or [None] * len(part)]
        found.append(ColumnPlan(record_id, "ID", ids.count(None), features=0))
    return found


def with_id_hint(plans: Sequence[ColumnPlan], parts: Sequence[Chunk | Records]) -> list[ColumnPlan]:
    """Plans with a hint at the column that alone is beside a label, where other records have it and no label."""
    column = _alone_beside_labels([part for part in parts if isinstance(part, Chunk) and not part.table])
    hint = f"all that is beside a label: if it joins labels to earlier records, give `id={str(column)!r}`"
    return [replace(plan, hint=hint) if column is not None and plan.name == str(column) else plan for plan in plans]


def _alone_beside_labels(chunks: Sequence[Chunk]) -> Hashable | None:
    labelled: set[tuple[Hashable, ...]] = set()
    waiting: set[Hashable] = set()
    for chunk in chunks:
        for row, label in enumerate(chunk.labels):
            names = tuple(name for name, cells in chunk.columns.items() if as_category(cells[row]) is not None)
            if not lacks_label(label, chunk.spelled):
                labelled.add(names)
            elif len(names) > 1:
                waiting.update(names)
    if len(labelled) != 1:
        return None
    (names,) = labelled
    return names[0] if len(names) == 1 and names[0] in waiting else None


def _with_misfits(plan: ColumnPlan, name: Hashable, cells: Cells, rows: Sequence[int], form: NumberForm) -> ColumnPlan:
    """The plan of a column some of whose values do not fit."""
    if not rows:
        return plan
    first = cells[rows[0]]
    hint = (may_mean_missing(first) and _odd_word(name, cells, form)) or plan.hint
    return replace(plan, hint=hint, misfits=len(rows), misfit=shown(as_category(first)))


def _date_note(name: Hashable, names: Sequence[str], date: DateForm) -> str:
    order = ""
    if date.shape == "day and month first":
        order = "day first, " if date.day_first else "month first, "
    return f"{order}as {', '.join(part.removeprefix(str(name)) for part in names)}"


def _leading_zero(name: Hashable, cells: Cells) -> str:
    """What to say of numbers such as 00042, which are as many different ones as 42."""
    if isinstance(cells, np.ndarray):
        return ""
    for cell in cells:
        word = cell.strip() if isinstance(cell, str) else ""
        digits = word.isascii() and word.isdigit() and _CODE_DIGITS <= len(word) <= _MAX_CODE_DIGITS
        if digits and word.startswith("0"):
            settle = f"`category={[str(name)]!r}`"
            return f"read as numbers, so that {word} is {int(word)}: if it is a code, give {settle}"
    return ""


def _thousands_hint(cells: Cells, form: NumberForm, rules: Rules) -> str:
    """What to say of numbers such as 6.411 beside 763, if nobody has said how numbers are spelled."""
    said = rules.decimal is not None or rules.thousands is not None
    if form is not PLAIN or said or isinstance(cells, np.ndarray) or (word := like_thousands(cells)) is None:
        return ""
    return f"if {word} is {word.replace('.', '')}, give `decimal=','` `thousands='.'`"


def _like_versions(name: Hashable, cells: Cells) -> str:
    """What to say of dates that could be something else."""
    words = [cell.strip() for cell in cells if may_be_a_code(cell)]
    years = {word[-2:] for word in words}
    return f"if {words[0]} is no date, give `category={[str(name)]!r}`" if len(years) > _YEARS else ""


def _category_plan(
    name: Hashable, cells: Cells, missing: int, form: NumberForm, rules: Rules, said: bool
) -> ColumnPlan:
    values = len({word for cell in cells if (word := as_category(cell)) is not None})
    hashed = rules.categories == "hash" or name in rules.hashed
    note, hint = "", ""
    if hashed:
        note = f"hashed into {rules.hash_buckets} features"
    elif values > rules.most_categories:
        note = f"the first {rules.most_categories:,} have a feature each, the others share {rules.hash_buckets}"
    if not hashed and not said:  # what is said to be a category may look like numbers
        hint = _spelling_hint(name, cells, form) or _odd_word(name, cells, form)
    return ColumnPlan(str(name), "category", missing, values, rules.hash_buckets if hashed else None, note, hint)


def _number_hint(name: Hashable, values: NDArray[np.float64]) -> str:
    present = values[~np.isnan(values)]
    if len(present) < _LEAST:
        return ""
    code = _missing_code(present)
    if code is not None:
        times = int((present == code).sum())
        said = f"{code:.15g}"
        return f"{said} in {times} of {len(values)} records: if it means missing, give {as_missing(name, said)}"
    if (np.diff(present) > 0).all() and (present == np.trunc(present)).all():
        for unit, per_second in (("seconds", 1), ("milliseconds", 1_000), ("microseconds", 10**6)):
            if _EPOCH[0] <= present[0] / per_second and present[-1] / per_second < _EPOCH[1]:
                return f"looks like {unit} since 1970: read as one number, which only counts up"
        return f"only counts up: if it numbers the records, leave it out with `drop={[str(name)]!r}`"
    return ""


def _missing_code(present: NDArray[np.float64]) -> float | None:
    """An extreme value that many records have, far off all others."""
    for code in (float(present.min()), float(present.max())):
        others = present[present != code]
        if len(others) == 0 or len(present) - len(others) < max(_CODE_SHARE * len(present), 2):
            continue
        if len(np.unique(others)) < _MANY and _LIKE_A_CODE.fullmatch(f"{code:.15g}") is None:
            continue
        low, high = float(others.min()), float(others.max())
        if low < high and max(low - code, code - high) > _FAR * (high - low):
            return code
    return None


def words_of_numbers(columns: Sequence[Cells]) -> list[list[str]]:
    """The words of the columns in the first records that are digits with something between them."""
    others = [cells for cells in columns if plain_numbers(cells) is None]
    found = [words for cells in others if (words := number_words(cells))]
    if found:  # what is plain speaks only for or against another spelling
        for cells in columns:
            if not isinstance(cells, np.ndarray) and all(cells is not other for other in others):
                found.append(number_words(cells))
    return found


def settings_notes(form: NumberForm, found: dict[str, Any], rules: Rules) -> list[str]:
    """What was recognised of the spelling and the file, for the plan."""
    notes = []
    if line := found.get("header"):
        notes.append(f"the header seems to be in line {line}: give `skip_rows={int(line) - 1}` if it is")
    if found.get("encoding", "utf-8") != "utf-8" and rules.encoding is None:
        notes.append(f"text in {found['encoding']}, recognised from its bytes; `encoding` says otherwise")
    if form is not PLAIN and form.decimal == "," and rules.decimal is None:
        notes.append("decimal commas, as the first records and the semicolons show; `decimal='.'` says otherwise")
    return notes
