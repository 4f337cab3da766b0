"""`braided feed` and `braided serve` as commands: what is sent arrives once, also when either is stopped."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from help_serve import SMALL_SPEC, Server, digest_of, http, ndjson, rows, served, taught
from rich.console import Console

from braided import MODLClassifier
from braided.cli import app
from braided.errors import BraidedError
from braided.run import ReadingOptions
from braided.serve.feed import FeedSettings, feed
from braided.store import state_digest
from command import braided
from serve import Connection, head


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "braided", "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_feed_resumes_and_survives_a_restart(tmp_path: Path) -> None:
    items = rows(3_000)
    path = tmp_path / "records.jsonl"
    path.write_bytes(ndjson(items))
    with served(tmp_path / "state") as server:
        model = f"{server.url}/models/m"
        missing = braided("feed", str(path), "--to", model, code=2)
        assert missing.stderr == (
            f"braided: no model 'm' in {server.url}/models: give --create to make it for this stream, or another name\n"
        )
        http.put(model, json=SMALL_SPEC, timeout=60)
        done = braided("feed", str(path), "--to", model, "--limit", "700", "--batch", "100", "--json")
        assert json.loads(done.stdout)["acknowledged"] == 700, done.stderr
        # The service is killed while the rest is sent, and comes back at the same address.
        killer = threading.Timer(2.0, lambda: (server.kill(), time.sleep(0.3), server.start(wait=False)))
        killer.start()
        rest = braided("feed", str(path), "--to", model, "--batch", "10", "--json")
        killer.join()
        assert "going on from there" in rest.stderr
        result = json.loads(rest.stdout)
        assert (result["acknowledged"], result["records"]) == (3_000, 3_000)
        again = json.loads(braided("feed", str(path), "--to", model, "--json").stdout)
        assert (again["sent"], again["records"]) == (0, 3_000)
        server.wait()
        assert digest_of(http.get(f"{model}/checkpoint").content) == state_digest(taught(items))
        assert server.stop() == 0
        assert "stopped" in server.log.read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("feed", "shuttle", "--to", "nowhere"), "address of a model"),
        (("feed", "-", "--to", "http://127.0.0.1:1/models/m"), "--client"),
        (("feed", "shuttle", "--to", "http://127.0.0.1:1/models/m", "--batch", "0"), "--batch"),
        (("serve", "--dir", "{}", "--host", "0.0.0.0"), "--token-file"),
        (("serve", "--dir", "{}", "--durability", "maybe"), "durability"),
        (("serve", "--dir", "/proc/none", "--port", "0"), "cannot be used"),
        (("serve", "--dir", "{}", "--token-file", "/nonexistent"), "cannot be read"),
        (("serve", "--dir", "{}", "--max-features", "0"), "features"),
    ],
)
def test_bad_options_are_one_line(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    with pytest.raises(BraidedError, match=words) as refused:
        app([option.format(tmp_path) for option in options], standalone_mode=False)
    assert "\n" not in str(refused.value)


def test_one_process_a_folder_and_damage_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with served(folder) as server:
        http.put(f"{server.url}/models/m", json=SMALL_SPEC, timeout=60)
        for at in range(0, 60, 20):
            http.post(f"{server.url}/models/m/learn", json={"records": rows(60)[at : at + 20]}, timeout=60)
        second = serve("--dir", str(folder), "--port", str(Server(tmp_path).port))
        assert second.returncode == 2
        assert "another braided serve uses it" in second.stderr
        server.kill()
    log = folder / "models" / "m.db-wal"
    content = bytearray(log.read_bytes())
    content[150] ^= 4
    log.write_bytes(content)
    with served(folder) as server:
        answer = http.get(f"{server.url}/models/m", timeout=60)
        assert answer.status_code == 503
        assert "braided serve repair" in answer.json()["detail"]
        told = server.log.read_text()
        assert "model m is quarantined, and the others are served: m.db-wal is damaged: frame 1 is not as it" in told
        assert f"braided serve repair {folder}" in told


def test_a_token_file_lets_the_feed_in(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("read read-token-0123456789\nadminister write-token-0123456789\n")
    path = tmp_path / "records.jsonl"
    path.write_bytes(ndjson(rows(50)))
    with served(tmp_path / "state", "--token-file", str(tokens)) as server:
        model = f"{server.url}/models/m"
        refused = braided("feed", str(path), "--to", model, "--create", code=2)
        assert "token" in refused.stderr
        done = braided("feed", str(path), "--to", model, "--create", "--token-file", str(tokens), "--json")
        assert json.loads(done.stdout)["records"] == 50, done.stderr
        assert "0123456789" not in server.log.read_text()


def test_folders_and_data_bases_are_fed_with_the_options_of_run(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("a;colour;id;y\n1;red;7;p\n2;blue;8;q\n")
    (folder / "2.csv").write_text("a;colour;id;y\nred\n3;red;9;p\n")
    with closing(sqlite3.connect(tmp_path / "d.db")) as connection:
        connection.execute("CREATE TABLE t (a REAL, y TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(1.0, "p"), (2.0, "q")])
        connection.commit()
    model = f"{server.url}/models/folders"
    assert http.put(model, json=SMALL_SPEC, timeout=60).status_code == 201

    def fed(*arguments: str) -> dict[str, Any]:
        done = braided("feed", *arguments, "--to", model, "--json")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    common = (str(folder), "--target", "y", "--drop", "id", "--delimiter", ";", "--on-error", "skip")
    first = fed(*common)
    assert (first["sent"], first["records"]) == (3, 3)
    again = fed(*common)
    assert (again["client"], again["sent"]) == (first["client"], 0)
    other = fed(*common, "--categories", "hash", "--hash-buckets", "4")
    assert other["client"] != first["client"]
    assert other["sent"] == 3
    base = fed(f"sqlite:///{tmp_path / 'd.db'}", "--query", "SELECT a, y FROM t ORDER BY a", "--target", "y")
    assert (base["sent"], base["records"]) == (2, 8)
    exported = tmp_path / "model"
    exported.write_bytes(http.get(f"{model}/checkpoint").content)
    names = set(MODLClassifier.load(exported).feature_names)
    assert {"a", "colour=red", "colour=blue"} < names
    assert all(str(name).startswith("colour#") for name in names - {"a", "colour=red", "colour=blue"})


@pytest.mark.parametrize(
    "options",
    [
        {"delimiter": ";"},
        {"query": "SELECT 1"},
        {"categories": "hash"},
        {"categories": "hash", "hash_buckets": 8},
        {"on_error": "skip"},
        {"drop": ("a",)},
        {"dates": "age"},
        {"na": ("a=-1",)},
        {"text": ("a",)},
        {"encoding": "latin-1"},
    ],
)
def test_other_options_are_another_client(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a,y\n1,p\n")
    plain = FeedSettings(str(path), "http://127.0.0.1:1/models/m")
    changed = {replace(plain, reading=ReadingOptions(**options)).client_name() for _ in range(2)}
    assert len(changed) == 1
    assert plain.client_name() not in changed


def test_a_file_that_has_grown_is_the_same_client(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a,y\n" + "1,p\n" * 2**18)
    settings = FeedSettings(str(path), "http://127.0.0.1:1/models/m")
    before = settings.client_name()
    with path.open("a") as file:
        file.write("2,q\n")
    assert settings.client_name() == before


def test_what_may_pass_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service stops within a batch, is away, and comes back: the rest is sent from where it stands."""
    path = tmp_path / "d.csv"
    path.write_text("a,y\n" + "1,p\n2,q\n" * 3)
    stopping = '{"next": 4, "records": 4}\n{"problem": {"status": 503, "detail": "stopping"}}\n'
    answers = [(200, stopping), (502, "<html>"), (200, '{"next": 6, "records": 6}\n'), (409, '{"detail": "no"}')]

    def service(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            status, text = answers.pop(0)
            return httpx.Response(status, text=text)
        return httpx.Response(200, json={"task": "classification", "records": 0, "next": 0})

    client = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **more: client(transport=httpx.MockTransport(service), **more))
    monkeypatch.setattr("braided.serve.feed._WAITS", (0.0, 0.0))
    told: list[str] = []
    settings = FeedSettings(str(path), "http://service/models/m")
    assert feed(settings, Console(quiet=True), told.append)["acknowledged"] == 6
    assert [line.partition("models/m/learn")[2] for line in told if "again" in line] == [
        ": stopping; trying again in 0 s",
        " answered 502 without a reason; trying again in 0 s",
    ]
    with pytest.raises(BraidedError, match="answered 409 without a reason"):
        feed(settings, Console(quiet=True), told.append)


