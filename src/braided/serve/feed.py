"""`braided feed`: a stream sent to a service, from where the service's acknowledged count stands."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

import httpx
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from braided import checks
from braided.brokers.address import is_broker
from braided.datasets.catalogue import CATALOGUE
from braided.datasets.locate import locate
from braided.errors import BraidedError
from braided.estimators import MODLClassifier, MODLRegressor
from braided.estimators.params import CLASSIFICATION, REGRESSION, TASKS
from braided.fleet import KIND, SHARES, Fleet
from braided.records import Records
from braided.run import ReadingOptions
from braided.run.options import AUTO
from braided.run.target import LOOKED_AT, TargetNumbers, guessed, spelling
from braided.serve.endpoint import NDJSON, OCTETS
from braided.serve.security import Access, token_lines
from braided.store import encode
from braided.streams import Stream
from braided.streams.base import only_records
from braided.streams.encode.number_form import PLAIN
from braided.streams.encode.rules import DEFAULT_RULES, ReadingCounts
from braided.streams.encode.saved import OF_THE_READER, pack_encoder
from braided.streams.fingerprint import fingerprint
from braided.streams.named import named_streams
from braided.streams.passwords import without_password
from braided.streams.readers.base import EncodedStream
from braided.streams.readers.jsonl import JSONLinesStream
from braided.streams.readers.sql import is_address
from braided.streams.text_files import beginning
from braided.values import printable, shown

_ADDRESS = re.compile(r"https?://[^/]+/models/[a-z0-9][a-z0-9_-]{0,63}/?")
#: Waits between tries while the service cannot be reached or refuses for the moment.
_WAITS = (0.1, 0.3, 1.0, 2.0, 5.0, 5.0, 5.0)
#: Options that have always been part of a client's name.
_FIRST_OPTIONS = {
    "target", "header", "delimiter", "query", "categories", "hash_buckets", "most_categories", "on_error", "drop"
}  # fmt: skip
_FOR_THE_MOMENT = {429, 502, 503, 504, 507}


@dataclass(frozen=True)
class FeedSettings:
    """What to send where; as the options of `braided feed`."""

    stream: str
    to: str
    token_file: Path | None = None
    client: str | None = None
    create: bool = False
    batch: int = 500
    limit: int | None = None
    data_dir: Path | None = None
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    task: str = AUTO
    key: str | None = None
    share: str | None = None

    def __post_init__(self) -> None:
        if is_broker(self.stream):
            raise BraidedError(
                f"{without_password(self.stream)} has no end, and what is fed must have one: give it to braided run"
            )
        if not _ADDRESS.fullmatch(self.to):
            raise BraidedError(f"--to {self.to!r}: give the address of a model, e.g. http://127.0.0.1:8000/models/demo")
        for name, value in (("--batch", self.batch), ("--limit", self.limit)):
            if value is not None and value < 1:
                raise BraidedError(f"{name} is {value}: give a whole number from 1 on")
        checks.choice("--task", self.task, [AUTO, *TASKS])
        if self.share is not None:
            checks.choice("--share", self.share, SHARES)
            if self.key is None or not self.create:
                raise BraidedError(f"--share {self.share} is for a fleet that is made: give --create and --key")

    def token(self) -> str | None:
        """The token to send."""
        if self.token_file is None:
            return os.environ.get("BRAIDED_TOKEN") or None
        model = self.to.rstrip("/").rpartition("/")[2]
        lines = list(token_lines(self.token_file))
        wanted: tuple[Access, ...] = ("administer", "learn") if self.create else ("learn",)
        for access in wanted:
            for token, line in lines:
                if line.may(access, model):
                    return token
        raise BraidedError(f"token file {self.token_file} has no line with which model {model} may learn")

    def client_name(self) -> str:
        """The name under which the service counts: made from the beginning of what is sent, unless given."""
        if self.client is not None:
            return self.client
        if self.stream == "-":
            raise BraidedError("standard input cannot be known again: give --client with a name of your own")
        reading = self.reading
        digest = hashlib.sha256(f"{reading.target} {reading.header}".encode(errors="surrogatepass"))
        if replace(reading, target=None, header=None) != ReadingOptions():
            asked: list[Any] = [
                reading.delimiter,
                reading.query,
                reading.categories,
                reading.hash_buckets,
                reading.on_error,
            ]
            if reading.most_categories != ReadingOptions().most_categories:
                asked.append(reading.most_categories)
            # Options that came later count only where they are given: names that a service knows stay as they are.
            later = {
                option.name: value
                for option in fields(reading)
                if option.name not in _FIRST_OPTIONS and (value := getattr(reading, option.name)) != option.default
            }
            asked += [later] if later else []
            digest.update(json.dumps([*asked, *reading.drop]).encode())
        if self.stream in named_streams() and self.stream not in CATALOGUE:
            digest.update(self.stream.encode())
        elif is_address(self.stream) or (self.stream not in CATALOGUE and Path(self.stream).is_dir()):
            digest.update((fingerprint(self.stream) or without_password(self.stream)).encode(errors="surrogatepass"))
        else:
            path = locate(self.stream, self.data_dir).paths[0] if self.stream in CATALOGUE else Path(self.stream)
            try:
                digest.update(beginning(path, 2**20))
            except OSError as error:
                raise BraidedError(f"{path}: cannot be read: {error.strerror or error}") from None
        return f"feed-{digest.hexdigest()[:16]}"


class Sender:
    """Talks to one model of a service, patiently; a context, at whose end the connection is closed.

    Parameters
    ----------
    settings
        Where it is.
    tell
        Is called with a line of text while it waits.
    """

    def __init__(self, settings: FeedSettings, tell: Callable[[str], None]) -> None:
        token = settings.token()
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(headers=headers, timeout=60.0)
        self.to = settings.to.rstrip("/")
        self.client = settings.client_name()
        self.tell = tell

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.http.close()

    def request(self, method: str, path: str, **what: Any) -> httpx.Response:
        """Send a request, again and again while the service is away or refuses for the moment."""
        for wait in (*_WAITS, None):
            try:
                response = self.http.request(method, f"{self.to}{path}", **what)
                if response.status_code not in _FOR_THE_MOMENT:
                    return response
                why = _detail(response)
            except httpx.TransportError as error:
                why = f"{self.to} cannot be reached: {error or type(error).__name__}"
            if wait is None:
                raise BraidedError(f"{why}; what was acknowledged is safe: repeat the command to go on")
            self.tell(f"{why}; trying again in {wait:g} s")
            time.sleep(wait)
        raise AssertionError

    def json(self, method: str, path: str, **what: Any) -> Any:
        """The answer to a request that should succeed."""
        response = self.request(method, path, **what)
        if response.status_code >= 400:
            raise BraidedError(f"{self.to}: {_detail(response)}")
        return response.json()

    def acknowledged(self) -> int:
        """How many records of this client the service has."""
        return int(self.json("GET", f"/clients/{self.client}")["next"])

    def send(self, sequence: int, body: bytes) -> dict[str, Any]:
        """Send lines; the answer to the last batch. Batches that the service has already are passed over by it."""
        response = self.request(
            "POST",
            "/learn",
            params={"client": self.client, "sequence": sequence},
            content=body,
            headers={"Content-Type": NDJSON},
        )
        if response.status_code >= 400:
            raise BraidedError(f"{self.to}: {_detail(response)}")
        last: dict[str, Any] = json.loads(response.text.strip().rsplit("\n", 1)[-1])
        if "problem" in last:
            if last["problem"]["status"] in _FOR_THE_MOMENT:
                self.tell(f"{last['problem']['detail']}; trying again in 1 s")
                time.sleep(1.0)
                return self.send(sequence, body)
            raise BraidedError(f"{self.to}: {last['problem']['detail']}")
        return last


def _detail(response: httpx.Response) -> str:
    try:
        return str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"answered {response.status_code}"


#: What a target is read as where its record is left out.
_LEFT_OUT = object()


class NumberLabels:
    """Labels as a regression takes them: a file of text has its numbers as words.

    A label that is no number is left for the service to refuse, or its record is left out, as `on_error` says.
    """

    def __init__(self, on_error: str, counts: ReadingCounts) -> None:
        self._skip = on_error != "stop"
        self._counts = counts
        self._read = TargetNumbers(counts)

    def __call__(self, labels: Sequence[Any]) -> list[Any]:
        """The labels of a batch as numbers."""
        return [
            self._misfit(label) if value is None else value
            for label, value in zip(labels, self._read(labels), strict=True)
        ]

    def _misfit(self, label: Any) -> Any:
        if not self._skip:
            return label
        self._counts.add(f"the label is {shown(label)}, and the model predicts numbers", records=1)
        return _LEFT_OUT


AsLabels = Callable[[Sequence[Any]], Sequence[Any]]


def _as_they_are(labels: Sequence[Any]) -> Sequence[Any]:
    return labels


def lines(batch: Records, as_labels: AsLabels = _as_they_are, key: str | None = None) -> list[bytes]:
    """Records as JSON lines, with the key of a fleet in its field; missing values are left out."""
    names = [str(name) for name in batch.names]
    found = []
    more = [{}] * len(batch) if batch.weights is None else [{"w": weight} for weight in batch.weights.tolist()]
    keys = [{}] * len(batch) if key is None or batch.keys is None else [{key: one} for one in batch.keys]
    for row, present, label, weight, its_key in zip(
        batch.values.tolist(), ~np.isnan(batch.values), as_labels(batch.known_targets), more, keys, strict=True
    ):
        x = {name: value for name, value, there in zip(names, row, present.tolist(), strict=True) if there} | its_key
        if label is not _LEFT_OUT:
            found.append(json.dumps({"x": x, "y": label, **weight}).encode())
    return found


def raw_lines(
    stream: EncodedStream, as_labels: AsLabels = _as_they_are, key: str | None = None
) -> Iterator[list[bytes]]:
    """Records as JSON lines with the values as the source has them, for a model that has rules of its own for them."""
    for records in stream.raw_records():
        found = []
        labels = as_labels([record.label for record in records])
        for (x, _, weight, its_key), label in zip(records, labels, strict=True):
            more = {} if weight is None else {"w": weight}
            named = {str(name): value for name, value in x.items()} | ({} if key is None else {key: its_key})
            if label is not _LEFT_OUT:
                found.append(json.dumps({"x": named, "y": label, **more}, default=_as_json).encode())
        yield found


def _as_json(value: Any) -> str | float:
    """A value that JSON has no word for."""
    return float(value) if isinstance(value, Decimal) else str(value)


def bodies(
    batches: Iterable[list[bytes]], skip: int, limit: int | None, size: int
) -> Iterator[tuple[int, list[bytes]]]:
    """The lines from record `skip` on, `size` at a time, each with the number of its first."""
    at = 0
    held: list[bytes] = []
    for batch in batches:
        stop = len(batch) if limit is None else min(len(batch), limit - at)
        start = min(max(skip - at, 0), stop)
        held += batch[start:stop]
        at += stop
        while len(held) >= size:
            yield at - len(held), held[:size]
            held = held[size:]
        if stop < len(batch):
            break
    if held:
        yield at - len(held), held
    if limit is None and at < skip:
        raise BraidedError(
            f"the stream ends with record {at}, and the service has {skip} of this client: it is another stream; "
            "give --client with another name"
        )


def feed(settings: FeedSettings, console: Console, tell: Callable[[str], None]) -> dict[str, Any]:
    """Send everything that the service does not have yet; `tell` is told of the stream, and why nothing is sent."""
    reading = settings.reading
    rules = replace(reading.rules(tell=tell), key=settings.key)
    stream = reading.open(settings.stream, settings.data_dir, rules)
    with Sender(settings, tell) as sender:
        return _send(settings, stream, sender, console)


class _Again:
    """Lines that can be read only once, whose beginning is looked at: it comes again in the second pass."""

    def __init__(self, read: Callable[[], Iterable[str]]) -> None:
        self._lines: Iterator[str] = iter(())
        self._read: Callable[[], Iterable[str]] | None = read
        self._seen: list[str] = []

    def __call__(self) -> Iterator[str]:
        if self._read is not None:
            self._lines, self._read = iter(self._read()), None
            for line in self._lines:
                self._seen.append(line)
                yield line
        else:
            seen, self._seen = self._seen, []
            yield from seen
            yield from self._lines


def first_labels(stream: EncodedStream, records: int) -> list[Any]:
    """The labels of so many first records. These are read, and the plan is told."""
    found: list[Any] = []
    with closing(stream.batches()) as batches:  # type: ignore[type-var]
        while len(found) < records and (batch := next(batches, None)) is not None:
            found += batch.known_targets if isinstance(batch, Records) else []
    return found[:records]


def takes_raw(stream: EncodedStream) -> bool:
    """Whether a model for a stream, whose first records were read, has to know how: not where all are numbers."""
    encoder, plan = stream.counts.encoder, stream.counts.plan
    if plan is None:
        return False
    usual, own = DEFAULT_RULES.state(), stream.rules.state()
    rules = {name for name, value in own.items() if value != usual[name]} - {"weight", "key", *OF_THE_READER}
    numbers = encoder.form is PLAIN and not encoder.units
    numbers = numbers and all(column.read_as in ("number", "empty", "weight", "key") for column in plan.columns)
    return bool(rules) or not numbers


def fresh_model(task: str, stream: EncodedStream, settings: FeedSettings) -> bytes:
    """A model that has learned nothing, and reads records as the stream's first ones were read."""
    model = MODLRegressor(encode=True) if task == REGRESSION else MODLClassifier(encode=True)
    rules = pack_encoder(stream.counts.encoder, known=())
    if settings.key is not None:
        return encode(KIND, *Fleet(model, settings.key, settings.share or SHARES[0]).snapshot(rules))
    metadata, arrays = model.snapshot()
    metadata["encode"] = rules
    return encode(type(model).__name__, metadata, arrays)


