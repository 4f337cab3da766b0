"""The OpenAPI document, from the table of operations and the schemas that it names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from braided import __version__
from braided.serve.endpoint import JSON, NDJSON, Operation
from braided.serve.problems import PROBLEM
from braided.serve.schemas import ProblemDocument
from braided.serve.service import NAME_PATTERN

_PATH_PARAMETER = re.compile(r"{(\w+)}")
_SCHEMAS = "#/components/schemas/"


def document(operations: Iterable[Operation], with_tokens: bool) -> dict[str, Any]:
    """The document."""
    operations = [operation for operation in operations if operation.documented]
    paths: dict[str, dict[str, Any]] = {}
    models: set[type[BaseModel]] = {ProblemDocument}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
        named = [*(operation.body if isinstance(operation.body, tuple) else ()), operation.answer]
        models.update(model for model in named if isinstance(model, type))
    schemas: dict[str, Any] = {}
    for model in sorted(models, key=lambda model: model.__name__):
        schema = model.model_json_schema(ref_template=f"{_SCHEMAS}{{model}}")
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "braided",
            "description": "Learns and predicts data streams whose features come and go.",
            "version": __version__,
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }
    if with_tokens:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for operation in operations:
            # The name of a scope is a role in the sense of OpenAPI 3.1.
            needed = [] if operation.access == "anybody" else [{"token": [operation.access]}]
            paths[operation.path][operation.method.lower()]["security"] = needed
    return found


def _described(operation: Operation) -> dict[str, Any]:
    """One operation."""
    name = operation.handler.__name__
    content = _content(operation.answer, operation.in_lines)
    refused = {"description": "Refused.", "content": _content(ProblemDocument, media_type=PROBLEM)}
    found: dict[str, Any] = {
        "summary": name.capitalize(),
        "description": inspect.getdoc(operation.handler),
        "operationId": name,
        "parameters": _parameters(operation),
        "responses": {
            str(operation.status): {"description": "Done.", **({"content": content} if content else {})},
            "4XX": refused,
            "5XX": refused,
        },
    }
    if operation.body:
        found["requestBody"] = {"required": True, "content": _content(operation.body, operation.in_lines)}
    return found


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    in_path: dict[str, dict[str, Any]] = {name: {"type": "string"} for name in _PATH_PARAMETER.findall(operation.path)}
    if "name" in in_path:
        in_path["name"]["pattern"] = NAME_PATTERN
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name, schema in in_path.items()] + [
        {"name": name, "in": "query", "required": False, "schema": schema} for name, schema in operation.query.items()
    ]


def _content(
    what: type[BaseModel] | tuple[type[BaseModel], ...] | str | None, in_lines: bool = False, media_type: str = JSON
) -> dict[str, Any]:
    """Media types and their schemas."""
    if what is None:
        return {}
    if isinstance(what, str):
        text = what.startswith("text/")
        return {what: {"schema": {"type": "string"} if text else {"type": "string", "format": "binary"}}}
    models = what if isinstance(what, tuple) else (what,)
    either = [{"$ref": f"{_SCHEMAS}{model.__name__}"} for model in models]
    content: dict[str, Any] = {media_type: {"schema": {"anyOf": either} if len(either) > 1 else either[0]}}
    if in_lines:
        content[NDJSON] = {"schema": {"type": "string", "description": "One record per line."}}
    return content
