"""MODL under CapyMOA; skipped where CapyMOA or Java is missing."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("capymoa_script.py")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    if importlib.util.find_spec("capymoa") is None:
        pytest.skip("CapyMOA is not installed: run make test EXTRAS=all")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("there is no Java, which CapyMOA needs: install version 17 or later")
    folder = str(tmp_path_factory.mktemp("capymoa"))
    return {**os.environ, "CAPYMOA_DATASETS_DIR": folder, "CAPYMOA_JVM_ARGS": "-Xmx512m -Xss10M"}


def output(environment: dict[str, str], *arguments: str) -> Any:
    """What the script prints; Java runs in a process of its own, so that no other test shares it."""
    folder = environment["CAPYMOA_DATASETS_DIR"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), folder, *arguments],
        capture_output=True, text=True, env=environment, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def seen(environment: dict[str, str]) -> Any:
    return output(environment)


def test_it_is_a_classifier_of_capymoa(seen: Any) -> None:
    assert seen["is a classifier"]
    assert seen["name"] == "MODL"
    assert seen["parameters"]["preset"] == "default"


def test_it_says_nothing_before_training(seen: Any) -> None:
    assert seen["before training"] == [None, None]
    assert seen["value before training"] is None


def test_prequential_evaluation(seen: Any) -> None:
    assert seen["accuracy"] > 75
    assert len(seen["windows"]) == 3
    assert seen["windows"][-1] > seen["windows"][0]


def test_missing_values_are_missing_and_predictions_those_of_the_model(seen: Any) -> None:
    assert seen["same as by hand"]


def test_probabilities_are_in_the_schemas_order(seen: Any) -> None:
    shape, total = seen["probabilities"]
    assert shape == [2]
    assert abs(total - 1.0) < 1e-9
    assert seen["only the last class seen"] == [0.0, 0.0, 1.0]


def test_nominal_attributes_are_one_hot(seen: Any) -> None:
    assert seen["nominal features"] == ["day=mon", "day=tue", "day=wed", "noise", "price"]
    assert seen["nominal accuracy"] > 80  # without the day it would be 70 at best


def test_what_cannot_be_learned_is_named(seen: Any) -> None:
    assert "is -1: to be learned it must be a class of the schema, from 0 to 2" in seen["no label"]
    assert seen["learned"] == 1
    assert "use braided.capymoa.MODLRegressor" in seen["numeric target"]
    assert "use braided.capymoa.MODL" in seen["nominal target"]


def test_regression(seen: Any) -> None:
    assert seen["regression r2"] > 0.9


def test_electricity_tiny(environment: dict[str, str]) -> None:
    result = output(environment, "electricity")
    if "not to be had" in result:
        pytest.skip(f"ElectricityTiny cannot be downloaded ({result['not to be had']}): go online")
    assert result["accuracy"] > max(80, result["naive Bayes"])


def test_the_examples_run(environment: dict[str, str]) -> None:
    code = "import doctest, braided.capymoa as m; r = doctest.testmod(m); print(r); raise SystemExit(bool(r.failed))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout
    assert "attempted=0" not in done.stdout


def test_without_capymoa_the_extra_is_named() -> None:
    code = "import sys; sys.modules['capymoa'] = None\nimport braided.capymoa"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "is not installed: pip install 'braided[capymoa]'" in done.stderr
