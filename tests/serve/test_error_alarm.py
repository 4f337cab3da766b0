"""An error that jumps, as the service tells it, also after a recovery."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from help_serve import LINES, SMALL_SPEC, ndjson, saved_and_restored, serving, state_of

CHANGE, END = 3_600, 4_100


def noisy_rows(n: int, change: int) -> list[dict[str, Any]]:
    """Records with an easy label, which from `change` on has nothing to do with the features."""
    draw = np.random.default_rng(0)
    values = draw.normal(size=(n, 3))
    labels = np.where(np.arange(n) < change, values[:, 0] > 0, draw.random(n) < 0.5)
    return [
        {"x": dict(zip("abc", row, strict=True)), "y": "yes" if label else "no"}
        for row, label in zip(values.tolist(), labels.tolist(), strict=True)
    ]


ROWS = noisy_rows(END, CHANGE)


def test_it_is_told_everywhere_and_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as client:
        assert client.put("/models/pump", json=SMALL_SPEC).status_code == 201
        assert client.put("/models/calm", json=SMALL_SPEC).status_code == 201
        client.post("/models/pump/learn", content=ndjson(ROWS[:CHANGE]), headers=LINES)
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/models/pump").json()["alarm"] is None
        assert 'braided_alarm{model="pump"} 0.0' in client.get("/metrics").text
        answer = client.post("/models/pump/learn", content=ndjson(ROWS[CHANGE:]), headers=LINES)
        assert answer.status_code == 200  # nothing is refused
        alarm = client.get("/models/pump").json()["alarm"]
        assert alarm.startswith("the error rate of the last 1,000 records is ")
        assert client.get("/healthz").json() == {"status": "degraded", "models": {"pump": "error jumped"}}
        listed = {one["name"]: one["alarm"] for one in client.get("/models").json()["models"]}
        assert listed == {"pump": alarm, "calm": None}
        assert client.get("/models/pump").json()["trouble"] is None
        text = client.get("/metrics").text
        assert 'braided_alarm{model="pump"} 1.0' in text
        assert 'braided_alarms_total{model="pump"} 1.0' in text
        assert 'braided_alarm{model="calm"} 0.0' in text
        with client.stream("GET", "/events") as events:  # what the page shows
            shown = next(line for line in events.iter_lines() if '"name": "pump"' in line)
        assert json.loads(shown.removeprefix("data: "))["alarm"] == alarm
    with serving(tmp_path / "state") as client:
        assert client.get("/models/pump").json()["alarm"] == alarm
        assert client.get("/healthz").json() == {"status": "degraded", "models": {"pump": "error jumped"}}


@pytest.mark.parametrize("sizes", [(1, 700, 3), (999,)])
def test_it_is_the_same_however_records_were_chunked_and_recovered(sizes: tuple[int, ...]) -> None:
    straight = state_of(ROWS)
    state, start, turn = state_of(ROWS[:1]), 1, 0
    while start < END:
        size = sizes[turn % len(sizes)]
        state = saved_and_restored(state_of(ROWS[start : start + size], state))
        start, turn = start + size, turn + 1
    assert straight.stats.alarm.reason is not None
    for name, array in straight.stats.alarm.state().items():
        np.testing.assert_array_equal(array, state.stats.alarm.state()[name], err_msg=name)
