"""The fast way to read JSON gives what the slow and strict one gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("orjson", reason="the extra serve is not installed: run make test")
from braided.serve.problems import HTTPProblem
from braided.serve.records import RecordParser, _decode_strictly, decode_json
from braided.serve.settings import Limits

NUMBERS = st.floats() | st.integers(-(2**80), 2**80) | st.integers(-9, 9)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def outcome(decode: Any, content: bytes) -> tuple[str, str]:
    try:
        return "read", repr(decode(content, "the body"))
    except HTTPProblem as problem:
        return "refused", problem.detail


@st.composite
def almost_json(draw: st.DrawFn) -> bytes:
    """A document, perhaps with a part that stands twice, or with a byte changed."""
    content = json.dumps(draw(VALUES), ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    if draw(st.booleans()):
        start, stop = sorted((draw(st.integers(0, len(content))), draw(st.integers(0, len(content)))))
        content = content[:stop] + content[start:]
    if content and draw(st.booleans()):
        place = draw(st.integers(0, len(content) - 1))
        content = content[:place] + bytes([draw(st.integers(0, 255))]) + content[place + 1 :]
    return content


@settings(max_examples=400, deadline=None)
@given(almost_json())
@example(b'{"a": 1, "a": 2}')
@example(b'{"a": "b", "a": 2}')
@example(b'{"x": {"a": 1.0, "a": 1.0}}')
@example(b'{"y": 12345678901234567890123}')
@example(b"[-99999999999999999999]")
@example(b"18446744073709551616")
@example(b"[" * 1_010 + b"]" * 1_010)
@example(b'{"a": 1e400}')
def test_both_ways_to_read_agree(content: bytes) -> None:
    if content.strip().lstrip(b"-").isdigit():
        content = b"[" + content + b"]"  # a body that is a number alone is refused later, whatever it is
    assert outcome(decode_json, content) == outcome(_decode_strictly, content)


def test_a_reader_takes_floats_at_once_as_one_by_one() -> None:
    rows: list[dict[str, Any]] = [
        {"a": 1.0, "b": 2.0}, {"b": 3.0}, {"a": 4, "b": None}, {"b": 5.5, "a": 6.5}, {}, {"c": 7.0, "a": 8.0}
    ]  # fmt: skip
    reader = RecordParser(True, False, Limits())
    for row in rows:
        reader.add({"x": row, "y": 1})
    records = reader.done()
    kept = [{name: float(value) for name, value in row.items() if value is not None} for row in rows]
    assert [records.one(place) for place in range(len(rows))] == kept
