"""What an encoder has settled, as a part of saved models: JSON, checked as if a stranger had changed it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import astuple
from typing import Any, get_args, get_type_hints

from braided.encode.cells import Kind
from braided.encode.dates import SHAPES, DateForm
from braided.encode.encoder import Encoder
from braided.encode.number_form import SEPARATORS, number_form
from braided.encode.rules import Rules
from braided.encode.settled import MAX_DROPPED, Step
from braided.encode.units import LONGEST
from braided.errors import BraidedError
from braided.store import MAX_COUNT, REMEDY, checked, pack_name, reject_malformed, unpack_name

_WHAT = "the checkpoint's column rules"
_TYPES = {name: hint for name, hint in get_type_hints(Rules).items() if name != "tell"}
#: Of one rule that lists columns or values, and of a name or value in it.
_MAX_ITEMS, _MAX_TEXT = 10_000, 10_000
_LONGEST_EXAMPLE = 100
_IN_WORDS: dict[type | None, str] = {
    str: "a text",
    int: "a whole number from 0 on",
    bool: "true or false",
    list: f"a list of {_MAX_ITEMS:,} texts at most",
}
#: What says nothing about the columns.
OF_THE_READER = ("on_error", "unlabelled", "encoding", "max_features")
_WORDS = {
    Kind.NUMERIC: "number",
    Kind.CATEGORICAL: "category",
    Kind.DATE: "date",
    Kind.TEXT: "text",
    Kind.DROPPED: "dropped",
}
#: Microseconds, of the years that dates can have.
_MAX_US = 10**18


def pack_encoder(encoder: Encoder, known: Collection[Hashable] | None = None) -> dict[str, Any]:
    """What `restored_encoder` takes.

    Parameters
    ----------
    encoder
        The encoder.
    known
        Features that the model knows, if they are all that it ever knew: a reader may be ahead of its model, and
        categories that only later records have are left out.
    """
    categories = []
    for column, places in encoder.categories.known.items():
        values = list(places)
        while known is not None and values and encoder.categories.name(column, values[-1]) not in known:
            values.pop()
        if values:
            categories.append([pack_name(column), values])
    return {
        "rules": encoder.rules.state(),
        "target": None if encoder.target is None else pack_name(encoder.target),
        "numbers": list(astuple(encoder.form)),
        "units": [[pack_name(name), *unit] for name, unit in encoder.units.items()],
        "kinds": [[pack_name(name), kind.value] for name, kind in encoder.kinds.items()],
        "dates": [[pack_name(name), *astuple(form)] for name, form in encoder.dates.items()],
        "categories": categories,
    }


def restored_encoder(document: Any) -> Encoder:
    """The encoder that goes on as the one that was packed; what could not have been packed is refused."""
    rules = checked_rules(checked(_WHAT, document, "rules", dict))
    encoder = Encoder(rules)
    with reject_malformed(_WHAT):
        if document.get("target") is not None:
            encoder.target = unpack_name(document["target"])
        decimal, thousands = checked(_WHAT, document, "numbers", list)
        if decimal not in (".", ",") or thousands not in ("", *SEPARATORS) or decimal == thousands:
            raise ValueError(decimal)
        encoder.form = number_form(decimal, thousands)
        for what, key in (("date", "dates"), ("kind", "kinds"), ("unit", "units")):
            for item in checked(_WHAT, document, key, list):
                encoder.grow(checked_step([what, *item]))
        for column, values in checked(_WHAT, document, "categories", list):
            encoder.categories.known[unpack_name(column)] = {}
            for value in values:
                encoder.grow(checked_step(["category", column, value]))
        if len(encoder.kinds) != len(document["kinds"]) or len(encoder.dates) != len(document["dates"]):
            raise ValueError("a column stands there twice")
        if len(encoder.categories) != sum(len(values) for _, values in document["categories"]):
            raise ValueError("a category stands there twice")
        _check_dates(encoder)
        if any(encoder.kinds.get(name) is not Kind.NUMERIC for name in encoder.units):
            raise ValueError("a column with a unit holds no numbers")
    # Target, weight, and columns in which nothing has come yet, are no features.
    for name, number, most in (
        ("columns", len(encoder.kinds), rules.max_features + MAX_DROPPED),
        ("categories", len(encoder.categories), rules.max_features),
    ):
        if number > most:
            raise BraidedError(f"{_WHAT} have {number:,} {name}, and can have {most:,} at most")
    encoder.kinds_known = True
    return encoder


def _check_dates(encoder: Encoder) -> None:
    of_dates = {name for name, kind in encoder.kinds.items() if kind is Kind.DATE}
    if not of_dates <= encoder.dates.keys():
        raise ValueError("a column of dates has no form")


def summary(encoder: Encoder) -> dict[str, Any]:
    """The rules for people: those that are not as usual, and how each column is read."""
    usual, rules = Rules().state(), encoder.rules.state()
    own = {name: value for name, value in rules.items() if value != usual[name] and name not in OF_THE_READER}
    columns: list[dict[str, Any]] = []
    for name, kind in encoder.kinds.items():
        about: dict[str, Any] = {"name": str(name), "read_as": _WORDS[kind]}
        if name in encoder.units:
            about["unit"] = str(encoder.units[name])
        if encoder.rules.is_weight(name):
            about["read_as"] = "weight"
        if kind is Kind.CATEGORICAL:
            about["values"] = len(encoder.categories.known.get(name, ()))
        if kind is Kind.DATE:
            about["features"] = encoder.dates[name].names(name, encoder.rules.dates)
        if about["read_as"] not in ("weight", "dropped") and name != encoder.target:
            about["example"] = _example(encoder, name, kind)
        columns.append(about)
    numbers = {"decimal": encoder.form.decimal, "thousands": encoder.form.thousands}
    return {"rules": own, "numbers": numbers, "columns": columns}


def _example(encoder: Encoder, column: Hashable, kind: Kind) -> str | float | None:
    """A value of the column's kind, for somebody who writes a record by hand; None where JSON has none."""
    if kind is Kind.DATE:
        return encoder.dates[column].example()
    if kind is Kind.TEXT:
        return "some words"
    if kind is Kind.CATEGORICAL:
        hashed = encoder.categories.encoding == "hash" or column in encoder.categories.hashed
        values = () if hashed else encoder.categories.known.get(column, ())
        return next((value for value in values if isinstance(value, str) and len(value) <= _LONGEST_EXAMPLE), "a word")
    return 0.0


