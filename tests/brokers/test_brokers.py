"""Streams from brokers and predictions to them: real servers, and librdkafka's mock cluster for Kafka."""

from __future__ import annotations

import gc
import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from broker_servers import KINDS, Kafka, Server, free_port, started, wait_for

from braided import BraidedError
from braided.brokers.address import parse, public
from braided.run import Job, RunOptions
from braided.streams import Rules, open_stream
from command import braided


def made_up(n: int, seed: int = 0) -> list[bytes]:
    """Records with a number, a category and missing values."""
    draw = random.Random(seed)
    bodies = []
    for _ in range(n):
        x: dict[str, Any] = {"t": round(draw.gauss(20, 5), 2), "machine": draw.choice(["M-7", "M-8", "M-9"])}
        y = "hot" if x["t"] + 4 * (x["machine"] == "M-8") > 22 else "cold"
        if draw.random() < 0.2:
            del x["t"]
        bodies.append(json.dumps({"x": x, "y": y}).encode())
    return bodies


def with_late_labels(n: int) -> list[bytes]:
    """The same, but for every third record the label comes some messages later on its own."""
    draw = random.Random(5)
    bodies: list[bytes] = []
    due: list[tuple[int, bytes]] = []
    for number, body in enumerate(made_up(n)):
        record = json.loads(body)
        if number % 3 == 0:
            label = json.dumps({"id": f"r{number}", "y": record.pop("y")}).encode()
            due.append((number + draw.randrange(1, 60), label))
        bodies.append(json.dumps({"id": f"r{number}", **record}).encode())
        bodies += [label for when, label in due if when == number]
    return bodies


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = started(request.param, tmp_path_factory.mktemp(request.param))
    yield found
    found.stop()


@pytest.fixture
def topic(server: Server, request: pytest.FixtureRequest) -> str:
    """A topic of this test's own."""
    name = re.sub(r"\W", "-", request.node.name)
    server.make(name)
    return name


def options(address: str, **more: Any) -> RunOptions:
    return RunOptions(**{"stream": address, "idle": 0.7, "models": ("olr",), "task": "classification", **more})


def run(asked: RunOptions, **more: Any) -> dict[str, Any]:
    job = Job(asked, **more)
    for _ in job.run():
        pass
    return job.document()


def as_file(folder: Path, bodies: list[bytes]) -> str:
    path = folder / "records.jsonl"
    path.write_bytes(b"\n".join(bodies) + b"\n")
    return str(path)


def of_file(folder: Path, bodies: list[bytes], **more: Any) -> dict[str, Any]:
    """What a run over a file with the same records gives."""
    return run(options(as_file(folder, bodies), idle=None, **more))


def outcome(document: dict[str, Any]) -> list[Any]:
    """What must be the same, to the last bit."""
    (found,) = document["runs"]
    late = found.get("late_labels")
    names = ("records", "unlabelled", "features", "skipped_records", "first_problem")
    return [found["state_sha256"], found["metrics"], found["window_metrics"], late, *(document[name] for name in names)]


def test_a_broker_gives_what_a_file_gives(server: Server, topic: str, tmp_path: Path) -> None:
    bodies = made_up(700)
    server.publish(topic, bodies)
    assert outcome(run(options(server.address(topic)))) == outcome(of_file(tmp_path, bodies))


