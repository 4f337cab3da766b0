"""Where nothing can be written, as in a container: the package is imported and runs all the same."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import braided
from braided.kernels import cache

#: Lets the modes of files count for root too, as they do for anyone else (PR_CAPBSET_DROP, CAP_DAC_OVERRIDE).
_WITHOUT_OVERRIDE = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(24, 1); "
    "os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])"
)


def with_read_only(package: Path, home: Path, temporary: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script with a package and a home that cannot be written."""
    environment = {
        name: value for name, value in os.environ.items() if name not in {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"}
    }
    environment |= {"HOME": str(home), "PYTHONPATH": str(package), "TMPDIR": str(temporary)}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT_OVERRIDE, script], capture_output=True, text=True, env=environment,
        timeout=600, cwd=home,
    )  # fmt: skip


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package that no one can write."""
    copy = tmp_path / "site-packages"
    shutil.copytree(Path(braided.__file__).parent, copy / "braided", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        folder.chmod(0o555)
    return copy


@pytest.mark.skipif(sys.platform != "linux", reason="folders cannot be made read-only for everyone: run on Linux")
def test_kernels_go_to_a_temporary_folder_and_one_line_says_so(package: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    script = (
        "import braided; from braided.streams.decimal import _multiply; import numpy as np; "
        "print(_multiply(np.uint64(3), np.uint64(4))[1])"
    )
    for _ in range(2):
        done = with_read_only(package, home, temporary, script)
        assert done.stdout == "12\n", done.stderr
        (line,) = done.stderr.splitlines()
        assert "NUMBA_CACHE_DIR" in line
        (folder,) = temporary.iterdir()
        assert str(folder) in line
        assert folder.stat().st_mode & 0o077 == 0, "nobody else may put code there"
        assert list(folder.rglob("*.nbi"))


def test_without_any_folder_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(cache, "_writable", lambda folder: False)
    with caplog.at_level(logging.WARNING, "braided"):
        assert cache.choose_cache() is False
    assert "set NUMBA_CACHE_DIR" in caplog.text
    monkeypatch.setattr(numba.config, "CACHE_DIR", "/given")
    assert cache.choose_cache() is True


def test_a_folder_that_another_has_made_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.tempfile, "gettempdir", lambda: str(tmp_path))
    first = cache._temporary_folder()
    assert first is not None
    assert cache._temporary_folder() == first
    first.chmod(0o777)
    other = cache._temporary_folder()
    assert other is not None
    assert other != first
    first.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    first.symlink_to(tmp_path / "elsewhere")
    assert cache._temporary_folder() not in (None, first)
