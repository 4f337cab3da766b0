"""The HTTP interface: the one table of addresses, and what answers at each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import groupby
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from braided.estimators.base import BY
from braided.serve import openapi, schemas
from braided.serve.connections import Connections
from braided.serve.endpoint import JSON, OCTETS, Admission, Endpoint, Operation
from braided.serve.handlers import Handlers
from braided.serve.metrics import Traffic
from braided.serve.model_spec import ModelSpec
from braided.serve.security import Tokens
from braided.serve.service import Service
from braided.serve.worker import deliver_here
from braided.serve.write_request import WriteRequest

_TEXT = {"type": "string", "minLength": 1}
_NUMBER = {"type": "integer", "minimum": 0}


def operations(handlers: Handlers) -> list[Operation]:
    """Everything that can be asked for. The first addresses are found first: those that are called per record."""
    one = "/models/{name}"
    client = f"{one}/clients/{{client}}"
    return [
        Operation("POST", f"{one}/predict", handlers.predict, "read", in_lines=True,
                  body=(schemas.PredictOne, schemas.PredictSeveral), answer=schemas.Predictions),
        Operation("POST", f"{one}/learn", handlers.learn, "learn", in_lines=True,
                  body=(schemas.LearnOne, schemas.LabelledRecordList), answer=schemas.Learned,
                  query={"client": _TEXT, "sequence": _NUMBER}),
        Operation("POST", f"{one}/observe", handlers.observe, "learn", body=(schemas.Record,),
                  answer=schemas.Observed),
        Operation("POST", f"{one}/label", handlers.label, "learn", body=(schemas.LabelRequest,),
                  answer=schemas.Learned),
        Operation("POST", f"{one}/explain", handlers.explain, "read", body=(schemas.Record,),
                  answer=schemas.Explained, query={"by": {"type": "string", "enum": list(BY)}}),
        Operation("GET", "/healthz", handlers.healthz, "anybody", counted=False, always=True,
                  answer=schemas.Health),
        Operation("GET", "/metrics", handlers.metrics, "read", answer="text/plain"),
        Operation("GET", "/models", handlers.models, "read", answer=schemas.ModelList),
        Operation("PUT", one, handlers.create, "administer", body=(ModelSpec,), status=201,
                  answer=schemas.ModelDetails),
        Operation("GET", one, handlers.inspect, "read", answer=schemas.ModelDetails),
        Operation("DELETE", one, handlers.delete, "administer", query={"confirm": {"type": "string"}}, status=204),
        Operation("GET", f"{one}/checkpoint", handlers.export, "read", answer=OCTETS),
        Operation("PUT", f"{one}/checkpoint", handlers.load, "administer", body=OCTETS, status=201,
                  body_limit="checkpoint_bytes", answer=schemas.ModelDetails),
        Operation("GET", f"{one}/history", handlers.history, "read", answer=schemas.RestorePoints),
        Operation("POST", f"{one}/restore", handlers.restore, "administer", patience=20.0, body=(schemas.RestoreTo,),
                  answer=schemas.Restored),
        Operation("GET", client, handlers.client, "read", answer=schemas.ClientState),
        Operation("DELETE", client, handlers.forget, "administer", answer=schemas.ClientState),
        Operation("GET", "/", handlers.page, "anybody", documented=False),
        Operation("GET", "/events", handlers.events, "read", counted=False, lasting=True, documented=False),
    ]  # fmt: skip


def make_app(
    service: Service,
    tokens: Tokens,
    stopping: asyncio.Event | None = None,
    connections: Connections | None = None,
    admission: Admission | None = None,
) -> Router:
    """The application around a service that is open; it closes it when it stops."""
    handlers = Handlers(service, stopping or asyncio.Event())
    admission = admission or Admission(tokens, service.settings.limits)
    handlers.traffic = Traffic(admission, connections or Connections(service.settings.limits))
    table = operations(handlers)
    described = {
        with_tokens: orjson.dumps(openapi.document(table, with_tokens)) for with_tokens in (False, True)
    }  # fmt: skip

    async def openapi_document(request: Request) -> Response:
        return Response(described[bool(admission.tokens)], media_type=JSON)

    table.append(Operation("GET", "/openapi.json", openapi_document, "read", documented=False))
    routes = [
        Route(path, Endpoint(admission, list(at_path))) for path, at_path in groupby(table, lambda item: item.path)
    ]

    @contextlib.asynccontextmanager
    async def lifespan(app: Router) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()

        def deliver(results: list[tuple[WriteRequest, Any]]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no one waits any more
                loop.call_soon_threadsafe(deliver_here, results)

        service.deliver = deliver
        yield
        await asyncio.to_thread(service.close)
        handlers.close()

    return Router(routes, redirect_slashes=False, default=Endpoint(admission), lifespan=lifespan)
