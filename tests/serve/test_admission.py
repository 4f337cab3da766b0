"""What is journalled can always be learned: a group admits exactly what the model accepts."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from help_serve import HTTPProblem
from hypothesis import given, settings
from hypothesis import strategies as st

from braided import Fleet, MODLClassifier, MODLRegressor
from braided.errors import BraidedError
from braided.learners import LinearConfig, LogisticConfig, OLVFConfig
from braided.serve.commit_group import CommitGroup
from braided.serve.group_draft import GroupDraft
from braided.serve.model_state import Model, ModelState
from braided.serve.records import RecordParser, Records
from braided.serve.settings import Limits
from braided.serve.write_request import WriteRequest
from braided.store import decode, state_digest

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
    parser = RecordParser(True, state.regression, LIMITS, state.features)
    try:
        for item in sent:
            parser.add(item)
        return parser.done()
    except HTTPProblem:
        return None


def learned_by(model: Model, batches: list[Records]) -> Model:
    twin = copy.deepcopy(model)
    for records in batches:
        for rows, table in records.tables():
            twin.learn_many(table, records.labels[rows], records.names)
    return twin


def digest(model: Any) -> str:
    return state_digest(model)


@pytest.mark.parametrize("kind", MODELS)
@given(groups=st.lists(requests, min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_admitted_is_learned_and_refused_changes_nothing(kind: str, groups: list[Any]) -> None:
    state = ModelState("m", MODELS[kind](), LIMITS)
    for number, sent in enumerate(groups, start=1):
        draft, before = GroupDraft(state, LIMITS), digest(state.model)
        admitted: list[Records] = []
        for batch in sent:
            records = parsed(state, batch)
            if records is None:
                continue
            try:
                draft.add(WriteRequest("learn", None, records))
            except HTTPProblem:
                with pytest.raises(BraidedError):
                    learned_by(state.model, [*admitted, records])
            else:
                admitted.append(records)
            assert digest(state.model) == before
        expected = digest(learned_by(state.model, admitted))
        group = draft.group()
        assert (group is None) == (not admitted)
        if group is not None:
            state.apply(number, CommitGroup.decode(group.encode()))
        assert digest(state.model) == expected


def test_a_wide_request_that_is_refused_late_leaves_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braided.serve.records._MAX_CELLS", 1)  # a table per record
    state = ModelState("m", MODELS["classes"](), LIMITS)
    draft = GroupDraft(state, LIMITS)
    wide = [{"x": {name: 1.0}, "y": 0} for name in "abcde"]
    records = parsed(state, wide)
    assert records is not None
    with pytest.raises(HTTPProblem, match="at most 4 features"):
        draft.add(WriteRequest("learn", None, records))
    fitting = parsed(state, [{"x": {name: 1.0}, "y": 0} for name in "wxyz"])
    assert fitting is not None
    assert draft.add(WriteRequest("learn", None, fitting))["learned"] == 4


def test_a_request_has_the_room_that_earlier_ones_of_its_group_let_expire() -> None:
    state = ModelState("m", MODELS["expiring"](), LIMITS)
    for number, sent in enumerate(([[{"a": 1.0}]], [[{}, {}], [dict.fromkeys("bcde", 1.0)]]), start=1):
        draft = GroupDraft(state, LIMITS)
        for batch in sent:
            records = parsed(state, [{"x": x, "y": 0} for x in batch])
            assert records is not None
            draft.add(WriteRequest("learn", None, records))
        group = draft.group()
        assert group is not None
        state.apply(number, group)
    assert state.model.feature_names == ["e", "b", "c", "d"]


def test_what_is_forgotten_is_no_longer_shown() -> None:
    state = ModelState("m", MODELS["expiring"](), LIMITS)
    for number in range(1, 30):
        draft = GroupDraft(state, LIMITS)
        records = parsed(state, [{"x": {"a": 1.0, f"junk {number}": 2.0}, "y": number % 2}])
        assert records is not None
        draft.add(WriteRequest("learn", None, records))
        group = draft.group()
        assert group is not None
        state.apply(number, group)
    known = {"a", "junk 27", "junk 28", "junk 29"}
    assert {item["name"]: item["count"] for item in state.stats.summary()["availability"]} == {
        name: 29 if name == "a" else 1 for name in known
    }
    assert {name for name, _ in state.stats.strip(10)} == known == state.features
    again = ModelState.restored(decode(state.snapshot(), "here", "MODLClassifier"), LIMITS)
    assert digest(again.model) == digest(state.model)
    assert again.stats.summary()["availability"] == state.stats.summary()["availability"]


def test_a_request_refused_for_its_names_leaves_nothing_of_its_key_and_its_class() -> None:
    model = MODLClassifier(learners=(LogisticConfig(),), max_features=2, max_classes=2)
    state = ModelState("m", Fleet(model, key="machine", share="none", max_keys=2), LIMITS)
    draft = GroupDraft(state, LIMITS)

    def add(key: str, label: str, **x: float) -> None:
        parser = state.parser(True, LIMITS)
        parser.add({"x": {"machine": key, **x}, "y": label})
        draft.add(WriteRequest("learn", None, parser.done()))

    add("pump", "up", a=1.0, b=2.0)
    with pytest.raises(HTTPProblem, match="feature number 3, and max_features is 2"):
        add("fan", "odd", c=1.0)
    add("mill", "down", a=1.0)
    assert draft.records == 2
