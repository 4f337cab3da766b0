"""The benchmarks run and report what they promise; how fast they are is not asserted."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

import default
import depth
import evaluation
import fleet_scale
import measured
import speed
from braided import MODLClassifier, presets
from braided.errors import BraidedError
from command import braided
from conftest import made_up

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def figures(name: str, *arguments: str) -> dict[str, Any]:
    """What a script prints with --json."""
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *arguments, "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_script_prints_a_table_or_all_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    def measure(records: int, console: Console) -> dict[str, Any]:
        return {"records": records}

    def table(result: dict[str, Any]) -> Table:
        return Table(f"of {result['records']} records")

    measured.show(measure, table, measured.parser("about", 7).parse_args(["--json"]))
    assert json.loads(capsys.readouterr().out) == {"records": 7}
    measured.show(measure, table, measured.parser("about", 7).parse_args(["--records", "3"]))
    assert "of 3 records" in capsys.readouterr().out


def test_speed_reports_every_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without starting interpreters: that is left to `make slow`."""
    starts = iter([9.0, 1.0, 2.0, 3.0])
    monkeypatch.setattr(speed, "_start_seconds", lambda: next(starts))
    result = speed.measure(20, Console(stderr=True))
    assert result["cold_start_s"] == 1.0
    assert [case["width"] for case in result["cases"]] == [128, 250]
    assert speed.table(result).row_count == 2


@pytest.mark.slow
def test_speed_reports_every_key() -> None:
    result = figures("speed", "--records", "50")
    assert result["cold_start_s"] > 0
    assert [case["width"] for case in result["cases"]] == [128, 250]
    for case in result["cases"]:
        assert {"ours_us", "floor_us", "one_record_us", "floor_ratio"} <= case.keys()
        assert case["floor_ratio"] == pytest.approx(case["ours_us"] / case["floor_us"])


def test_depth_reports_every_case() -> None:
    result = depth.measure(20, Console(quiet=True))
    cases = {(case["model"], case["layers"], case["width"]) for case in result["cases"]}
    assert cases == {(m, n, w) for m in ("odl", "fodl") for n in (5, 10, 20, 40) for w in (25, 50, 100)}
    assert all(case["us"] > 0 for case in result["cases"])


def test_pytorch_has_the_same_architecture() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: run make test EXTRAS=all")

    import beside_pytorch
    from braided.learners import build
    from torch_model import TorchModel

    _, mlp, set_config = speed.configs(16)
    ours = 0
    for config in (mlp, set_config):
        learner = build(config, 0, 0)
        learner.grow(speed.N_FEATURES, 2)
        ours += sum(array.size for array in learner.state().values())
    theirs = TorchModel(speed.N_FEATURES, mlp, set_config)
    assert sum(p.numel() for p in theirs.modules.parameters()) == ours
    result = beside_pytorch.measure(30, Console(stderr=True))
    assert [case["width"] for case in result["cases"]] == [128, 250]
    for case in result["cases"]:
        assert case["torch_ratio"] == pytest.approx(case["torch_us"] / case["ours_us"])
    assert beside_pytorch.table(result).row_count == 2


def test_evaluation_reports_every_case() -> None:
    result = evaluation.measure(1_200, Console(quiet=True))
    assert {(case["classes"], case["features"]) for case in result["cases"]} == {(2, 20), (2, 200), (10, 20), (10, 200)}
    for case in result["cases"]:
        assert case["counting_us"] == pytest.approx(case["evaluation_us"] - case["model_us"])
    assert evaluation.table(result).row_count == 4


def test_memory_stays_where_it_is() -> None:
    # In a process of its own: this one's memory is that of all tests before it.
    result = figures("memory", "--records", "20000")
    assert len(result["points"]) == 10
    assert result["growth_mib"] < 2.0


def test_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_scale, "KEYS", (20, 60))
    result = fleet_scale.measure(50, Console(quiet=True))
    assert [point["keys"] for point in result["points"]] == [20, 60]
    assert all(point["ms_on_disk"] > 0 for point in result["points"]), "some keys were on disk"
    assert fleet_scale.table(result).row_count == 2


def test_serve_reports_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("starlette") is None:
        pytest.skip("the extra serve is not installed: run make test")
    import serve

    monkeypatch.setattr(serve, "_ROUNDS", 2)
    result = serve.measure(400, Console(quiet=True))
    for kind in ("ndjson", "singles"):
        share = result["in_process_batches_us"] / result[f"http_{kind}_us"]
        assert result[f"http_{kind}_share"] == pytest.approx(share)
    assert result["predict_p50_us"] <= result["predict_p99_us"] <= result["predict_p99_worst_round_us"]
    assert result["predict_p99_updates"] == pytest.approx(result["predict_p99_us"] / result["in_process_update_us"])


def test_every_candidate_is_a_model_that_learns() -> None:
    from candidates import STREAMS, candidates

    values, labels = made_up(30)
    for preset in candidates().values():
        model = MODLClassifier(preset)
        assert np.isfinite(model.predict_learn_many(values, labels).values).all()
    assert candidates()["default"] == presets.default()
    assert len(STREAMS) == 14


def test_the_parts_are_counted_beside_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures at a record are those of a run that ends there."""
    import parts

    monkeypatch.setattr(parts, "STREAMS", {"phishing": 600})
    (row,) = parts.measure(1, None, Console(stderr=True))
    for limit in (200, 500):
        whole = json.loads(braided("run", "phishing", "--limit", str(limit), "--json").stdout)
        found = [whole["runs"][0]["errors"], whole["majority_errors"], whole["last_label_errors"]]
        assert row["first"][limit][0] == found[0]
        assert row["first"][limit][2] == found[2]
    assert "phishing" in parts.markdown(
        [row | {"first": row["first"] | {1_000: [0, 0, 0]}, "rival_first": dict.fromkeys(parts.FIRST, 0.0)}]
    )


def test_the_default_is_measured_as_a_whole_and_by_learner() -> None:
    result = default.measure(50, Console(quiet=True))
    assert set(result["learners_us"]) == set(MODLClassifier().learner_names)
    assert set(result["presets_us"]) == set(presets.OURS)
    assert result["records_per_second"] == pytest.approx(1e6 / result["one_record_us"])
    assert default.table(result).row_count == 6 + len(result["learners_us"])


def test_deep_river_is_measured_by_an_interpreter_that_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import beside_deep_river

    stand_in = tmp_path / "python"
    stand_in.write_text("#!/bin/sh\ncat >/dev/null\necho 1000.0\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv(beside_deep_river.PYTHON_VARIABLE, str(stand_in))
    result = beside_deep_river.measure(50, Console(stderr=True))
    assert result["deep_river_us"] == 1_000
    assert result["deep_river_ratio"] == pytest.approx(1_000 / result["one_record_us"])
    assert beside_deep_river.table(result).row_count == 2
    monkeypatch.setenv(beside_deep_river.PYTHON_VARIABLE, "/bin/false")
    with pytest.raises(BraidedError, match=r"deep-river cannot be measured \(/bin/false ended with 1\): set BRAIDED_"):
        beside_deep_river.measure(50, Console(stderr=True))
