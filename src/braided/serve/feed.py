"""`braided feed`: sends a stream to a served model, from the service's acknowledged count for this client."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import islice, tee
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.progress import BarColumn, Progress, TimeRemainingColumn

from braided import checks
from braided.brokers.address import is_broker
from braided.encode.number_form import PLAIN
from braided.encode.raw import RawRecord
from braided.encode.rules import ReadingCounts
from braided.encode.saved import pack_encoder, summary
from braided.errors import BraidedError
from braided.estimators import MODLClassifier, MODLRegressor
from braided.estimators.params import CLASSIFICATION, REGRESSION, TASKS
from braided.fleet import KIND, SHARES, Fleet
from braided.run import ReadingOptions
from braided.run.options import AUTO
from braided.run.target import LOOKED_AT, TargetNumbers, guessed, labels_of
from braided.serve.operations import NDJSON, OCTETS
from braided.serve.security import token_lines
from braided.store import encode
from braided.streams import Peeked, Stream
from braided.streams.base import only_records
from braided.streams.fingerprint import fingerprint
from braided.streams.named import named_streams
from braided.streams.passwords import without_password
from braided.streams.readers.base import EncodedStream
from braided.streams.readers.jsonl import JSONLinesStream
from braided.streams.text_files import beginning
from braided.values import shown

_ADDRESS = re.compile(r"https?://[^/]+/models/[a-z0-9][a-z0-9_-]{0,63}/?")
#: Seconds between tries while the service cannot be reached or answers with a status that may pass.
_WAITS = (0.1, 0.3, 1.0, 2.0, 5.0, 5.0, 5.0)
_TEMPORARY = {429, 502, 503, 504, 507}
_Tell = Callable[[str], None]


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
            raise BraidedError(f"{without_password(self.stream)} has no end: give it to braided run")
        if self.stream == "-" and self.client is None:
            raise BraidedError("standard input cannot be recognised later: give --client with a name of your own")
        if not _ADDRESS.fullmatch(self.to):
            raise BraidedError(f"--to {self.to!r}: give the address of a model, e.g. http://127.0.0.1:8000/models/demo")
        for name, value in (("--batch", self.batch), ("--limit", self.limit)):
            if value is not None and value < 1:
                raise BraidedError(f"{name} is {value}: give a whole number of at least 1")
        checks.choice("--task", self.task, [AUTO, *TASKS])
        checks.choice("--share", self.share or SHARES[0], SHARES)
        if self.share is not None and (self.key is None or not self.create):
            raise BraidedError(f"--share {self.share} is for a fleet that is made: give --create and --key")

    def token(self) -> str | None:
        """The token to send: the first that may learn, or with `create` rather the first that may administer."""
        if self.token_file is None:
            return os.environ.get("BRAIDED_TOKEN") or None
        model = self.to.rstrip("/").rpartition("/")[2]
        found = [(token, line) for token, line in token_lines(self.token_file) if line.may("learn", model)]
        if not found:
            raise BraidedError(f"token file {self.token_file} has no line with which model {model} may learn")
        return next((token for token, line in found if self.create and line.may("administer", model)), found[0][0])

    def client_name(self) -> str:
        """The client that the service counts for; unless given, a digest of the options and of the data's beginning."""
        if self.client is not None:
            return self.client
        # Options left at their defaults do not count, so that a new option does not rename every client.
        options = sorted(item for item in vars(self.reading).items() if item[1] != getattr(ReadingOptions, item[0]))
        if os.path.isfile(self.stream):
            data = beginning(Path(self.stream), 2**20)  # without its length: a log grows
        else:
            data = (fingerprint(self.stream, self.data_dir) or without_password(self.stream)).encode(
                errors="surrogatepass"
            )
        return f"feed-{hashlib.sha256(repr(options).encode() + data).hexdigest()[:16]}"


