"""River's imputer for columns that nobody has named beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from river.preprocessing import StatImputer
from river.stats import Mean, Mode


class ColumnImputer(StatImputer):
    """`StatImputer` for every column that has been learned: the mean of numbers, the most frequent of words.

    River's own wants its columns named at the start, and None in the place of what is missing. Here a column is known
    from the first record that has it, and may be left out of others. Before that, nothing is put in its place.

    Examples
    --------
    >>> imputer = ColumnImputer()
    >>> imputer.transform_one({"size": 2.0})
    {'size': 2.0}
    >>> for x in ({"size": 2.0}, {"size": 4.0, "colour": "red"}, {"colour": "blue"}, {"colour": "blue"}):
    ...     imputer.learn_one(x)
    >>> imputer.transform_one({}), imputer.transform_one({"colour": "red", "weight": 7.0})
    ({'size': 3.0, 'colour': 'blue'}, {'size': 3.0, 'colour': 'red', 'weight': 7.0})
    """

    def __init__(self) -> None:
        super().__init__()

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Know the columns of a record, and its values."""
        for name, value in x.items():
            if name not in self.stats and value is not None:
                self.stats[name] = Mode() if isinstance(value, str) else Mean()
        super().learn_one(self._with_all_columns(x))

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        """The record with a value for every known column."""
        return dict(super().transform_one(self._with_all_columns(x)))

    def _with_all_columns(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        return {**dict.fromkeys(self.stats), **x}
