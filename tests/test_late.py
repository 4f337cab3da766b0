"""The queue of records that wait for their labels, whatever they are found by."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest

from braided import BraidedError
from braided.late import LateLabels, content_key
from braided.records import Confidence, Predictions, Records


def prediction(value: float = 0.8, n_classes: int = 2, sure: bool = False) -> Predictions:
    confidence = Confidence(np.full((1, 3), 0.5), np.ones(1), np.full((1, 7), math.inf)) if sure else None
    decided = np.array([1]) if sure else None
    return Predictions(np.full((1, n_classes), value), np.array([[1.0]]), decided, confidence)


def record(n: int = 2, key: str | None = None, target: Any = None, weight: float | None = None) -> Records:
    values = np.append(np.arange(float(n)), np.nan)[None, :]
    weights = None if weight is None else np.array([weight])
    return Records((*range(n), "missing"), values, [target], weights, None if key is None else [key])


def keep(late: LateLabels, key: Hashable, time: float = math.nan, n: int = 2) -> None:
    late.keep(key, record(n, str(key).upper()), prediction(), time)


def bounded(**bounds: Any) -> LateLabels:
    return LateLabels(**{"max_count": 3, "max_seconds": 10.0, **bounds})


#: What each use finds its records by, and how its queue is made.
USES = {
    "number": ([1, 2, 3, 4, 5], {"unique": False, "max_seconds": math.inf}),
    "ID": (["a", 7, "b", "c", -1], {}),
    "content": ([content_key({"a": i, ("b", 1): 0.5}) for i in range(5)], {"unique": False}),
}
uses = pytest.mark.parametrize(("keys", "options"), USES.values(), ids=USES.keys())


@uses
def test_a_label_finds_its_record_and_what_was_predicted(keys: list[Hashable], options: dict[str, Any]) -> None:
    late = bounded(**options)
    for number, key in enumerate(keys[:3]):
        late.keep(key, record(key=str(number), weight=number), prediction(number), time=number)
    found = late.find(keys[1])
    assert found is not None
    assert found.records is not None
    assert (found.records.names, found.records.values.tolist()) == ((0, 1), [[0.0, 1.0]]), "without what is missing"
    assert (found.records.keys, found.time, found.predictions.values[0, 0]) == (["1"], 1.0, 1.0)
    assert len(late) == 3, "it waits until it is taken"
    assert late.take(keys[1]) is found
    assert late.take(keys[1]) is None
    assert [one.key for one in late.entries()] == [keys[0], keys[2]]
    assert late.oldest() is late.entries()[0]


@uses
def test_what_waits_is_bounded(keys: list[Hashable], options: dict[str, Any]) -> None:
    late = bounded(**options)
    for number, key in enumerate(keys):
        keep(late, key, float(number))
    assert [one.key for one in late.entries()] == keys[2:]
    late.max_values = 5
    late.expire()
    assert [one.key for one in late.entries()] == keys[3:]


@pytest.mark.parametrize(("keys", "options"), [USES["number"], USES["ID"]], ids=["number", "ID"])
def test_a_state_is_gone_on_from(keys: list[Hashable], options: dict[str, Any]) -> None:
    late = bounded(**options)
    late.keep(keys[0], record(3, "k", "up", 2.0), prediction(0.3, 3, sure=True), 5.0)
    late.keep(keys[1], record(0), prediction(0.0, 0), 6.0)
    keep(late, keys[2])
    late.take(keys[1])
    keep(late, keys[3], 9.0, n=1)
    about, arrays = late.state()
    again = bounded(**options)
    again.load_state(json.loads(json.dumps(about)), arrays, 1)
    assert again.counts == late.counts
    assert [one.key for one in again.entries()] == [one.key for one in late.entries()]
    np.testing.assert_equal(again.state(), (about, arrays))
    first = again.oldest()
    assert first is not None
    assert first.records is not None
    assert first.predictions.confidence is not None
    assert (first.records.targets, first.records.keys, first.records.names) == (["up"], ["k"], (0, 1, 2))
    for queue in (late, again):
        keep(queue, keys[4], 16.5)
    np.testing.assert_equal(again.state(), late.state())


def test_of_alike_records_the_first_is_found_first() -> None:
    late = LateLabels(unique=False)
    key = content_key({"a": 1.0, "b": None})
    for number in range(4):
        late.keep(key, None, prediction(number), time=number // 2)
    late.keep(content_key({"a": 2.0}), None, prediction(9.0), time=1)
    assert len(late) == 3, "one of those that were asked for at the same time"
    found = [late.take(key) for _ in range(3)]
    assert [None if one is None else one.predictions.values[0, 0] for one in found] == [0.0, 2.0, None]


def test_an_id_that_comes_again_is_that_of_the_later_record() -> None:
    late = bounded()
    keep(late, "a", n=1)
    keep(late, "a", n=2)
    assert len(late) == 1
    found = late.take("a")
    assert found is not None
    assert found.records is not None
    assert len(found.records.names) == 2


def test_labels_without_a_record_are_counted() -> None:
    late = bounded()
    for number in range(5):
        keep(late, f"r{number}")
    assert late.find("r1") is None, "it was dropped for newer ones"
    assert late.take("r4") is not None
    assert late.find("r4") is None
    assert late.find("r9") is None
    late.counts["misfit"] += 1
    assert late.counts == {"asked": 5, "joined": 1, "too_late": 1, "repeated": 1, "unknown": 1, "misfit": 1}
    assert late.heard == 5
    for number in range(50):
        keep(late, f"s{number}")
    assert len(late.state()[0]["gone"]) == 3, "keys that wait no longer are remembered for a while"


def test_time_is_that_of_the_source() -> None:
    late = bounded(max_count=100)
    keep(late, "a", 100.0)
    keep(late, "b", 105.0)
    late.expire(110.0)
    assert len(late) == 2
    late.expire(110.6)
    assert late.find("a") is None
    assert late.find("b") is not None
    keep(late, "c", 115.1)
    assert late.find("b") is None
    assert late.counts["too_late"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"waiting": [["a", None, None], ["a", None, None]]}, "'a' twice among its records that wait"),
        ({"waiting": [[{"list": 1}, None, None], ["b", None, None]]}, "name or label"),
        ({"waiting": [["a", 1, None], ["b", None, None]]}, "cannot be used"),
        ({"waiting": [["a", None], ["b", None, None]]}, "cannot be used"),
        ({"gone": ["xyz"]}, "cannot be used"),
        ({"counts": {"asked": -1}}, "'asked' is -1"),
        ({"sizes": np.array([2, 1])}, "do not have 4 values"),
        ({"columns": np.array([0, 1, 0, 7])}, "array 'columns' holds 7"),
        ({"values": np.array([1.0, np.nan, 1.0, 1.0])}, "array 'values' holds nan"),
        ({"own": np.zeros((2, 3))}, "array 'own' should have shape"),
        ({"widths": np.array([2, 3])}, "array 'widths' holds 3"),
        ({"decided": np.array([1, 2])}, "array 'decided' holds 2"),
        ({"doubts": np.zeros((2, 2))}, "array 'doubts' should have shape"),
        ({"names": [0, 0]}, "twice"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    late = bounded()
    for key in "ab":
        late.keep(key, record(2), prediction(sure=True), 1.0)
    about, arrays = late.state()
    about |= {name: value for name, value in change.items() if name in about}
    arrays |= {name: value for name, value in change.items() if name in arrays}
    with pytest.raises(BraidedError, match=message):
        bounded().load_state(about, arrays, 1)


def test_where_there_is_less_room_the_newest_are_restored() -> None:
    late = bounded()
    for number, key in enumerate("abc"):
        keep(late, key, float(number))
    about, arrays = late.state()
    smaller = bounded(max_count=2)
    smaller.load_state(about, arrays, 1)
    assert [one.key for one in smaller.entries()] == ["b", "c"]
    assert smaller.find("a") is None
    assert smaller.counts["too_late"] == 1


def test_looking_counts_nothing_and_a_label_is_remembered() -> None:
    late = bounded()
    keep(late, "a")
    before = dict(late.counts)
    assert late.get("a") is late.oldest()
    assert late.get("b") is None
    assert not late.label_came("a")
    assert late.counts == before
    late.take("a")
    assert late.label_came("a")
    for key in "bcde":
        keep(late, key)
    assert not late.label_came("b"), "it was dropped"
    late.take("b")
    assert late.label_came("b"), "its label was learned all the same"
    keep(late, "a")
    assert not late.label_came("a"), "another record of this key waits"