def pack_step(step: Step) -> Step:
    """A step of an encoder's growth, as JSON can hold it."""
    return [step[0], pack_name(step[1]), *step[2:]]


def checked_step(packed: Any) -> Step:
    """A step of an encoder's growth; one that no encoder could have noted is refused by a ValueError."""
    what, column, *more = packed
    name = unpack_name(column)
    hash(name)
    if what == "kind":
        (kind,) = more
        return [what, name, Kind(kind).value]
    if what == "date":
        form = DateForm(*more)
        known = form.shape in SHAPES and isinstance(form.day_first, bool) and isinstance(form.clock, bool)
        if not known or not (form.first_us is None or (type(form.first_us) is int and abs(form.first_us) < _MAX_US)):
            raise ValueError(form)
        return [what, name, *more]
    if what == "unit":
        before, after = more
        if not all(isinstance(part, str) and len(part) <= LONGEST for part in (before, after)):
            raise ValueError(more)
        return [what, name, before, after]
    (value,) = more
    if what != "category" or type(value) not in (str, int) or len(str(value)) > _MAX_TEXT:
        raise ValueError(value)
    return [what, name, value]


def checked_rules(packed: Mapping[str, Any]) -> Rules:
    """Rules, each of its type; what is not there is as usual."""
    if foreign := sorted(packed.keys() - _TYPES.keys()):
        raise BraidedError(f"{_WHAT}: {foreign[0]!r:.60} is not known to this braided: read it with one that is newer")
    for name, value in packed.items():
        kind = _wanted(name, value)
        if kind is list:
            texts = checked(_WHAT, packed, name, list)
            if not _are_texts(texts):
                raise BraidedError(f"{_WHAT}: {name!r} are not {_MAX_ITEMS:,} texts at most; {REMEDY}")
        elif kind is not None:
            checked(_WHAT, packed, name, kind, low=0, high=MAX_COUNT)
    return Rules.from_state(dict(packed))


def given_rules(given: Mapping[str, Any]) -> Rules:
    """Rules as a user writes them in JSON; what is wrong with one is told as of a setting.

    >>> given_rules({"decimal": 5})
    Traceback (most recent call last):
        ...
    braided.errors.BraidedError: encode: 'decimal' is 5: give a text
    """
    for name, value in given.items():
        if name not in _TYPES:
            known = ", ".join(sorted(_TYPES.keys() - set(OF_THE_READER)))
            raise BraidedError(f"encode: {name!r:.60} is not one of the rules: give some of {known}")
        kind = _wanted(name, value)
        fits = kind is None or type(value) is kind
        if not fits or (kind is list and not _are_texts(value)) or (kind is int and not 0 <= value <= MAX_COUNT):
            raise BraidedError(f"encode: {name!r} is {value!r:.60}: give {_IN_WORDS[kind]}")
    return Rules.from_state(dict(given))


def _wanted(name: str, value: Any) -> type | None:
    """The type that a rule's value must have, a list where there are several; None where it may be as it is."""
    hint = _TYPES[name]
    if hint == tuple[str, ...]:
        return list
    kinds = get_args(hint) or (hint,)
    return None if value is None and type(None) in kinds else kinds[0]


def _are_texts(texts: list[Any]) -> bool:
    return len(texts) <= _MAX_ITEMS and all(isinstance(text, str) and len(text) <= _MAX_TEXT for text in texts)
