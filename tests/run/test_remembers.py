"""A model that was trained by `braided run` takes the raw records of its file, and gives the same bits."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, MODLClassifier, MODLRegressor
from braided.encode.saved import restored_encoder
from braided.run import Job, RunOptions
from braided.store import state_digest

FIELDS = ["machine", "timestamp", "t", "state"]


def write(path: Path, n: int = 700, numeric: bool = False) -> list[dict[str, str]]:
    """An ordinary file: categories of which some come late, dates, decimal commas, codes for missing values."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(n):
        machine = f"M-{rng.integers(3 + i // 200):02}"
        t = rng.normal(20.0 + 3 * (machine == "M-01"), 2.0)
        state = f"{t * 2:.3f}".replace(".", ",") if numeric else ("hot" if t > 21 else "cold")
        at = f"2026-03-{1 + i // 24 % 28:02} {i % 24:02}:00"
        reading = "-999" if rng.random() < 0.1 else f"{t:.2f}".replace(".", ",")
        rows.append(dict(zip(FIELDS, (machine if rng.random() < 0.9 else "", at, reading, state), strict=True)))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, FIELDS, delimiter=";")
        table.writeheader()
        table.writerows(rows)
    return rows


def run(path: Path, checkpoint: Path, predictions: Path | None = None, **options: Any) -> Job:
    chosen = RunOptions(stream=str(path), na=("-999",), preset="lean", **options)
    job = Job(chosen, checkpoint=checkpoint, predictions=predictions)
    for _ in job.run():
        pass
    return job


@pytest.mark.parametrize("limit", [300, 501, 650])
def test_it_learns_on_from_raw_records_as_the_run_would_have(tmp_path: Path, limit: int) -> None:
    rows = write(tmp_path / "plant.csv")
    run(tmp_path / "plant.csv", tmp_path / "part", limit=limit)
    whole = run(tmp_path / "plant.csv", tmp_path / "whole", tmp_path / "said.jsonl")
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    model = MODLClassifier.load(tmp_path / "part")
    for row, of_run in zip(rows[limit:], said[limit:], strict=True):
        here = model.predict_proba_one(row)
        assert here == {label: of_run[f"p_{label}"] for label in here}
        model.learn_one(row, row["state"])
    assert state_digest(model) == whole.finished[0].result["state_sha256"]
    model.save(tmp_path / "again")
    encode = [MODLClassifier.load(tmp_path / name).snapshot()[0]["encode"] for name in ("again", "whole")]
    assert encode[0] == encode[1]


def test_a_regression_too_and_a_run_that_is_resumed(tmp_path: Path) -> None:
    rows = write(tmp_path / "plant.csv", numeric=True)
    broken_off = Job(
        RunOptions(stream=str(tmp_path / "plant.csv"), na=("-999",), preset="lean", target="state"),
        checkpoint=tmp_path / "model",
        every=0.0,
    )
    next(broken_off.run())
    early = MODLRegressor.load(tmp_path / "model")
    assert early.records_learned == 500
    resumed = Job(broken_off.options, checkpoint=tmp_path / "model", resume=True)
    for _ in resumed.run():
        pass
    model = MODLRegressor.load(tmp_path / "model")
    assert state_digest(model) == resumed.finished[0].result["state_sha256"]
    for row in rows[500:]:
        early.learn_one(row, float(row["state"].replace(",", ".")))
    assert early.predict_one(rows[3]) == model.predict_one(rows[3])


def test_columns_that_are_left_out_are_no_features(tmp_path: Path) -> None:
    """Three identifiers and a number with three features at most: the model is loaded, and learns on."""
    rows = [f"a{i},b{i},c{i},{i % 7},{i % 2}\n" for i in range(120)]
    (tmp_path / "d.csv").write_text("a,b,c,t,y\n" + "".join(rows))
    run(tmp_path / "d.csv", tmp_path / "saved", max_features=3)
    model = MODLClassifier.load(tmp_path / "saved")
    assert model.feature_names == ["t"]
    model.learn_one({"a": "x", "t": "5", "u": "1", "v": "2"}, 1)
    assert model.feature_names == ["t", "u", "v"]
    with pytest.raises(BraidedError, match="column 'w' would be number 4, and max_features is 3"):
        model.learn_one({"w": "5"}, 1)


def test_units_are_remembered(tmp_path: Path) -> None:
    rows = "".join(f'{i % 9}.5 kg,"${1 + i % 7},{i % 10}00.25",{i % 2}\n' for i in range(60))
    (tmp_path / "d.csv").write_text("mass,price,y\n" + rows)
    run(tmp_path / "d.csv", tmp_path / "saved", unit=("mass", "price"), thousands=",")
    model = MODLClassifier.load(tmp_path / "saved")
    assert model.feature_names == ["mass", "price"]
    said = model.predict_proba_one({"mass": "3.5 kg", "price": "$2,300.25"})
    assert said == model.predict_proba_one({"mass": 3.5, "price": "2300.25"})
    with pytest.raises(BraidedError, match=r"column 'mass' is '3\.5 lb'"):
        model.predict_proba_one({"mass": "3.5 lb"})
    model.learn_one({"mass": "4 kg"}, 1)
    model.save(tmp_path / "again")
    assert MODLClassifier.load(tmp_path / "again").predict_one({"mass": "4 kg"}) == model.predict_one({"mass": "4 kg"})
    document = model.snapshot()[0]["encode"]
    assert document["units"] == [["mass", "", "kg"], ["price", "$", ""]]
    for wrong in (["y", "", "kg"], ["mass", "", "k" * 17], ["mass", 1, ""]):
        with pytest.raises(BraidedError, match="column rules"):
            restored_encoder({**document, "units": [wrong]})


def test_records_without_a_label_are_predicted_and_settle_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = [[f"{rng.random():.3f}", str(rng.choice(list("abc"))), str(rng.choice(list("xy")))] for _ in range(700)]
    for place in (3, 550, 551, 650):
        rows[place][1:] = [f"ghost {place}", ""]
    path = tmp_path / "some.csv"
    path.write_text("v,k,y\n" + "".join(",".join(row) + "\n" for row in rows))
    options = RunOptions(str(path), ("olr",), target="y")
    for name, limit in (("part", 520), ("whole", None)):
        job = Job(replace(options, limit=limit), checkpoint=tmp_path / name)
        for _ in job.run():
            pass
    part, whole = (MODLClassifier.load(tmp_path / name) for name in ("part", "whole"))
    for v, k, y in rows[520:]:
        if y:
            part.learn_one({"v": v, "k": k}, y)
    assert not [name for name in whole.feature_names if "ghost" in str(name)]
    assert state_digest(part) == state_digest(whole)
