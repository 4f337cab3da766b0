"""What can be asked for at an address, and what of it the OpenAPI document says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from braided import __version__
from braided.serve.problems import PROBLEM
from braided.serve.schemas import ProblemDocument
from braided.serve.security import Access
from braided.serve.service import NAME_PATTERN

JSON, NDJSON = "application/json", "application/x-ndjson"
OCTETS = "application/octet-stream"
_PATH_PARAMETER = re.compile(r"{(\w+)}")
_SCHEMAS = "#/components/schemas/"


@dataclass(frozen=True)
class Operation:
    """What a method does at an address; what is asked of a request for it, and what the OpenAPI document says of it.

    Attributes
    ----------
    method, path, handler
        Such as `GET`, `/models/{name}`.
    access
        Who may ask: `anybody`, or those with a token to `read`, to `learn` or to `administer`.
    in_lines
        Whether it also takes, and then gives, NDJSON, for as long as the client has lines.
    patience
        How many times the usual time it may take.
    counted, lasting
        Whether it counts as a request in flight, and whether it answers for as long as the client listens.
    body, query
        Schemas of the JSON body, or its media type; query parameters and their schemas.
    body_limit
        Which of the limits bounds the body.
    status, answer
        Of success: the schema, or the media type, of what is given.
    documented
        Whether the OpenAPI document has it.
    """

    method: str
    path: str
    handler: Callable[[Request], Awaitable[Response]]
    access: Access
    in_lines: bool = False
    patience: float = 1.0
    counted: bool = True
    lasting: bool = False
    body: Sequence[Any] | str = ()
    query: dict[str, dict[str, Any]] = field(default_factory=dict)
    body_limit: Literal["body_bytes", "checkpoint_bytes"] = "body_bytes"
    status: int = 200
    answer: Any = None
    documented: bool = True


def openapi(operations: Iterable[Operation], with_tokens: bool) -> dict[str, Any]:
    """The OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Any] = {}

    def content(what: Any, in_lines: bool = False, media_type: str = JSON) -> dict[str, Any]:
        """Media types and their schemas."""
        if not what:
            return {}
        if isinstance(what, str):
            return {what: {"schema": {"type": "string"} | ({} if what.startswith("text/") else {"format": "binary"})}}
        either = []
        for kind in what if isinstance(what, tuple) else (what,):
            schema = TypeAdapter(kind).json_schema(ref_template=f"{_SCHEMAS}{{model}}")
            schemas.update(schema.pop("$defs", {}))
            schemas[kind.__name__] = schema
            either.append({"$ref": f"{_SCHEMAS}{kind.__name__}"})
        found: dict[str, Any] = {media_type: {"schema": {"anyOf": either} if len(either) > 1 else either[0]}}
        if in_lines:
            found[NDJSON] = {"schema": {"type": "string", "description": "One record per line."}}
        return found

    for one in operations:
        if not one.documented:
            continue
        in_path: dict[str, Any] = {name: {"type": "string"} for name in _PATH_PARAMETER.findall(one.path)}
        if "name" in in_path:
            in_path["name"]["pattern"] = NAME_PATTERN
        answer = content(one.answer, one.in_lines)
        refused = {"description": "Refused.", "content": content(ProblemDocument, media_type=PROBLEM)}
        name = one.handler.__name__
        described: dict[str, Any] = {
            "summary": name.capitalize(),
            "description": inspect.getdoc(one.handler),
            "operationId": name,
            "parameters": [
                {"name": name, "in": place, "required": place == "path", "schema": schema}
                for place, some in (("path", in_path), ("query", one.query))
                for name, schema in some.items()
            ],
            "responses": {
                str(one.status): {"description": "Done.", **({"content": answer} if answer else {})},
                "4XX": refused,
                "5XX": refused,
            },
        }
        if one.body:
            described["requestBody"] = {"required": True, "content": content(one.body, one.in_lines)}
        if with_tokens:
            # The name of a scope is a role in the sense of OpenAPI 3.1.
            described["security"] = [] if one.access == "anybody" else [{"token": [one.access]}]
        paths.setdefault(one.path, {})[one.method.lower()] = described
    components: dict[str, Any] = {"schemas": dict(sorted(schemas.items()))}
    if with_tokens:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    about = "Learns and predicts data streams whose features come and go."
    info = {"title": "braided", "description": about, "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components}
