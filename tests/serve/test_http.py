"""What the service does over HTTP, and whom it lets in."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from help_serve import LINES, SMALL_SPEC, digest_of, ndjson, rows, serving, taught, tokens_of
from httpx import Client

from braided import MODLClassifier, MODLRegressor
from braided.errors import BraidedError
from braided.learners import LinearConfig
from braided.serve.command import tokens_for
from braided.serve.security import read_tokens
from braided.serve.settings import Settings
from braided.store import state_digest

ITEMS = rows(60)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with serving(tmp_path / "state") as client:
        assert client.put("/models/m", json=SMALL_SPEC).status_code == 201
        yield client


def exported(client: Client, name: str = "m") -> str:
    return digest_of(client.get(f"/models/{name}/checkpoint").content)


def is_problem(answer: Any, status: int, words: str) -> bool:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == status
    assert words in document["detail"]
    assert "/tmp" not in answer.text
    return True


def test_learn_and_predict_as_in_process(client: Client) -> None:
    model = taught([])
    for item in ITEMS[:5]:
        assert client.post("/models/m/learn", json=item).json()["learned"] == 1
        model.learn_one(item["x"], item["y"])
    answer = client.post("/models/m/learn", json={"records": ITEMS[5:40]}).json()
    assert answer == {"learned": 35, "duplicates": 0, "records": 40}
    for item in ITEMS[5:40]:
        model.learn_one(item["x"], item["y"])
    assert exported(client) == state_digest(model)

    one = client.post("/models/m/predict", json={"x": ITEMS[40]["x"]}).json()
    many = client.post("/models/m/predict", json={"records": [{"x": item["x"]} for item in ITEMS[40:60]]}).json()
    assert one["predictions"][0] == many["predictions"][0]
    for item, found in zip(ITEMS[40:], many["predictions"], strict=True):
        expected = model.predict_proba_one(item["x"])
        assert dict(zip(many["classes"], found["probabilities"], strict=True)) == expected
        assert found["label"] == max(expected, key=expected.__getitem__)
        assert found["version"] == 40
    assert exported(client) == state_digest(model), "a prediction changed the model"


def test_before_anything_was_learned(client: Client) -> None:
    answer = client.post("/models/m/predict", json={"x": {"a": 1}}).json()
    assert answer == {"classes": [], "predictions": [{"label": None, "probabilities": [], "version": 0}]}


def test_regression(client: Client) -> None:
    assert client.put("/models/r", json={"task": "regression", **SMALL_SPEC}).status_code == 422  # olr is no regressor
    spec = {"task": "regression", "learners": [{"type": "LinearConfig"}]}
    assert client.put("/models/r", json=spec).status_code == 201
    lines = [{"x": {"celsius": c}, "y": 32 + 1.8 * c} for c in range(50)]
    assert client.post("/models/r/learn", content=ndjson(lines), headers=LINES).status_code == 200
    found = client.post("/models/r/predict", json={"x": {"celsius": 10}}).json()["predictions"][0]
    model = MODLRegressor(learners=(LinearConfig(),))
    for item in lines:
        model.learn_one(item["x"], item["y"])
    assert found["value"] == model.predict_one({"celsius": 10})
    is_problem(client.post("/models/r/learn", json={"x": {}, "y": "warm"}), 422, "finite")
    assert client.get("/models/r").json()["error_is"] == "mean absolute error"
    loaded = client.get("/models/r/checkpoint").content
    assert client.put(
        "/models/copy/checkpoint", content=loaded, headers={"Content-Type": "application/octet-stream"}
    ).status_code == 201  # fmt: skip
    again = client.post("/models/copy/predict", json={"x": {"celsius": 10}}).json()["predictions"][0]
    assert again["value"] == found["value"]


def test_observe_now_label_later(client: Client) -> None:
    client.post("/models/m/learn", json={"records": ITEMS[:30]})
    before = exported(client)
    seen = client.post("/models/m/observe", json={"x": ITEMS[30]["x"]}).json()
    assert seen["prediction"]["version"] == 30
    assert exported(client) == before
    assert client.get("/models/m").json()["waiting_for_labels"] == 1
    body = {"id": seen["id"], "y": ITEMS[30]["y"]}
    assert client.post("/models/m/label", json=body).json() == {"learned": 1, "duplicates": 0, "records": 31}
    assert client.post("/models/m/label", json=body).json() == {"learned": 0, "duplicates": 1, "records": 31}
    assert exported(client) == state_digest(taught(ITEMS[:31]))
    is_problem(client.post("/models/m/label", json={"id": "unknown", "y": 1}), 404, "unknown or has expired")


def test_predict_with_an_id_and_label_later(client: Client) -> None:
    client.post("/models/m/learn", json={"records": ITEMS[:30]})
    before = exported(client)
    asked = {"x": ITEMS[30]["x"]}
    seen = client.post("/models/m/predict", json={**asked, "id": "a-1"}).json()
    plain = client.post("/models/m/predict", json=asked).json()
    assert seen == {"id": "a-1", **plain}
    client.post("/models/m/predict", json={"x": ITEMS[31]["x"], "id": "a-2"})
    client.post("/models/m/predict", json={**asked, "id": "a-2"})
    assert exported(client) == before
    assert client.get("/models/m").json()["waiting_for_labels"] == 2, "an ID that comes again is the later record's"
    for name, learned in (("a-2", 31), ("a-1", 32)):
        body = {"id": name, "y": ITEMS[30]["y"]}
        assert client.post("/models/m/label", json=body).json()["records"] == learned
    assert exported(client) == state_digest(taught([*ITEMS[:31], ITEMS[30]]))
    is_problem(client.post("/models/m/predict", json={**asked, "id": "a-1"}), 409, "has its label")
    is_problem(client.post("/models/m/predict", json={**asked, "id": ""}), 422, "id has 0 characters")
    several = {"records": [asked, asked], "id": "a-3"}
    is_problem(client.post("/models/m/predict", json=several), 422, "give it with one record")


def test_lines_in_lines_out(client: Client) -> None:
    answer = client.post("/models/m/learn?client=c&sequence=0", content=ndjson(ITEMS), headers=LINES)
    last = json.loads(answer.text.strip().split("\n")[-1])
    assert (last["records"], last["next"]) == (60, 60)
    assert exported(client) == state_digest(taught(ITEMS))
    asked = client.post("/models/m/predict", content=ndjson([{"x": item["x"]} for item in ITEMS]), headers=LINES)
    found = [json.loads(line) for line in asked.text.strip().split("\n")]
    assert len(found) == 60
    assert found[0]["classes"] == client.get("/models/m").json()["classes"]
    assert client.get("/models/m/clients/c").json() == {"client": "c", "next": 60}
    bad = ndjson(ITEMS[:3]) + b'{"x": {"a": "b"}, "y": 1}\n'
    is_problem(client.post("/models/m/learn", content=bad, headers=LINES), 422, "line 4: feature 'a'")
    is_problem(client.post("/models/m/learn", content=b"\n\n", headers=LINES), 422, "no record")
    assert client.get("/models/m").json()["records"] == 60


def test_figures(client: Client) -> None:
    client.post("/models/m/learn", json={"records": ITEMS})
    details = client.get("/models/m").json()
    model = taught([])
    wrong = 0
    for item in ITEMS:
        wrong += model.predict_one(item["x"]) != item["y"]
        model.learn_one(item["x"], item["y"])
    assert details["error"] == wrong / 60 == details["window_error"]
    assert [learner["name"] for learner in details["learners"]] == ["olr", "mlp"]
    counts = {f"f{j}": sum(f"f{j}" in item["x"] for item in ITEMS) for j in range(5)}
    assert {item["name"]: item["count"] for item in details["availability"]} == counts
    assert details["resets"] == 0
    assert client.get("/models").json()["models"][0]["name"] == "m"
    text = client.get("/metrics").text
    assert 'braided_records_learned_total{model="m"} 60.0' in text
    assert f'braided_error{{model="m"}} {wrong / 60}' in text
    assert client.get("/healthz").json() == {"status": "ok"}


def test_export_loads_in_python_and_imports(client: Client, tmp_path: Path) -> None:
    client.post("/models/m/learn", json={"records": ITEMS[:30]})
    content = client.get("/models/m/checkpoint").content
    (tmp_path / "m.braided").write_bytes(content)
    model = MODLClassifier.load(tmp_path / "m.braided")
    octets = {"Content-Type": "application/octet-stream"}
    assert client.put("/models/n/checkpoint", content=content, headers=octets).status_code == 201
    for item in ITEMS[30:]:
        model.learn_one(item["x"], item["y"])
    client.post("/models/n/learn", json={"records": ITEMS[30:]})
    assert exported(client, "n") == state_digest(model)
    is_problem(client.put("/models/n/checkpoint", content=content, headers=octets), 409, "is there")
    whole = MODLClassifier()
    whole.learn_one({"a": 1.0}, "b")
    whole.save(tmp_path / "whole.braided")
    content = (tmp_path / "whole.braided").read_bytes()
    imported = client.put("/models/whole/checkpoint", content=content, headers=octets)
    assert (imported.status_code, imported.json()["features"]) == (201, 1)
    assert {one["name"]: one["features"] for one in client.get("/models").json()["models"]}["whole"] == 1
    assert 'braided_features{model="whole"} 1.0' in client.get("/metrics").text
    assert exported(client, "whole") == state_digest(whole)
    assert client.put("/models/default", json={}).status_code == 201
    content = client.get("/models/default/checkpoint").content
    assert client.put("/models/again/checkpoint", content=content, headers=octets).status_code == 201
    for task in ("classification", "regression"):
        assert client.put(f"/models/{task}", json={"preset": "default", "task": task}).status_code == 201
        assert client.post(f"/models/{task}/learn", json={"x": {"a": 1.0}, "y": 1.0}).status_code == 200
        content = client.get(f"/models/{task}/checkpoint").content
        assert client.put(f"/models/{task}-2/checkpoint", content=content, headers=octets).status_code == 201
    for bad in (b"", b"junk", content[:-1], content[:100], bytes(len(content))):
        is_problem(client.put("/models/o/checkpoint", content=bad, headers=octets), 422, "checkpoint")


def test_a_checkpoint_made_by_a_stranger_is_bounded(client: Client, tmp_path: Path) -> None:
    from braided.store import encode

    octets = {"Content-Type": "application/octet-stream"}
    metadata, arrays = taught(ITEMS[:5]).snapshot()
    bad_parameters: list[dict[str, Any]] = [
        {"learners": [{"type": "MLPConfig", "hidden": [10**9]}]},
        {"learners": [{"type": "os.system"}]},
        {"learners": []},
        {"max_features": "many"},
        {"preset": {"type": "Preset"}},
        {"preset": "../../etc"},
        {"combiner": "eval"},
        {"seed": -1},
        {"first_features": 5},
    ]
    for bad in bad_parameters:
        made = {**metadata, "parameters": {**metadata["parameters"], **bad}}
        content = encode("MODLClassifier", made, arrays)
        is_problem(client.put("/models/o/checkpoint", content=content, headers=octets), 422, "")
    for changed in (
        {"features": [1]},
        {"features": 3},
        {"features": [f"f{i}" for i in range(2_000)]},
        {"classes": None},
    ):
        content = encode("MODLClassifier", {**metadata, **changed}, arrays)
        is_problem(client.put("/models/o/checkpoint", content=content, headers=octets), 422, "")
    for name, array in arrays.items():
        content = encode("MODLClassifier", metadata, {**arrays, name: array.reshape(-1)[:-1]})
        assert client.put("/models/o/checkpoint", content=content, headers=octets).status_code in (201, 422), name
        if client.get("/models/o").status_code == 200:
            remove(client, "o")


def remove(client: Client, name: str) -> None:
    token = client.delete(f"/models/{name}").json()["confirm"]
    assert client.delete(f"/models/{name}?confirm={token}").status_code == 204


def test_delete_asks_for_a_confirmation(client: Client, tmp_path: Path) -> None:
    first = client.delete("/models/m")
    is_problem(first, 428, "for good")
    assert client.delete("/models/m?confirm=guess").status_code == 428
    is_problem(client.delete(f"/models/m?confirm={first.json()['confirm']}"), 428, "for good")
    remove(client, "m")
    is_problem(client.get("/models/m"), 404, "no model 'm'")
    assert list((tmp_path / "state" / "models").iterdir()) == []
    assert client.put("/models/m", json=SMALL_SPEC).json()["records"] == 0


@pytest.mark.parametrize("name", ["..", "%2e%2e", "a/b", "A", "-a", "a b", "a" * 65, "a%00", "a%0a", "a.b", "%2fetc"])
def test_names_are_no_paths(client: Client, name: str) -> None:
    assert client.put(f"/models/{name}", json={}).status_code in (404, 405, 422)
    assert client.post(f"/models/{name}/learn", json=ITEMS[0]).status_code in (404, 405, 422)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"preset": "tuned"}, "preset"),
        ({"combiner": "eval"}, "combiner"),
        ({"learners": []}, "learners"),
        ({"learners": [{"type": "eval"}]}, "learners[0].type"),
        ({"learners": [{"type": "MLPConfig", "hidden": [100_000]}]}, "at most"),
        ({"learners": [{"type": "MLPConfig", "hidden": [8] * 100}]}, "at most"),
        ({"learners": [{"type": "MLPConfig", "hidden": 8}]}, "hidden"),
        ({"learners": [{"type": "MLPConfig", "widths": [8]}]}, "widths"),
        ({"learners": [{"type": "SetConfig", "width": 1_024, "blocks": 16, "layers": 16}]}, "may come to hold"),
        ({"max_features": 10**6}, "max_features"),
        ({"expire_after": 0}, "expire_after"),
        ({"seed": -1}, "seed"),
        ({"colour": "red"}, "colour"),
        ([], "body"),
        ("text", "body"),
    ],
)
def test_specs_that_are_refused(client: Client, spec: Any, words: str) -> None:
    is_problem(client.put("/models/n", json=spec), 422, words)
    assert client.get("/models/n").status_code == 404


def test_tokens_and_scopes(tmp_path: Path) -> None:
    tokens = tokens_of(("read", "read-token-0123456789"), ("administer", "write-token-0123456789"))
    with serving(tmp_path, tokens) as client:
        reading = {"Authorization": "Bearer read-token-0123456789"}
        writing = {"Authorization": "Bearer write-token-0123456789"}
        is_problem(client.get("/models"), 401, "token")
        assert client.get("/models").headers["www-authenticate"] == "Bearer"
        for wrong in ("Bearer x", "Basic read-token-0123456789", "Bearer", "read-token-0123456789", "Bearer \xff"):
            assert client.get("/models", headers={"Authorization": wrong.encode("latin-1")}).status_code == 401  # type: ignore[dict-item]
        assert client.get("/models", headers=reading).status_code == 200
        is_problem(client.put("/models/m", json=SMALL_SPEC, headers=reading), 403, "only read")
        assert client.put("/models/m", json=SMALL_SPEC, headers=writing).status_code == 201
        assert client.post("/models/m/predict", json={"x": {}}, headers=reading).status_code == 200
        for path in ("learn", "observe", "label"):
            assert client.post(f"/models/m/{path}", json=ITEMS[0], headers=reading).status_code == 403
        assert client.delete("/models/m", headers=reading).status_code == 403
        for path in ("/metrics", "/events", "/openapi.json"):
            assert client.get(path).status_code == 401
        assert client.get("/").status_code == client.get("/healthz").status_code == 200
        assert client.get("/models", headers={**reading, "Host": "elsewhere.example"}).status_code == 200


def test_without_tokens_only_localhost_is_answered(client: Client) -> None:
    for host in ("elsewhere.example", "127.0.0.1.elsewhere.example", "", "[", "localhost.elsewhere"):
        is_problem(client.get("/models", headers={"Host": host}), 421, "localhost")
    for host in ("localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000"):
        assert client.get("/models", headers={"Host": host}).status_code == 200


def test_a_form_of_another_page_is_refused(client: Client) -> None:
    """What a browser sends without asking first is never taken for a request."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        answer = client.post("/models/m/learn", content=json.dumps(ITEMS[0]), headers={"Content-Type": kind})
        is_problem(answer, 415, "application/json")


