"""What is refused before a query of Spark's starts, each in one sentence; no Spark is needed to say so."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from river import linear_model

from braided import BraidedError, Fleet, MODLClassifier, MODLRegressor
from braided.learners import LogisticConfig, RiverLearner
from braided.spark import fleet_stream, prepare
from braided.spark.columns import Columns
from braided.spark.session import PROVIDER_SETTING, ROCKSDB, check_session, send_file
from braided.spark.stream import _check_keys, chosen_columns, made_fleet, saved_without_keys

KINDS = {
    "machine": "string", "y": "int", "t": "timestamp", "a": "double", "b": "decimal(10,2)", "text": "string",
    "list": "array<double>", "id": "bigint",
}  # fmt: skip
GIVEN: dict[str, Any] = {
    "key": "machine", "target": "y", "order": "t", "weight": None, "features": ["a", "b"], "keep": "id",
}  # fmt: skip


def fleet(regression: bool = False, **settings: Any) -> Fleet:
    model = MODLRegressor(**settings) if regression else MODLClassifier(**settings)
    return Fleet(model, key="machine", share="none")


def test_what_is_what() -> None:
    given = {**GIVEN, "features": ["a", "b", "text"], "keep": ["id", "t", "machine"]}
    encoding = fleet(encode=True)
    encoding.learn_one({"machine": "pump", "a": 1.0, "text": "red"}, 1)
    columns = chosen_columns(KINDS, encoding, **given)
    assert columns == Columns("machine", "y", None, ("t",), ("a", "b", "text"), ("t", "id"), KINDS, regression=False)
    plain = {name: kind for name, kind in KINDS.items() if name not in ("list", "text")}
    assert chosen_columns(plain, fleet(), **{**GIVEN, "features": None}).features == ("a", "b")
    assert columns.answers() == (
        "`key` string, `kept_0` string, `kept_1` string, `prediction` string, `probabilities` map<string,double>"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key": "machin"}, "the stream has no column 'machin', which key names: it has machine, y, t, a"),
        ({"target": "label"}, "the stream has no column 'label', which target names"),
        ({"order": "when"}, "the stream has no column 'when', which order names"),
        ({"order": ()}, "order names no column"),
        ({"order": ["t", "t"]}, "order names a column twice"),
        ({"order": 3}, "order has 3: give names of columns"),
        ({"keep": ["nothing"]}, "the stream has no column 'nothing', which keep names"),
        ({"features": []}, "no column is left to be a feature"),
        ({"features": ["a", "y"]}, "column 'y' is to be two of key, target, weight and feature"),
        ({"weight": "machine"}, "column 'machine' is to be two of key, target, weight and feature"),
        ({"target": "a", "features": ["b"]}, "column 'a' is of type double, and cannot be the target: cast it to text"),
        ({"key": "list"}, "column 'list' is of type array<double>, and cannot be the key: cast it to text, booleans"),
        ({"order": "list"}, "column 'list' is of type array<double>, and cannot be the order"),
        ({"keep": "list"}, "column 'list' is of type array<double>, and cannot be kept"),
        ({"weight": "text"}, "column 'text' is of type string, and cannot be the weight: cast it to numbers"),
        (
            {"features": ["text"]},
            "a feature: cast it to numbers or booleans, or give a model with encode=True",
        ),
        ({"features": ["list"]}, "column 'list' is of type array<double>, and cannot be a feature"),
        ({"features": ["t"]}, "column 't' is of type timestamp, and cannot be a feature"),
    ],
)
def test_columns_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BraidedError) as refused:
        chosen_columns(KINDS, fleet(), **{**GIVEN, **change})
    assert message in str(refused.value)


def test_targets_and_names_of_answers() -> None:
    with pytest.raises(BraidedError, match="column 'text' is of type string, and cannot be the target: cast it to a n"):
        chosen_columns(KINDS, fleet(regression=True), **{**GIVEN, "target": "text"})
    with pytest.raises(BraidedError, match="column 'prediction' would be there twice"):
        chosen_columns({**KINDS, "prediction": "int"}, fleet(), **{**GIVEN, "keep": "prediction"})
    shared = Fleet(MODLClassifier(preset="lean"), key="machine")
    shared.learn_one({"machine": 1, "load": 1.0}, "x")
    with pytest.raises(BraidedError, match="no feature of the stream is known to the fleet, which has load"):
        chosen_columns(KINDS, shared, **GIVEN)


@pytest.mark.parametrize(
    ("labels", "fitting"), [(("x", "y"), "string"), ((0, 1), "int"), ((0, 1), "bigint"), ((False, True), "boolean")]
)
def test_a_target_of_another_type_than_the_classes_is_refused(labels: tuple[Any, Any], fitting: str) -> None:
    known = fleet(preset="lean")
    for label in labels:
        known.learn_one({"machine": "pump", "a": 1.0}, label)
    for kind in ("string", "int", "bigint", "boolean"):
        if kind == fitting or {kind, fitting} == {"int", "bigint"}:
            chosen_columns({**KINDS, "y": kind}, known, **GIVEN)
            continue
        with pytest.raises(BraidedError) as refused:
            chosen_columns({**KINDS, "y": kind}, known, **GIVEN)
        listed = ", ".join(map(repr, labels))
        assert str(refused.value) == f"the fleet has classes such as {listed}, and column 'y' is {kind}: cast it"


@pytest.mark.parametrize(
    ("key", "refused"), [("pump", {"int", "boolean"}), (7, {"boolean"}), (-7, {"boolean"}), (True, {"int"})]
)
def test_a_key_of_another_type_than_the_keys_is_refused(key: Any, refused: set[str]) -> None:
    known = fleet(preset="lean")
    known.learn_one({"machine": key, "a": 1.0}, 1)
    for kind in ("string", "int", "boolean"):
        columns = chosen_columns({**KINDS, "machine": kind}, known, **GIVEN)
        if kind not in refused:
            _check_keys(columns, known)
            continue
        with pytest.raises(BraidedError, match=f"has keys such as '.*', and column 'machine' is {kind}: cast it"):
            _check_keys(columns, known)


def test_text_that_the_fleet_has_not_learned_is_refused() -> None:
    encoding = fleet(encode=True)
    encoding.learn_one({"machine": "pump", "a": 1.0}, 1)
    with pytest.raises(BraidedError, match="column 'text' is text, and the fleet has learned no such column"):
        chosen_columns(KINDS, encoding, **{**GIVEN, "features": ["a", "text"]})


def test_what_a_model_may_be() -> None:
    for share in (None, "braid", "start"):
        with pytest.raises(BraidedError, match=f"share is {share!r} with a model alone"):
            made_fleet(MODLClassifier(), "machine", share)
    with pytest.raises(BraidedError, match="the model has encode=True, and what columns of text mean is learned"):
        made_fleet(MODLClassifier(encode=True), "machine", "none")
    with pytest.raises(BraidedError, match="the fleet has seen no column that encode=True could settle: let it learn"):
        made_fleet(fleet(encode=True), None, None)
    with pytest.raises(BraidedError, match="key is None: name the column"):
        made_fleet(MODLClassifier(), None, "none")
    with pytest.raises(BraidedError, match="model is 3: give a Fleet, the file of one"):
        made_fleet(3, "machine", None)
    with pytest.raises(BraidedError, match="has learned nothing that keys could share"):
        made_fleet(Fleet(MODLClassifier(), key="machine"), None, None)
    with pytest.raises(BraidedError, match="share is 'braid', and the fleet has 'none'"):
        made_fleet(fleet(), None, "braid")
    given = Fleet(MODLClassifier(preset="lean"), key="machine")
    given.learn_one({"machine": 1, "load": 1.0}, "x")
    assert made_fleet(given, None, None).shared_is_held
    assert not given.shared_is_held, "the one that was given is left as it is"


def test_learners_that_cannot_be_sent_are_refused() -> None:
    model = MODLClassifier(learners=[LogisticConfig(), RiverLearner(linear_model.LogisticRegression())])
    with pytest.raises(BraidedError, match="learner 'river' holds a River model"):
        saved_without_keys(Fleet(model, key="machine", share="none"))


class Context:
    """A session as far as it is looked at."""

    master = "local[2]"

    def __init__(self, provider: str = ROCKSDB, python: str = sys.executable) -> None:
        self.conf = {PROVIDER_SETTING: provider}
        self.pythonExec = python
        self._sc = self.sparkContext = self
        self.sent: list[str] = []

    def addFile(self, path: str) -> None:  # noqa: N802
        self.sent.append(path)


def test_sessions_that_do_not_fit_are_refused() -> None:
    check_session(Context())
    with pytest.raises(BraidedError, match="the state store is HDFSBackedStateStoreProvider, and fleets need RocksDB"):
        check_session(Context("org.apache.spark.HDFSBackedStateStoreProvider"))
    with pytest.raises(BraidedError, match="workers would run /bin/sh, and braided is installed for"):
        check_session(Context(python="/bin/sh"))
    with pytest.raises(BraidedError, match="workers would run no-such-python"):
        check_session(Context(python="no-such-python"))
    remote = Context()
    remote._sc = None  # type: ignore[assignment]
    with pytest.raises(BraidedError, match="the session is one of Spark Connect, which fleets cannot use"):
        check_session(remote)
    cluster = Context(python="/opt/python")
    cluster.master = "yarn"
    check_session(cluster)


def test_what_is_sent_twice_is_one_file() -> None:
    one, other = Context(), Context()
    assert send_file(one, b"a fleet") == send_file(one, b"a fleet") != send_file(one, b"another")
    send_file(other, b"a fleet")
    assert one.sent[0] == one.sent[1] != other.sent[0]
    assert [Path(path).read_bytes() for path in one.sent] == [b"a fleet", b"a fleet", b"another"]


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "braided.spark.processor", raising=False)
        for module in ("pyspark", "pyspark.sql", "pyspark.sql.streaming"):
            patch.setitem(sys.modules, module, None)
        with pytest.raises(BraidedError, match=r"pyspark is not installed: pip install 'braided\[spark\]'"):
            prepare(None)
        with pytest.raises(BraidedError, match=r"pyspark is not installed: pip install 'braided\[spark\]'"):
            fleet_stream(None, model=MODLClassifier(), target="y", order="t", key="machine", share="none")
    pytest.importorskip("pyspark", reason="pyspark is not installed: run make test EXTRAS=all")
    with pytest.raises(BraidedError, match="df is None: give a DataFrame of Spark's"):
        fleet_stream(None, model=MODLClassifier(), target="y", order="t", key="machine", share="none")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BraidedError, match="there is no Java, which Spark needs: install version 17"):
        prepare(None)
