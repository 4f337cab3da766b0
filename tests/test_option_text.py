"""A refusal names the parameter that lifts it in backticks, and the command line the option in its place."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import braided as package
from braided import BraidedError, Encoder, MODLClassifier, MODLRegressor
from braided.run.option_text import as_options
from braided.streams import Rules, open_stream
from command import braided

SOURCE = Path(package.__file__).parent
#: What people reach by the command line alone.
COMMANDS = {"cli", "run", "report", "serve", "zoo"}
ESTIMATORS = {"MODLClassifier": MODLClassifier, "MODLRegressor": MODLRegressor}


def spelled_options(path: Path) -> list[str]:
    """Texts of a file, but for docstrings, that have an option in them without the command that takes it."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, documented)
            if node.body and isinstance(node.body[0], ast.Expr)}  # fmt: skip
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs)
    plain = (re.sub(r"braided \w+ --", "", text) for text in texts if isinstance(text, str))
    return [text for text in plain if re.search(r"--[a-z]", text)]


def test_what_python_reaches_has_no_option_of_the_command_line_in_its_messages() -> None:
    files = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in COMMANDS]
    assert len(files) > 50
    assert {path.name: found for path in files if (found := spelled_options(path))} == {}


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("raise `max_features`, or give `delay=5`", "raise --max-features, or give --delay 5"),
        ("`drop=['an id']` or `na=['a=1', 'b=2']`", "--drop 'an id' or --na a=1 --na b=2"),
        ("`thousands=''`, `decimal=','`", "--thousands '', --decimal ','"),
        ("`day_first=True` or `day_first=False`", "--day-first or --month-first"),
        ("`hashed=['c']`, `header=False`, `length`", "--hash c, --no-header, --limit N"),
        ("run `braided inspect`; 'a`b' and `drop=['a`b']`", "run `braided inspect`; 'a`b' and `drop=['a`b']`"),
    ],
)
def test_parameters_in_backticks_become_options(message: str, shown: str) -> None:
    assert as_options(message) == shown


def refusal(call: Any, *arguments: Any, **settings: Any) -> str:
    with pytest.raises(BraidedError) as caught:
        call(*arguments, **settings)
    return str(caught.value)


def test_python_is_told_of_parameters_and_the_command_line_of_options(tmp_path: Path) -> None:
    model = MODLClassifier(max_features=1)
    model.learn_one({"a": 1.0}, "x")
    assert "raise `max_features`, give `expire_after`" in refusal(model.learn_one, {"b": 1.0}, "x")
    assert refusal(Rules, dates="x").startswith("`dates` 'x' is not known")
    encoder = Encoder(Rules(categories="refuse"))
    assert "give `categories='onehot'` or `categories='hash'`" in refusal(encoder.learn_one, {"a": "red"})
    file = tmp_path / "days.csv"
    file.write_text("a,y\n1/2/2024,0\n2/2/2024,1\n")
    assert "`day_first=True` or `day_first=False`" in refusal(lambda: list(open_stream(str(file)).batches()))
    assert "--day-first or --month-first" in braided("inspect", str(file), code=2).stderr


def test_the_limits_in_the_reference_are_the_defaults() -> None:
    parameters = inspect.signature(MODLClassifier).parameters
    limits = [f"{parameters[limit].default:,}" for limit in ("max_features", "max_classes")]
    text = (MODLClassifier.__doc__ or "").split("    max_features")[1].split("\n    first_features")[0]
    assert " and ".join(limits) + " unless" in " ".join(text.split())
