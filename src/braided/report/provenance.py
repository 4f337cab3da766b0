"""What a figure was made with: versions, machine, date."""

from __future__ import annotations

import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from braided import __version__

_PROCESSOR = Path("/proc/cpuinfo")


def provenance() -> dict[str, str]:
    """Versions and machine, as they belong under every figure."""
    packages = {name: version(name) for name in ("numpy", "river")}
    return {
        "braided": __version__,
        **packages,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {_processor()}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def _processor() -> str:
    """What the processor is called; at least its kind."""
    try:
        for line in _PROCESSOR.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or sys.platform