def make_model(settings: FeedSettings, stream: Stream, sender: Sender) -> None:
    """Make a model that can learn this stream; of its task, what `braided run` would take it for."""
    guess = settings.task == AUTO and settings.stream not in named_streams()
    task, why, raw = CLASSIFICATION if settings.task == AUTO else settings.task, "", None
    if isinstance(stream, EncodedStream):
        labels = first_labels(stream, LOOKED_AT if guess else 1)
        if guess:
            task, why = guessed(labels, spelling(stream.counts))
        raw = fresh_model(task, stream, settings) if takes_raw(stream) else None
    if task == REGRESSION and why:
        sender.tell(f"{why}: the model is made a regression; --task classification makes each a class of its own")
    else:
        sender.tell(f"the model is made a {task}")
    if raw is None:
        share = settings.share or SHARES[0]
        fleet: dict[str, Any] = {} if settings.key is None else {"key": settings.key, "share": share}
        sender.json("PUT", "", json={"task": task, **fleet})
    else:
        sender.tell("the model takes raw records, as the stream has them, and reads them by these rules")
        sender.json("PUT", "/checkpoint", content=raw, headers={"Content-Type": OCTETS})


def _take_back(sender: Sender) -> None:
    """Delete the model that was made, unless it has learned something by now; quietly, as an error is on its way."""
    with suppress(BraidedError, httpx.HTTPError, KeyError, ValueError):
        if sender.http.get(sender.to).json()["records"] == 0:
            confirm = sender.http.delete(sender.to).json()["confirm"]
            sender.http.delete(sender.to, params={"confirm": confirm})