def _ask(http: httpx.Client, tell: _Tell, method: str, url: str, missing_ok: bool = False, **content: Any) -> Any:
    """The last line of the answer; repeats the request while the service is away or busy. None for an allowed 404."""
    for wait in (*_WAITS, None):
        try:
            response = http.request(method, url, **content)
            answer = json.loads(response.text.strip().rpartition("\n")[2])
            # A stream that is refused on its way has the status 200, and ends with the problem.
            problem = answer if response.status_code >= 400 else answer.get("problem")
            if problem is None:
                return answer
            status, why = problem["status"], f"{url}: {problem['detail']}"
        except httpx.TransportError as error:
            status, why = 503, f"{url} cannot be reached: {error or type(error).__name__}"
        except (ValueError, TypeError, KeyError, AttributeError):
            status, why = response.status_code, f"{url} answered {response.status_code} without a reason"
        if status == 404 and missing_ok:
            return None
        if status not in _TEMPORARY:
            raise BraidedError(why)
        if wait is not None:
            tell(f"{why}; trying again in {wait:g} s")
            time.sleep(wait)
    raise BraidedError(f"{why}; what was acknowledged is safe: repeat the command to go on")


def json_lines(stream: Stream, reading: ReadingOptions, counts: ReadingCounts, model: Any) -> Iterator[bytes]:
    """The records as a served model takes them: raw if it has rules of its own, and with numbers for a regression."""
    key, as_numbers = model.get("key"), TargetNumbers(counts) if model["task"] == REGRESSION else None
    batches = _encoded(reading.weighted(stream, counts))
    if isinstance(stream, EncodedStream) and model.get("encode") is not None:
        batches = stream.raw_records()
    for records in batches:
        labels = [record.label for record in records]
        for record, label in zip(records, labels if as_numbers is None else as_numbers(labels), strict=True):
            if label is None and reading.on_error != "stop":  # else the service refuses it
                counts.add(f"the label is {shown(record.label)}, and the model predicts numbers", records=1)
                continue
            x = {str(name): float(cell) if isinstance(cell, Decimal) else cell for name, cell in record.x.items()}
            more = {} if record.weight is None else {"w": record.weight}
            line = {"x": x if key is None else {**x, key: record.key}, "y": record.label if label is None else label}
            yield json.dumps(line | more, default=str).encode()


def _encoded(stream: Stream) -> Iterator[list[RawRecord]]:
    """The records of a stream as the numbers that its reader has made of them."""
    for batch in only_records(stream):
        none = [None] * len(batch)
        weights = none if batch.weights is None else batch.weights.tolist()
        rows = map(batch.one, range(len(batch)))
        yield list(map(RawRecord, rows, batch.known_targets, weights, batch.keys or none))


def _make_model(settings: FeedSettings, stream: Stream, ask: Callable[..., Any], tell: _Tell) -> Any:
    """Make a model that can learn this stream, for the task that `braided run` would choose; the service's answer."""
    task, why, raw = CLASSIFICATION if settings.task == AUTO else settings.task, "", False
    if isinstance(stream, EncodedStream):
        labels = labels_of(Peeked(stream, LOOKED_AT).first)[:LOOKED_AT]
        encoder = stream.counts.encoder
        if settings.task == AUTO and settings.stream not in named_streams():
            task, why = guessed(labels, encoder.form)
        # The model needs the rules of this stream, unless all columns are plain numbers.
        about = summary(encoder)
        read_as = {column["read_as"] for column in about["columns"]} - {"number", "weight"}
        raw = bool(read_as or about["rules"].keys() - {"weight", "key"} or encoder.units or encoder.form is not PLAIN)
    if why and task == REGRESSION:
        tell(f"{why}: creating a regression model; --task classification makes each value a class")
    else:
        tell(f"creating a {task} model")
    url, share = settings.to.rstrip("/"), settings.share or SHARES[0]
    if not raw:
        return ask("PUT", url, json={"task": task} | ({"key": settings.key, "share": share} if settings.key else {}))
    tell("the model takes raw records, as the stream has them, and reads them by these rules")
    model = MODLRegressor(encode=True) if task == REGRESSION else MODLClassifier(encode=True)
    rules = pack_encoder(encoder, known=())
    if settings.key is None:
        metadata, arrays = model.snapshot()
        content = encode(type(model).__name__, metadata | {"encode": rules}, arrays)
    else:
        content = encode(KIND, *Fleet(model, settings.key, share).snapshot(rules))
    return ask("PUT", f"{url}/checkpoint", content=content, headers={"Content-Type": OCTETS})