def test_an_idle_stream_does_not_keep_the_service_up(tmp_path: Path) -> None:
    with served(tmp_path / "state") as server:
        assert http.put(f"{server.url}/models/m", json=SMALL_SPEC, timeout=60).status_code == 201
        with closing(Connection(server.port)) as idle:
            idle.socket.sendall(head("POST", "/models/m/learn", "application/x-ndjson", "Transfer-Encoding: chunked"))
            body = ndjson(rows(3))
            idle.socket.sendall(b"%x\r\n%b\r\n" % (len(body), body))
            assert idle.answer_head()[0] == 200
            assert json.loads(idle.chunk())["learned"] == 3
            start = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - start < 5
            assert json.loads(idle.chunk())["problem"]["status"] == 503


def test_a_page_that_listens_does_not_keep_the_service_up(tmp_path: Path) -> None:
    with served(tmp_path / "state") as server:
        with http.stream("GET", f"{server.url}/events", timeout=20) as events:
            parts = events.iter_text()
            assert "event: models" in next(parts)
            start = time.monotonic()
            assert server.stop() == 0
        assert time.monotonic() - start < 5


ORDINARY = ["when;machine;t;id;y"] + [
    f"{1 + i % 28:02}/{1 + i // 28:02}/2026;M-{i % 3};{20 + i % 5},{i % 10};n-{i * 7919 % 100_003};{'ab'[i % 2]}"
    for i in range(120)
]


