"""The HTTP interface: the one table of addresses, and what answers at each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from itertools import groupby

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from braided.estimators.base import BY
from braided.serve import schemas
from braided.serve.handlers import Handlers
from braided.serve.middleware import Authorised, Limited, Observed, Policy
from braided.serve.operations import JSON, OCTETS, Operation, openapi
from braided.serve.requests import WriteRequest
from braided.serve.service import Service
from braided.serve.spec import ModelSpec
from braided.serve.worker import Answer, deliver_here

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
                  body=(schemas.LearnOne, schemas.LearnSeveral), answer=schemas.Learned,
                  query={"client": _TEXT, "sequence": _NUMBER}),
        Operation("POST", f"{one}/observe", handlers.observe, "learn", body=(schemas.Record,),
                  answer=schemas.Observed),
        Operation("POST", f"{one}/label", handlers.label, "learn", body=(schemas.Label,), answer=schemas.Learned),
        Operation("POST", f"{one}/explain", handlers.explain, "read", body=(schemas.Record,),
                  answer=schemas.Explained, query={"by": {"type": "string", "enum": list(BY)}}),
        Operation("GET", "/healthz", handlers.healthz, "anybody", counted=False, answer=schemas.Health),
        Operation("GET", "/metrics", handlers.metrics, "read", answer="text/plain"),
        Operation("GET", "/models", handlers.models, "read", answer=schemas.ModelList),
        Operation("PUT", one, handlers.create, "administer", body=(ModelSpec,), status=201,
                  answer=schemas.ModelDetails),
        Operation("GET", one, handlers.inspect, "read", answer=schemas.ModelDetails),
        Operation("DELETE", one, handlers.delete, "administer", query={"confirm": {"type": "string"}}, status=204),
        Operation("GET", f"{one}/checkpoint", handlers.export, "read", answer=OCTETS),
        Operation("PUT", f"{one}/checkpoint", handlers.load, "administer", body=OCTETS, status=201,
                  body_limit="checkpoint_bytes", answer=schemas.ModelDetails),
        Operation("GET", f"{one}/history", handlers.history, "read", answer=schemas.History),
        Operation("POST", f"{one}/restore", handlers.restore, "administer", patience=20.0, body=(schemas.Restore,),
                  answer=schemas.Restored),
        Operation("GET", client, handlers.client, "read", answer=schemas.Client),
        Operation("DELETE", client, handlers.forget, "administer", answer=schemas.Client),
        Operation("GET", "/", handlers.page, "anybody", documented=False),
        Operation("GET", "/events", handlers.events, "read", counted=False, lasting=True, documented=False),
    ]  # fmt: skip


def make_app(
    service: Service,
    policy: Policy,
    stopping: asyncio.Event | None = None,
    on_start: Callable[[], None] = lambda: None,
) -> Router:
    """The application around a service that is open; it closes it when it stops."""
    handlers = Handlers(service, policy, stopping or asyncio.Event())
    table = operations(handlers)
    described = {with_tokens: orjson.dumps(openapi(table, with_tokens)) for with_tokens in (False, True)}

    async def document(request: Request) -> Response:
        return Response(described[bool(policy.tokens)], media_type=JSON)

    table.append(Operation("GET", "/openapi.json", document, "read", documented=False))

    def behind_all(some: list[Operation]) -> ASGIApp:
        return Observed(Authorised(Limited(policy), policy, some), policy, some)

    # A client's name may hold a slash.
    routes = [
        Route(path.replace("{client}", "{client:path}"), behind_all(list(at_path)))
        for path, at_path in groupby(table, lambda item: item.path)
    ]

    @contextlib.asynccontextmanager
    async def lifespan(app: Router) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()

        def deliver(results: list[tuple[WriteRequest, Answer]]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no one waits any more
                loop.call_soon_threadsafe(deliver_here, results)

        service.deliver = deliver
        on_start()
        yield
        await asyncio.to_thread(service.close)
        handlers.close()

    return Router(routes, redirect_slashes=False, default=behind_all([]), lifespan=lifespan)
