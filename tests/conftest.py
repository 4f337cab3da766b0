"""What tests share: where the real data are, and records made up on the spot."""

from __future__ import annotations

import gc
import importlib.util
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from braided.datasets.locate import search
from excerpts import write as write_excerpts

DATA = Path(os.environ.get("BRAIDED_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def real(*names: str) -> Path:
    """The folder with the real data sets; a test of these is skipped where one of them is neither there nor fetched."""
    for name in names:
        if search(name, DATA) is None:
            pytest.skip(f"{name} is not here: run `braided datasets fetch NAME`, or set BRAIDED_DATA")
    return DATA


@pytest.fixture(scope="session")
def excerpts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small files in the formats of the paper's data sets."""
    folder = tmp_path_factory.mktemp("excerpts")
    write_excerpts(folder)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium; a test that needs it is skipped where it, its driver or selenium is not there."""
    from browser import opened

    with opened(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service in a process of its own, for tests that leave it running and give their models names of their own."""
    from help_serve import served

    with served(tmp_path_factory.mktemp("service") / "state") as server:
        yield server


def made_up(
    n: int, d: int = 6, classes: int = 2, available: float = 0.7, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Records with missing values and labels that depend on them linearly and by a product."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, d)) * rng.uniform(0.5, 20.0, size=d) + rng.normal(size=d) * 10
    z = (values - values.mean(axis=0)) / values.std(axis=0)
    labels = (z @ rng.normal(size=(d, classes)) + 1.5 * (z[:, :1] * z[:, 1:2]) * np.arange(classes)).argmax(axis=1)
    values[rng.random(values.shape) >= available] = np.nan
    return values, labels


def as_records(values: NDArray[np.float64]) -> list[dict[int, float]]:
    """Rows as dicts without the missing values."""
    return [{j: float(v) for j, v in enumerate(row) if not np.isnan(v)} for row in values]


#: Modules whose examples need a package that EXTRAS=all alone installs.
NEED = {"braided.learners.torch_learner": "torch"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the examples of what needs an extra where it is not installed."""
    for item in items:
        for module, needed in NEED.items():
            if item.name.startswith(f"{module}.") and importlib.util.find_spec(needed) is None:
                item.add_marker(pytest.mark.skip(reason=f"{needed} is not installed: run make test EXTRAS=all"))


def pytest_collection_finish() -> None:
    """Take what was imported out of sight of the garbage collector: River's checks collect hundreds of times."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say last what was skipped, and what brings it back: a reason is `what is missing: remedy`."""
    yield
    skipped = terminalreporter.getreports("skipped")
    missing: dict[str, Counter[str]] = defaultdict(Counter)
    for report in skipped:
        what, colon, remedy = report.longrepr[2].removeprefix("Skipped: ").rpartition(": ")
        missing[remedy if colon else "not known"][what or remedy] += 1
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} skipped. What brings them back:")
    for remedy, whats in sorted(missing.items(), key=lambda item: -item[1].total()):
        terminalreporter.write_line(f"{whats.total():5d}  {remedy}  ({', '.join(sorted(whats))})")
