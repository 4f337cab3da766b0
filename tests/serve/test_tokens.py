"""Tokens for some models, to read, to learn or to administer; SIGHUP; the access log; requests in the figures."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from help_serve import SMALL_SPEC, http, rows, served, serving, tokens_of
from httpx import Client
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router

from braided.cli.settings_file import read_options
from braided.errors import BraidedError
from braided.serve.access_log import AccessLog
from braided.serve.command import Running
from braided.serve.feed import FeedSettings
from braided.serve.middleware import Observed
from braided.serve.operations import Operation
from braided.serve.security import read_tokens
from braided.serve.settings import Limits, Settings

ITEMS = rows(5)
READ_PUMPS, LEARN_PUMP, ADMINISTER_FANS, READ_ALL, WRITE = (
    {"Authorization": f"Bearer {name}-0123456789"}
    for name in ("read-pumps", "learn-pump", "administer-fans", "read-all", "write-all")
)
FILE = """# scope, token, models
read read-pumps-0123456789 pump-*
learn learn-pump-0123456789 pump-1,pump-2
administer administer-fans-0123456789 fan-*
read read-all-0123456789
administer write-all-0123456789
"""


def token_file(folder: Path, text: str = FILE) -> Path:
    path = folder / "tokens"
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("tokens")
    with serving(folder / "state", read_tokens(token_file(folder))) as client:
        for name in ("pump-1", "pump-3", "fan-1"):
            assert client.put(f"/models/{name}", json=SMALL_SPEC, headers=WRITE).status_code == 201
        yield client


def status(client: Client, method: str, path: str, headers: dict[str, str], **what: Any) -> int:
    return client.request(method, path, headers=headers, **what).status_code


def test_what_each_scope_may_do(client: Client) -> None:
    asked: list[tuple[str, str, dict[str, Any], str]] = [
        ("POST", "predict", {"json": {"x": {}}}, "read"),
        ("GET", "", {}, "read"),
        ("GET", "checkpoint", {}, "read"),
        ("GET", "clients/a", {}, "read"),
        ("POST", "learn", {"json": ITEMS[0]}, "learn"),
        ("POST", "observe", {"json": {"x": {}}}, "learn"),
        ("POST", "label", {"json": {"id": "a", "y": 1}}, "learn"),
        ("POST", "predict", {"json": {"x": {}, "id": "a"}}, "learn"),
        ("PUT", "", {"json": SMALL_SPEC}, "administer"),
        ("PUT", "checkpoint", {"content": b"junk", "headers_": "octets"}, "administer"),
        ("DELETE", "", {}, "administer"),
        ("DELETE", "clients/a", {}, "administer"),
        ("GET", "history", {}, "read"),
        ("POST", "restore", {"json": {}}, "administer"),
    ]
    tokens = {"pump-1": (READ_PUMPS, ["read"]), "pump-2": (LEARN_PUMP, ["read", "learn"])}
    assert status(client, "PUT", "/models/pump-2", WRITE, json=SMALL_SPEC) == 201
    for model, (headers, may) in {**tokens, "fan-1": (ADMINISTER_FANS, ["read", "learn", "administer"])}.items():
        for method, path, what, access in asked:
            what.pop("headers_", None)
            found = status(client, method, f"/models/{model}/{path}".rstrip("/"), headers, **what)
            assert (found == 403) == (access not in may), (model, method, path, found)
            assert found != 401


def test_a_model_that_is_not_for_a_token_is_as_one_that_is_not_there(client: Client) -> None:
    for headers, there, missing in (
        (READ_PUMPS, "fan-1", "fan-9"),
        (LEARN_PUMP, "pump-3", "pump-9"),
        (ADMINISTER_FANS, "pump-1", "pump-9"),
    ):
        for method, path in (("GET", ""), ("POST", "/predict"), ("POST", "/learn"), ("DELETE", ""), ("PUT", "")):
            first, second = (
                client.request(method, f"/models/{name}{path}", headers=headers, json={}) for name in (there, missing)
            )
            assert (first.status_code, second.status_code) == (403, 403)
            assert first.text.replace(there, "?") == second.text.replace(missing, "?")
    assert status(client, "GET", "/models/pump-9", READ_PUMPS) == 404
    assert status(client, "PUT", "/models/fan-2", ADMINISTER_FANS, json=SMALL_SPEC) == 201
    assert status(client, "PUT", "/models/pan-2", ADMINISTER_FANS, json=SMALL_SPEC) == 403


def test_the_openapi_document_says_which_scope_is_needed(client: Client) -> None:
    paths = client.get("/openapi.json", headers=READ_ALL).json()["paths"]
    needed = {f"{method} {path}": item["security"] for path, at in paths.items() for method, item in at.items()}
    assert needed["get /healthz"] == []
    assert needed["post /models/{name}/predict"] == [{"token": ["read"]}]
    assert needed["post /models/{name}/learn"] == [{"token": ["learn"]}]
    assert needed["post /models/{name}/restore"] == needed["put /models/{name}"] == [{"token": ["administer"]}]


def test_health_names_no_model_to_whom_it_is_not_for(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    troubles = {"pump-1": "cannot learn", "fan-1": "quarantined"}
    monkeypatch.setattr("braided.serve.service.Service.troubles", lambda service: troubles)
    assert client.get("/healthz").json() == {"status": "degraded"}
    assert client.get("/healthz", headers=READ_PUMPS).json()["models"] == {"pump-1": "cannot learn"}
    assert client.get("/healthz", headers=READ_ALL).json()["models"] == troubles


def test_lists_show_a_token_its_own_models(client: Client) -> None:
    def names(headers: dict[str, str]) -> set[str]:
        return {model["name"] for model in client.get("/models", headers=headers).json()["models"]}

    everything = names(READ_ALL)
    pumps = {name for name in everything if name.startswith("pump")}
    assert names(READ_PUMPS) == pumps < everything
    assert names(LEARN_PUMP) <= {"pump-1", "pump-2"}
    text = client.get("/metrics", headers=READ_PUMPS).text
    assert 'model="pump-1"' in text
    assert "fan" not in text
    assert "braided_requests" not in text
    assert f"braided_models {len(pumps)}.0" in text
    assert 'model="fan-1"' in client.get("/metrics", headers=READ_ALL).text
    with client.stream("GET", "/events", headers=READ_PUMPS) as events:
        for line in events.iter_lines():
            assert "fan-" not in line
            if line.startswith("data:"):
                assert set(json.loads(line[5:])["names"]) == pumps
                break


def test_a_token_on_several_lines_may_do_what_any_of_them_says() -> None:
    tokens = tokens_of(("read", "one-long-token-1"), ("learn", "one-long-token-1", ("a",)))
    grant = tokens.grant("Bearer one-long-token-1")
    assert grant is not None
    assert (grant.may("read", "b"), grant.may("learn", "b"), grant.may("learn", "a")) == (True, False, True)
    assert (grant.limited, grant.scope, grant.name) == (False, "learn", "line 1, 2")


def test_feed_takes_the_first_line_that_may_learn(tmp_path: Path) -> None:
    path = token_file(tmp_path)

    def token(model: str, create: bool = False) -> str | None:
        return FeedSettings("s.csv", f"http://127.0.0.1:1/models/{model}", path, create=create).token()

    assert token("pump-1") == "learn-pump-0123456789"
    assert token("fan-1") == "administer-fans-0123456789"
    assert token("other") == token("pump-1", create=True) == "write-all-0123456789"
    token_file(tmp_path, "read read-all-0123456789\nlearn learn-pump-0123456789 pump-1\n")
    assert token("pump-1", create=True) == "learn-pump-0123456789"
    with pytest.raises(BraidedError, match="fan-1"):
        token("fan-1")


def test_requests_are_counted_by_route_and_status(client: Client) -> None:
    for name in ("pump-1", "pump-1", "pump-77"):
        client.get(f"/models/{name}/clients/zzz", headers=READ_ALL)
    client.get("/models/pump-1/nowhere/secret-path", headers=READ_ALL)
    text = client.get("/metrics", headers=READ_ALL).text
    route = 'method="GET",route="/models/{name}/clients/{client}"'
    counted = dict(line.rsplit(" ", 1) for line in text.splitlines())
    assert float(counted[f'braided_request_seconds_count{{{route},status="200"}}']) >= 2
    assert f'braided_request_seconds_bucket{{le="+Inf",{route},status="404"}} 1.0' in text
    assert f'braided_request_seconds_count{{{route},status="404"}} 1.0' in text
    assert 'route="none",status="404"' in text
    assert "secret-path" not in text
    assert "braided_requests_in_flight" in text


async def _never(request: Request) -> Response:
    raise AssertionError


def test_the_access_log_has_a_line_per_request_and_no_token(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    running = Running(Settings(tmp_path, token_file=token_file(tmp_path), access_log=str(path)))
    scope = {
        "client": ("10.0.0.1", 5), "grant": running.policy.tokens.grant(LEARN_PUMP["Authorization"]),
        "path_params": {"name": "pump-1"}, "method": "POST",
    }  # fmt: skip
    observed = Observed(Router(), running.policy, [Operation("POST", "/models/{name}/learn", _never, "learn")])
    observed._note(scope, 200, 17, 0.0025)
    Observed(Router(), running.policy)._note({"client": None, "method": "?"}, 401, 5, 0.1)
    running.close()
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first.pop("time") == pytest.approx(time.time(), abs=600)
    assert first == {
        "address": "10.0.0.1", "method": "POST", "route": "/models/{name}/learn", "model": "pump-1", "status": 200,
        "bytes": 17, "milliseconds": 2.5, "token": "line 3", "scope": "learn",
    }  # fmt: skip
    assert (second["token"], second["scope"], second["model"], second["status"]) == (None, None, None, 401)
    assert (second["route"], second["method"]) == ("none", "other")
    with pytest.raises(BraidedError, match="access-log"):
        AccessLog(str(tmp_path / "none" / "file"))


def test_a_log_that_nobody_reads_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    log = AccessLog(str(tmp_path / "pipe"))
    for number in range(12_000):
        log.add({"number": number, "text": "x" * 100})
    assert log.dropped > 0
    os.set_blocking(reader, True)
    drained = threading.Thread(target=lambda: list(iter(lambda: os.read(reader, 2**16), b"")))
    drained.start()
    log.close()
    drained.join(30)
    assert not drained.is_alive()
    os.close(reader)


def test_reloading_takes_tokens_limits_and_log_or_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    path = token_file(tmp_path)
    first = Settings(tmp_path, token_file=path)
    running = Running(first)
    wanted = [first]

    def reload() -> None:
        running.reload(lambda: wanted[0])

    fresh = {"Authorization": "Bearer a-fresh-token-0123456789"}["Authorization"]
    assert running.policy.tokens.grant(fresh) is None

    token_file(tmp_path, "read a-fresh-token-0123456789\n")
    wanted[0] = Settings(
        tmp_path, token_file=path, port=9, limits=Limits(records=7, in_flight=3, observations=5),
        access_log=str(tmp_path / "log"),
    )  # fmt: skip
    with running.service._changes:  # as while a model is being made, which takes long
        thread = threading.Thread(target=reload, daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
    assert running.policy.tokens.grant(fresh) is not None
    assert running.policy.tokens.grant(WRITE["Authorization"]) is None
    limits = running.policy.limits
    assert limits is running.service.settings.limits
    assert (limits.records, limits.in_flight, limits.observations) == (7, 3, Limits().observations)
    assert running.service.settings.port == first.port
    assert running.policy.access_log is not None
    assert "port, observations will change with the next start" in caplog.text

    kept = (running.policy.tokens, running.service.settings, running.policy.access_log)
    for text, other in (
        ("read short\n", wanted[0]),
        (FILE, Settings(tmp_path, access_log=str(tmp_path / "no" / "log"))),
    ):
        token_file(tmp_path, text)
        wanted[0] = other
        caplog.clear()
        reload()
        assert "nothing was changed" in caplog.text
        assert (running.policy.tokens, running.service.settings, running.policy.access_log) == kept
    running.close()


def test_options_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    kinds = {"port": int, "request_seconds": float, "host": str}
    path.write_text('port = 1\nrequest-seconds = 2\nhost = "::1"\n')
    assert read_options(path, kinds) == {"port": 1, "request_seconds": 2, "host": "::1"}
    for text, words in (
        ("prt = 1", "'prt'"), ("port = 1.5", "a whole number"), ("port = true", "a whole number"), ("[port]", "whole"),
        ("host = 1", "text"), ("port =", "not TOML"), ("\xff", "not TOML"),
    ):  # fmt: skip
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(BraidedError, match=words):
            read_options(path, kinds)
    with pytest.raises(BraidedError, match="cannot be read"):
        read_options(tmp_path / "none", kinds)


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_hangup_reads_everything_again(tmp_path: Path) -> None:
    tokens, settings, log = token_file(tmp_path), tmp_path / "settings.toml", tmp_path / "access.log"
    settings.write_text(f'max-records = 5\nport = 1\naccess-log = "{log}"\n')
    with served(tmp_path / "state", "--token-file", str(tokens), "--settings", str(settings)) as server:
        process = server.process
        assert process is not None

        def get(path: str, token: str) -> int:
            headers = {"Authorization": f"Bearer {token}-0123456789"}
            return http.get(server.url + path, headers=headers, timeout=60).status_code

        def learn(count: int) -> int:
            return http.post(
                f"{server.url}/models/m/learn", json={"records": ITEMS[:count]}, headers=WRITE, timeout=60
            ).status_code  # fmt: skip

        assert http.put(f"{server.url}/models/m", json=SMALL_SPEC, headers=WRITE, timeout=60).status_code == 201
        assert (get("/models", "read-all"), get("/models", "another"), learn(5)) == (200, 401, 200)
        token_file(tmp_path, FILE + "read another-0123456789\n")
        settings.write_text(f'max_records = 2\naccess-log = "{log}"\n')
        log.rename(tmp_path / "access.log.1")
        process.send_signal(signal.SIGHUP)
        until(lambda: get("/models", "another") == 200)
        assert (learn(2), learn(3)) == (200, 413)
        token_file(tmp_path, "nonsense\n")
        process.send_signal(signal.SIGHUP)
        until(lambda: "nothing was changed" in server.log.read_text())
        assert get("/models", "another") == 200
        assert server.stop() == 0
    first, second = (tmp_path / "access.log.1").read_text(), log.read_text()
    assert {json.loads(line)["status"] for line in first.splitlines()} >= {201, 401}
    assert 413 in {json.loads(line)["status"] for line in second.splitlines()}
    assert "0123456789" not in first + second + server.log.read_text()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_that_is_taken_is_told_before_anything_else(tmp_path: Path, host: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "braided", "serve", "--dir", str(tmp_path / "state"), "--host", host]
        done = subprocess.run([*command, "--port", port], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "in use" in done.stderr
    assert port in done.stderr
    assert "http://" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "state").exists()
