"""A refusal names the setting that lifts it as the one who reads it can give it."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import braided as package
from braided import BraidedError, Encoder, MODLClassifier, MODLRegressor
from braided.option_names import COMMAND_LINE, SERVICE, option, options_for
from braided.streams import Rules, open_stream
from command import braided

SOURCE = Path(package.__file__).parent
#: What people reach by the command line alone.
COMMANDS = {"cli", "run", "reproduce", "report", "bench", "serve", "zoo.py", "option_names.py"}
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


def refusal(call: Any, *arguments: Any, **settings: Any) -> str:
    with pytest.raises(BraidedError) as caught:
        call(*arguments, **settings)
    return str(caught.value)


def test_each_user_is_told_of_what_he_can_give() -> None:
    def too_many() -> None:
        model = MODLClassifier(max_features=1, max_classes=1)
        model.learn_one({"a": 1.0}, "x")
        model.learn_one({"b": 1.0}, "x")

    assert "raise max_features, give expire_after" in refusal(too_many)
    with options_for(COMMAND_LINE):
        assert "raise --max-features, give --expire-after" in refusal(too_many)
    with options_for(SERVICE):
        assert "raise max_features, give expire_after" in refusal(too_many)
        assert option("na", ["t=-999"]) == '"na": ["t=-999"]'


def test_a_model_made_elsewhere_speaks_to_who_asks_it_now() -> None:
    with options_for(COMMAND_LINE):
        model = MODLClassifier(max_classes=1)
    model.learn_one({"a": 1.0}, "x")
    assert "raise max_classes, or" in refusal(model.learn_one, {"a": 1.0}, "y")
    with options_for(COMMAND_LINE):
        assert "raise --max-classes, or" in refusal(model.learn_one, {"a": 1.0}, "y")


def test_columns_and_rules_are_refused_in_the_words_of_python(tmp_path: Path) -> None:
    assert refusal(Rules, dates="x").startswith("dates 'x' is not known")
    encoder = Encoder(Rules(categories="refuse"))
    assert "give categories='onehot' or categories='hash'" in refusal(encoder.learn_one, {"a": "red"})
    file = tmp_path / "days.csv"
    file.write_text("a,y\n1/2/2024,0\n2/2/2024,1\n")
    assert "day_first=True or day_first=False" in refusal(lambda: list(open_stream(str(file)).batches()))
    assert "--day-first or --month-first" in braided("inspect", str(file), code=2).stderr


def test_the_command_line_leaves_no_words_behind(tmp_path: Path) -> None:
    braided("inspect", str(tmp_path / "none.csv"), code=2)
    assert option("drop", ["id"]) == "drop=['id']"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_limits_in_the_reference_are_the_defaults(name: str) -> None:
    parameters = inspect.signature(ESTIMATORS[name]).parameters
    limits = [f"{parameters[limit].default:,}" for limit in ("max_features", "max_classes") if limit in parameters]
    text = (ESTIMATORS[name].__doc__ or "").split("    max_features")[1].split("\n    first_features")[0]
    assert " and ".join(limits) + " unless" in " ".join(text.split())
