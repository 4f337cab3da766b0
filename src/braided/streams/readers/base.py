"""What readers share: batches from chunks, and the target among the columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

from braided.encode.chunk import Piece
from braided.encode.encoder import Encoder
from braided.encode.plan import listed
from braided.encode.raw import RawRecord
from braided.encode.rules import DEFAULT_RULES, ReadingCounts, Rules
from braided.errors import BraidedError
from braided.records import Labels, Records

#: Column names that are taken for the target when none is named.
TARGET_NAMES = ("target", "label", "class", "y")


@dataclass(frozen=True)
class EncodedStream(ABC):
    """A stream whose reader gives raw records; the encoder makes batches of them.

    Attributes
    ----------
    rules
        How cells become features.
    counts
        What was skipped while reading.
    """

    rules: Rules = field(default=DEFAULT_RULES, kw_only=True)
    counts: ReadingCounts = field(default_factory=ReadingCounts, kw_only=True, compare=False, repr=False)

    #: Whether columns have names by which one can be chosen as the target, or dropped.
    has_named_columns: ClassVar[bool] = True

    @property
    def n_records(self) -> int | None:
        """Not known without reading."""
        return None

    @abstractmethod
    def chunks(self, encoder: Encoder) -> Generator[Piece]:
        """The records in order."""

    def batches(self) -> Iterator[Records | Labels]:
        """The records as numbers."""
        self.counts.restart()
        encoder = self.counts.encoder = Encoder(self.rules, self.counts)
        # Closed at once, also after an error: files and cursors are not to wait for the garbage collector.
        with closing(self.chunks(encoder)) as pieces:
            for batch, _ in encoder.encode(pieces):
                yield batch

    def raw_records(self) -> Iterator[list[RawRecord]]:
        """The records as the source has them, some at a time; missing values are left out."""
        self.counts.restart()
        encoder = self.counts.encoder = Encoder(self.rules, self.counts)
        with closing(self.chunks(encoder)) as pieces:
            yield from encoder.raw(pieces)

    def least_width(self) -> int:
        """How many numbered columns this source needs: 0 unless its format leaves out columns that are 0."""
        return 0

    def widened(self, width: int) -> Self:
        """The same with at least this many numbered columns, if it has such: 0 stands where one is left out."""
        return self


@dataclass(frozen=True)
class FileStream(EncodedStream):
    """Records from one file.

    Attributes
    ----------
    path
        The file.
    """

    path: Path

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name


def target_place(
    names: Sequence[str], target: str | None, where: str, rules: Rules = DEFAULT_RULES, named: bool = True
) -> int:
    """The target among the columns: the one asked for; if none was, one called target, label, class or y, or the last.

    A table with a repeated column is refused, and so is an option for a column that is not there.
    """
    if len(set(names)) != len(names):
        repeated = next(name for name in names if list(names).count(name) > 1)
        raise BraidedError(f"{where}: column {repeated!r} appears twice: rename one of them")
    for setting, name in [*rules.named_columns(), ("target", target)]:
        if name is not None and name not in names:
            raise BraidedError(
                f"{where}: there is no column {name!r}: choose `{setting}` from {listed(list(names), name)}"
            )
    if target is not None:
        return list(names).index(target)
    usual = [i for i, name in enumerate(names) if named and str(name).lower() in TARGET_NAMES]
    return usual[0] if usual else len(names) - 1
