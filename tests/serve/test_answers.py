"""What a client may ask beside a prediction: how sure it is, and why; and how a label is chosen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from help_serve import LINES, SMALL, SMALL_SPEC, digest_of, rows, serving
from httpx import Client

from braided import MODLClassifier, MODLRegressor
from braided.learners import LinearConfig
from braided.serve import predictions
from braided.serve.predictions import ModelReader
from braided.serve.records import RecordParser
from braided.serve.settings import Limits
from braided.serve.state import ModelState
from braided.store import state_digest

ITEMS = rows(120)
COSTS = {"class 1": {"class 0": 90.0, "class 2": 70.0}}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(tmp_path_factory.mktemp("answers") / "state") as client:
        for name, spec in {
            "m": SMALL_SPEC,
            "balanced": {**SMALL_SPEC, "decision": "balanced"},
            "costs": {**SMALL_SPEC, "costs": COSTS},
            "numbers": {"task": "regression", "learners": [{"type": "LinearConfig"}]},
        }.items():
            assert client.put(f"/models/{name}", json=spec).status_code == 201
            items = ITEMS[:100]
            if name == "numbers":
                items = [{"x": item["x"], "y": sum(item["x"].values())} for item in items]
            assert client.post(f"/models/{name}/learn", json={"records": items}).status_code == 200
        yield client


def local(**settings: Any) -> MODLClassifier:
    model = MODLClassifier(learners=SMALL, **settings)
    for item in ITEMS[:100]:
        model.learn_one(item["x"], item["y"])
    return model


def asked(client: Client, name: str, items: list[Any], **more: Any) -> list[dict[str, Any]]:
    answer = client.post(f"/models/{name}/predict", json={"records": [{"x": one["x"]} for one in items], **more})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["predictions"]
    return found


@pytest.mark.parametrize(("name", "settings"), [("balanced", {"decision": "balanced"}), ("costs", {"costs": COSTS})])
def test_labels_are_decided_and_probabilities_as_usual(client: Client, name: str, settings: dict[str, Any]) -> None:
    model = local(**settings)
    found = asked(client, name, ITEMS[100:])
    assert [one["label"] for one in found] == [model.predict_one(item["x"]) for item in ITEMS[100:]]
    usual = asked(client, "m", ITEMS[100:])
    assert [one["probabilities"] for one in found] == [one["probabilities"] for one in usual]
    assert [one["label"] for one in found] != [one["label"] for one in usual]
    one = client.post(f"/models/{name}/predict", json={"x": ITEMS[100]["x"]}).json()["predictions"][0]
    assert one == found[0]


def test_a_decision_goes_with_the_checkpoint(client: Client) -> None:
    content = client.get("/models/costs/checkpoint").content
    put = client.put("/models/copied/checkpoint", content=content, headers={"Content-Type": "application/octet-stream"})
    assert put.status_code == 201
    assert asked(client, "copied", ITEMS[100:]) == asked(client, "costs", ITEMS[100:])


def test_sets_and_intervals_are_those_of_the_model(client: Client) -> None:
    model = local()
    for item, found in zip(ITEMS[100:], asked(client, "m", ITEMS[100:], set=0.8), strict=True):
        assert set(found["set"]) == model.predict_set_one(item["x"], 0.8)
        assert found["label"] in found["set"]
    regressor = MODLRegressor(learners=(LinearConfig(),))
    for item in ITEMS[:100]:
        regressor.learn_one(item["x"], sum(item["x"].values()))
    for item, found in zip(ITEMS[100:], asked(client, "numbers", ITEMS[100:], interval=0.9), strict=True):
        assert found["interval"] == list(regressor.predict_interval_one(item["x"], 0.9))
    early = asked(client, "numbers", ITEMS[100:102], interval=0.999)
    assert early[0]["interval"] == [None, None]


@pytest.mark.parametrize(
    ("name", "more", "told"),
    [
        ("m", {"interval": 0.9}, "interval is not for a classification: give set"),
        ("numbers", {"set": 0.9}, "set is not for a regression: give interval"),
        ("m", {"set": 90}, "set is 90: give a number between 0 and 1"),
        ("m", {"set": None}, "give a number between 0 and 1"),
        ("numbers", {"interval": 1.0}, "interval is 1.0: give a number between 0 and 1"),
    ],
)
def test_what_is_no_level_is_refused(client: Client, name: str, more: dict[str, Any], told: str) -> None:
    answer = client.post(f"/models/{name}/predict", json={"x": {"f0": 1.0}, **more})
    assert answer.status_code == 422
    assert told in answer.json()["detail"]


def test_an_explanation_is_that_of_the_model(client: Client) -> None:
    model, x = local(), ITEMS[110]["x"]
    before = digest_of(client.get("/models/m/checkpoint").content)
    answer = client.post("/models/m/explain", json={"x": {**x, "never seen": 1.0}}).json()
    expected = model.explain_one(x)
    assert (answer["label"], answer["version"]) == (expected.prediction, 100)
    assert answer["probability"] == expected.probability
    assert answer["classes"] == list(expected.labels)
    found = {one["feature"]: one["adds"] for one in answer["effects"]}
    assert found == {name: list(effects.values()) for name, effects in expected.effects.items()}
    odds = {one["feature"]: one["log_odds"] for one in answer["effects"]}
    assert odds == {name: list(adds.values()) for name, adds in expected.log_odds.items()}
    sizes = [max(map(abs, one["adds"])) for one in answer["effects"]]
    assert sizes == sorted(sizes, reverse=True)
    assert {one["feature"]: one["means"] for one in answer["parts"]} == {
        name: [part.mean for part in parts.values()] for name, parts in expected.contributions.items()
    }
    assert {one["name"]: one["share"] for one in answer["shares"]} == dict(expected.shares)
    number = client.post("/models/numbers/explain", json={"x": x}).json()
    assert number["classes"] == []
    assert len(number["effects"][0]["adds"]) == 1
    assert number["effects"][0]["log_odds"] == []
    assert digest_of(client.get("/models/m/checkpoint").content) == before == state_digest(model)


def test_many_features_come_in_turns_and_too_many_are_refused(client: Client) -> None:
    many = {f"w{i}": float(i % 7) for i in range(300)}
    client.put("/models/wide", json={"learners": [{"type": "LogisticConfig"}]})
    some = dict(list(many.items())[:40])
    refused = client.post("/models/wide/explain", json={"x": some})
    assert (refused.status_code, "learned nothing" in refused.text) == (409, True)
    client.post("/models/wide/learn", json={"records": [{"x": some, "y": "a"}, {"x": {}, "y": "b"}]})
    assert client.post("/models/wide/explain", json={"x": many}).status_code == 422
    assert len(client.post("/models/wide/explain", json={"x": some}).json()["effects"]) == 40


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"task": "regression", "decision": "balanced"}, "decision is for classes"),
        ({"decision": "fair"}, "decision"),
        ({"costs": {"a": {"b": -1.0}}}, "costs['a']['b'] is -1.0"),
    ],
)
def test_what_is_no_decision_is_refused(client: Client, tmp_path: Path, spec: dict[str, Any], told: str) -> None:
    answer = client.put("/models/other", json=spec)
    assert answer.status_code == 422
    assert told in answer.json()["detail"]


def test_a_model_that_takes_raw_records_answers_the_same_questions(client: Client) -> None:
    client.put("/models/raw", json={**SMALL_SPEC, "encode": True})
    items = [{"x": {"kind": "ab"[i % 2], "t": i % 5}, "y": "ab"[i % 2]} for i in range(40)]
    assert client.post("/models/raw/learn", json={"records": items}).status_code == 200
    found = client.post("/models/raw/predict", json={"x": items[0]["x"], "set": 0.5}).json()["predictions"][0]
    assert found["label"] == "a"
    assert "a" in found["set"]
    answer = client.post("/models/raw/explain", json={"x": items[0]["x"]}).json()
    assert answer["label"] == "a"
    adds = {one["feature"]: one["adds"][0] for one in answer["effects"]}
    assert sorted(adds) == ["kind", "t"]
    whole, other = (
        client.post("/models/raw/predict", json={"x": {"t": 0, "kind": kind}}).json()["predictions"][0] for kind in "ab"
    )
    half = (whole["probabilities"][0] - other["probabilities"][0]) / 2
    assert adds["kind"] == pytest.approx(half, abs=1e-12)
    fine = client.post("/models/raw/explain?by=feature", json={"x": items[0]["x"]}).json()
    assert sorted(one["feature"] for one in fine["effects"]) == ["kind=a", "kind=b", "t"]
    refused = client.post("/models/raw/explain?by=row", json={"x": items[0]["x"]})
    assert refused.status_code == 422
    assert "by is 'row': give one of column, feature" in refused.json()["detail"]


def test_a_label_that_comes_while_a_record_is_explained_is_not_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODLClassifier(learners=SMALL)
    x = {f"f{i}": float(i % 5) for i in range(40)}
    model.learn_many([list(x.values())] * 2, ["a", "b"], list(x))
    reader = ModelReader(ModelState("m", model, Limits()))
    effects_of = predictions.effects_of

    def then_learn(*arguments: Any) -> Any:
        found = effects_of(*arguments)
        model.learn_one(x, f"label {model.records_learned}")
        return found

    monkeypatch.setattr(predictions, "effects_of", then_learn)
    parser = RecordParser(labelled=False, regression=False, limits=Limits())
    parser.add({"x": x})
    answer = reader.explain(parser.done())
    assert len(answer["effects"]) == 40
    assert len(model.classes) > 3
    assert {len(one["adds"]) for one in answer["effects"]} == {len(answer["classes"])} == {2}


def streamed(client: Client, name: str, query: str) -> Any:
    content = "".join(json.dumps({"x": item["x"]}) + "\n" for item in ITEMS[100:])
    return client.post(f"/models/{name}/predict{query}", content=content, headers=LINES)


@pytest.mark.parametrize(("name", "asks"), [("m", "set"), ("numbers", "interval")])
def test_a_stream_of_lines_says_how_sure_it_is_as_a_body_does(client: Client, name: str, asks: str) -> None:
    found = [json.loads(line) for line in streamed(client, name, f"?{asks}=0.8").text.splitlines()]
    wanted = asked(client, name, ITEMS[100:], **{asks: 0.8})
    assert [one[asks] for one in found] == [one[asks] for one in wanted]
    assert asks not in json.loads(streamed(client, name, "").text.splitlines()[0])


@pytest.mark.parametrize(
    ("query", "words"),
    [("?set=2", "set is '2': give a number between 0 and 1"), ("?set=x", "set is 'x'"),
     ("?interval=0.9", "interval is not for a classification: give set")],
)  # fmt: skip
def test_a_stream_that_asks_for_no_level_is_refused(client: Client, query: str, words: str) -> None:
    answer = streamed(client, "m", query)
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
