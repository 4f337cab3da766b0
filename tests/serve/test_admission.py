"""A request is learned whole or refused whole, alone or in a group, when it comes and when the log is replayed."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from help_serve import HTTPProblem, saved_and_restored
from hypothesis import given, settings
from hypothesis import strategies as st

from braided import Fleet, MODLClassifier, MODLRegressor
from braided.errors import BraidedError
from braided.learners import LinearConfig, LogisticConfig, OLVFConfig
from braided.records import Records
from braided.serve.requests import WriteRequest
from braided.serve.settings import Limits
from braided.serve.state import ModelState, Outcome
from braided.serve.storage import Storage
from braided.store import state_digest

LIMITS = Limits(text=8)
MODELS: dict[str, Any] = {
    "classes": lambda: MODLClassifier(learners=(LogisticConfig(),), max_features=4, max_classes=3),
    "two classes": lambda: MODLClassifier(learners=(OLVFConfig(),), max_features=4, max_classes=3),
    "numbers": lambda: MODLRegressor(learners=(LinearConfig(),), max_features=4),
    "expiring": lambda: MODLClassifier(learners=(LogisticConfig(),), max_features=4, max_classes=9, expire_after=3),
}
numbers = st.one_of(
    st.none(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**70), 2**70),
    st.sampled_from([1.7976931348623157e308, -1.7976931348623157e308, 5e-324, -0.0, 10**400]),
)  # fmt: skip
labels = st.one_of(
    st.sampled_from([0, 1, 1.0, True, False, -0.0, "a", "b", "1", 2**53, 2**53 + 1, 1e308, -1e308]),
    st.floats(), st.text(max_size=9), st.none(), st.just([1]),
)  # fmt: skip
items = st.fixed_dictionaries({"x": st.dictionaries(st.sampled_from("abcdef"), numbers, max_size=4), "y": labels})
requests = st.lists(st.lists(items, min_size=1, max_size=4), min_size=1, max_size=5)


def parsed(state: ModelState, sent: list[dict[str, Any]]) -> Records | None:
    parser = state.parser(True, LIMITS)
    try:
        for item in sent:
            parser.add(item)
        found = parser.done()
    except HTTPProblem:
        return None
    assert isinstance(found, Records)
    return found


def learn(state: ModelState, *batches: Sequence[dict[str, Any]]) -> list[Outcome]:
    """One request for each batch, in one group."""
    found = [parsed(state, list(batch)) for batch in batches]
    assert None not in found
    return state.apply([WriteRequest("learn", None, records) for records in found])


def logged(requests: list[WriteRequest]) -> list[WriteRequest]:
    """The requests as they are read from the log."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.db"
        with closing(Storage.create(path, "m", "0" * 32, 0.0, "none")) as storage:
            storage.append(requests)
            return [request for request, *_ in storage.requests(0)]


@pytest.mark.parametrize("kind", MODELS)
@given(groups=st.lists(requests, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_what_the_model_takes_is_learned_and_what_it_refuses_changes_nothing(kind: str, groups: list[Any]) -> None:
    model = MODELS[kind]()
    together, replayed = ModelState("m", MODELS[kind](), LIMITS), ModelState("m", MODELS[kind](), LIMITS)
    for sent in groups:
        batches = [records for batch in sent if (records := parsed(together, batch)) is not None]
        if not batches:
            continue
        expected = []
        for records in batches:
            trial = copy.deepcopy(model)
            try:
                trial.learn_many(records.values, records.known_targets, records.names)
            except BraidedError:
                expected.append(0)
            else:
                model = trial
                expected.append(len(records))
        asked = [WriteRequest("learn", None, records) for records in batches]
        for state, outcomes in (
            (together, together.apply(asked)),
            (replayed, [replayed.apply([request])[0] for request in logged(asked)]),
        ):
            learned = [0 if isinstance(one, HTTPProblem) else one["learned"] for one in outcomes]
            assert learned == expected
            assert state_digest(state.model) == state_digest(model)


def test_a_request_has_the_room_that_earlier_ones_of_its_group_let_expire() -> None:
    state = ModelState("m", MODELS["expiring"](), LIMITS)
    learn(state, [{"x": {"a": 1.0}, "y": 0}])
    learn(state, [{"x": {}, "y": 0}, {"x": {}, "y": 0}], [{"x": dict.fromkeys("bcde", 1.0), "y": 0}])
    assert state.model.feature_names == ["e", "b", "c", "d"]


def test_what_is_forgotten_is_no_longer_shown() -> None:
    state = ModelState("m", MODELS["expiring"](), LIMITS)
    for number in range(1, 30):
        learn(state, [{"x": {"a": 1.0, f"junk {number}": 2.0}, "y": number % 2}])
    known = {"a", "junk 27", "junk 28", "junk 29"}
    assert {item["name"]: item["count"] for item in state.stats.summary()["availability"]} == {
        name: 29 if name == "a" else 1 for name in known
    }
    assert {name for name, _ in state.stats.strip(10)} == known == state.features
    again = saved_and_restored(state)
    assert state_digest(again.model) == state_digest(state.model)
    assert again.stats.summary()["availability"] == state.stats.summary()["availability"]


def test_a_request_refused_for_its_names_leaves_nothing_of_its_key_and_its_class() -> None:
    model = MODLClassifier(learners=(LogisticConfig(),), max_features=2, max_classes=2)
    state = ModelState("m", Fleet(model, key="machine", share="none", max_keys=2), LIMITS)
    first, refused, last = learn(
        state,
        [{"x": {"machine": "pump", "a": 1.0, "b": 2.0}, "y": "up"}],
        [{"x": {"machine": "fan", "c": 1.0}, "y": "odd"}],
        [{"x": {"machine": "mill", "a": 1.0}, "y": "down"}],
    )
    assert isinstance(refused, HTTPProblem)
    assert "feature number 3, and max_features is 2" in refused.detail
    assert not isinstance(first, HTTPProblem)
    assert not isinstance(last, HTTPProblem)
    assert (first["records"], last["records"]) == (1, 2)
    assert state.classes == ["up", "down"]