def _check_task(settings: FeedSettings, sender: Sender) -> None:
    """Refuse a model of another task than the one asked for."""
    task = settings.task if settings.task == AUTO else sender.json("GET", "")["task"]
    if task != settings.task:
        raise BraidedError(f"--task {settings.task}: the model is there, and is a {task}: leave out --task")


def _check_key(given: str | None, its_own: str | None) -> None:
    """Refuse keys for a model that has none, and records without them for a fleet."""
    if given != its_own and its_own is None:
        raise BraidedError(f"--key {given}: the model is there, and is no fleet: leave out --key, or give another name")
    if given != its_own:
        raise BraidedError(f"the model is a fleet, and {its_own!r} says whose a record is: give --key {its_own}")


def _lines(settings: FeedSettings, stream: Stream, sender: Sender) -> Iterator[list[bytes]]:
    """The records as the model takes them."""
    model = sender.json("GET", "")
    _check_key(settings.key, model.get("key"))
    as_labels: AsLabels = _as_they_are
    if model["task"] == REGRESSION:
        as_labels = NumberLabels(settings.reading.on_error, getattr(stream, "counts", None) or ReadingCounts())
    if isinstance(stream, EncodedStream) and model.get("encode") is not None:
        return raw_lines(stream, as_labels, settings.key)
    weighted = settings.reading.weighted(stream, getattr(stream, "counts", None))
    return (lines(batch, as_labels, settings.key) for batch in only_records(weighted))