def feed(settings: FeedSettings, console: Console, tell: _Tell) -> dict[str, Any]:
    """Send every record that the service does not have yet; `tell` is called with what a user should know."""
    rules = replace(settings.reading.rules(tell=tell), key=settings.key)
    stream = settings.reading.open(settings.stream, settings.data_dir, rules)
    token, url = settings.token(), settings.to.rstrip("/")
    with httpx.Client(headers={} if token is None else {"Authorization": f"Bearer {token}"}, timeout=60.0) as http:
        ask = partial(_ask, http, tell)
        model = ask("GET", url, missing_ok=True)
        if model is not None:
            return _send(settings, stream, model, ask, tell, console)
        if not settings.create:
            at, _, name = url.rpartition("/")
            raise BraidedError(f"no model {name!r} in {at}: give --create to make it for this stream, or another name")
        if isinstance(stream, JSONLinesStream):  # standard input is read only once: two passes share its lines
            stream = replace(stream, open=list(tee(stream.open())).pop)
        model = _make_model(settings, stream, ask, tell)
        try:
            return _send(settings, stream, model, ask, tell, console)
        except BraidedError:
            with suppress(httpx.HTTPError, KeyError, ValueError):  # leave no model behind that has learned nothing
                if http.get(url).json()["records"] == 0:
                    http.delete(url, params={"confirm": http.delete(url).json()["confirm"]})
            raise


def _send(
    settings: FeedSettings, stream: Stream, model: Any, ask: Callable[..., Any], tell: _Tell, console: Console
) -> dict[str, Any]:
    task, key = model["task"], model.get("key")
    if settings.task not in (AUTO, task):
        raise BraidedError(f"--task {settings.task}: the model exists and is a {task}: leave out --task")
    if settings.key != key:
        not_a_fleet = f"--key {settings.key}: the model exists and is not a fleet: leave out --key"
        raise BraidedError(not_a_fleet if key is None else f"the model is a fleet with key {key!r}: give --key {key}")
    url, client = settings.to.rstrip("/"), settings.client_name()
    first = ask("GET", f"{url}/clients/{client}")["next"]
    if first:
        tell(f"the service has {first:,} records of {client}: going on from there")
    answer = {"next": first, "records": model["records"]}
    counts = stream.counts if isinstance(stream, EncodedStream) else ReadingCounts()
    lines = json_lines(stream, settings.reading, counts, model)
    learn = partial(ask, "POST", f"{url}/learn", headers={"Content-Type": NDJSON})
    with Progress("{task.completed:,} records", BarColumn(), TimeRemainingColumn(), console=console) as progress:
        bar = progress.add_task("", total=settings.limit or stream.n_records, completed=first)
        if (found := sum(1 for _ in islice(lines, first))) < first:
            raise BraidedError(f"the stream has {found} records, this client has sent {first}: give another --client")
        left = islice(lines, None if settings.limit is None else max(settings.limit - first, 0))
        while body := list(islice(left, settings.batch)):
            answer = learn(params={"client": client, "sequence": answer["next"]}, content=b"\n".join(body))
            progress.update(bar, completed=answer["next"])
    return {
        "client": client, "sent": answer["next"] - first, "acknowledged": answer["next"], "records": answer["records"],
        "skipped_records": counts.skipped_records, "misfit_values": counts.misfit_values,
        "first_problem": counts.first_problem,
    }  # fmt: skip
