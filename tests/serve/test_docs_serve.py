"""The examples of docs/serve.md, sent to a service."""

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

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serve.md"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_examples(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed: install the system's package curl")
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    examples = [part.split("\n", 1) for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert len(examples) >= 6
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with served(tmp_path / "state") as server:
        for command, expected in examples:
            here = command.replace("localhost:8000", f"localhost:{server.port}")
            done = subprocess.run(
                here, shell=True, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment
            )
            found = done.stdout + "\n"
            assert doctest.OutputChecker().check_output(expected, found, FLAGS), f"{command}\n{found}"
