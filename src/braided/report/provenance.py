"""What a figure was made with: versions, machine, date."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import version

from braided import __version__, portable


def provenance() -> dict[str, str]:
    """Versions and machine, as they belong under every figure."""
    packages = {name: version(name) for name in ("numpy", "numba", "river")}
    return {
        "braided": __version__,
        **packages,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {portable.processor()}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }
