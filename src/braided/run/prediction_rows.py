"""What `--predictions` says of each record, wherever it goes.

The columns are the record's number, its label if it has one, the prediction, the record's ID if it has one, and for
each class its probability; where a command runs several models or seeds, the model and the seed come first. A
probability is left out where it is 0, as that of a class that was not known yet.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from braided.records import Predictions, Records

#: The column of the records' IDs.
ID = "id"
_FIRST = ("record", "label", "prediction")
_RUN = ("model", "seed")


class PredictionRows:
    """Makes rows of predictions.

    Parameters
    ----------
    several
        Whether rows are of several runs.

    Attributes
    ----------
    first
        Names of the columns that every row has.
    columns
        Those of the ID, if a record had one, and of the probabilities so far: more may come.
    """

    def __init__(self, several: bool) -> None:
        self.first = [*(_RUN if several else ()), *_FIRST]
        self.columns: list[str] = []
        self._several = several
        self._named: dict[Hashable, str] = {}
        self._run: list[Any] = []

    def of_run(self, model: str, seed: int) -> None:
        """The rows that follow are of this run."""
        self._run = [model, seed] if self._several else []

    def of(
        self, number: int, batch: Records, progress: Predictions, classes: Sequence[Hashable]
    ) -> Iterator[tuple[list[Any], dict[str, Any]]]:
        """For each record, from that number on, its first columns and, by column, its ID and its probabilities."""
        regression = not classes and progress.values.shape[1] == 1
        names = [] if regression else [self._column_of(label) for label in classes[: progress.values.shape[1]]]
        ids = batch.ids or [None] * len(batch)
        named = [ID] if any(one is not None for one in ids) else []
        self.columns += [name for name in (*named, *names) if name not in self.columns]
        for t, (label, row) in enumerate(zip(batch.known_targets, progress.values.tolist(), strict=True)):
            if regression:
                said: Any = row[0]
            else:
                best = progress.answer(t)
                said = None if best is None else classes[best]
            its_id = ids[t]
            more: dict[str, Any] = {} if its_id is None else {ID: its_id}
            more |= {name: share for name, share in zip(names, row, strict=True) if share} if names else {}
            yield [*self._run, number + t, label, said], more

    def document(self, fixed: list[Any], more: dict[str, Any]) -> dict[str, Any]:
        """A row as JSON has it."""
        return {**dict(zip(self.first, map(_plain, fixed), strict=True)), **more}

    def _column_of(self, label: Hashable) -> str:
        """The column of a class's probability; a label that is spelled like another gets its type behind it."""
        if label not in self._named:
            column = f"p_{label}"
            taken = column in self._named.values()
            self._named[label] = f"{column} ({type(label).__name__})" if taken else column
        return self._named[label]


def _plain(value: Any) -> Any:
    """A label as JSON."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
