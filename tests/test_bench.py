"""The benchmarks run and report what they promise; how fast they are is not asserted."""

from __future__ import annotations

import importlib.util
import json

import pytest

from test_run import braided


def test_speed_reports_every_key() -> None:
    result = json.loads(braided("bench", "speed", "--records", "50", "--json").stdout)
    assert result["cold_start_s"] > 0
    assert result["compile_s"] > 0
    assert [case["width"] for case in result["cases"]] == [128, 250]
    for case in result["cases"]:
        assert {"ours_us", "torch_us", "floor_us", "one_record_us", "torch_ratio", "floor_ratio"} <= case.keys()
        assert case["floor_ratio"] == pytest.approx(case["ours_us"] / case["floor_us"])


def test_pytorch_has_the_same_architecture() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: run make test EXTRAS=all")
    from braided.bench.speed import configs, stream
    from braided.bench.torch_model import torch_seconds

    values, labels = stream(40)
    _, mlp, set_config = configs(16)
    seconds = torch_seconds(values, labels, mlp, set_config, 30)
    assert seconds is not None
    assert seconds > 0


def test_memory_stays_where_it_is() -> None:
    result = json.loads(braided("bench", "memory", "--records", "20000", "--json").stdout)
    assert len(result["points"]) == 10
    assert result["growth_mib"] < 2.0
