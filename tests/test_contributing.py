"""What CONTRIBUTING.md and the paper-to-code map name is there, and the tables of checks are complete."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from reproduction.tables import TABLES

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "braided"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
MAP = (ROOT / "docs" / "paper.md").read_text()
PLACE = re.compile(r"(test )?`([\w/]+\.py)(?::(\w+))?`")


def names_in(path: Path) -> set[str]:
    """Functions, classes and assigned names of a file, outside of functions."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


@pytest.mark.parametrize("file", ["test_every_learner.py", "test_every_model.py"])
def test_the_table_has_every_check(file: str) -> None:
    checks = {name for name in names_in(ROOT / "tests" / file) if name.startswith("test_")}
    table = CONTRIBUTING.partition(f"`tests/{file}`")[2].lstrip("\n").partition("\n\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(test_\w+)` \| \S", table, re.MULTILINE)) == checks


def test_every_file_that_contributing_names_is_there() -> None:
    for path in re.findall(r"`((?:src|tests|docs)/[\w/]+\.\w+)`", CONTRIBUTING):
        assert "NAME" in path or (ROOT / path).exists(), path


def test_every_place_in_the_map_is_there() -> None:
    places = PLACE.findall(MAP)
    assert len(places) > 50
    for test, path, name in places:
        outside = path.startswith(("benchmarks/", "reproduction/"))
        file = (ROOT / "tests" if test else ROOT if outside else SOURCE) / path
        if path == "file.py":
            continue
        assert file.exists(), path
        assert not name or name in names_in(file), f"{path} has no {name}"


def test_every_setting_in_the_map_is_one_of_its_class() -> None:
    for path, kind, setting in re.findall(r"`([\w/]+\.py):(\w+Config)` \(`(\w+)`\)", MAP):
        assert re.search(rf"^    {setting}: ", (SOURCE / path).read_text(), re.MULTILINE), f"{kind} has no {setting}"


def test_the_map_has_every_table_that_can_be_reproduced() -> None:
    assert set(re.findall(r"`python -m reproduction ([a-z0-9]+)`", MAP)) == set(TABLES)
