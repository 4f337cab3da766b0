"""A record of weight 0 changes nothing of a model, nor of the rules by which it reads raw records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError, MODLClassifier, MODLRegressor
from braided.learners import LogisticConfig
from braided.store import encode
from braided.streams import open_stream
from command import braided

SMALL = [LogisticConfig()]
KNOWN = [({"t": "20.5", "colour": "red", "at": "2026-03-01 10:00"}, "a"), ({"t": "21", "colour": "blue"}, "b")]
#: Records with all that could be new: a category, a label, columns of numbers, of text and of dates.
STRANGE = [
    ({"t": 1.0, "colour": "green"}, "a"),
    ({"t": 1.0}, "c"),
    ({"size": 3.5}, "a"),
    ({"shape": "round"}, "b"),
    ({"made": "2020-01-01"}, "b"),
]


def digest(model: Any) -> bytes:
    return encode("model", *model.snapshot())


def raw_model() -> MODLClassifier:
    model = MODLClassifier(learners=SMALL, encode=True)
    for x, y in KNOWN:
        model.learn_one(x, y)
    return model


@pytest.mark.parametrize("place", range(len(STRANGE)))
def test_learn_one(place: int) -> None:
    model = raw_model()
    before = digest(model)
    model.learn_one(*STRANGE[place], w=0.0)
    assert digest(model) == before
    model.learn_one(*STRANGE[place])
    assert digest(model) != before


def test_the_first_of_all_records_settles_nothing() -> None:
    model = MODLClassifier(learners=SMALL, encode=True)
    before = digest(model)
    model.learn_one({"t": "red"}, "a", w=0)
    assert digest(model) == before
    model.learn_one({"t": "20.5"}, "a")
    assert model.feature_names == ["t"]


def table(records: list[tuple[dict[str, Any], str]]) -> tuple[Any, list[str], list[str]]:
    names = sorted({name for x, _ in records for name in x})
    return np.array([[x.get(name) for name in names] for x, _ in records], dtype=object), [y for _, y in records], names


def test_learn_many_is_as_if_they_were_not_there() -> None:
    mixed = [KNOWN[0], STRANGE[0], KNOWN[1], *STRANGE[1:], KNOWN[0]]
    weights = [float(record in KNOWN) for record in mixed]
    model, other = raw_model(), raw_model()
    X, y, names = table(mixed)
    model.learn_many(X, y, names, sample_weight=weights)
    for record in [KNOWN[0], KNOWN[1], KNOWN[0]]:
        other.learn_one(*record)
    assert digest(model) == digest(other)
    before = digest(model)
    model.learn_many(X, y, names, sample_weight=[0.0] * len(mixed))
    model.predict_learn_many(X, y, names, sample_weight=np.zeros(len(mixed)))
    assert digest(model) == before


def test_what_is_wrong_in_a_chunk_is_named_by_its_place() -> None:
    model = MODLRegressor(learners=None, encode=True)
    model.learn_one({"t": 1.0}, 1.0)
    with pytest.raises(BraidedError, match="record 3 of the table: column 't' is 'x'"):
        model.learn_many([["1"], ["2"], ["x"]], [1.0, 2.0, 3.0], ["t"], sample_weight=[1.0, 0.0, 1.0])


def written(path: Path, rows: list[str]) -> str:
    path.write_text("t,colour,cost,y\n" + "".join(f"{row}\n" for row in rows))
    return str(path)


def test_a_run_with_a_column_of_weights(tmp_path: Path) -> None:
    rows = [f"{i % 7},{('red', 'blue')[i % 2]},1,{'ab'[i % 3 == 0]}" for i in range(40)]
    strange = ["1,green,0,a", '2,red,"0,0",a', "3,blue,0.0,c"][::2]
    files = [
        written(tmp_path / "with.csv", [*strange[:1], *rows[:20], *strange, *rows[20:]]),
        written(tmp_path / "without.csv", rows),
    ]
    found = []
    for file in files:
        model = tmp_path / f"{Path(file).stem}.braided"
        braided("run", file, "--weight", "cost", "--model", "olr", "--checkpoint", str(model), "--quiet")
        found.append(MODLClassifier.load(model))
    assert digest(found[0]) == digest(found[1])
    assert "colour=green" not in found[0].feature_names
    # The column of weights is no feature of a raw record either.
    one, other = ({"t": "1", "colour": "red", **more} for more in ({}, {"cost": "5"}))
    assert found[0].predict_proba_one(one) == found[0].predict_proba_one(other)


def lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


RECORDS = [{"x": {"a": i % 5, "c": "uv"[i % 2]}, "y": int(i % 3 == 0), "w": 1 + i % 4} for i in range(30)]


def result(*arguments: str, text: str | None = None) -> dict[str, Any]:
    done = braided("run", *arguments, "--model", "olr", "--json", "--quiet", text=text)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_weights_in_json_lines_are_used(tmp_path: Path) -> None:
    weighted, plain = tmp_path / "weighted.jsonl", tmp_path / "plain.jsonl"
    weighted.write_text(lines(RECORDS))
    plain.write_text(lines([{name: record[name] for name in "xy"} for record in RECORDS]))
    flat = tmp_path / "flat.jsonl"
    flat.write_text(lines([{**record["x"], "cost": record["w"], "y": record["y"]} for record in RECORDS]))
    saved = {}
    for name, arguments, text in (
        ("file", [str(weighted)], None),
        ("input", ["-"], lines(RECORDS)),
        ("flat", [str(flat), "--weight", "cost"], None),
        ("plain", [str(plain)], None),
    ):
        path = tmp_path / f"{name}.braided"
        result(*arguments, "--checkpoint", str(path), text=text)
        saved[name] = MODLClassifier.load(path).braid.state()
    for name in ("input", "flat"):
        assert all(np.array_equal(saved["file"][key], array) for key, array in saved[name].items())
    assert any(not np.array_equal(saved["file"][key], array) for key, array in saved["plain"].items())


def test_two_weights_for_a_record_are_refused(tmp_path: Path) -> None:
    done = braided("run", "-", "--weight", "a", "--model", "olr", text=lines(RECORDS), code=2)
    assert "--weight 'a': the records of standard input have \"w\" as well: leave out one of them" in done.stderr


@pytest.mark.parametrize("weight", [-1, "2", True, [1], "x"])
def test_what_is_no_weight_is_one_line(weight: Any, tmp_path: Path) -> None:
    file = tmp_path / "d.jsonl"
    file.write_text(lines([*RECORDS[:5], {**RECORDS[5], "w": weight}, *RECORDS[6:]]))
    done = braided("run", str(file), "--model", "olr", code=2)
    assert "d.jsonl:6: the weight is" in done.stderr
    found = result(str(file), "--on-error", "skip")
    assert found["skipped_records"] == 1


def test_a_weight_of_null_is_one(tmp_path: Path) -> None:
    file = tmp_path / "d.jsonl"
    file.write_text(lines([{"x": {"a": 1.0}, "y": 0, "w": None}, {"x": {"a": 2.0}, "y": 1, "w": 0.5}]))
    (batch,) = open_stream(str(file)).batches()
    assert batch.weights is not None
    assert batch.weights.tolist() == [1.0, 0.5]
