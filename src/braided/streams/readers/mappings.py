"""Records that are mappings, nested or not, as columns of cells."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from braided.errors import BraidedError
from braided.option_names import option
from braided.streams.encode.cells import Cells
from braided.streams.encode.chunk import BadRecord, Chunk, at, in_chunks
from braided.streams.encode.encoder import Encoder
from braided.streams.encode.flatten import flat_columns, flatten, is_nested
from braided.streams.readers.base import TARGET_NAMES
from braided.values import shown, sorted_names

#: Features, label and weight of a record.
Pair = tuple[dict[Hashable, Any], Any, Any]


def columns(records: Sequence[Mapping[Hashable, Any]]) -> dict[Hashable, Cells]:
    """Flat records as columns, sorted by name; what a record does not have is missing in it."""
    names = sorted_names({name for record in records for name in record})
    return {name: [record.get(name) for record in records] for name in names}


def unnested(table: dict[Hashable, Cells]) -> dict[Hashable, Cells]:
    """Columns without nested cells: such a column becomes one for each of its inner names."""
    out: dict[Hashable, Cells] = {}
    for name, cells in table.items():
        if is_nested(cells):
            found = flat_columns(name, cells)
            out |= {inner: found[inner] for inner in sorted_names(found)}
        else:
            out[name] = cells
    return out


class UndecidedError(BraidedError):
    """It is not clear which name is the label's, so that no record can be read."""


class Splitter:
    """Takes records apart into features and label; their form is that of the first one.

    Parameters
    ----------
    target
        The label's name. None: records are `{"x": {...}, "y": label}`, with the record's weight as `"w"` and what it is
        of as `"key"`, a column of its own, where it has them; or they have a name like target, label, class or y.
    """

    def __init__(self, target: Hashable | None) -> None:
        self.target = target
        self._paired = False
        self._settled = target is not None

    @property
    def form(self) -> tuple[bool, Hashable | None]:
        """What is settled: whether records are of features and label, and the label's name."""
        return self._paired, self.target

    @form.setter
    def form(self, settled: tuple[bool, Hashable | None]) -> None:
        self._paired, self.target = settled
        self._settled = self._paired or self.target is not None

    def split(self, record: Any) -> Pair:
        """The features, flat, the label and the weight of one record, None where it has none."""
        if isinstance(record, tuple) and len(record) == 2 and isinstance(record[0], Mapping) and self.target is None:
            return flatten(record[0]), record[1], None
        if not isinstance(record, Mapping):
            raise BraidedError(f'{shown(record)}: give {{"x": {{"name": value, ...}}, "y": label}}, or flat records')
        if not self._settled:
            self._settle(record)
        if self._paired:
            if not isinstance(record.get("x"), Mapping):
                raise BraidedError(f'{shown(record)}: give {{"x": {{"name": value, ...}}, "y": label}}')
            features = record["x"] if "key" not in record else {"key": record["key"], **record["x"]}
            return flatten(features), record.get("y"), record.get("w")
        features = flatten({name: value for name, value in record.items() if name != self.target})
        return features, record.get(self.target), None

    def _settle(self, record: Mapping[Any, Any]) -> None:
        if isinstance(record.get("x"), Mapping):
            self._paired = True
        else:
            usual = [name for name in record if isinstance(name, str) and name.lower() in TARGET_NAMES]
            if not usual:
                names = ", ".join(map(str, list(record)[:10]))
                raise UndecidedError(
                    f"which name is the label's? choose {option('target')} from {names or 'none: it is empty'}"
                )
            self.target = usual[0]
        self._settled = True


def chunked(
    source: str,
    numbered: Iterable[tuple[int, Any]],
    parse: Callable[[Any], Any],
    splitter: Splitter,
    encoder: Encoder,
    by_row: bool = False,
) -> Iterator[Chunk | BadRecord]:
    """Records, each with its line or row, in chunks whose columns are the names that appear in them."""

    def split() -> Iterator[tuple[int, Any] | BadRecord]:
        for place, raw in numbered:
            try:
                pair = splitter.split(parse(raw))
            except UndecidedError as error:
                raise BraidedError(f"{at(source, place, by_row)}: {error}") from None
            except BraidedError as error:
                yield BadRecord(at(source, place, by_row), str(error))
                continue
            encoder.target = encoder.target or splitter.target
            yield place, pair

    return in_chunks(split(), partial(pairs_chunk, source, by_row=by_row))


def pairs_chunk(
    source: str, places: Sequence[int | str], pairs: list[Pair], after: Any = None, by_row: bool = False
) -> Chunk:
    """Flat records with their labels and weights as a chunk."""
    weights = [w for _, _, w in pairs]
    weighted = weights if any(w is not None for w in weights) else None
    flat, labels = columns([x for x, _, _ in pairs]), [y for _, y, _ in pairs]
    return Chunk(source, places, flat, labels, by_row, after=after, weights=weighted)
