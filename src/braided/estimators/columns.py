"""Which column of raw records each feature comes from: users know columns, models know features."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from braided.streams.encode import words
from braided.streams.encode.cells import Kind
from braided.streams.encode.encoder import Encoder

Groups = dict[Hashable, list[Hashable]]


def columns_of(encoder: Encoder) -> dict[Hashable, Hashable]:
    """For each feature that has another name than its column, the column."""
    found: dict[Hashable, Hashable] = {}
    for column, kind in encoder.kinds.items():
        names: Iterable[Hashable] = ()
        if kind is Kind.DATE and column in encoder.dates:
            names = encoder.dates[column].names(column, encoder.rules.dates)
        elif kind is Kind.TEXT:
            names = words.names(column, encoder.rules.text_features)
        elif column in encoder.categories.known:
            names = [encoder.categories.name(column, value) for value in encoder.categories.known[column]]
        found |= dict.fromkeys(names, column)
    return found


def by_column(features: Iterable[Hashable], columns: Mapping[Hashable, Hashable]) -> Groups:
    """The features of each column, in order; one that `columns` does not name is a column by itself."""
    groups: Groups = {}
    for name in features:
        groups.setdefault(columns.get(name, name), []).append(name)
    return groups