def braided_process(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "braided", "run", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def spread(server: Server, topic: str, bodies: list[bytes]) -> None:
    """Send messages, those of Kafka to all partitions, in an order that their timestamps tell."""
    if not isinstance(server, Kafka):
        server.publish(topic, bodies)
        return
    draw, now = random.Random(len(bodies)), int(time.time() * 1_000)
    partitions = [draw.randrange(4) for _ in bodies]
    server.publish(topic, bodies, partitions, times_ms=range(now, now + len(bodies)))


def test_killed_it_goes_on_in_the_same_bits(server: Server, topic: str, tmp_path: Path) -> None:
    bodies = with_late_labels(450)
    sent = f"{topic}-sent"
    server.make(sent)
    again = server.kind == "mqtt"  # where some records may come again, so that nobody knows how many there will be
    if again:
        server.listen(sent)  # type: ignore[attr-defined]
    checkpoint = tmp_path / "c"
    address = server.address(topic).replace("?partition=0", "?wait=3")
    arguments = [address, "--model", "olr", "--task", "classification", "--json"]
    arguments += ["--checkpoint", str(checkpoint), "--resume", "--predictions", server.address(sent)]
    arguments += ["--late-count", "8"] if again else ["--late-count", "8", "--limit", "450"]
    spread(server, topic, bodies[:200])
    process = braided_process(*arguments)
    try:
        wait_for(lambda: checkpoint.exists() or process.poll() is not None)
        spread(server, topic, bodies[200:300])
        asked = sum(b'"x"' in body for body in bodies[:300])
        wait_for(lambda: len(server.received(sent)) >= asked or process.poll() is not None)
        assert process.poll() is None, process.communicate()[1]
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    spread(server, topic, bodies[300:])
    resumed = braided(*("run", *arguments, *(["--idle", "2"] if again else [])))
    found = json.loads(resumed.stdout)
    assert min(found["runs"][0]["late_labels"][name] for name in ("joined", "too_late")) > 10
    messages = server.received(sent)
    assert {message["id"] for message in messages} == {f"r{number}" for number in range(450)}, "no record is left out"
    n = found["records"] + found["unlabelled"]
    assert {message["record"] for message in messages} == set(range(1, n + 1)), "each was sent, at least once"
    if again and n > 450:
        return  # at least once: killed between a checkpoint and the acknowledgement
    limit = None if again else 450
    expected = of_file(tmp_path, bodies, limit=limit, late_count=8)
    assert outcome(found) == outcome(expected)
    if not again:
        read_again = run(options(address, limit=limit, late_count=8))
        assert outcome(read_again) == outcome(expected), "read again, without a checkpoint"


def test_a_poisoned_message_stops_or_is_skipped(server: Server, topic: str, tmp_path: Path) -> None:
    bodies = made_up(60)
    bodies[40:40] = [b'{"x": {"t": 1', b"", b"\xff\xfe"]
    server.publish(topic, bodies)
    asked = options(server.address(topic))
    with pytest.raises(BraidedError, match=r"not JSON .*give one record per message") as refused:
        run(asked, checkpoint=tmp_path / "c", every=0.0)
    assert public(server.address(topic)) in str(refused.value), "it is said where"
    found = run(replace(asked, on_error="skip"), checkpoint=tmp_path / "c", every=0.0, resume=True)
    assert (found["records"], found["skipped_records"]) == (60, 2), "an empty message is none"
    straight = of_file(tmp_path, [body for body in bodies if body.startswith(b"{") and body.endswith(b"}")])
    assert outcome(found)[0] == outcome(straight)[0]


def test_the_limit_is_where_it_goes_on(server: Server, topic: str, tmp_path: Path) -> None:
    bodies = made_up(130)
    server.publish(topic, bodies)
    address = server.address(topic)
    job = Job(options(address, limit=70), checkpoint=tmp_path / "c", every=0.0)
    for _ in job.run():
        pass
    assert job.document()["records"] == 70
    assert job._position is not None
    assert job._position["records"] == 70, "nothing was read beyond it"
    rest = open_stream(address, idle=0.7, position=json.loads(json.dumps(job._position)))
    assert sum(map(len, rest.batches())) == 60


@pytest.fixture(params=KINDS)
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    found = started(request.param, tmp_path)
    yield found
    found.stop()


def test_sigterm_ends_it_with_its_checkpoint(own_server: Server, tmp_path: Path) -> None:
    server, topic, bodies = own_server, "plant", made_up(90)
    server.make(topic)
    checkpoint = tmp_path / "checkpoint"
    server.publish(topic, bodies)
    arguments = [server.address(topic), "--model", "olr", "--task", "classification", "--json"]
    arguments += ["--checkpoint", str(checkpoint), "--checkpoint-every", "0"]
    process = braided_process(*arguments)
    try:
        wait_for(lambda: checkpoint.exists() or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, stderr
    assert json.loads(stdout)["records"] == 90
    server.publish(topic, bodies[:10])
    assert run(options(server.address(topic)), checkpoint=checkpoint, resume=True)["records"] == 100


def test_predictions_are_those_of_a_file(server: Server, topic: str, tmp_path: Path) -> None:
    if server.kind == "mqtt":
        server.listen(topic)  # type: ignore[attr-defined]
    asked = options(as_file(tmp_path, made_up(120)), idle=None)
    run(asked, predictions=tmp_path / "rows.jsonl")
    run(asked, predictions=server.address(topic))
    wait_for(lambda: len(server.received(topic)) >= 120)
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert sorted(server.received(topic), key=lambda row: row["record"]) == rows


def refusal(*arguments: str) -> str:
    """The one line that a run ends with."""
    done = braided("run", *arguments, "--model", "olr", "--quiet", code=2)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


# paho leaves the socket of a failed handshake to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("server", ["mqtt"], indirect=True)
def test_a_broker_without_tls_is_one_line_to_those_who_want_it(server: Server, tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_bytes(b"\n".join(made_up(3)))
    hidden = f"mqtts://127.0.0.1:{server.port}/topic"
    for arguments in ([hidden], [str(tmp_path / "r.jsonl"), "--predictions", hidden]):
        assert f"{hidden}: cannot be reached (" in refusal(*arguments)
        gc.collect()


def test_what_is_not_there_is_one_line(server: Server, tmp_path: Path) -> None:
    nobody = f"{server.kind}://ann:s3cret@127.0.0.1:{free_port()}/topic"
    assert re.search(r"//127.0.0.1:\d+/topic: cannot be reached \(Connection refused\)", refusal(nobody))
    assert "s3cret" not in refusal(nobody)
    (tmp_path / "r.jsonl").write_bytes(b"\n".join(made_up(3)))
    assert "cannot be reached" in refusal(str(tmp_path / "r.jsonl"), "--predictions", nobody)
    if server.kind != "mqtt":  # whose topics are there once somebody asks
        said = refusal(f"{server.kind}://127.0.0.1:{server.port}/nowhere")
        assert re.search("no such stream|Unknown topic", said), said


def test_an_outage_is_said_once_and_nothing_is_lost(server: Server, topic: str, tmp_path: Path) -> None:
    if isinstance(server, Kafka):
        pytest.skip("a mock cluster cannot be started again on its port: run docker/compose.kafka.yml")
    told: list[str] = []
    bodies = made_up(80)
    server.publish(topic, bodies[:50])
    stream = open_stream(server.address(topic), idle=1.5, rules=Rules(tell=told.append))
    labels: list[Any] = []
    steps = [
        server.stop,
        lambda: wait_for(lambda: any("cannot be reached" in line for line in told) or next(batches, None) is None),
        server.start,
        lambda: server.publish(topic, bodies[50:]),
    ]
    stream.on_pause = lambda: steps.pop(0)() if steps and len(labels) == 50 else None  # type: ignore[attr-defined]
    batches = stream.batches()
    for batch in batches:
        labels += batch.targets
    assert labels == [json.loads(body)["y"] for body in bodies]
    said = [line for line in told if "reached" in line or "back" in line]
    assert [re.sub(r".*/\S+ (is back|cannot).*", r"\1", line) for line in said] == ["cannot", "is back"], said


@pytest.mark.parametrize("server", [kind for kind in KINDS if kind != "mqtt"], indirect=True)
def test_what_is_gone_is_not_passed_over(server: Server, topic: str) -> None:
    bodies = made_up(30)
    server.publish(topic, bodies[:10])
    stream = open_stream(server.address(topic), idle=0.3)
    assert sum(map(len, stream.batches())) == 10
    server.publish(topic, bodies[10:])
    if server.kind == "redis":
        server.client().xtrim(topic, maxlen=5, approximate=False)  # type: ignore[attr-defined]
    else:
        server.publish(topic, [b"x" * 900_000] * 8)  # a mock keeps 5 MB of each partition
    again = open_stream(server.address(topic), idle=0.3, position=stream.position)  # type: ignore[attr-defined]
    with pytest.raises(BraidedError, match=r"what comes after \w+ \S+ .*is gone"):
        list(again.batches())


def test_partitions_come_in_the_order_of_their_timestamps(tmp_path: Path) -> None:
    server = started("kafka", tmp_path)
    assert isinstance(server, Kafka)
    try:
        draw = random.Random(1)
        times = [1_700_000_000_000 + draw.randrange(400) for _ in range(900)]
        partitions = [draw.choice((0, 1, 3)) for _ in times]
        bodies = [json.dumps({"x": {"t": t % 7}, "y": i}).encode() for i, t in enumerate(times)]
        server.publish("many", bodies, partitions, times)
        address = f"kafka://127.0.0.1:{server.port}/many"
        stream = open_stream(address, idle=0.7)
        labels = [label for batch in stream.batches() for label in batch.targets]
        left = {number: [i for i in range(900) if partitions[i] == number] for number in (0, 1, 3)}
        expected = []
        while any(left.values()):
            first = min((times[rows[0]], number) for number, rows in left.items() if rows)[1]
            expected.append(left[first].pop(0))
        assert labels == expected
        server.publish("fresh", bodies[:40], partitions[:40])
        fresh = open_stream(address.replace("many", "fresh"), idle=0.2)
        assert sum(map(len, fresh.batches())) == 40, "what waits for other partitions has come"
        halves = open_stream(address, idle=0.7)
        first_batch = next(batches := halves.batches()).targets
        batches.close()  # type: ignore[attr-defined]
        rest = open_stream(address, idle=0.7, position=halves.position)  # type: ignore[attr-defined]
        assert first_batch + [label for batch in rest.batches() for label in batch.targets] == expected
        assert json.loads(json.dumps(stream.position))["place"].keys() == {"0", "1", "2", "3"}  # type: ignore[attr-defined]
    finally:
        server.stop()


def test_credentials_are_used_and_shown_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = started("redis", tmp_path)
    try:
        client = server.client()  # type: ignore[attr-defined]
        server.publish("plant", made_up(40))
        client.config_set("requirepass", "s3cret")
        address = f"redis://:s3cret@127.0.0.1:{server.port}/plant"
        arguments = ["--model", "olr", "--idle", "0.3", "--task", "classification"]
        more = ["--checkpoint", str(tmp_path / "c"), "--out", str(tmp_path / "out")]
        done = braided("run", address, f"--predictions={address}-sent", *arguments, *more)
        written = [path.read_bytes() for path in [tmp_path / "c", *(tmp_path / "out").iterdir()]]
        for text in (done.stdout.encode(), done.stderr.encode(), *written):
            assert b"s3cret" not in text
        monkeypatch.setenv("BRAIDED_BROKER_PASSWORD", "s3cret")
        found = braided("run", address.replace(":s3cret@", ""), *arguments, "--json")
        assert json.loads(found.stdout)["records"] == 40
        monkeypatch.setenv("BRAIDED_BROKER_PASSWORD", "wrong")
        assert "Redis says" in braided("run", address.replace(":s3cret@", ""), *arguments, code=2).stderr
    finally:
        server.stop()


def test_a_broker_that_refuses_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = started("mqtt", tmp_path)
    server.stop()
    command = server.command()
    settings = (tmp_path / "mosquitto.conf").read_text()
    (tmp_path / "mosquitto.conf").write_text(settings.replace("anonymous true", "anonymous false"))
    monkeypatch.setattr(server, "command", lambda: command)
    server.start()
    try:
        address = server.address("plant").replace("//", "//ann:wr0ng@")
        for stream in (address, str(tmp_path / "r.jsonl")):
            (tmp_path / "r.jsonl").write_bytes(b"\n".join(made_up(3)))
            sent = [] if stream == address else ["--predictions", address]
            line = refusal(stream, *sent)
            assert "the broker refuses: Not authorized" in line, line
            assert "wr0ng" not in line
    finally:
        server.stop()


def test_entries_with_several_fields_are_flat_records(tmp_path: Path) -> None:
    server = started("redis", tmp_path)
    try:
        for i in range(60):
            server.client().xadd("flat", {"t": f"{i % 9}.5", "ward": "ab"[i % 2], "kind": "pq"[i % 2]})  # type: ignore[attr-defined]
        batch = next(open_stream(server.address("flat"), target="kind", idle=0.3).batches())
        assert batch.names == ("t", "ward=a", "ward=b")
        assert batch.values[:2].tolist()[1] == [1.5, 0.0, 1.0]
        assert batch.targets[:3] == ["p", "q", "p"]
    finally:
        server.stop()


def test_mqtt_acknowledges_what_a_checkpoint_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = started("mqtt", tmp_path)
    from braided.brokers import mqtt

    monkeypatch.setattr(mqtt, "WINDOW", 50)
    bodies = made_up(320)
    try:
        server.make("plant")
        server.publish("plant", bodies)
        asked, checkpoint = options(server.address("plant")), tmp_path / "checkpoint"
        found = run(asked, checkpoint=checkpoint, every=1_000.0)
        assert found["records"] == 320, "a window that is full is saved, and the broker goes on"
        again = run(asked, checkpoint=checkpoint, every=1_000.0, resume=True)
        assert outcome(again) == outcome(found) == outcome(of_file(tmp_path, bodies)), "nothing comes twice"
        server.publish("plant", [b"oops"] * 130)
        server.publish("plant", bodies[:7])
        skipping = replace(asked, on_error="skip")
        found = run(skipping, checkpoint=checkpoint, every=1_000.0, resume=True)
        assert (found["records"], found["skipped_records"]) == (327, 130), "what is no record is acknowledged too"
        found = run(skipping, checkpoint=checkpoint, every=1_000.0, resume=True)
        assert (found["records"], found["skipped_records"]) == (327, 130)
        server.publish("plant", [b'{"x": {"t": "oops"}, "y": "hot"}'] * 60)
        server.publish("plant", bodies[:7])
        found = run(skipping, checkpoint=checkpoint, every=1_000.0, resume=True)
        assert (found["records"], found["skipped_records"]) == (334, 190), "nor does it wait for records that fit"
        server.publish("plant", bodies[:7])
        broken = Job(asked, checkpoint=checkpoint, every=1_000.0, resume=True)
        next(steps := broken.run())
        broken._source.close()  # type: ignore[attr-defined]
        del steps
        assert run(asked, checkpoint=checkpoint, resume=True)["records"] == 341, "what no checkpoint holds comes again"
        river = replace(asked, models=("river-nb",))
        server.publish("plant", bodies)
        assert run(river, checkpoint=tmp_path / "river")["records"] == 320, "what is never saved does not wait for it"
    finally:
        server.stop()


@pytest.mark.parametrize("kind", ["redis", "mqtt"])
def test_the_task_is_seen_from_what_is_there_and_nothing_is_lost_by_it(kind: str, tmp_path: Path) -> None:
    server = started(kind, tmp_path)
    try:
        for name in ("numbers", "quiet"):
            server.make(name)
        server.publish("numbers", [json.dumps({"x": {"t": i % 7}, "y": i % 7 + 0.5}).encode() for i in range(60)])
        found = run(options(server.address("numbers"), task="auto"))
        assert (found["task"], found["records"]) == ("regression", 60)
        told: list[str] = []
        with pytest.raises(BraidedError, match="has no records: give at least one"):
            run(options(server.address("quiet"), task="auto", idle=0.0), tell=told.append)
        assert "no target to look at yet" in told[0]
    finally:
        server.stop()


def test_the_plan_is_of_all_records_that_are_there(tmp_path: Path) -> None:
    server = started("redis", tmp_path)
    told: list[str] = []
    try:
        first = b'{"x": {"t": 20.5, "machine": "7"}, "y": "hot"}'
        server.publish("plant", [first, *made_up(100)])
        run(options(server.address("plant")), tell=told.append)
        assert "target: 2 different values seen" in told[0]
        assert any(re.match("  machine +category with 4 values", line) for line in told), told
    finally:
        server.stop()


def test_predictions_that_were_not_taken_are_in_no_checkpoint(tmp_path: Path) -> None:
    server = started("redis", tmp_path)
    checkpoint, bodies = tmp_path / "checkpoint", made_up(1_200)
    asked = options(as_file(tmp_path, bodies), idle=None)
    job = Job(asked, checkpoint=checkpoint, every=0.0, predictions=server.address("said"))
    steps = job.run()
    next(steps)
    server.stop()
    job.stop()
    with pytest.raises(BraidedError, match="is away or takes no more, and has not all predictions"):
        list(steps)
    server.start()
    try:
        run(asked, checkpoint=checkpoint, resume=True, predictions=server.address("said"))
        assert {row["record"] for row in server.received("said")} == set(range(1, 1_201))
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("kafka://h:x/topic", "give kafka://HOST:PORT/TOPIC"),
        ("redis://[::1/s", "give kafka://HOST:PORT/TOPIC"),
        ("redis://h", "give kafka://HOST:PORT/TOPIC"),
        ("redis://one,two/s", "give kafka://HOST:PORT/TOPIC"),
        ("mqtt://h/a#", "%23 for a #"),
        ("mqtt://h/a@b", "%40 for an @"),
        ("redis://h/a?client=x", "'client' cannot be set like this: give db=NUMBER"),
        ("kafka://h/a?partition=-1", "'partition' cannot be set like this: give partition=NUMBER"),
        ("redis://h/a?db=1234567890", "'db' cannot be set like this: give db=NUMBER"),
        ("mqtt://h/a?client=", "'client' cannot be set like this: give client=NAME"),
        ("redis://h/a?other=", "'other' cannot be set like this: give db=NUMBER"),
    ],
)
def test_malformed_addresses(address: str, message: str) -> None:
    with pytest.raises(BraidedError, match=message):
        parse(address)


def test_options_that_make_no_sense(tmp_path: Path) -> None:
    for more, message in (
        ({"seeds": 2}, "a broker's stream takes one model and one seed"),
        ({"available": 0.5}, "a broker's stream takes records as they come"),
        ({"always": 2}, "a broker's stream takes records as they come"),
        ({"header": True}, "`header` is for text files"),
        ({"encoding": "latin-1"}, "`encoding` is for text files"),
    ):
        pytest.importorskip("redis", reason="redis is not installed: run make test EXTRAS=all")
        with pytest.raises(BraidedError, match=message):
            Job(options("redis://127.0.0.1:1/plant", **more))
    done = braided("feed", "redis://:s3cret@h/plant", "--to", "http://127.0.0.1:1/models/m", code=2)
    assert "has no end" in done.stderr
    assert "s3cret" not in done.stderr
