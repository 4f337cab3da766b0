"""Raw records in front of a model: text, dates and numbers as a file has them, in the shape of a River transformer."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import chain, islice
from typing import Any, Self

from river import base

from braided.encode import encoder as streams
from braided.encode.chunk import CHUNK_RECORDS
from braided.encode.flatten import flatten
from braided.encode.plan import Plan
from braided.encode.rules import DEFAULT_RULES, Rules
from braided.errors import BraidedError
from braided.estimators import frames
from braided.values import shown


class Encoder(base.Transformer):
    """Makes numbers of raw records, as `braided run` does of a file, and remembers how.

    The first value of a column says what the column is, unless `look` saw more of them: a number stays one, a category
    becomes a feature `column=value` for each value seen, a date its age and its place in the day, the week and the
    year. A category that is new when a record is learned is a feature from then on. `rules` are `braided.streams.Rules`
    if not the usual ones. Models of this library have an encoder built in, saved and loaded with them:
    `MODLClassifier(encode=True)`, or `encode=braided.Encoder(...)` for other rules.

    Examples
    --------
    In front of any model of River, and what a record becomes:

    >>> import braided
    >>> from river import linear_model
    >>> model = braided.Encoder() | linear_model.LogisticRegression()
    >>> for _ in range(20):
    ...     model.learn_one({"machine": "M-07", "at": "2026-03-01 10:00", "t": "20.5"}, False)
    ...     model.learn_one({"machine": "M-08", "at": "2026-03-01 22:00", "t": "20.7"}, True)
    >>> print(f"{model.predict_proba_one({'machine': 'M-08', 'at': '2026-03-02 23:00', 't': 20.6})[True]:.2f}")
    1.00

    >>> encoder = braided.Encoder()
    >>> encoder.learn_one({"machine": "M-07", "t": "20.5"})
    >>> encoder.transform_one({"machine": "M-07", "t": None})
    {'machine=M-07': 1.0}
    """

    def __init__(self, rules: Rules | None = None) -> None:
        if rules is not None and not isinstance(rules, Rules):
            raise BraidedError(f"rules is {shown(rules)}: give braided.streams.Rules(...), or None for the usual")
        self.rules = rules
        self._settled = streams.Encoder(rules or DEFAULT_RULES)

    @classmethod
    def _around(cls, settled: streams.Encoder) -> Self:
        """One that goes on with what the reader of a stream has settled."""
        made = cls(settled.rules)
        made._settled = settled
        return made

    def look(self, records: Any) -> Plan:
        """Settle what the columns are by the first 500 records, as `braided run` does; the plan says how they are read.

        `records` are a list or other iterable of raw records, or a data frame. Without it the first value of a column
        decides: "unknown" makes a category of a column of numbers, and 1/2/2024 does not show whether the day stands
        first. `learn_many` of a model looks at its first table by itself.

        Examples
        --------
        >>> import braided
        >>> records = [{"day": "1/2/2024", "t": "20,5"}, {"day": "31/1/2024", "t": "unknown"}] * 30
        >>> encoder = braided.Encoder(braided.streams.Rules(na=("unknown",), dates="age", decimal=","))
        >>> for line in encoder.look(records).lines():
        ...     print(line)
        1 numeric, 1 date (day), target: 0 different values seen
          day  date (day first, as .age)
          t    number, 30 missing
        >>> encoder.learn_one(records[0])
        >>> encoder.transform_one(records[1])
        {'day.age': -86400.0}
        """
        if self._settled.kinds:
            raise BraidedError("the encoder has read records already: look at records before the first is learned")
        if (frame := frames.opened(records)) is not None:
            columns, n = frame.raw_columns(1)
        else:
            rows = [flatten(record) for record in islice(records, CHUNK_RECORDS)]
            columns, n = {name: [row.get(name) for row in rows] for name in dict.fromkeys(chain(*rows))}, len(rows)
        with self._settled.trial():
            self._settled.look(columns, n)
        plan = self._settled.counts.plan
        assert plan is not None
        return plan

    def learn_one(self, x: Mapping[Hashable, Any]) -> None:
        """Settle what the columns of a record are, and know its categories."""
        with self._settled.trial():
            self._settled.encode_one(x)

    def transform_one(self, x: Mapping[Hashable, Any]) -> dict[Hashable, float]:
        """The features of a record, without the missing ones; of what was never seen, numbers alone."""
        return self._settled.encode_one(x, learn=False)
