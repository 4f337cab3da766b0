"""The benchmarks run and report what they promise; how fast they are is not asserted."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest
from rich.console import Console

from braided import MODLClassifier, presets
from command import braided
from conftest import made_up


def test_speed_reports_every_key() -> None:
    result = json.loads(braided("bench", "speed", "--records", "50", "--json").stdout)
    assert result["cold_start_s"] > 0
    assert result["compile_s"] > 0
    assert [case["width"] for case in result["cases"]] == [128, 250]
    for case in result["cases"]:
        assert {"ours_us", "torch_us", "floor_us", "one_record_us", "torch_ratio", "floor_ratio"} <= case.keys()
        assert case["floor_ratio"] == pytest.approx(case["ours_us"] / case["floor_us"])


def test_depth_reports_every_case() -> None:
    result = json.loads(braided("bench", "depth", "--records", "20", "--json").stdout)
    cases = {(case["model"], case["layers"], case["width"]) for case in result["cases"]}
    assert cases == {(m, n, w) for m in ("odl", "fodl") for n in (5, 10, 20, 40) for w in (25, 50, 100)}
    assert all(case["us"] > 0 for case in result["cases"])


def test_pytorch_has_the_same_architecture() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: run make test EXTRAS=all")
    from braided.bench.speed import N_FEATURES, configs, stream
    from braided.bench.torch_model import TorchModel, torch_seconds
    from braided.learners import build

    _, mlp, set_config = configs(16)
    ours = 0
    for config in (mlp, set_config):
        learner = build(config, 0, 0)
        learner.grow(N_FEATURES, 2)
        ours += sum(array.size for array in learner.state().values())
    theirs = TorchModel(N_FEATURES, mlp, set_config)
    assert sum(p.numel() for p in theirs.modules.parameters()) == ours
    values, labels = stream(40)
    seconds = torch_seconds(values, labels, mlp, set_config, 30)
    assert seconds is not None
    assert seconds > 0


def test_memory_stays_where_it_is() -> None:
    result = json.loads(braided("bench", "memory", "--records", "20000", "--json").stdout)
    assert len(result["points"]) == 10
    assert result["growth_mib"] < 2.0


def test_serve_reports_every_key() -> None:
    if importlib.util.find_spec("starlette") is None:
        pytest.skip("the extra serve is not installed: run make test")
    result = json.loads(braided("bench", "serve", "--records", "400", "--json").stdout)
    for kind in ("ndjson", "singles"):
        share = result["in_process_batches_us"] / result[f"http_{kind}_us"]
        assert result[f"http_{kind}_share"] == pytest.approx(share)
    assert result["predict_p50_us"] <= result["predict_p99_us"] <= result["predict_p99_worst_round_us"]
    assert result["predict_p99_updates"] == pytest.approx(result["predict_p99_us"] / result["in_process_update_us"])


def test_every_candidate_is_a_model_that_learns() -> None:
    from benchmarks.candidates import STREAMS, candidates

    values, labels = made_up(30)
    for candidate in candidates().values():
        model = MODLClassifier(learners=candidate.learners, combiner=candidate.combiner)
        assert np.isfinite(model.predict_learn_many(values, labels).predictions).all()
    assert candidates()["default"].learners == presets.default().learners
    assert len(STREAMS) == 14


def test_the_default_is_measured_without_deep_river_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from braided.bench import default

    monkeypatch.setenv(default.PYTHON_VARIABLE, "/bin/false")
    result = default.measure(50, Console(stderr=True))
    assert result["deep_river_ratio"] is None
    assert set(result["learners_us"]) == {"olr", "fourier", "mlp", "set"}
    assert result["records_per_second"] == pytest.approx(1e6 / result["one_record_us"])
    assert default.table(result).row_count == 6