def _send(settings: FeedSettings, stream: Stream, sender: Sender, console: Console) -> dict[str, Any]:
    there = sender.request("GET", "").status_code != 404
    if not there and not settings.create:
        address, _, name = sender.to.rpartition("/")
        raise BraidedError(f"no model {name!r} in {address}: give --create to make it for this stream, or another name")
    if there:
        _check_task(settings, sender)
        return _send_lines(settings, stream, sender, console)
    if settings.stream == "-" and isinstance(stream, JSONLinesStream):
        stream = replace(stream, open=_Again(stream.open))
    make_model(settings, stream, sender)
    try:
        return _send_lines(settings, stream, sender, console)
    except BraidedError:
        _take_back(sender)
        raise


def _send_lines(settings: FeedSettings, stream: Stream, sender: Sender, console: Console) -> dict[str, Any]:
    done = sender.acknowledged()
    first = done
    if done:
        sender.tell(f"the service has {done:,} records of {sender.client}: going on from there")
    total = stream.n_records if settings.limit is None else settings.limit
    answer: dict[str, Any] = {}
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress, ThreadPoolExecutor(1) as pool:
        task = progress.add_task(printable(without_password(settings.stream)), total=total, completed=done)
        waiting = None
        # The next body is made while the service learns the one before.
        for sequence, body in bodies(_lines(settings, stream, sender), done, settings.limit, settings.batch):
            if waiting is not None:
                answer = waiting.result()
                progress.update(task, completed=answer["next"])
            waiting = pool.submit(sender.send, sequence, b"\n".join(body) + b"\n")
        if waiting is not None:
            answer = waiting.result()
            progress.update(task, completed=answer["next"])
    done = answer.get("next", done)
    records = answer["records"] if answer else sender.json("GET", "")["records"]
    counts = getattr(stream, "counts", None) or ReadingCounts()
    return {
        "client": sender.client,
        "sent": done - first,
        "acknowledged": done,
        "records": records,
        "skipped_records": counts.skipped_records,
        "misfit_values": counts.misfit_values,
        "first_problem": counts.first_problem,
    }
