"""`braided inspect`: how a stream would be read."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

import typer
from rich.console import Console

from braided.brokers.address import is_broker
from braided.cli.options import DataDirOption, JsonOption, teller, with_options
from braided.encode.chunk import CHUNK_RECORDS
from braided.errors import BraidedError
from braided.estimators.params import CLASSIFICATION
from braided.run.options import IDOption, KeyOption, ReadingOptions
from braided.run.target import LOOKED_AT, guessed, labels_of, spelling
from braided.streams import Peeked
from braided.streams.passwords import without_password
from braided.streams.readers.broker import BrokerStream

#: Seconds without a message after which a broker has shown what it has.
_QUIET_S = 2.0


@with_options(ReadingOptions, "reading")
def inspect(
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="What to look at: anything that `braided run` reads.")
    ],
    reading: ReadingOptions = ReadingOptions(),  # noqa: B008 (a frozen dataclass)
    key: KeyOption = None,
    record_id: IDOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how a stream would be read, from its first records: each column, and how many values are missing.

    `braided run` prints the same before it begins. If it would stop at one of these records, the plan is followed by
    what is wrong there, and the exit status is 2.
    """
    # What a broker has now, without an acknowledgement.
    more: dict[str, Any] = {"idle": _QUIET_S} if is_broker(stream) else {}
    rules = dataclasses.replace(reading.rules(unlabelled=True), key=key)
    opened = reading.open(stream, data_dir, rules, record_id=record_id, **more)
    if isinstance(opened, BrokerStream):
        opened.keep_until_saved = True
    counts = getattr(opened, "counts", None)
    wrong, labels = None, []
    try:
        # All records of the plan; a broker's are waited for, and one shows what a column holds.
        records = 1 if is_broker(stream) else CHUNK_RECORDS
        first = Peeked(reading.weighted(opened, counts), records).first
        labels = labels_of(first)[:LOOKED_AT]
        if not first:
            raise BraidedError(f"stream {without_password(stream)!r} has no records: give at least one")
    except BraidedError as error:
        if counts is None or counts.plan is None:
            raise
        wrong = error
    if isinstance(opened, BrokerStream):
        opened.close()
    if counts is None or counts.plan is None:
        raise BraidedError(f"{stream!r} is a data set with a name, whose columns are numbers: give a file to look at")
    if as_json:
        typer.echo(json.dumps(counts.plan.document()))
    else:
        say = teller(Console())
        for line in counts.plan.lines():
            say(line)
        task, why = guessed(labels, spelling(counts))
        if task == CLASSIFICATION and why:
            say(f"  {why}")
    if wrong is not None:
        raise wrong
