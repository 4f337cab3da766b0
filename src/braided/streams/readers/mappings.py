"""Records that are mappings, nested or not, as columns of cells."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from braided.encode.cells import BadCell, Cells
from braided.encode.chunk import BadRecord, Chunk, LabelPiece, at, in_chunks
from braided.encode.encoder import Encoder
from braided.encode.flatten import NESTED, flat_columns, flatten, is_nested
from braided.errors import BraidedError
from braided.records import Labels
from braided.streams.readers.base import TARGET_NAMES
from braided.values import shown, sorted_names

#: The field that names a record beside its features, and the longest name.
_ID, _LONGEST_ID = "id", 200


class Pair(NamedTuple):
    """Features, label and weight of a record, and its ID with its time; None for what it has not."""

    features: dict[Hashable, Any]
    label: Any
    weight: Any = None
    id: str | int | None = None
    time: float | None = None


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
    record_id
        The name of the column of flat records that holds their IDs. In records of features and label it is `"id"`.
        A record that has nothing but ID and label is the label of an earlier one, which had none.
    key
        The column of the records' keys, None if nobody asks for them. One with further values inside is no key, and
        none of these is a feature.
    """

    def __init__(self, target: Hashable | None, record_id: str | None = None, key: str | None = None) -> None:
        self.target = target
        self.record_id = record_id
        self.key = key
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

    def split(self, record: Any) -> Pair | Labels:
        """One record taken apart, its features flat; or the one label of an earlier record."""
        if isinstance(record, tuple) and len(record) == 2 and isinstance(record[0], Mapping) and self.target is None:
            return Pair(self._flat(record[0]), record[1])
        if not isinstance(record, Mapping):
            raise BraidedError(f'{shown(record)}: give {{"x": {{"name": value, ...}}, "y": label}}, or flat records')
        if (self._paired or not self._settled) and record.keys() - {"w"} == {_ID, "y"}:
            return _label(_named(record), record["y"], record.get("w"))
        if not self._settled:
            self._settle(record)
        if self._paired:
            if not isinstance(record.get("x"), Mapping):
                raise BraidedError(f'{shown(record)}: give {{"x": {{"name": value, ...}}, "y": label}}')
            features = record["x"] if "key" not in record else {"key": record["key"], **record["x"]}
            return Pair(self._flat(features), record.get("y"), record.get("w"), checked_id(record.get(_ID)))
        if self.record_id is not None and record.keys() == {self.record_id, self.target}:
            return _label(_named(record, self.record_id), record[self.target])
        apart = {self.target, self.record_id}
        features = self._flat({name: value for name, value in record.items() if name not in apart})
        return Pair(features, record.get(self.target), None, checked_id(record.get(self.record_id)))

    def describe_to(self, encoder: Encoder) -> None:
        """Say for the plan what target and ID are called, once that is settled."""
        encoder.target = encoder.target or self.target
        if self.record_id is not None and not self._paired:
            encoder.found["id"] = self.record_id

    def _flat(self, record: Mapping[Any, Any]) -> dict[Hashable, Any]:
        """The features without nesting; a key with further values inside stays one cell, to be named as it is."""
        key = None if self.key is None else record.get(self.key)
        if not isinstance(key, NESTED) or (isinstance(key, np.ndarray) and not key.ndim):
            return flatten(record)
        return flatten({**record, self.key: BadCell(f"is {shown(key)}: give text or a whole number")})

    def _settle(self, record: Mapping[Any, Any]) -> None:
        if isinstance(record.get("x"), Mapping):
            self._paired = True
        else:
            usual = [name for name in record if isinstance(name, str) and name.lower() in TARGET_NAMES]
            if not usual:
                names = ", ".join(map(str, list(record)[:10]))
                raise UndecidedError(f"which name is the label's? choose `target` from {names or 'none: it is empty'}")
            self.target = usual[0]
        self._settled = True


def checked_id(name: Any) -> str | int | None:
    """An ID that a record may have, None for none."""
    if name is None or (type(name) is int and abs(name) < 2**63):
        return name
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_ID:
        raise BraidedError(
            f"the ID is {shown(name)}: give a text of at most {_LONGEST_ID} characters or a whole number"
        )
    return name


def _named(record: Mapping[Any, Any], field: str = _ID) -> str | int:
    """The ID of a label's record."""
    name = checked_id(record[field])
    if name is None:
        raise BraidedError(f"{shown(record)}: a label on its own needs the ID of its record")
    return name


def _label(name: str | int, target: Any, weight: Any = None) -> Labels:
    """The label of one earlier record, whose time is not known."""
    return Labels([name], [target], [weight], np.array([np.nan]))


def chunked(
    source: str,
    numbered: Iterable[tuple[int, Any]],
    parse: Callable[[Any], Any],
    splitter: Splitter,
    encoder: Encoder,
    by_row: bool = False,
) -> Iterator[Chunk | BadRecord | LabelPiece]:
    """Records, each with its line or row, in chunks whose columns are the names that appear in them."""

    def split() -> Iterator[tuple[int, Any] | BadRecord | LabelPiece]:
        for place, raw in numbered:
            try:
                pair = splitter.split(parse(raw))
            except UndecidedError as error:
                raise BraidedError(f"{at(source, place, by_row)}: {error}") from None
            except BraidedError as error:
                yield BadRecord(at(source, place, by_row), str(error))
                continue
            if isinstance(pair, Labels):
                yield LabelPiece([at(source, place, by_row)], pair)
                continue
            splitter.describe_to(encoder)
            yield place, pair

    return in_chunks(split(), partial(pairs_chunk, source, by_row=by_row))


def pairs_chunk(
    source: str, places: Sequence[int | str], pairs: list[Pair], after: Any = None, by_row: bool = False
) -> Chunk:
    """Flat records with their labels, weights and IDs as a chunk."""
    weights = [pair.weight for pair in pairs]
    weighted = weights if any(w is not None for w in weights) else None
    ids = [pair.id for pair in pairs]
    named = ids if any(name is not None for name in ids) else None
    times = None
    if named is not None and any(pair.time is not None for pair in pairs):
        times = np.array([np.nan if pair.time is None else pair.time for pair in pairs])
    flat, labels = columns([pair.features for pair in pairs]), [pair.label for pair in pairs]
    return Chunk(source, places, flat, labels, by_row, after=after, weights=weighted, ids=named, times=times)
