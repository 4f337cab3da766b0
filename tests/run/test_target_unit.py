"""A target with a unit or a currency: numbers, if that is what stands before or behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from braided.run.target import guessed
from command import braided

PRICES = [1_000 + (i * 37 % 60) + 0.25 for i in range(60)]


def _run(path: Path, *options: str) -> tuple[dict[str, Any], str]:
    done = braided("run", str(path), "--target", "price", "-m", "mean", "--json", *options)
    return json.loads(done.stdout), done.stderr


def _comma(price: float) -> str:
    return f"{price:,.2f}".translate(str.maketrans(",.", ".,"))


@pytest.mark.parametrize("task", ["auto", "regression"])
@pytest.mark.parametrize(
    ("header", "row", "spelling"),
    [
        ("a,price", lambda i, price: f'{i % 7},"${price:,.2f}"', ("--thousands", ",")),
        ("a,price", lambda i, price: f"{i % 7},{price} EUR", ()),
        ("a;price", lambda i, price: f"{i % 7};{_comma(price)} €", ("--decimal", ",", "--thousands", ".")),
    ],
)
def test_a_unit_of_the_target_is_taken_off(
    tmp_path: Path, task: str, header: str, row: Any, spelling: tuple[str, ...]
) -> None:
    plain, priced = tmp_path / "plain.csv", tmp_path / "priced.csv"
    plain.write_text("a,price\n" + "".join(f"{i % 7},{price}\n" for i, price in enumerate(PRICES)))
    lines = [header, *(row(i, price) for i, price in enumerate(PRICES))]
    priced.write_text("\n".join(lines) + "\n")
    found, said = _run(priced, "--task", task, *spelling)
    assert found["task"] == "regression"
    assert found["runs"][0]["metrics"] == _run(plain)[0]["runs"][0]["metrics"]
    if task == "auto":
        assert "such as 1000.25, in " in said
    # Another unit is another quantity, and does not fit.
    priced.write_text("\n".join([*lines, f"1{header[1]}7 kg"]) + "\n")
    refused = braided("run", str(priced), "--target", "price", "-m", "mean", *spelling, code=2)
    assert "the target of record 61 is '7 kg', and a regression needs numbers" in refused.stderr
    assert _run(priced, "--on-error", "skip", *spelling)[0]["skipped_records"] == 1


def test_classes_with_a_unit_stay_classes(tmp_path: Path) -> None:
    doses = ["5 mg", "10 mg", "20 mg"] * 20
    assert guessed(doses) == ("classification", "")
    (tmp_path / "d.csv").write_text("a,dose\n" + "".join(f"{i % 7},{dose}\n" for i, dose in enumerate(doses)))
    predictions = tmp_path / "p.jsonl"
    braided("run", str(tmp_path / "d.csv"), "-m", "majority", "--predictions", str(predictions))
    assert {json.loads(line)["label"] for line in predictions.read_text().splitlines()} == set(doses)
