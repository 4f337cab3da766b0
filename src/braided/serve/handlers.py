"""What is done for each request, once it has been let in."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import orjson
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from braided.errors import BraidedError
from braided.estimators.base import BY, COLUMN
from braided.records import Records
from braided.serve import metrics, ndjson
from braided.serve.events import Events
from braided.serve.live_page import live_page
from braided.serve.middleware import Policy, content_type
from braided.serve.operations import JSON, NDJSON, OCTETS
from braided.serve.predictions import PREDICT_CHUNK, PredictionThreads
from braided.serve.problems import HTTPProblem, shown, too_busy
from braided.serve.records import RawRecords, as_float, check_text, checked_label, checked_weight, decode_json, is_plain
from braided.serve.recovery import time_of
from braided.serve.requests import WriteRequest
from braided.serve.security import EVERYBODY, Grant
from braided.serve.service import Service, brief, details
from braided.serve.settings import Limits
from braided.serve.spec import ModelSpec
from braided.serve.storage import Storage, read_only
from braided.serve.worker import Worker

#: A longer body is decoded in a thread, so that others need not wait for it.
_LONG_BODY = 2**16
_MAX_SEQUENCE = 2**53
#: Checkpoints that go out or come in at the same time: each holds a whole model in memory.
_MAX_CHECKPOINTS = 4
#: Threads that gather figures.
_FIGURE_THREADS = 2


def answer(document: Any, status: int = 200) -> Response:
    """JSON; a number that is not finite would leave as null."""
    return Response(orjson.dumps(document), status, media_type=JSON)


class Handlers:
    """The handlers, around one service; their docstrings are those of the OpenAPI document.

    Parameters
    ----------
    service
        The models.
    policy
        What requests are held to; it counts them as well.
    stopping
        Set when the service stops.
    """

    def __init__(self, service: Service, policy: Policy, stopping: asyncio.Event) -> None:
        self.service = service
        self.policy = policy
        self.stopping = stopping
        # The figures of many or wide models take long to gather: not on the event loop, and not in asyncio's threads,
        # which are few. Making a model writes to disk, one at a time.
        self._figures = ThreadPoolExecutor(_FIGURE_THREADS, "figures")
        self._model_changes = ThreadPoolExecutor(1, "model changes")
        self.events_source = Events(service, stopping, self._figures)
        self._predictions = PredictionThreads()
        self._page, self._policy = live_page()
        self._checkpoints = 0

    def close(self) -> None:
        """End the threads, once nobody asks any more."""
        self._predictions.close()
        for threads in (self._figures, self._model_changes):
            threads.shutdown(wait=False, cancel_futures=True)

    @property
    def limits(self) -> Limits:
        """What is allowed at present."""
        return self.service.settings.limits

    def _worker(self, request: Request) -> Worker:
        return self.service.get(request.path_params["name"])

    async def _json(self, request: Request) -> Any:
        if content_type(request.scope) != JSON:
            raise HTTPProblem(415, f"the content type is {shown(content_type(request.scope))}: send {JSON}")
        body = await request.body()
        if len(body) > _LONG_BODY:
            return await asyncio.to_thread(decode_json, body)
        return decode_json(body)

    async def _records(self, items: Any, worker: Worker, labelled: bool) -> Records | RawRecords:
        """Records of a request, with pauses for others."""
        if not isinstance(items, list) or not items:
            raise HTTPProblem(422, f"records is {shown(items)}: give a list of at least one record")
        if len(items) > self.limits.records:
            raise HTTPProblem(
                413, f"the request has {len(items)} records, and the limit is {self.limits.records}: send fewer at a "
                f"time, or stream them as {NDJSON}"
            )  # fmt: skip
        parser = worker.state.parser(labelled, self.limits)
        for place, item in enumerate(items, start=1):
            parser.add(item)
            if place % PREDICT_CHUNK == 0:
                await asyncio.sleep(0)
        return parser.done()

    async def _write(self, worker: Worker, kind: Any, **what: Any) -> Any:
        """Hand a request to the model's writer and wait."""
        request = WriteRequest(kind, asyncio.get_running_loop().create_future(), **{"time": time.time(), **what})
        worker.submit(request)
        return await request.future

    async def _change(self, change: Callable[..., Any], *what: Any) -> Any:
        """Make or remove a model."""
        return await asyncio.get_running_loop().run_in_executor(self._model_changes, change, *what)

    async def _gathered(self, gather: Callable[..., Any], *what: Any) -> Any:
        """Figures."""
        return await asyncio.get_running_loop().run_in_executor(self._figures, gather, *what)

    async def page(self, request: Request) -> Response:
        """The live page."""
        return Response(self._page, media_type="text/html", headers={"Content-Security-Policy": self._policy})

    async def healthz(self, request: Request) -> Response:
        """Whether the service is up; `degraded` while something is wrong with some models.

        Their names are told to a token that is for them, or where there are no tokens.
        """
        sees = _grant(request).sees
        troubles = {name: why for name, why in self.service.troubles().items() if sees(name)}
        return answer({"status": self.service.status, **({"models": troubles} if troubles else {})})

    async def metrics(self, request: Request) -> Response:
        """The figures for Prometheus."""
        text = await self._gathered(metrics.exposition, self.service, self.policy, _grant(request))
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def events(self, request: Request) -> Response:
        """Server-sent events: each model's figures whenever they have changed."""
        if self.events_source.listeners >= self.limits.event_streams:
            raise too_busy(f"{self.events_source.listeners} pages listen already")
        events = self.events_source.stream(request.receive, _grant(request))
        return ndjson.StreamedAnswer(events, "text/event-stream", self.limits.request_seconds)

    async def models(self, request: Request) -> Response:
        """All models, or those that the token is for."""
        sees = _grant(request).sees
        workers = [worker for name, worker in self.service.workers.items() if sees(name)]
        quarantined = [{"name": name, "reason": why} for name, why in self.service.quarantined.items() if sees(name)]
        return answer({"models": await self._gathered(lambda: list(map(brief, workers))), "quarantined": quarantined})

    async def create(self, request: Request) -> Response:
        """Make a model from a preset or a configuration. An empty object gives the default."""
        document = await self._json(request)
        try:
            spec = ModelSpec.model_validate(document)
        except ValidationError as error:
            raise HTTPProblem(422, _first_error(error.errors())) from None
        worker = await self._change(self.service.create, request.path_params["name"], spec)
        return answer(await self._gathered(details, worker), 201)

    async def inspect(self, request: Request) -> Response:
        """A model's figures: errors, learners, throughput, features and their availability, resets."""
        return answer(await self._gathered(details, self._worker(request)))

    async def delete(self, request: Request) -> Response:
        """Remove a model. The first call is answered with 428 and a token, the second has to bring it."""
        await self._change(self.service.delete, request.path_params["name"], request.query_params.get("confirm"))
        return Response(status_code=204)

    @contextlib.contextmanager
    def _one_of_few(self) -> Iterator[None]:
        if self._checkpoints >= _MAX_CHECKPOINTS:
            raise too_busy(f"{self._checkpoints} checkpoints go out or come in")
        self._checkpoints += 1
        try:
            yield
        finally:
            self._checkpoints -= 1

    async def export(self, request: Request) -> Response:
        """The model as a checkpoint, for `MODLClassifier.load` or another service.

        It is whole: figures, clients' sequence numbers and records that wait for their label are in it.
        """
        worker = self._worker(request)
        with self._one_of_few():
            content = await self._write(worker, "export")
        name = f'attachment; filename="{worker.state.name}.braided"'
        return Response(content, media_type=OCTETS, headers={"Content-Disposition": name})

    async def load(self, request: Request) -> Response:
        """Make a model from a checkpoint, to go on where it stands."""
        if content_type(request.scope) != OCTETS:
            raise HTTPProblem(415, f"the content type is {shown(content_type(request.scope))}: send {OCTETS}")
        with self._one_of_few():
            content = await request.body()
            worker = await self._change(self.service.create_from_checkpoint, request.path_params["name"], content)
        return answer(await self._gathered(details, worker), 201)

    async def history(self, request: Request) -> Response:
        """The snapshots of the model. It can go back to any record since the oldest."""
        worker = self._worker(request)

        def gather() -> Any:
            with contextlib.closing(read_only(worker.storage.path)) as connection:
                return [one.document() for one in Storage(worker.storage.path, connection=connection).snapshots()]

        try:
            snapshots = await self._gathered(gather)
        except (BraidedError, sqlite3.Error):  # it is being deleted, or its disk fails
            raise HTTPProblem(503, "the model's database cannot be read: try again") from None
        return answer({"records": worker.state.stats.records, "snapshots": snapshots})

    async def restore(self, request: Request) -> Response:
        """Bring the model back to what it was when it had learned so many records, or at a time.

        Clients' sequence numbers go back with it: what they sent since can be sent again.
        """
        worker = self._worker(request)
        record, at = moment_of(await self._json(request))
        return answer(await self._write(worker, "restore", record=record, at=at))

    async def predict(self, request: Request) -> Response:
        """Predict one record, several, or a stream of lines. Changes nothing, unless a record has an ID of its own.

        It is then kept for its label, which may come later under that ID.
        """
        worker = self._worker(request)
        if content_type(request.scope) == NDJSON:
            level = _level(_levels_in_query(request), worker.state.regression)
            return await ndjson.predict(request, worker, self._predictions, self.limits, self.stopping, level)
        document = await self._json(request)
        if worker.state.rules is None and worker.state.key is None and is_plain(document, worker.state.features):
            classes, found = await self._predictions.one(worker, document["x"])
            return answer({"classes": classes, "predictions": found})
        level, name = None, None
        if isinstance(document, dict):
            document = dict(document)
            level = _level(document, worker.state.regression)
            name = self._own_id(request, document.pop("id", None))
        records = await self._records(_items(document), worker, labelled=False)
        if name is not None and len(records) > 1:
            raise HTTPProblem(422, f"id is {shown(name)} of {len(records)} records: give it with one record")
        classes, found = await self._predict(worker, records, level)
        kept = {} if name is None else await self._write(worker, "observe", records=records, id=name)
        return answer({**kept, "classes": classes, "predictions": found})

    def _own_id(self, request: Request, name: Any) -> str | None:
        """The ID under which a record is to be kept, if there is one, and whoever asks may teach."""
        if name is None:
            return None
        if not _grant(request).may("learn", request.path_params["name"]):
            raise HTTPProblem(403, "this token may only read, and a record with an id is kept: leave it out")
        return check_text(name, "id", self.limits.text)

    async def explain(self, request: Request) -> Response:
        """Why one record is predicted as it is: what each of its features adds to the answer, by leaving it out.

        Beside it stands what the linear learner, if there is one, makes of each. Of a raw record the columns are left
        out, or with `by=feature` in the query each feature that they become.
        """
        worker, by = self._worker(request), request.query_params.get("by", COLUMN)
        if by not in BY:
            raise HTTPProblem(422, f"by is {shown(by)}: give one of {', '.join(BY)}")
        records = await self._records([await self._json(request)], worker, labelled=False)
        return answer(await self._predictions.in_thread(worker, lambda: worker.explain(records, by)))

    async def _predict(
        self, worker: Worker, records: Records | RawRecords, level: float | None = None
    ) -> tuple[list[Any], list[dict[str, Any]]]:
        """Predict any number of records, with pauses for others."""
        classes: list[Any] = []
        found: list[dict[str, Any]] = []
        for start in range(0, len(records), PREDICT_CHUNK):
            classes, more = await self._predictions.chunk(worker, records.part(start, start + PREDICT_CHUNK), level)
            found += more
            await asyncio.sleep(0)
        return classes, found

    async def learn(self, request: Request) -> Response:
        """Learn one record, several, or a stream of lines. The answer comes when they are durable and learned.

        A stream's client and sequence are given in the query. Of several records in one JSON body all are learned, or
        none.
        """
        worker = self._worker(request)
        if content_type(request.scope) == NDJSON:
            client, sequence = _from_query(request, self.limits.text)
            return await ndjson.learn(request, worker, self.limits, client, sequence, self.stopping)
        document = await self._json(request)
        client, sequence = None, 0
        if isinstance(document, dict):
            document = dict(document)
            client, sequence = _client(document.pop("client", None), document.pop("sequence", None), self.limits.text)
        records = await self._records(_items(document), worker, labelled=True)
        return answer(await self._write(worker, "learn", records=records, client=client, sequence=sequence))

    async def observe(self, request: Request) -> Response:
        """Predict one record now, and keep it for its label, which may come later under the ID of the answer."""
        worker = self._worker(request)
        records = await self._records([await self._json(request)], worker, labelled=False)
        classes, (found,) = await self._predictions.chunk(worker, records)
        kept = await self._write(worker, "observe", records=records, id=secrets.token_hex(12))
        return answer({**kept, "classes": classes, "prediction": found})

    async def label(self, request: Request) -> Response:
        """Teach the label of an observed record."""
        worker = self._worker(request)
        document = await self._json(request)
        if not isinstance(document, dict) or document.keys() - {"w"} != {"id", "y"}:
            raise HTTPProblem(422, f'the body is {shown(document)}: give {{"id": "...", "y": label}}')
        id_ = check_text(document["id"], "id", self.limits.text)
        y = checked_label(document["y"], 0, worker.state.regression, self.limits)
        weights = np.array([checked_weight(document["w"], 0)]) if "w" in document else None
        label = Records((), np.empty((1, 0)), [y], weights)
        return answer(await self._write(worker, "label", records=label, id=id_))

    async def client(self, request: Request) -> Response:
        """The sequence number with which a client should go on; 0 for one that is not known."""
        worker = self._worker(request)
        client = check_text(request.path_params["client"], "client", self.limits.text)
        return answer({"client": client, "next": worker.state.clients.get(client, 0)})

    async def forget(self, request: Request) -> Response:
        """Forget a client's sequence number, to make room for others."""
        worker = self._worker(request)
        client = check_text(request.path_params["client"], "client", self.limits.text)
        return answer(await self._write(worker, "forget", client=client))