def test_a_model_made_for_an_ordinary_file_takes_its_records(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "ordinary.csv"
    file.write_text("\n".join(ORDINARY) + "\n")
    model = f"{server.url}/models/ordinary"
    done = braided("feed", str(file), "--to", model, "--create")
    assert "decimal commas, as the first records" in done.stderr
    assert "the model takes raw records" in done.stderr
    assert "120 records sent" in done.stdout
    about = http.get(model).json()["encode"]
    assert {column["name"]: column["read_as"] for column in about["columns"]} == {
        "when": "date", "machine": "category", "t": "number", "id": "dropped"
    }  # fmt: skip
    raw = {"x": {"when": "14/02/2026", "machine": "M-1", "t": "21,5", "id": "n-1"}}
    assert http.post(f"{model}/predict", json=raw).json()["predictions"][0]["label"] in "ab"
    # The next look finds the model, and sends nothing twice.
    assert "0 records sent" in braided("feed", str(file), "--to", model, "--create").stdout
    # The same as a run leaves behind, by the same rules.
    saved = tmp_path / "run.braided"
    braided("run", str(file), "--checkpoint", str(saved), "--model", "modl", "--quiet")
    wanted = MODLClassifier.load(saved).predict_proba_one(raw["x"])
    found = http.post(f"{model}/predict", json=raw).json()
    assert found["predictions"][0]["probabilities"] == [wanted[label] for label in found["classes"]]


@pytest.mark.parametrize(("first", "raw"), [("1.5", False), ("red", True)])
def test_a_record_without_a_label_has_a_remedy_and_is_counted(
    server: Server, tmp_path: Path, first: str, raw: bool
) -> None:
    path = tmp_path / "d.csv"
    path.write_text(f"a,y\n{first},1\n{first},0\n{first},\n{first},1\n")
    arguments = ("feed", str(path), "--to", f"{server.url}/models/labels-{'raw' if raw else 'numbers'}", "--create")
    told = braided(*arguments, code=2).stderr
    assert f"{path}:4: the label is missing: every record needs one; --on-error skip goes on without such" in told
    said = f"1 record skipped; first: {path}:4: the label is missing: every record needs one\n"
    assert braided(*arguments, "--on-error", "skip").stdout.endswith(f"has learned 3\n{said}")
    document = json.loads(braided(*arguments, "--on-error", "skip", "--json").stdout)
    assert (document["records"], document["skipped_records"]) == (3, 1)
    assert document["first_problem"].endswith("every record needs one")


def test_a_model_is_made_by_the_plan_and_not_by_the_first_values(server: Server, tmp_path: Path) -> None:
    """Sizes of which the first is a number, weights with a unit, and dates of which the first have no clock."""
    sizes, days = ("38", "S", "M", "40"), ("2026-01-02 10:30", *["2026-01-02"] * 4)
    rows = [f"{sizes[i % 4]},{20 + i % 9} kg,{days[i % 5]},{'ab'[i % 2]}" for i in range(4, 203)]
    file = tmp_path / "shop.csv"
    file.write_text("\n".join(["size,mass,at,y", *rows]) + "\n")
    model = f"{server.url}/models/shop"
    assert "199 records sent" in braided("feed", str(file), "--to", model, "--create").stdout
    saved = tmp_path / "run.braided"
    braided("run", str(file), "--checkpoint", str(saved), "--model", "modl", "--quiet")
    assert digest_of(http.get(f"{model}/checkpoint").content) == state_digest(MODLClassifier.load(saved))


def test_a_model_made_for_standard_input_and_weights(server: Server, tmp_path: Path) -> None:
    items = [{"x": {"a": i % 5, "c": "uv"[i % 2]}, "y": "kl"[i % 3 == 0], "w": i % 3} for i in range(700)]
    text = "".join(json.dumps(item) + "\n" for item in items)
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("a,b,cost,y\n" + "".join(f"{i % 5},{i % 3},{i % 2},{i % 2}\n" for i in range(50)))
    model = f"{server.url}/models/standard-input"
    done = braided("feed", "-", "--client", "me", "--to", model, "--create", text=text)
    assert "700 records sent" in done.stdout, done.stderr
    own = MODLClassifier(encode=True, max_features=1_000, max_classes=100)
    for item in items:
        own.learn_one(item["x"], item["y"], w=item["w"])
    assert digest_of(http.get(f"{model}/checkpoint").content) == state_digest(own)
    plain = f"{server.url}/models/numbers"
    braided("feed", str(numbers), "--to", plain, "--create", "--weight", "cost")
    assert http.get(plain).json()["encode"] is None
