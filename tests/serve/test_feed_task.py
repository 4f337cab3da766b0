"""`braided feed` to a regression: numbers of a text file are sent as numbers, however the file spells them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from help_serve import served

from braided import MODLRegressor
from command import braided

PRICES = [1_000 + i + 0.25 for i in range(60)]
PLAIN = "area,rooms,price\n" + "".join(f"{90 + i},{1 + i % 5},{price}\n" for i, price in enumerate(PRICES))
COMMAS = "area;town;price\n" + "".join(f"{90 + i},5;{'NES'[i % 3]};1.{i:03},25\n" for i in range(60))


@pytest.mark.parametrize(("content", "raw"), [(PLAIN, False), (COMMAS, False), (COMMAS, True)])
def test_decimals_of_a_file_teach_a_regression(tmp_path: Path, content: str, raw: bool) -> None:
    file, odd = tmp_path / "houses.csv", tmp_path / "odd.csv"
    file.write_text(content)
    odd.write_text(content + ("100,5;N;sold\n" if content is COMMAS else "100,2,sold\n"))
    with served(tmp_path / "state") as server:
        model = f"{server.url}/models/m"
        spec: dict[str, Any] = {"task": "regression", "encode": raw}
        assert httpx.put(model, json=spec, timeout=60).status_code == 201
        done = braided("feed", str(file), "--to", model, "--target", "price")
        assert "60 records sent" in done.stdout, done.stderr
        saved = tmp_path / "model"
        saved.write_bytes(httpx.get(f"{model}/checkpoint").content)
        learned = MODLRegressor.load(saved)
        row = {"area": "120,5", "town": "N"} if raw else {"area": 120.0}
        assert min(PRICES) - 50 < learned.predict_one(row) < max(PRICES) + 50
        refused = braided("feed", str(odd), "--to", model, "--target", "price", "--client", "stops", code=2)
        assert "'sold': this model predicts numbers" in refused.stderr
        skipped = braided(
            "feed", str(odd), "--to", model, "--target", "price", "--client", "skips", "--on-error", "skip"
        )
        assert "60 records sent" in skipped.stdout