def moment_of(document: Any) -> tuple[int | None, float | None]:
    """The record or the time of a request to go back.

    >>> moment_of({"time": "2026-03-01T10:00:00Z"})
    (None, 1772359200.0)
    """
    if isinstance(document, dict) and document.keys() == {"record"}:
        record = document["record"]
        if type(record) is int and record >= 0:
            return record, None
    if isinstance(document, dict) and document.keys() == {"time"}:
        if type(document["time"]) in (int, float):
            return None, as_float(document["time"])
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            return None, time_of(document["time"])
    raise HTTPProblem(
        422, f'the body is {shown(document)}: give {{"record": number}} or {{"time": "2026-03-01T10:00:00Z"}}'
    )


def _grant(request: Request) -> Grant:
    """What the request's token may do."""
    grant: Grant = request.scope.get("grant", EVERYBODY)
    return grant


def _level(document: dict[str, Any], regression: bool) -> float | None:
    """How sure answers are asked to be, taken out of a body; None where nobody asks.

    >>> _level({"x": {}, "interval": 0.9}, regression=True)
    0.9
    """
    name, other = ("interval", "set") if regression else ("set", "interval")
    if other in document:
        raise HTTPProblem(422, f"{other} is not for a {'regression' if regression else 'classification'}: give {name}")
    if name not in document:
        return None
    level = document.pop(name)
    if type(level) is not float or not 0.0 < level < 1.0:
        raise HTTPProblem(422, f"{name} is {shown(level)}: give a number between 0 and 1, such as 0.9")
    return level


