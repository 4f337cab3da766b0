"""`braided feed` to a regression: numbers of a text file are sent as numbers, however the file spells them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from help_serve import Server, http

from braided import MODLRegressor
from command import braided

PRICES = [1_000 + i + 0.25 for i in range(60)]
PLAIN = "area,rooms,price\n" + "".join(f"{90 + i},{1 + i % 5},{price}\n" for i, price in enumerate(PRICES))
COMMAS = "area;town;price\n" + "".join(f"{90 + i},5;{'NES'[i % 3]};1.{i:03},25\n" for i in range(60))
SPELLING = ("--decimal", ",", "--thousands", ".")
EUROS = COMMAS.replace(",25\n", ",25 €\n")


@pytest.mark.parametrize(("content", "raw"), [(PLAIN, False), (COMMAS, False), (EUROS, False), (EUROS, True)])
def test_decimals_of_a_file_teach_a_regression(server: Server, tmp_path: Path, content: str, raw: bool) -> None:
    file, odd = tmp_path / "houses.csv", tmp_path / "odd.csv"
    file.write_text(content)
    odd.write_text(content + ("100,2,sold\n" if content is PLAIN else "100,5;N;sold\n"))
    model = f"{server.url}/models/{tmp_path.name}"
    spec: dict[str, Any] = {"task": "regression", "encode": raw}
    assert http.put(model, json=spec, timeout=60).status_code == 201
    spelling = () if content is PLAIN else SPELLING
    done = braided("feed", str(file), "--to", model, "--target", "price", *spelling)
    assert "60 records sent" in done.stdout, done.stderr
    saved = tmp_path / "model"
    saved.write_bytes(http.get(f"{model}/checkpoint").content)
    learned = MODLRegressor.load(saved)
    row = {"area": "120,5", "town": "N"} if raw else {"area": 120.0}
    assert min(PRICES) - 50 < learned.predict_one(row) < max(PRICES) + 50
    refused = braided("feed", str(odd), "--to", model, "--target", "price", "--client", "stops", *spelling, code=2)
    assert "'sold': this model predicts numbers" in refused.stderr
    skip = ("--client", "skips", "--on-error", "skip", *spelling)
    skipped = braided("feed", str(odd), "--to", model, "--target", "price", *skip)
    assert "60 records sent" in skipped.stdout


def test_create_makes_what_the_targets_are_and_leaves_nothing_where_they_are_refused(
    server: Server, tmp_path: Path
) -> None:
    file, odd, stars = tmp_path / "houses.csv", tmp_path / "odd.csv", tmp_path / "stars.csv"
    file.write_text(COMMAS)
    odd.write_text("area,price\n" + "1,sold\n" * 5)
    stars.write_text("area,stars\n" + "".join(f"{i},{i % 5}\n" for i in range(50)))

    def fed(path: Path, model: str, *options: str, code: int = 0) -> str:
        done = braided("feed", str(path), "--to", f"{server.url}/models/{model}", "--create", *options, code=code)
        return done.stdout + done.stderr

    def task(model: str) -> str | None:
        return http.get(f"{server.url}/models/{model}").json().get("task")

    file.write_text(EUROS)
    assert "such as 1000.25, in €: creating a regression model" in fed(file, "euros", *SPELLING)
    file.write_text(COMMAS)
    said = fed(file, "guessed", *SPELLING)
    assert "not whole, such as 1000.25: creating a regression model; --task classification" in said
    assert "60 records sent" in said
    assert task("guessed") == "regression"
    assert "creating a classification model" in fed(stars, "classes")
    assert task("classes") == "classification"
    assert "creating a regression model" in fed(stars, "numbers", "--task", "regression")
    assert task("numbers") == "regression"
    assert "is a regression: leave out --task" in fed(file, "guessed", *SPELLING, "--task", "classification", code=2)
    assert "'sold': this model predicts numbers" in fed(odd, "refused", "--task", "regression", code=2)
    assert http.get(f"{server.url}/models/refused").status_code == 404
    assert "use one of auto" in fed(file, "guessed", "--task", "what", code=2)
    # A model that has learned stays, whatever comes after.
    odd.write_text("area,price\n" + "1,2.5\n" * 5 + "1,sold\n")
    assert "'sold'" in fed(odd, "kept", "--task", "regression", "--batch", "5", code=2)
    assert http.get(f"{server.url}/models/kept").json()["records"] == 5
