"""What a wheel of braided has besides its Python files: the kernels, compiled for this kind of machine."""

from __future__ import annotations

import importlib.util
import platform
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
#: The last for Intel Macs were those of 0.62.
_NUMBA_WHEELS = {"glibc": {"x86_64", "aarch64"}, "darwin": {"arm64"}}


class KernelHook(BuildHookInterface[Any]):  # type: ignore[misc]
    """Compiles the kernels, and makes the wheel one of a platform: for every Python, as nothing of Python is linked."""

    def dependencies(self) -> list[str]:
        """What compiles and links, where it is to be installed."""
        system = (platform.libc_ver()[0] or "another libc") if sys.platform == "linux" else sys.platform
        if platform.machine() not in _NUMBA_WHEELS.get(system, set()):
            raise SystemExit(
                f"braided's kernels cannot be compiled on {system} and {platform.machine()}, for which Numba has no "
                "wheels: use Linux with glibc on x86_64 or arm64, or macOS on arm64"
            )
        spec = importlib.util.spec_from_file_location("build_kernels", ROOT / "build_kernels.py")
        assert spec is not None
        assert spec.loader is not None
        builder = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(builder)
        return list(builder.requirements())

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the libraries; a checkout that is installed in place has them built where its imports look for them."""
        command = [sys.executable, str(ROOT / "build_kernels.py")]
        if version == "editable":
            _run([*command, "--here"])
            return
        self._folder = tempfile.TemporaryDirectory()
        _run([*command, "--into", self._folder.name])
        for library in Path(self._folder.name).iterdir():
            build_data["force_include"][str(library)] = f"braided/kernels/lib/{library.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was built."""
        if version != "editable":
            self._folder.cleanup()


def _run(command: list[str]) -> None:
    """Run the build, which says itself what it lacks."""
    if subprocess.run(command, check=False).returncode:
        raise SystemExit("braided's kernels could not be built: the reason is above")


def _platform() -> str:
    """The tag of this machine."""
    if sys.platform == "darwin":
        return f"macosx_11_0_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
