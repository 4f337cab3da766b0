"""Test files can be imported, and say what they lack, in the environment that plain `make test` makes."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
PROJECT = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]
#: Distributions that are imported under another name.
IMPORTED_AS = {"scikit-learn": "sklearn"}
SKIPPING = {"skip", "skipif", "importorskip"}


def installed_by(*requirements: str) -> set[str]:
    """The modules of these requirements, and of those of the extras among them."""
    found = set()
    for requirement in requirements:
        name, extras = re.match(r"([\w-]+)(?:\[([\w,]+)\])?", requirement).groups()  # type: ignore[union-attr]
        if name == PROJECT["name"]:
            for extra in extras.split(","):
                found |= installed_by(*PROJECT["optional-dependencies"][extra])
        else:
            found.add(IMPORTED_AS.get(name, name.replace("-", "_")))
    return found


PLAIN = installed_by(*PROJECT["dependencies"], "braided[dev]")
SCRIPTS = {path.stem for path in (TESTS.parent / "benchmarks").glob("*.py")}
HERE = {path.stem for path in TESTS.rglob("*.py")} | SCRIPTS | {PROJECT["name"], "reproduction"}


def at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """What runs when a file is imported, in order: functions do not."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            for part in ("body", "handlers", "orelse", "finalbody"):
                yield from at_import(getattr(node, part, []))
        elif isinstance(node, ast.ExceptHandler):
            yield from at_import(node.body)


def unguarded(source: str) -> list[str]:
    """The modules that a file imports at its top although plain `make test` does not install them."""
    guarded: set[str] = set()
    found = []
    for node in at_import(ast.parse(source).body):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        else:
            guarded |= {
                call.args[0].value.partition(".")[0]
                for call in ast.walk(node)
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.importorskip"
            }  # fmt: skip
            continue
        packages = {module.partition(".")[0] for module in modules}
        found += sorted(packages - sys.stdlib_module_names - PLAIN - HERE - guarded)
    return found


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: path.relative_to(TESTS).as_posix())
def test_the_top_of_a_file_imports_only_what_make_test_installs(path: Path) -> None:
    modules = ", ".join(unguarded(path.read_text()))
    assert not modules, f"{path.relative_to(TESTS.parent)} imports {modules}: call pytest.importorskip before"


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("import torch", ["torch"]),
        ("from ray.util import x\nimport numpy, selenium", ["ray", "selenium"]),
        ("try:\n    import capymoa.base\nexcept ImportError:\n    import torch", ["capymoa", "torch"]),
        ("import pytest\ntorch = pytest.importorskip('torch', reason='')\nfrom torch import nn", []),
        ("import torch\nimport pytest\npytest.importorskip('torch')", ["torch"]),
        ("def test():\n    import torch", []),
        ("import httpx, sklearn.base, psycopg, json, conftest, braided", []),
    ],
)
def test_an_import_at_the_top_is_seen(source: str, modules: list[str]) -> None:
    assert unguarded(source) == modules


def reasons(path: Path) -> Iterator[tuple[int, str]]:
    """The reasons of a file's skips, with their lines."""
    for call in ast.walk(ast.parse(path.read_text())):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in SKIPPING:
            given = [keyword.value for keyword in call.keywords if keyword.arg == "reason"] or call.args[:1]
            yield call.lineno, ast.unparse(given[0])


def test_every_skip_names_its_remedy() -> None:
    """The last lines of `make test` are made of the remedies."""
    seen = [(path, line, reason) for path in TESTS.rglob("*.py") for line, reason in reasons(path)]
    assert len(seen) > 20
    for path, line, reason in seen:
        assert ": " in reason or reason == "reason", f"{path.name}:{line}: {reason} names no remedy"


@pytest.mark.parametrize(
    ("module", "line", "told"),
    [
        (
            "kernels/dense.py",
            "import braided.estimators",
            "braided.kernels is not allowed to import braided.estimators",
        ),
        ("run/options.py", "def late():\n    import braided.run.job", "No cycle"),
        ("report/table.py", "import reproduction.cells", "braided is not allowed to import reproduction"),
    ],
    ids=["a layer that reaches up", "a cycle hidden in a function", "what is not released"],
)
def test_the_import_contract_fails_when_it_is_broken(module: str, line: str, told: str, tmp_path: Path) -> None:
    for folder in ("src", "reproduction"):
        shutil.copytree(TESTS.parent / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(TESTS.parent / "pyproject.toml", tmp_path)
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}"}

    def lint() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    assert lint().returncode == 0
    with (tmp_path / "src" / "braided" / module).open("a") as file:
        file.write(f"\n{line}\n")
    done = lint()
    assert done.returncode == 1
    broken = done.stdout.partition("Broken contracts")[2]
    assert told in broken
