"""No request, however it is made, gets a 500, and none that is refused changes anything."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from help_serve import LINES, SMALL_SPEC, digest_of, rows, serving
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with serving(tmp_path_factory.mktemp("fuzz") / "state", request_seconds=20.0) as client:
        assert client.put("/models/m", json=SMALL_SPEC).status_code == 201
        assert client.put("/models/r", json={"task": "regression"}).status_code == 201
        for name in ("m", "r"):
            items = [{**item, "y": i % 3} for i, item in enumerate(rows(30))]
            assert client.post(f"/models/{name}/learn", json={"records": items}).status_code == 200
        yield client


def state(client: httpx.Client, name: str) -> tuple[str | bytes, Any]:
    content = client.get(f"/models/{name}/checkpoint").content
    return digest_of(content) if name == "m" else content, client.get(f"/models/{name}").json()["records"]


NUMBERS = [
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "-1e400",
    "1" * 400,
    "9" * 5_000,
    "-0",
    "1e-400",
    "0x10",
    "01",
    "1.",
]
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=20), st.just("\ud800"),
    st.sampled_from(["x", "y", "records", "id", "client"]),
)  # fmt: skip
keys = st.one_of(st.sampled_from(["x", "y", "records", "client", "sequence", "id", "f0"]), st.text(max_size=8))
trees = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5))
near = st.fixed_dictionaries(
    {"x": st.dictionaries(keys, leaves, max_size=4)},
    optional={"y": leaves, "records": trees, "client": leaves, "sequence": leaves, "id": leaves},
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """JSON that is almost right, with NaN, huge numbers, keys twice, lone surrogates and broken bytes."""
    document = draw(trees | near | st.fixed_dictionaries({"records": st.lists(near, max_size=3)}))
    text = json.dumps(document, ensure_ascii=draw(st.booleans()))
    content = text.encode("utf-8", "surrogatepass")
    change = draw(st.sampled_from(["", "", "number", "twice", "cut", "byte", "deep"]))
    if change == "number":
        content = content.replace(b"null", draw(st.sampled_from(NUMBERS)).encode(), 1)
    elif change == "twice":
        content = content.replace(b"{", b'{"x": {}, "x": {"f0": 1}, ', 1)
    elif change == "cut":
        content = content[: draw(st.integers(0, len(content)))]
    elif change == "byte" and content:
        at = draw(st.integers(0, len(content) - 1))
        content = content[:at] + bytes([draw(st.integers(0, 255))]) + content[at + 1 :]
    elif change == "deep":
        depth = draw(st.sampled_from([50, 5_000, 200_000]))
        content = b'{"x": ' + draw(st.sampled_from([b"[", b'{"a":'])) * depth
    return content


@given(
    body=bodies(),
    path=st.sampled_from(["learn", "predict", "observe", "label"]),
    name=st.sampled_from(["m", "r"]),
    kind=st.sampled_from(["application/json", "application/json", "application/x-ndjson"]),
)
@settings(
    max_examples=150, deadline=None, phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
def test_made_up_json(client: httpx.Client, body: bytes, path: str, name: str, kind: str) -> None:
    before = state(client, name)
    answer = client.post(f"/models/{name}/{path}", content=body, headers={"Content-Type": kind})
    assert answer.status_code in (200, 400, 404, 409, 413, 415, 422), (answer.status_code, answer.text)
    if answer.status_code != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        assert state(client, name) == before
    elif path == "predict":
        assert state(client, name) == before


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("headers", [JSON, LINES], ids=["json", "lines"])
def test_numbers_that_are_none(client: httpx.Client, number: str, headers: dict[str, str]) -> None:
    before = state(client, "m")
    fine = number in ("-0", "1e-400")
    for body in (f'{{"x": {{"f0": {number}}}, "y": 1}}', f'{{"x": {{"f0": 1}}, "y": {number}}}'):
        answer = client.post("/models/m/learn", content=body, headers=headers)
        assert answer.status_code == 200 if fine else answer.status_code in (400, 422), answer.text
    if not fine:
        assert state(client, "m") == before


def test_long_strings_and_deep_nests(client: httpx.Client) -> None:
    before = state(client, "m")
    long = "a" * 10_000_000
    for body in (
        json.dumps({"x": {long: 1}, "y": 1}),
        json.dumps({"x": {"f0": 1}, "y": long}),
        json.dumps(long[: 5 * 10**6]),
        "[" * 10**6,
        '{"x":' * 10**6,
        '{"x": {"f0": 1, "f0": 2}, "y": 1}',
        '{"x": {"f0": 1}, "x": {"f0": 2}, "y": 1}',
    ):
        for headers in (JSON, LINES):
            answer = client.post("/models/m/learn", content=body, headers=headers)
            assert answer.status_code in (400, 413, 422), answer.status_code
            assert len(answer.content) < 1_000
    assert state(client, "m") == before


@pytest.mark.parametrize("header", ["Content-Type", "Authorization", "Content-Length", "X-Anything"])
def test_odd_headers(client: httpx.Client, header: str) -> None:
    for value in (b"\xff\xfe", b"a" * 5_000, b"-1", b"application/json; charset=\x80"):
        try:
            answer = client.post("/models/m/predict", content=b'{"x": {}}', headers={**JSON, header: value})
        except httpx.TransportError:
            continue
        assert answer.status_code < 500


def fuzz_from_the_document(client: httpx.Client, examples: int) -> str:
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed: run make test")
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    schema = schemathesis.openapi.from_url(f"{client.base_url}/openapi.json")
    counts: Counter[str] = Counter()
    labels = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        labels.add(operation.label)
        keeps = operation.label not in ("PUT /models/{name}", "DELETE /models/{name}", "PUT /models/{name}/checkpoint")

        def known(case: Any, there: bool, keeps: bool = keeps) -> Any:
            if keeps and there and case.path_parameters:
                case.path_parameters["name"] = "m"
            return case

        @given(case=st.builds(known, operation.as_strategy(), st.sampled_from([True, True, True, False])))
        @settings(
            max_examples=examples, deadline=None, phases=[Phase.generate], database=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        def run(case: Any) -> None:
            response = case.call()
            case.validate_response(response, checks=checks)
            counts[f"{case.operation.label} {response.status_code}"] += 1

        run()
    assert {key.rpartition(" ")[0] for key in counts} == labels
    assert {"POST /models/{name}/learn 200", "POST /models/{name}/predict 200"} <= counts.keys()
    assert client.post("/models/m/predict", json={"x": {"f0": 1}}).status_code == 200
    statuses: Counter[str] = Counter()
    for key, count in counts.items():
        statuses[key.rpartition(" ")[2]] += count
    return f"schemathesis: {counts.total()} requests to {len(labels)} operations: {dict(sorted(statuses.items()))}"


def test_from_the_openapi_document(client: httpx.Client) -> None:
    print(fuzz_from_the_document(client, examples=25))


@pytest.mark.slow
def test_from_the_openapi_document_for_long(client: httpx.Client, capsys: pytest.CaptureFixture[str]) -> None:
    summary = fuzz_from_the_document(client, examples=300)
    with capsys.disabled():
        print(f"\n{summary}")