def _levels_in_query(request: Request) -> dict[str, Any]:
    """What the address of a stream says of how sure its answers should be."""
    found: dict[str, Any] = {name: request.query_params[name] for name in ("interval", "set")
                             if name in request.query_params}  # fmt: skip
    return {name: float(text) if re.fullmatch(r"0?\.[0-9]{1,16}", text) else text for name, text in found.items()}


def _items(document: Any) -> Any:
    """The records of a body: a list of several, or the one that it is."""
    return document["records"] if isinstance(document, dict) and document.keys() == {"records"} else [document]


def _client(client: Any, sequence: Any, most_text: int) -> tuple[str | None, int]:
    if client is None and sequence is None:
        return None, 0
    if client is None or sequence is None:
        raise HTTPProblem(422, "client and sequence go together: give both, or neither")
    check_text(client, "client", most_text)
    if type(sequence) is not int or not 0 <= sequence < _MAX_SEQUENCE:
        raise HTTPProblem(422, f"sequence is {shown(sequence)}: give a whole number from 0 on")
    return client, sequence


def _from_query(request: Request, most_text: int) -> tuple[str | None, int]:
    sequence = request.query_params.get("sequence")
    if sequence is not None and not re.fullmatch(r"[0-9]{1,16}", sequence):
        raise HTTPProblem(422, f"sequence is {shown(sequence)}: give a whole number from 0 on")
    number = None if sequence is None else int(sequence)
    return _client(request.query_params.get("client"), number, most_text)


def _first_error(errors: Any) -> str:
    first = errors[0]
    where = ".".join(str(part) for part in first["loc"]) or "the body"
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        return f"{where[:100]}: there is no such setting: give some of {', '.join(ModelSpec.model_fields)}"
    return f"{where[:100]}: {first['msg'][:200]}"
