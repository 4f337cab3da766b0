"""The HTTP interface."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import importlib.resources
import re
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from braided import __version__
from braided.serve import metrics, stream
from braided.serve.build import ModelSpec
from braided.serve.document import App
from braided.serve.events import Events
from braided.serve.guard import NDJSON, Guard, content_type
from braided.serve.problems import Problem, shown
from braided.serve.records import Reader, Records, check_text, decode_json
from braided.serve.schemas import (
    ClientState,
    Health,
    LabelledRecordList,
    LabelRequest,
    Learned,
    LearnOne,
    ModelDetails,
    ModelList,
    Observed,
    Predictions,
    ProblemDocument,
    Record,
    RecordList,
)
from braided.serve.security import Tokens
from braided.serve.service import NAME_PATTERN, Service, brief, details
from braided.serve.shortcut import Shortcut
from braided.serve.worker import PREDICT_CHUNK, Job, Worker, deliver_here

_JSON = "application/json"
_OCTETS = "application/octet-stream"
_PROBLEM = "application/problem+json"
#: A longer body is decoded in a thread, so that others need not wait for it.
_LONG_BODY = 2**16
_MOST_SEQUENCE = 2**53
#: Each holds a whole model in memory, and the model's writer for a moment.
_MOST_EXPORTS = 4


def answer(document: Any, status: int = 200) -> Response:
    """JSON; a number that is not finite would leave as null."""
    return Response(orjson.dumps(document), status, media_type=_JSON)


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """A schema that stands by itself in the document."""
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _body(*models: type[BaseModel], lines: bool = False) -> dict[str, Any]:
    either = [_schema(model) for model in models]
    content: dict[str, Any] = {_JSON: {"schema": {"anyOf": either} if len(either) > 1 else either[0]}}
    if lines:
        content[NDJSON] = {"schema": {"type": "string", "description": "One record a line."}}
    return {"requestBody": {"required": True, "content": content}}


_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": "Refused.", "content": {_PROBLEM: {"schema": _schema(ProblemDocument)}}}
    for status in ("4XX", "5XX")
}


def _gives(model: type[BaseModel], lines: bool = False) -> dict[int | str, dict[str, Any]]:
    content: dict[str, Any] = {_JSON: {"schema": _schema(model)}}
    if lines:
        content[NDJSON] = {"schema": {"type": "string"}}
    return {200: {"description": "Done.", "content": content}, **_REFUSALS}


class Routes:
    """The handlers, around one service.

    Parameters
    ----------
    service
        The models.
    stopping
        Set when the service stops.
    """

    def __init__(self, service: Service, stopping: asyncio.Event) -> None:
        self.service = service
        self.limits = service.settings.limits
        self.stopping = stopping
        self.events_source = Events(service, stopping)
        self._page, self._policy = _page()
        self._exports = 0

    async def _json(self, request: Request) -> Any:
        if content_type(request.scope) != _JSON:
            raise Problem(415, f"the content type is {shown(content_type(request.scope))}: send {_JSON}")
        body = await request.body()
        if len(body) > _LONG_BODY:
            return await asyncio.to_thread(decode_json, body)
        return decode_json(body)

    async def _records(self, items: Any, worker: Worker, labelled: bool) -> Records:
        """Records of a request, with pauses for others."""
        if not isinstance(items, list) or not items:
            raise Problem(422, f"records is {shown(items)}: give a list of at least one record")
        if len(items) > self.limits.records:
            raise Problem(
                413, f"the request has {len(items)} records, and the limit is {self.limits.records}: send fewer at a "
                f"time, or stream them as {NDJSON}"
            )  # fmt: skip
        reader = Reader(labelled, worker.state.regression, self.limits, worker.state.features)
        for place, item in enumerate(items, start=1):
            reader.add(item)
            if place % PREDICT_CHUNK == 0:
                await asyncio.sleep(0)
        return reader.done()

    async def _run(self, worker: Worker, job: Job) -> Any:
        """Hand a request to the model's writer and wait."""
        worker.submit(job)
        return await job.future

    def _future(self) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    async def page(self) -> Response:
        """The live page."""
        return Response(self._page, media_type="text/html", headers={"Content-Security-Policy": self._policy})

    async def healthz(self) -> Response:
        """Whether the service is up; `degraded` while some model cannot learn."""
        return answer({"status": self.service.status})

    async def metrics(self) -> Response:
        """The figures for Prometheus."""
        return Response(metrics.exposition(self.service), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def events(self, request: Request) -> Response:
        """Server-sent events: each model's figures whenever they have changed."""
        if self.events_source.listeners >= self.limits.event_streams:
            raise Problem(429, f"{self.events_source.listeners} pages listen already: close one", {"Retry-After": "5"})
        events = self.events_source.stream(request.receive)
        return stream.Streamed(events, "text/event-stream", self.limits.request_seconds)

    async def models(self) -> Response:
        """All models."""
        return answer({"models": [brief(worker) for worker in self.service.workers.values()]})

    async def create(self, name: str, request: Request) -> Response:
        """Make a model from a preset or a configuration. An empty object gives the default."""
        document = await self._json(request)
        try:
            spec = ModelSpec.model_validate(document)
        except ValidationError as error:
            raise Problem(422, _first_error(error.errors())) from None
        worker = await asyncio.to_thread(self.service.create, name, spec)
        return answer(details(worker), 201)

    async def inspect(self, name: str) -> Response:
        """A model's figures: errors, learners, throughput, features and their availability, resets."""
        return answer(details(self.service.get(name)))

    async def delete(self, name: str, confirm: str | None = None) -> Response:
        """Remove a model. The first call is answered with 428 and a token, the second has to bring it."""
        await asyncio.to_thread(self.service.delete, name, confirm)
        return Response(status_code=204)

    async def export(self, name: str) -> Response:
        """The model as a checkpoint, for `MODLClassifier.load` or another service."""
        worker = self.service.get(name)
        if self._exports >= _MOST_EXPORTS:
            raise Problem(429, f"{self._exports} exports are being made: try again later", {"Retry-After": "1"})
        self._exports += 1
        try:
            content = await self._run(worker, Job("export", self._future()))
        finally:
            self._exports -= 1
        return Response(
            content, media_type=_OCTETS, headers={"Content-Disposition": f'attachment; filename="{name}.braided"'}
        )

    async def load(self, name: str, request: Request) -> Response:
        """Make a model from a checkpoint, to go on where it stands."""
        if content_type(request.scope) != _OCTETS:
            raise Problem(415, f"the content type is {shown(content_type(request.scope))}: send {_OCTETS}")
        content = await request.body()
        worker = await asyncio.to_thread(self.service.create_from_checkpoint, name, content)
        return answer(details(worker), 201)

    async def predict(self, request: Request) -> Response:
        """Predict one record, several, or a stream of lines. Changes nothing."""
        worker = self.service.get(request.path_params["name"])
        if content_type(request.scope) == NDJSON:
            return await stream.predict(request, worker, self.limits, self.stopping)
        document = await self._json(request)
        items = document["records"] if _is_list(document, {"records"}) else [document]
        records = await self._records(items, worker, labelled=False)
        classes, found = await self._predict(worker, records)
        return answer({"classes": classes, "predictions": found})

    async def _predict(self, worker: Worker, records: Records) -> tuple[list[Any], list[dict[str, Any]]]:
        """Predict any number of records, with pauses for others."""
        classes, found = worker.predict(records.part(0, PREDICT_CHUNK) if len(records) > PREDICT_CHUNK else records)
        for start in range(PREDICT_CHUNK, len(records), PREDICT_CHUNK):
            await asyncio.sleep(0)
            classes, more = worker.predict(records.part(start, start + PREDICT_CHUNK))
            found += more
        return classes, found

    async def learn(self, request: Request) -> Response:
        """Learn one record, several, or a stream of lines. The answer comes when they are durable and learned.

        A stream's client and sequence are given in the query. Of several records in one JSON body all are learned, or
        none.
        """
        worker = self.service.get(request.path_params["name"])
        if content_type(request.scope) == NDJSON:
            client, sequence = _from_query(request, self.limits.text)
            return await stream.learn(request, worker, self.limits, client, sequence, self.stopping)
        document = await self._json(request)
        client, sequence = None, 0
        if isinstance(document, dict):
            document = dict(document)
            client, sequence = _client(document.pop("client", None), document.pop("sequence", None), self.limits.text)
        items = document["records"] if _is_list(document, {"records"}) else [document]
        records = await self._records(items, worker, labelled=True)
        return answer(await self._run(worker, Job("learn", self._future(), records, client, sequence)))

    async def observe(self, request: Request) -> Response:
        """Predict one record now, and keep it for its label, which may come later under the ID of the answer."""
        worker = self.service.get(request.path_params["name"])
        records = await self._records([await self._json(request)], worker, labelled=False)
        classes, (found,) = worker.predict(records)
        job = Job("observe", self._future(), records, id=secrets.token_hex(12), time=time.time())
        kept = await self._run(worker, job)
        return answer({**kept, "classes": classes, "prediction": found})

    async def label(self, request: Request) -> Response:
        """Teach the label of an observed record."""
        worker = self.service.get(request.path_params["name"])
        document = await self._json(request)
        if not isinstance(document, dict) or document.keys() != {"id", "y"}:
            raise Problem(422, f'the body is {shown(document)}: give {{"id": "...", "y": label}}')
        id_ = check_text(document["id"], "id", self.limits.text)
        y = Reader(True, worker.state.regression, self.limits).label(document["y"], 0)
        return answer(await self._run(worker, Job("label", self._future(), id=id_, label=y)))

    async def client(self, name: str, client: str) -> Response:
        """The sequence number with which a client should go on; 0 for one that is not known."""
        worker = self.service.get(name)
        check_text(client, "client", self.limits.text)
        return answer({"client": client, "next": worker.state.clients.get(client, 0)})

    async def forget(self, name: str, client: str) -> Response:
        """Forget a client's sequence number, to make room for others."""
        worker = self.service.get(name)
        check_text(client, "client", self.limits.text)
        return answer(await self._run(worker, Job("forget", self._future(), client=client)))


def _is_list(document: Any, keys: set[str]) -> bool:
    return isinstance(document, dict) and document.keys() == keys


def _client(client: Any, sequence: Any, most_text: int) -> tuple[str | None, int]:
    if client is None and sequence is None:
        return None, 0
    if client is None or sequence is None:
        raise Problem(422, "client and sequence go together: give both, or neither")
    check_text(client, "client", most_text)
    if type(sequence) is not int or not 0 <= sequence < _MOST_SEQUENCE:
        raise Problem(422, f"sequence is {shown(sequence)}: give a whole number from 0 on")
    return client, sequence


def _from_query(request: Request, most_text: int) -> tuple[str | None, int]:
    sequence = request.query_params.get("sequence")
    if sequence is not None and not re.fullmatch(r"[0-9]{1,16}", sequence):
        raise Problem(422, f"sequence is {shown(sequence)}: give a whole number from 0 on")
    number = None if sequence is None else int(sequence)
    return _client(request.query_params.get("client"), number, most_text)


def _first_error(errors: Any) -> str:
    first = errors[0]
    where = ".".join(str(part) for part in first["loc"]) or "the body"
    return f"{where[:100]}: {first['msg'][:200]}"


def _page() -> tuple[bytes, str]:
    """The page, and a policy under which it may run its own script, talk to this service, and nothing else."""
    page = (importlib.resources.files("braided.serve") / "page.html").read_bytes()
    script = page.partition(b"<script>")[2].partition(b"</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page, policy


def make_app(service: Service, tokens: Tokens, stopping: asyncio.Event | None = None) -> FastAPI:
    """The application around a service that is open; it closes it when it stops."""
    routes = Routes(service, stopping or asyncio.Event())

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()

        def deliver(results: list[tuple[Job, Any]]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no one waits any more
                loop.call_soon_threadsafe(deliver_here, results)

        service.deliver = deliver
        yield
        await asyncio.to_thread(service.close)

    app = App(
        title="braided", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False,
        description="Learns and predicts data streams whose features come and go.",
    )  # fmt: skip
    app.state.service = service
    hot = {"predict": routes.predict, "learn": routes.learn, "observe": routes.observe, "label": routes.label}
    app.add_middleware(Shortcut, handlers=hot)
    app.add_middleware(Guard, tokens=tokens, limits=service.settings.limits)
    _add_routes(app, routes)
    _add_problem_handlers(app)
    app.with_tokens = bool(tokens)
    return app


def _add_routes(app: FastAPI, routes: Routes) -> None:
    made = {**_gives(ModelDetails)}
    made[201] = made.pop(200)
    text = {"schema": {"type": "string"}}
    plain: dict[int | str, dict[str, Any]] = {
        200: {"description": "Done.", "content": {"text/plain": text}},
        **_REFUSALS,
    }
    octets = {_OCTETS: {"schema": {"type": "string", "format": "binary"}}}
    query = [
        {"name": "client", "in": "query", "required": False, "schema": {"type": "string", "minLength": 1}},
        {"name": "sequence", "in": "query", "required": False, "schema": {"type": "integer", "minimum": 0}},
    ]
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "pattern": NAME_PATTERN}}
    one = "/models/{name}"
    table: list[tuple[str, str, Any, dict[int | str, dict[str, Any]], dict[str, Any]]] = [
        ("GET", "/healthz", routes.healthz, _gives(Health), {}),
        ("GET", "/metrics", routes.metrics, plain, {}),
        ("GET", "/models", routes.models, _gives(ModelList), {}),
        ("PUT", one, routes.create, made, _body(ModelSpec)),
        ("GET", one, routes.inspect, _gives(ModelDetails), {}),
        ("DELETE", one, routes.delete, {204: {"description": "Removed."}, **_REFUSALS}, {}),
        ("GET", f"{one}/checkpoint", routes.export, {200: {"description": "The checkpoint.", "content": octets},
                                                      **_REFUSALS}, {}),
        ("PUT", f"{one}/checkpoint", routes.load, made, {"requestBody": {"required": True, "content": octets}}),
        ("POST", f"{one}/predict", routes.predict, _gives(Predictions, True),
         {"parameters": [name], **_body(Record, RecordList, lines=True)}),
        ("POST", f"{one}/learn", routes.learn, _gives(Learned, True),
         {"parameters": [name, *query], **_body(LearnOne, LabelledRecordList, lines=True)}),
        ("POST", f"{one}/observe", routes.observe, _gives(Observed), {"parameters": [name], **_body(Record)}),
        ("POST", f"{one}/label", routes.label, _gives(Learned), {"parameters": [name], **_body(LabelRequest)}),
        ("GET", f"{one}/clients/{{client}}", routes.client, _gives(ClientState), {}),
        ("DELETE", f"{one}/clients/{{client}}", routes.forget, _gives(ClientState), {}),
    ]  # fmt: skip
    for method, path, handler, responses, extra in table:
        app.add_api_route(
            path, handler, methods=[method], responses=responses, openapi_extra=extra or None,
            response_class=Response, status_code=next(code for code in responses if isinstance(code, int)),
            operation_id=handler.__name__,
        )  # fmt: skip
    app.add_api_route("/", routes.page, methods=["GET"], include_in_schema=False)
    app.add_api_route("/events", routes.events, methods=["GET"], include_in_schema=False)


def _add_problem_handlers(app: FastAPI) -> None:
    def refuse(problem: Problem) -> Response:
        return Response(problem.body(), problem.status, problem.headers, _PROBLEM)

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return refuse(error)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = {404: "there is nothing here: see /openapi.json", 405: "this method is not for this address"}
        return refuse(
            Problem(error.status_code, detail.get(error.status_code, str(error.detail)), dict(error.headers or {}))
        )

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return refuse(Problem(422, _first_error(error.errors())))

    async def fault(request: Request, error: Exception) -> Response:
        return refuse(Problem(500, "the service made a mistake: its log says more"))

    app.add_exception_handler(Problem, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(Exception, fault)
