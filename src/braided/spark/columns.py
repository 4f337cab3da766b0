"""What each column of a stream is to a fleet, and how it travels to a worker and back without loss.

Spark hands rows to Python as data frames of pandas, in which whole numbers beside a null become floats, and times lose
their zone. What is to come back as it was therefore travels as text, and times as microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from braided.errors import BraidedError
from braided.extras import require
from braided.values import shown

PREDICTION, PROBABILITIES = ADDED = ("prediction", "probabilities")
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_WHOLE, "float", "double")
_TEXT, _FLAG = "string", "boolean"
_SIMPLE = (*_NUMBERS, _TEXT, _FLAG, "date", "timestamp", "timestamp_ntz", "decimal", "binary")
_ORDERED = (*_NUMBERS, _TEXT, "date", "timestamp", "timestamp_ntz", "decimal")
_TIME = "timestamp"
#: What `str.strip` takes away; Spark's own trim knows blanks alone.
_SPACES = "".join(filter(str.isspace, map(chr, range(0x3001))))


def whole(kind: str) -> bool:
    """Whether a type of Spark's is of whole numbers."""
    return kind in _WHOLE


def unpacked(text: str | None, kind: str) -> Any:
    """A label that travelled as text.

    >>> unpacked("7", "bigint"), unpacked("7", "string"), unpacked("true", "boolean"), unpacked(None, "string")
    (7, '7', True, None)
    """
    if text is None or kind == _TEXT:
        return text
    return int(text) if whole(kind) else text == "true"


