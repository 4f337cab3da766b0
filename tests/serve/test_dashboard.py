"""Every figure of Grafana's dashboard is one that the service gives."""

from __future__ import annotations

import json
import re
from pathlib import Path

from help_serve import SMALL_SPEC, rows, serving

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = json.loads((ROOT / "docker/grafana/dashboards/braided.json").read_text(encoding="utf-8"))


def test_every_figure_is_one_of_the_service(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as client:
        assert client.put("/models/m", json=SMALL_SPEC).status_code == 201
        client.post("/models/m/learn", json=rows(10)[0])
        text = client.get("/metrics").text
    # Of a family without members, such as quarantined models, there is the heading alone.
    there = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)) | set(re.findall(r"^(\w+)[{ ]", text, re.MULTILINE))
    asked = set(re.findall(r"\bbraided_\w+", json.dumps(DASHBOARD)))
    assert len(asked) > 15
    assert asked <= there, asked - there
    labels = set(re.findall(r"\{\{(\w+)\}\}", json.dumps(DASHBOARD)))
    assert labels <= set(re.findall(r'[{,](\w+)="', text))


def test_no_panel_lies_on_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
