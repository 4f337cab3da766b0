"""The examples of docs/serve.md and of the tutorial, sent to a service."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from help_serve import served

DOCS = Path(__file__).resolve().parents[2] / "docs"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples(page: str) -> list[tuple[str, str]]:
    """Commands of the page's sh blocks that have an output, and what it is."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed: install the system's package curl")
    blocks = re.findall(r"^```sh\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    found = [part.split("\n", 1) for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert len(found) >= 6
    return [(command, expected) for command, expected in found]


def run(parts: list[tuple[str, str]], folder: Path) -> None:
    """Run commands against a service with its state in `folder`, and compare what they print."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with served(folder / "state") as server:
        for command, expected in parts:
            here = command.replace("localhost:8000", f"localhost:{server.port}")
            done = subprocess.run(
                here, shell=True, capture_output=True, text=True, timeout=300, cwd=folder, env=environment
            )
            found = done.stdout + "\n"
            assert doctest.OutputChecker().check_output(expected, found, FLAGS), f"{command}\n{found}{done.stderr}"


def test_examples(tmp_path: Path) -> None:
    run(examples("serve.md"), tmp_path)


def test_the_tutorial(tmp_path: Path) -> None:
    """Its last answer is of a service that was started again."""
    shutil.copy(DOCS / "pumps.csv", tmp_path)
    *before, after = examples("tutorial.md")
    run(before, tmp_path)
    run([after], tmp_path)
