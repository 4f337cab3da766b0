"""A library that is loaded before the C library: it shows what each sync brought to disk, or kills a process."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


@functools.cache
def shim() -> Path:
    """The library, built once."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler: install gcc")
    target = Path(tempfile.mkdtemp(prefix="braided-shim-")) / "shim.so"
    source = Path(__file__).with_name("disk_shim.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-w", "-o", target, source, "-ldl"], check=True)
    return target


def with_shim(**settings: str) -> dict[str, str]:
    """An environment in which a process is started with it."""
    return {
        **os.environ,
        "LD_PRELOAD": str(shim()),
        **{f"SHIM_{name.upper()}": text for name, text in settings.items()},
    }