def packed(value: Any) -> str:
    """A label as Spark writes it as text.

    >>> packed(7), packed("7"), packed(True)
    ('7', '7', 'true')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Columns:
    """What each column of a stream is.

    Attributes
    ----------
    key, target, weight
        Names; there may be no weight.
    order, features, kept
        Names, in order; what is kept is given back beside a prediction, the columns of the order first.
    kinds
        The type of each of the stream's columns, as Spark writes it.
    regression
        Whether the target is a number.
    """

    key: str
    target: str
    weight: str | None
    order: tuple[str, ...]
    features: tuple[str, ...]
    kept: tuple[str, ...]
    kinds: dict[str, str]
    regression: bool

    def check(self, encodes: bool) -> None:
        """Refuse names that are not there or there twice, and types that cannot be what they are to be.

        `encodes` says that the model takes text.
        """
        self._check_names()
        classes, numbers = (*_WHOLE, _TEXT, _FLAG), (*_NUMBERS, "decimal")
        target = (numbers, "a number") if self.regression else (classes, "text, booleans or whole numbers")
        feature = (*numbers, _FLAG, _TEXT) if encodes else (*numbers, _FLAG)
        text = "" if encodes else ", or give a model with encode=True if it is text"
        for what, listed, (allowed, wanted) in (
            ("the key", [self.key], (classes, "text, booleans or whole numbers")),
            ("the target", [self.target], target),
            ("the weight", self._weights, (numbers, "numbers")),
            ("the order", self.order, (_ORDERED, "times, numbers or text")),
            ("kept", self.kept, (_SIMPLE, "text, or join it later")),
            ("a feature", self.features, (feature, f"numbers or booleans{text}")),
        ):
            for name in listed:
                if self.kinds[name].partition("(")[0] not in allowed:
                    raise BraidedError(
                        f"column {name!r} is of type {self.kinds[name][:60]}, and cannot be {what}: cast it to {wanted}"
                    )

    @property
    def _weights(self) -> list[str]:
        return [] if self.weight is None else [self.weight]

    def _check_names(self) -> None:
        if not self.order:
            raise BraidedError("order names no column: give one, so that it is defined in which order a key learns")
        if not self.features:
            raise BraidedError("no column is left to be a feature: name some in features")
        for what, listed in (
            ("key", [self.key]), ("target", [self.target]), ("order", self.order), ("weight", self._weights),
            ("features", self.features), ("keep", self.kept),
        ):  # fmt: skip
            for name in listed:
                if name not in self.kinds:
                    raise BraidedError(
                        f"the stream has no column {shown(name)}, which {what} names: it has {', '.join(self.kinds)}"
                    )
        own = [self.key, self.target, *self._weights]
        for name in own:
            if own.count(name) > 1 or name in self.features:
                raise BraidedError(f"column {name!r} is to be two of key, target, weight and feature: choose one")
        for name in (self.key, *self.kept):
            if name in ADDED:
                raise BraidedError(f"column {name!r} would be there twice beside the answers: rename it")

    def sent(self, df: Any) -> Any:
        """What a worker is sent of a stream: the columns under names that can be attributes, as Spark needs."""
        F = require("pyspark.sql.functions", "spark")
        found = [self._key().alias("key")]
        found.append(_column(self.target).cast("double" if self.regression else "string").alias("target"))
        for place, name in enumerate(self.order):
            column, kind = _column(name), self.kinds[name]
            column = F.unix_micros(column) if kind == _TIME else column.cast("bigint") if whole(kind) else column
            found.append(column.alias(f"order_{place}"))
        if self.weight is not None:
            found.append(_column(self.weight).cast("double").alias("weight"))
        for place, name in enumerate(self.features):
            text = self.kinds[name] == _TEXT
            found.append((_column(name) if text else _column(name).cast("double")).alias(f"feature_{place}"))
        for place, name in enumerate(self.kept):
            column, kind = _column(name), self.kinds[name]
            column = F.unix_micros(column) if kind == _TIME else column
            column = column.cast("string") if kind == _TIME or whole(kind) else column
            found.append(column.alias(f"kept_{place}"))
        return df.select(*found)

    def _key(self) -> Any:
        """The key as `key_text` has it: equal texts must come to one worker."""
        F = require("pyspark.sql.functions", "spark")
        text = F.btrim(_column(self.key).cast("string"), F.lit(_SPACES))
        return F.nullif(text, F.lit(""))

    def answers(self) -> str:
        """What a worker sends back, in Spark's words."""
        kinds = [("key", "string")]
        for place, name in enumerate(self.kept):
            kind = self.kinds[name]
            kinds.append((f"kept_{place}", "string" if kind == _TIME or whole(kind) else kind))
        if self.regression:
            kinds.append((PREDICTION, "double"))
        else:
            kinds += [(PREDICTION, "string"), (PROBABILITIES, "map<string,double>")]
        return ", ".join(f"`{name}` {kind}" for name, kind in kinds)

    def received(self, df: Any) -> Any:
        """What a worker sent back, under the names and of the types of the stream."""
        F = require("pyspark.sql.functions", "spark")
        found = [F.col("key").cast(self.kinds[self.key]).alias(self.key)]
        for place, name in enumerate(self.kept):
            column, kind = F.col(f"kept_{place}"), self.kinds[name]
            if kind == _TIME:
                column = F.timestamp_micros(column.cast("bigint"))
            elif whole(kind):
                column = column.cast(kind)
            found.append(column.alias(name))
        if self.regression:
            return df.select(*found, F.col(PREDICTION))
        kind = self.kinds[self.target]
        found.append(F.col(PREDICTION).cast(kind).alias(PREDICTION))
        found.append(F.col(PROBABILITIES).cast(f"map<{kind},double>").alias(PROBABILITIES))
        return df.select(*found)


def names(what: str, given: Any) -> list[str]:
    """One name or several as a list, each a text that is there once."""
    found = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    for name in found:
        if not isinstance(name, str):
            raise BraidedError(f"{what} has {shown(name)}: give names of columns")
    if len(set(found)) != len(found):
        raise BraidedError(f"{what} names a column twice: name each once")
    return found


def _column(name: str) -> Any:
    """A column by its whole name, dots and all."""
    F = require("pyspark.sql.functions", "spark")
    return F.col("`" + name.replace("`", "``") + "`")
