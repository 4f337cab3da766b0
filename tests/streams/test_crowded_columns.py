"""Text columns with ever new values: a bounded number of features, the same however the stream is cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError
from braided.encode.encoder import Encoder
from braided.encode.rules import ReadingCounts
from braided.run import Job, RunOptions
from braided.streams import IterableStream, Rules, open_stream, read_whole


def orders(n: int, different: int = 10**9) -> list[dict[str, Any]]:
    """Records with the number of an order, of which so many are different, and each of the first ones comes twice."""
    return [{"order": f"o{(i if i >= 600 else i // 2) % different}", "size": i % 7, "kind": i % 2} for i in range(n)]


def test_only_the_first_values_have_a_feature_of_their_own() -> None:
    told: list[str] = []
    rules = Rules(hash_buckets=16, most_categories=30, tell=told.append)
    stream = IterableStream(orders(1_200), target="kind", rules=rules)
    table = read_whole(stream).table
    own = [name for name in table.names if str(name).startswith("order=")]
    shared = [name for name in table.names if str(name).startswith("order#")]
    assert own == [f"order=o{i}" for i in range(30)]
    assert 1 < len(shared) <= 16
    columns = [i for i, name in enumerate(table.names) if name != "size"]
    assert (np.nansum(table.values[:, columns], axis=1) == 1).all()  # each record has one value
    read_whole(stream)
    warnings = [line for line in told if "different values:" in line]
    assert len(warnings) == 1  # over all passes
    assert "column 'order' has more than 30 different values" in warnings[0]
    assert "`drop=['order']`" in warnings[0]
    assert "`most_categories`" in warnings[0]


def test_a_column_within_the_bound_is_as_it_was() -> None:
    some = orders(1_200, different=100)
    assert set(read_whole(IterableStream(some, target="kind")).table.names) == {
        "size",
        *(f"order=o{i}" for i in range(100)),
    }
    with pytest.raises(BraidedError, match="`most_categories` is 0"):
        Rules(most_categories=0)


def test_what_is_read_does_not_depend_on_how_it_is_cut(tmp_path: Path) -> None:
    records = orders(1_100, different=700)
    whole = read_whole(IterableStream(records, target="kind")).table
    for number, start in enumerate(range(0, 1_100, 130)):
        part = "".join(json.dumps(item) + "\n" for item in records[start : start + 130])
        (tmp_path / f"{number:02}.jsonl").write_text(part)
    parts = read_whole(open_stream(str(tmp_path), target="kind")).table
    assert set(parts.names) == set(whole.names)
    order = [parts.names.index(name) for name in whole.names]  # a later part may bring a column before another
    np.testing.assert_array_equal(parts.values[:, order], whole.values)


def test_an_encoder_goes_on_from_its_state() -> None:
    """Through JSON, as in a checkpoint; buckets stay apart from values that are spelled like their number."""
    rules = Rules(hash_buckets=8, most_categories=3)
    cells = ["1", "2", "3", "4", "5", "1", "6", "7", "2"]
    straight, first, second = (Encoder(rules, ReadingCounts()) for _ in range(3))
    expected, values = straight.categories.encode("c", cells, lambda row, name: None)
    first.categories.encode("c", cells[:5], lambda row, name: None)
    second.load_state(json.loads(json.dumps(first.state())))
    names, later = second.categories.encode("c", cells[5:], lambda row, name: None)
    assert names == expected
    np.testing.assert_array_equal(later[-1], values[-1])
    assert names[:3] == ["c=1", "c=2", "c=3"]
    assert all(name.startswith("c#") for name in names[3:])


def test_a_followed_file_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    lines = [json.dumps(item) + "\n" for item in orders(700)]
    common: dict[str, Any] = {"target": "kind", "models": ("olr",), "most_categories": 40}
    (tmp_path / "whole.jsonl").write_text("".join(lines))
    expected = Job(RunOptions(stream=str(tmp_path / "whole.jsonl"), **common))
    list(expected.run())
    live = tmp_path / "live.jsonl"
    for start, stop in ((0, 60), (60, 400), (400, 700)):
        with live.open("a") as file:
            file.write("".join(lines[start:stop]))
        options = RunOptions(stream=str(live), follow=True, idle=0.0, **common)
        job = Job(options, checkpoint=tmp_path / "c", every=0.0, resume=True)
        list(job.run())
    assert job.document()["features"] == expected.document()["features"] <= 41 + 64
    assert job.finished[0].result["state_sha256"] == expected.finished[0].result["state_sha256"]
