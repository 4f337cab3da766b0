"""ARFF, the format of Weka and MOA: declared columns, then records, dense or sparse."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Hashable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from braided.encode.cells import BadCell, Kind
from braided.encode.chunk import BadRecord, Chunk, Piece, in_chunks
from braided.encode.encoder import Encoder
from braided.errors import BraidedError
from braided.streams import text_files
from braided.streams.readers.base import FileStream, target_place
from braided.values import shown

_NUMERIC = frozenset({"numeric", "real", "integer"})
_QUOTED = r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
_NAME = re.compile(rf"\s+({_QUOTED}|[^\s{{]+)\s*(.*)", re.DOTALL)
#: One field and what ends it.
_FIELD = re.compile(rf"\s*({_QUOTED}|(?!['\"])[^,\t]*?)\s*(?:([,\t])|$)")
_SPARSE = re.compile(rf"\s*(\d{{1,9}})\s+({_QUOTED}|(?!['\"])[^,\s]+)\s*(?:(,)|$)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True)
class _Attribute:
    """A declared column: its name, its kind (None: text), and its values if it is nominal."""

    name: str
    kind: Kind | None
    values: tuple[str, ...] = ()


def _plain(word: str) -> str:
    """A word without its quotes and escapes."""
    if word[:1] in {"'", '"'} and len(word) > 1:
        return _ESCAPE.sub(r"\1", word[1:-1])
    return word


def _fields(line: str) -> list[str | None]:
    """The fields of a dense row; None for an unquoted question mark."""
    if "'" not in line and '"' not in line:
        words = line.replace("\t", ",").split(",")
        return [None if (word := field_.strip()) == "?" else word for field_ in words]
    out: list[str | None] = []
    at = 0
    while True:
        match = _FIELD.match(line, at)
        if match is None:
            raise BraidedError(f"a quote is not closed, or something follows it: {shown(line[at:].strip())}")
        out.append(None if match[1] == "?" else _plain(match[1]))
        at = match.end()
        if match[2] is None:
            return out


def _pairs(line: str) -> list[tuple[int, str | None]]:
    """Places and words of a sparse row, `{place value, ...}`."""
    inner = line[1:-1].strip()
    out: list[tuple[int, str | None]] = []
    at = 0
    while at < len(inner):
        match = _SPARSE.match(inner, at)
        if match is None:
            raise BraidedError(f"{shown(inner[at:])} is not `place value`: mend the line")
        out.append((int(match[1]), None if match[2] == "?" else _plain(match[2])))
        at = match.end()
    return out


def _attribute(declaration: str) -> _Attribute:
    match = _NAME.fullmatch(declaration)
    if match is None or not match[2]:
        raise BraidedError("give @attribute NAME TYPE")
    name, kind = _plain(match[1]), match[2].strip()
    if kind.startswith("{"):
        if not kind.endswith("}"):
            raise BraidedError(f"the values of {name!r} do not end with }}")
        values = tuple(word for word in _fields(kind[1:-1]) if word is not None)
        booleans = {value.lower() for value in values} <= {"true", "false"}
        return _Attribute(name, None if booleans else Kind.CATEGORICAL, values)
    word = kind.split()[0].lower()
    if word in _NUMERIC:
        return _Attribute(name, Kind.NUMERIC)
    if word in {"string", "date"}:
        return _Attribute(name, None if word == "string" else Kind.DATE)
    raise BraidedError(f"{name!r} is of type {shown(kind)}: numeric, nominal, string or date only")


@dataclass(frozen=True)
class ARFFStream(FileStream):
    """Records from an ARFF file.

    Nominal columns are categorical even where their values look like numbers, except those of `true` and `false`
    alone. What a sparse record leaves out is 0, or the first declared value of a nominal column, as the format has it.

    Attributes
    ----------
    path
        The file; packed if it ends in .gz or .zst.
    target
        Name of the label's column. None: a column called target, label, class or y, else the last one.
    """

    target: str | None = None

    def _attributes(self) -> tuple[list[_Attribute], int]:
        """The declared columns, and the number of the line @data."""
        found: list[_Attribute] = []
        count = 0
        for count, line in enumerate(text_files.lines(self.path, self.rules.encoding), start=1):
            line = line.strip()
            if not line or line.startswith("%"):
                continue
            word = line.split(None, 1)[0].lower()
            try:
                if word == "@data":
                    break
                if word == "@attribute":
                    found.append(_attribute(line[len(word) :]))
                elif word != "@relation":
                    raise BraidedError(f"{shown(line)} before @data: give @relation, @attribute or @data")
            except BraidedError as error:
                raise BraidedError(f"{self.path}:{count}: {error}") from None
        else:
            raise BraidedError(f"{self.path}:{max(count, 1)}: the file ends before @data: give a whole ARFF file")
        if len(found) < 2:
            raise BraidedError(f"{self.path}:{count}: {len(found)} attributes: declare a target and a feature at least")
        return found, count

    def chunks(self, encoder: Encoder) -> Generator[Piece]:
        """The records."""
        attributes, data = self._attributes()
        names = [attribute.name for attribute in attributes]
        target = target_place(names, self.target, str(self.path), self.rules)
        encoder.target = names[target]
        for attribute in attributes:
            if attribute.kind is not None:
                encoder.declare(attribute.name, attribute.kind)
        checks = [_check(attribute) for attribute in attributes]
        absent: list[Any] = [attribute.values[0] if attribute.values else "0" for attribute in attributes]

        def chunk(places: list[int], rows: list[list[Any]]) -> Chunk:
            turned = [
                cells if check is None else list(map(check, cells))
                for cells, check in zip(zip(*rows, strict=True), checks, strict=True)
            ]
            columns: dict[Hashable, Any] = {name: turned[i] for i, name in enumerate(names) if i != target}
            return Chunk(str(self.path), places, columns, turned[target], spelled=True, table=True)

        yield from in_chunks(self._rows(data, absent), chunk)

    def _rows(self, data: int, absent: list[Any]) -> Iterator[tuple[int, list[Any]] | BadRecord]:
        """The rows after the line @data, each with its line."""
        for count, line in islice(enumerate(text_files.lines(self.path, self.rules.encoding), start=1), data, None):
            line = line.strip()
            if not line or line.startswith("%"):
                continue
            try:
                yield count, self._row(line, absent)
            except BraidedError as error:
                yield BadRecord(f"{self.path}:{count}", str(error))

    def _row(self, line: str, absent: list[Any]) -> list[Any]:
        """The words of a record; `absent` is what stands where a sparse one leaves something out."""
        if line.startswith("{"):
            if not line.endswith("}"):
                raise BraidedError("a sparse record does not end with }: instance weights are not read")
            row = list(absent)
            for place, word in _pairs(line):
                if place >= len(row):
                    raise BraidedError(f"value number {place} where {len(row)} columns are declared, from 0")
                row[place] = word
            return row
        fields = _fields(line)
        if len(fields) != len(absent):
            raise BraidedError(f"{len(fields)} fields where {len(absent)} are expected: fix the line")
        return fields


def _check(attribute: _Attribute) -> Callable[[Any], Any] | None:
    """What marks the words that a nominal column does not have; None if any word will do."""
    if not attribute.values:
        return None
    known = frozenset(attribute.values)
    listed = ", ".join(attribute.values[:5]) + (", ..." if len(attribute.values) > 5 else "")

    def check(word: Any) -> Any:
        return word if word is None or word in known else BadCell(f"is {shown(word)}: the file declares {listed}")

    return check
