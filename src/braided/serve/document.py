"""The OpenAPI document."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from braided.serve import schemas
from braided.serve.build import ModelSpec
from braided.serve.service import NAME_PATTERN

_KEPT: list[type[BaseModel]] = [
    schemas.ProblemDocument, schemas.Record, schemas.RecordList, schemas.LearnOne, schemas.LabelledRecordList,
    schemas.LabelRequest, schemas.Predictions, schemas.Observed, schemas.Learned, schemas.ClientState, schemas.Health,
    schemas.ModelList, schemas.ModelDetails, ModelSpec,
]  # fmt: skip


class App(FastAPI):
    """An application whose document has the schemas that its handlers read and write themselves."""

    with_tokens = False

    def openapi(self) -> dict[str, Any]:
        """The document."""
        made: dict[str, Any] | None = self.openapi_schema
        if made is not None:
            return made
        document: dict[str, Any] = super().openapi()
        components = document.setdefault("components", {})
        described = components.setdefault("schemas", {})
        for model in _KEPT:
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            described.update(schema.pop("$defs", {}))
            described[model.__name__] = schema
        if self.with_tokens:
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"token": []}]
        for path in document["paths"].values():
            for operation in path.values():
                # Every refusal is a problem document, described once for all.
                operation["responses"].pop("422", None)
                for parameter in operation.get("parameters", []):
                    if parameter["in"] == "path" and parameter["name"] == "name":
                        parameter["schema"]["pattern"] = NAME_PATTERN
        return document
