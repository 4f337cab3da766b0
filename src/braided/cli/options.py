"""Commands whose options are the fields of a dataclass, so that each option is written once."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from rich.console import Console

from braided.run.option_text import as_options
from braided.values import printable

DataDirOption = Annotated[
    Path | None, typer.Option(envvar="BRAIDED_DATA", help="Folder with the data sets, one sub-folder each.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but the result, and errors.")]


def _typer_type(hint: Any) -> Any:
    """A field's type as Typer takes it: several words are a list; which words may be given, the dataclass checks."""
    inner, *notes = get_args(hint)
    if get_origin(inner) is tuple:
        inner = list[str] | None
    if get_origin(inner) is Literal:
        inner = str
    return Annotated[inner, *notes]


def with_options(kind: Any, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Put the annotated fields of a dataclass in the place of a command's parameter `name`, which receives an object.

    The other parameters stay as they are. A parameter `stream` that both have is the command's own. A field that has no
    default is None where its option is not given.
    """
    hints = get_type_hints(kind, include_extras=True)
    # Its own fields before those it inherits: what is asked for most stands first in the help.
    order = sorted(dataclasses.fields(kind), key=lambda field: field.name not in kind.__annotations__)
    fields = {field.name: field for field in order if get_origin(hints[field.name]) is Annotated}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        parameters = []
        for parameter in signature.parameters.values():
            if parameter.name != name:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
                continue
            for field in fields.values():
                without = field.default is dataclasses.MISSING or isinstance(field.default, tuple)
                default = None if without else field.default
                hint = _typer_type(hints[field.name])
                parameters.append(
                    inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
                )

        def expanded(**given: Any) -> None:
            values = {field: given.pop(field) for field in fields}
            for field, value in values.items():
                if isinstance(fields[field].default, tuple):
                    values[field] = tuple(dict.fromkeys(value)) if value else fields[field].default
            command(**given, **{name: kind(**values)})

        expanded.__name__, expanded.__doc__ = command.__name__, command.__doc__
        expanded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return expanded

    return decorate


def teller(console: Console) -> Callable[[str], None]:
    """Prints lines with options in place of parameters, and without what a terminal would not show."""
    return lambda message: console.print(printable(as_options(message)), markup=False, highlight=False, soft_wrap=True)