def test_token_files(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("# ours\nread aaaaaaaaaaaaaaaa\n\nadminister bbbbbbbbbbbbbbbb\n")
    tokens = read_tokens(path)
    writing, reading = (tokens.grant(f"Bearer {letter * 16}") for letter in "ba")
    assert writing is not None
    assert reading is not None
    assert all(writing.may(access) for access in ("read", "learn", "administer"))
    assert [reading.may(access) for access in ("read", "learn", "administer")] == [True, False, False]
    secret = "read secretsecretsecret"
    for text in (
        "", "# nothing\n", "read short\n", "admin aaaaaaaaaaaaaaaa\n", "secretsecretsecret\n", "read a b\n",
        f"{secret} a, b\n", f"{secret} A\n", f"{secret} a,\n", f"{secret} a b\n",
    ):  # fmt: skip
        path.write_text(text)
        with pytest.raises(BraidedError) as refused:
            read_tokens(path)
        assert "secretsecret" not in str(refused.value)
    with pytest.raises(BraidedError, match="cannot be read"):
        read_tokens(tmp_path / "none")
    for host in ("0.0.0.0", "::", "example.com", "10.0.0.1"):
        with pytest.raises(BraidedError, match="--token-file"):
            tokens_for(Settings(tmp_path, host=host))
    assert not tokens_for(Settings(tmp_path, host="::1"))


def test_limits_on_requests(tmp_path: Path) -> None:
    with serving(tmp_path, body_bytes=2_000, records=5, line_bytes=300, models=1, text=10) as client:
        assert client.put("/models/m", json=SMALL_SPEC).status_code == 201
        is_problem(client.put("/models/n", json=SMALL_SPEC), 409, "limit")
        is_problem(client.post("/models/m/learn", content=b" " * 2_001, headers={"Content-Type": "application/json"}),
                   413, "2000 bytes")  # fmt: skip
        chunks = (b" " * 500 for _ in range(5))
        is_problem(client.post("/models/m/learn", content=chunks, headers={"Content-Type": "application/json"}),
                   413, "2000 bytes")  # fmt: skip
        short = [{"x": {"a": 1}, "y": 1}] * 6
        is_problem(client.post("/models/m/learn", json={"records": short}), 413, "6 records")
        is_problem(client.post("/models/m/learn", content=b"x" * 301, headers=LINES), 413, "line")
        is_problem(client.post("/models/m/learn", json={"x": {"a" * 11: 1}, "y": 1}), 422, "11 characters")
        is_problem(client.post("/models/m/learn", json={"x": {}, "y": "b" * 11}), 422, "11 characters")
        is_problem(client.post("/models/m/learn", json={"x": {"a\n": 1}, "y": 1}), 422, "printable")
        assert client.get("/models/m").json()["records"] == 0


def test_records_that_would_make_too_wide_a_table_are_refused(client: Client) -> None:
    items = [{"x": {f"feature {i} of {row}": 1.0 for i in range(90)}} for row in range(300)]
    answer = client.post("/models/m/predict", json={"records": items})
    assert answer.status_code == 413
    assert "27,000 features between them: send fewer records at a time" in answer.json()["detail"]


def test_what_is_not_there(client: Client) -> None:
    is_problem(client.get("/nowhere"), 404, "nothing here")
    is_problem(client.patch("/models/m"), 405, "method")
    is_problem(client.post("/models/none/learn", json=ITEMS[0]), 404, "no model")


def test_the_page_may_load_nothing_else(client: Client) -> None:
    answer = client.get("/")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "script-src 'sha256-" in answer.headers["content-security-policy"]
    for sign in ("src=", "@import", "url(", "innerHTML", "eval("):
        assert sign not in answer.text
    assert "https://" not in answer.text


def test_nothing_that_is_not_finite_leaves_as_json(client: Client) -> None:
    spec = {"task": "regression", "learners": [{"type": "MLPConfig", "hidden": [4], "learning_rate": 1e30}]}
    assert client.put("/models/wild", json=spec).status_code == 201
    lines = [{"x": {"a": 1e300 * (-1) ** i}, "y": 1e300 * (-1) ** i} for i in range(40)]
    assert client.post("/models/wild/learn", json={"records": lines}).status_code == 200
    for path in ("/models/wild", "/models"):
        json.loads(client.get(path).text, parse_constant=pytest.fail)
    found = client.post("/models/wild/predict", json={"x": {"a": 1e308}}).json()["predictions"][0]["value"]
    assert found is None or math.isfinite(found)
