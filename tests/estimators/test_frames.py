"""Data frames: what goes in is read as arrays and records are, and what comes out is of the library that was given."""

from __future__ import annotations

import datetime
import math
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import narwhals
import numpy as np
import pytest
from river import compose, preprocessing

from braided import BraidedError, MODLClassifier, MODLRegressor
from braided.estimators import frames
from braided.learners import LogisticConfig, MLPConfig
from conftest import made_up

pd = pytest.importorskip("pandas", reason="pandas is not installed: run make test")
pl = pytest.importorskip("polars", reason="Polars is not installed: run make test")
pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed: run make test")

SMALL = (LogisticConfig(), MLPConfig(hidden=(8,)))
NAMES = ["wind", "age", "rpm", "load", "heat", "b"]


def classifier() -> MODLClassifier:
    return MODLClassifier(learners=SMALL, seed=3)


def regressor() -> MODLRegressor:
    return MODLRegressor(seed=3)


def nulled(values: Any) -> dict[str, list[float | None]]:
    return {
        name: [None if math.isnan(v) else v for v in column]
        for name, column in zip(NAMES, values.T.tolist(), strict=True)
    }


def nullable_pandas(values: Any) -> Any:
    return pd.DataFrame({name: pd.array(column, "Float64") for name, column in nulled(values).items()})


def chunked_arrow(values: Any) -> Any:
    half = len(values) // 2
    return pa.concat_tables([pa.table(nulled(part)) for part in (values[:half], values[half:]) if len(part)])


FRAMES: dict[str, Callable[[Any], Any]] = {
    "pandas": lambda values: pd.DataFrame(values, columns=NAMES),
    "pandas nullable": nullable_pandas,
    "polars": lambda values: pl.DataFrame(nulled(values)),
    "polars NaN": lambda values: pl.DataFrame(values, schema=NAMES),
    "pyarrow": lambda values: pa.table(nulled(values)),
    "pyarrow chunks": chunked_arrow,
}
SERIES: list[Callable[[Any], Any]] = [pd.Series, pl.Series, pa.array, lambda y: pa.chunked_array([y[:7], y[7:]]), list]
made = pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES.keys())


def columns_of(frame: Any) -> list[Any]:
    return list(frame.column_names if isinstance(frame, pa.Table) else frame.columns)


def array_of(frame: Any) -> Any:
    return np.column_stack([np.asarray(frame[name]) for name in columns_of(frame)])


def shuffled(frame: Any) -> Any:
    order = ["rpm", "b", "wind", "heat", "age", "load"]
    return frame[order] if isinstance(frame, pd.DataFrame) else frame.select(order)


@made
def test_frames_arrays_and_records_give_the_same_bits(make: Callable[[Any], Any]) -> None:
    values, places = made_up(90, classes=3)
    values[:20, 1] = np.nan  # a column that is all missing in the first chunk
    labels = np.array(["low", "mid", "high"])[places]
    by_frame, by_shuffled, by_array, by_record = (classifier() for _ in range(4))
    for (start, stop), series in zip(((0, 20), (20, 21), (21, 55), (55, 90)), SERIES, strict=False):
        X, y = values[start:stop], labels[start:stop]
        progress = by_frame.predict_learn_many(make(X), series(y))
        by_shuffled.learn_many(shuffled(make(X)), series(y))
        expected = by_array.predict_learn_many(X, y, names=NAMES)
        np.testing.assert_array_equal(array_of(progress.values), expected.values)
        np.testing.assert_array_equal(array_of(progress.own), expected.own)
        assert columns_of(progress.own) == ["olr", "mlp"]
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            by_record.learn_one({name: v for name, v in zip(NAMES, row, strict=True) if v == v}, label)
    assert by_frame.feature_names == by_shuffled.feature_names == by_record.feature_names
    assert by_frame.classes == by_record.classes
    expected = by_array.predict_proba_many(values, names=NAMES)
    for model in (by_frame, by_shuffled, by_record):
        for name, array in model.braid.state().items():
            np.testing.assert_array_equal(array, by_array.braid.state()[name], err_msg=name)
        np.testing.assert_array_equal(array_of(model.predict_proba_many(make(values))), expected)
        np.testing.assert_array_equal(array_of(model.predict_proba_many(shuffled(make(values)))), expected)


@made
def test_a_regressor_takes_and_gives_frames_too(make: Callable[[Any], Any]) -> None:
    values, _ = made_up(40)
    targets = np.nansum(values, axis=1)
    by_frame, by_array = regressor(), regressor()
    assert list(by_frame.predict_many(make(values))) == [0.0] * 40 or isinstance(make(values), pa.Table)
    progress = by_frame.predict_learn_many(make(values), pl.Series(targets))
    expected = by_array.predict_learn_many(values, targets, names=NAMES)
    np.testing.assert_array_equal(np.asarray(progress.values), expected.values[:, 0])
    np.testing.assert_array_equal(
        np.asarray(by_frame.predict_many(make(values))), by_array.predict_many(values, names=NAMES)
    )
    kind = {pd.DataFrame: pd.Series, pl.DataFrame: pl.Series, pa.Table: pa.ChunkedArray}[type(make(values))]
    assert type(by_frame.predict_many(make(values))) is kind
    assert type(progress.values) is kind


def test_what_comes_out_of_pandas_keeps_index_and_labels() -> None:
    values, places = made_up(30)
    frame = pd.DataFrame(values, columns=NAMES, index=pd.date_range("2024-01-01", periods=30))
    model = classifier()
    unknown = model.predict_many(frame)
    assert unknown.index.equals(frame.index)
    assert unknown.isna().all()
    assert model.predict_proba_many(frame).shape == (30, 0)
    model.learn_many(frame, pd.Series(places.astype(bool)))
    probabilities, labels = model.predict_proba_many(frame), model.predict_many(frame)
    assert probabilities.index.equals(frame.index)
    assert probabilities.columns.tolist() == model.classes
    assert probabilities.columns.dtype == bool
    assert labels.index.equals(frame.index)
    assert labels.dtype == bool
    assert labels.tolist() == model.predict_many(values, names=NAMES) == probabilities.idxmax(axis=1).tolist()


def test_labels_may_be_tuples_for_pandas() -> None:
    values, places = made_up(20)
    model = classifier()
    model.learn_many(pd.DataFrame(values), [("a", 1) if place else ("b", 2) for place in places])
    assert model.predict_proba_many(pd.DataFrame(values)).columns.tolist() == model.classes
    assert model.predict_many(pd.DataFrame(values)).tolist() == model.predict_many(values)


@pytest.mark.parametrize("make", [FRAMES["polars"], FRAMES["pyarrow"]], ids=["polars", "pyarrow"])
def test_elsewhere_columns_are_named_by_the_texts_of_the_labels(make: Callable[[Any], Any]) -> None:
    values, places = made_up(30)
    frame, model = make(values), classifier()
    model.learn_many(frame, places)
    assert columns_of(model.predict_proba_many(frame)) == [str(label) for label in model.classes]
    predicted = model.predict_many(frame)
    assert type(predicted) is (pl.Series if isinstance(frame, pl.DataFrame) else pa.ChunkedArray)
    assert (predicted.to_list() if isinstance(frame, pl.DataFrame) else predicted.to_pylist()) == model.predict_many(
        values, names=NAMES
    )


@pytest.mark.parametrize("make", [FRAMES["polars"], FRAMES["pyarrow"]], ids=["polars", "pyarrow"])
def test_labels_with_the_same_text_are_refused_where_they_would_be_columns(make: Callable[[Any], Any]) -> None:
    values, places = made_up(20)
    labels = [1 if place else "1" for place in places]
    model = classifier()
    model.learn_many(make(values[:1]), labels[:1])
    before = pickle.dumps(model)
    with pytest.raises(BraidedError, match="would both be column '1'"):
        model.predict_learn_many(make(values), labels)
    assert pickle.dumps(model) == before
    model.learn_many(make(values), labels)  # nothing is returned, so nothing collides
    with pytest.raises(BraidedError, match="would both be column '1'"):
        model.predict_proba_many(make(values))
    with pytest.raises(BraidedError, match=r"labels of type int, str do not fit one \w+ column: give a pandas.*array$"):
        model.predict_many(make(values))
    assert model.predict_proba_many(pd.DataFrame(values, columns=NAMES)).columns.tolist() == model.classes


NUMBERS: dict[str, Any] = {
    "pandas bool": pd.DataFrame({"v": [True, False, True]}),
    "pandas boolean": pd.DataFrame({"v": pd.array([True, None, False], "boolean")}),
    "pandas Int64": pd.DataFrame({"v": pd.array([2**60 + 1, None, 2], "Int64")}),
    "pandas uint64": pd.DataFrame({"v": np.array([2**64 - 1, 1, 0], "u8")}),
    "pandas float16": pd.DataFrame({"v": np.array([0.1, np.nan, 3], "f2")}),
    "pandas arrow int": pd.DataFrame({"v": pd.array([1, None, 2**60 + 1], pd.ArrowDtype(pa.int64()))}),
    "pandas arrow bool": pd.DataFrame({"v": pd.array([True, None, False], pd.ArrowDtype(pa.bool_()))}),
    "pandas arrow decimal": pd.DataFrame(
        {"v": pd.array([Decimal("0.10"), None, Decimal("2.35")], pd.ArrowDtype(pa.decimal128(9, 2)))}
    ),
    "pandas sparse": pd.DataFrame({"v": pd.arrays.SparseArray([1.0, np.nan, 0.0])}),
    "pandas objects": pd.DataFrame({"v": pd.Series([1, None, 2.5], dtype=object)}),
    "pandas mixed objects": pd.DataFrame({"v": pd.Series([True, pd.NA, Decimal("0.1")], dtype=object)}),
    "pandas no object": pd.DataFrame({"v": pd.Series([None, None, math.nan], dtype=object)}),
    "polars int": pl.DataFrame({"v": [2**60 + 1, None, 3]}),
    "polars bool": pl.DataFrame({"v": [True, None, False]}),
    "polars decimal": pl.DataFrame({"v": [Decimal("0.10"), None, Decimal("2.35")]}),
    "polars int128": pl.DataFrame({"v": pl.Series([2**60 + 1, None, 3], dtype=pl.Int128)}),
    "polars null": pl.DataFrame({"v": [None, None, None]}),
    "polars null and NaN": pl.DataFrame({"v": [None, math.nan, 1.5]}),
    "pyarrow int": pa.table({"v": [2**60 + 1, None, 3]}),
    "pyarrow int8": pa.table({"v": pa.array([1, None, 3], pa.int8())}),
    "pyarrow bool": pa.table({"v": [True, None, False]}),
    "pyarrow half": pa.table({"v": pa.array(np.array([0.1, 2, 3], "f2"))}),
    "pyarrow null": pa.table({"v": [None, None, None]}),
    "pyarrow decimal": pa.table({"v": [Decimal("0.10"), None, Decimal("98765432109876.545")]}),
    "pyarrow decimal256": pa.table({"v": pa.array([Decimal("0.10"), None, Decimal("2.35")], pa.decimal256(50, 2))}),
    "pyarrow batch": pa.record_batch({"v": [1.5, None, 3.0]}),
    "narwhals": narwhals.from_native(pl.DataFrame({"v": [1.5, None, 3.0]})),
}


@pytest.mark.parametrize("frame", NUMBERS.values(), ids=NUMBERS.keys())
def test_every_type_of_number_is_read_as_its_python_value(frame: Any) -> None:
    native = frame.to_native() if isinstance(frame, narwhals.DataFrame) else frame
    column = native["v"]
    python = column.to_pylist() if isinstance(native, pa.Table | pa.RecordBatch) else column.to_list()
    expected = [math.nan if value is None or value is pd.NA or value != value else float(value) for value in python]
    opened = frames.opened(frame)
    assert opened is not None
    values, names = opened.table(first=1)
    assert names == ["v"]
    np.testing.assert_array_equal(values[:, 0], expected)
    by_frame, by_record = classifier(), classifier()
    by_frame.learn_many(frame, ["a", "b", "a"])
    for value, label in zip(python, ["a", "b", "a"], strict=True):
        by_record.learn_one({"v": value}, label)
    assert by_frame.feature_names == by_record.feature_names
    assert pickle.dumps(by_frame.braid.state()) == pickle.dumps(by_record.braid.state())


def test_columns_of_many_types_side_by_side_stay_in_their_places() -> None:
    frame = pd.DataFrame(
        {
            "decimal": pd.array([Decimal("0.5"), None], pd.ArrowDtype(pa.decimal128(5, 1))),
            "int": [1, 2],
            "object": pd.Series([True, None], dtype=object),
            "nullable": pd.array([None, 2.5], "Float64"),
            "sparse": pd.arrays.SparseArray([np.nan, 4.0]),
            "float": np.array([np.nan, 5.0], "f4"),
        }
    )
    copy = frame.copy(deep=True)
    opened = frames.opened(frame)
    assert opened is not None
    values, names = opened.table(first=1)
    assert names == list(frame.columns)
    nan = math.nan
    np.testing.assert_array_equal(values, [[0.5, 1, 1, nan, nan, nan], [nan, 2, nan, 2.5, 4, 5]])
    classifier().learn_many(frame, ["a", "b"])
    pd.testing.assert_frame_equal(frame, copy)


def test_columns_with_a_type_are_not_read_cell_by_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> float:
        raise AssertionError("a cell was read on its own")

    monkeypatch.setattr(frames, "as_number", fail)
    objects = {name for name in NUMBERS if "object" in name} | {"pyarrow decimal256", "polars null", "pyarrow null"}
    for name, frame in NUMBERS.items():
        opened = frames.opened(frame)
        if name not in objects:
            assert opened is not None
            assert opened.table(first=1)[0].shape == (3, 1)


DAY = datetime.date(2024, 1, 1)
REFUSED: dict[str, tuple[Any, str]] = {
    # Text has a type of its own from pandas 3 on.
    "pandas text": (
        pd.DataFrame({"ok": [1.0], "v": ["red"]}),
        "('v' is 'red' in record 1: numbers|column 'v' holds text).*encode=True",
    ),
    "pandas string": (pd.DataFrame({"v": pd.array(["red"], "string")}), "column 'v' holds text.*encode it"),
    "pandas late text": (pd.DataFrame({"v": [1.0] * 200 + ["x"]}), "'v' is 'x' in record 201: numbers"),
    "pandas categories": (pd.DataFrame({"v": pd.Categorical([1])}), "column 'v' holds categories.*encode it"),
    "pandas dates": (pd.DataFrame({"v": pd.to_datetime(["2024"])}), "column 'v' holds dates.*seconds"),
    "pandas date objects": (pd.DataFrame({"v": [DAY]}), "'v' is datetime.date.*encode=True takes dates"),
    "pandas periods": (pd.DataFrame({"v": pd.period_range("2024", periods=1)}), "'v' is Period"),
    "pandas lists": (pd.DataFrame({"v": [[1.0]]}), "'v' is .1.0. in record 1: numbers"),
    "pandas complex": (pd.DataFrame({"v": [1j]}), "'v' is 1j in record 1: numbers"),
    "pandas infinite": (pd.DataFrame({"v": [math.inf]}), "feature 'v' is inf in record 1"),
    "pandas twice": (pd.DataFrame([[1, 2]], columns=["v", "v"]), "column 'v' twice"),
    "pandas 1 and True": (pd.DataFrame([[1, 2]], columns=[1, True]), "column 1 twice"),
    "pandas unnamed": (pd.DataFrame([[1, 2]], columns=["v", math.nan]), "column named nan: give every column a name"),
    "polars text": (pl.DataFrame({"v": ["red"]}), "column 'v' holds text.*encode it"),
    "polars categories": (pl.DataFrame({"v": pl.Series(["a"], dtype=pl.Categorical)}), "'v' holds categories.*encode"),
    "polars enum": (pl.DataFrame({"v": pl.Series(["a"], dtype=pl.Enum(["a"]))}), "'v' holds categories.*encode"),
    "polars dates": (pl.DataFrame({"v": [DAY]}), "column 'v' holds dates.*seconds"),
    "polars durations": (pl.DataFrame({"v": [datetime.timedelta(1)]}), "column 'v' holds dates or times.*seconds"),
    "polars lists": (pl.DataFrame({"v": [[1.0]]}), "column 'v' holds nested values.*unnest"),
    "polars structs": (pl.DataFrame({"v": [{"a": 1}]}), "column 'v' holds nested values.*unnest"),
    "polars bytes": (pl.DataFrame({"v": [b"a"]}), "column 'v' holds bytes.*decode"),
    "polars lazy": (pl.LazyFrame({"v": [1.0]}), "X is a lazy frame .LazyFrame.: collect it first"),
    "pyarrow text": (pa.table({"v": ["red"]}), "column 'v' holds text.*encode it"),
    "pyarrow dictionary": (pa.table({"v": pa.array([1]).dictionary_encode()}), "'v' holds categories.*encode it"),
    "pyarrow dates": (pa.table({"v": [DAY]}), "column 'v' holds dates.*seconds"),
    "pyarrow twice": (pa.table([[1.0], [2.0]], names=["v", "v"]), "column 'v' twice"),
}


@pytest.mark.parametrize(("frame", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_a_number_is_refused_by_column_with_the_remedy(frame: Any, message: str) -> None:
    model = classifier()
    n = 1 if isinstance(frame, pl.LazyFrame) else len(frame)
    assert model.learner_names == ["olr", "mlp"]  # which makes the learners
    before = pickle.dumps(model)
    with pytest.raises(BraidedError, match=message):
        model.learn_many(frame, ["a"] * n)
    with pytest.raises(BraidedError, match=message):
        model.predict_many(frame)
    assert pickle.dumps(model) == before


def test_record_numbers_in_errors_go_on_from_what_was_learned() -> None:
    model = classifier()
    model.learn_many(pl.DataFrame({"v": [1.0, 2.0]}), ["a", "b"])
    with pytest.raises(BraidedError, match="'x' in record 4"):
        model.learn_many(pd.DataFrame({"v": [1.0, "x"]}), ["a", "b"])


def test_names_beside_a_frame_are_refused() -> None:
    with pytest.raises(BraidedError, match="which has its own: rename its columns"):
        classifier().learn_many(pd.DataFrame({"v": [1.0]}), ["a"], names=["w"])


LABELS: dict[str, Any] = {
    "pandas": pd.Series(["a", "b", "a"], index=[7, 7, 9]),
    "pandas categories": pd.Series(["a", "b", "a"], dtype="category"),
    "pandas string": pd.Series(["a", "b", "a"], dtype="string"),
    "pandas array": pd.Categorical(["a", "b", "a"]),
    "pandas index": pd.Index(["a", "b", "a"]),
    "polars": pl.Series(["a", "b", "a"]),
    "polars categories": pl.Series(["a", "b", "a"], dtype=pl.Categorical),
    "pyarrow": pa.array(["a", "b", "a"]),
    "pyarrow dictionary": pa.array(["a", "b", "a"]).dictionary_encode(),
    "pyarrow chunks": pa.chunked_array([["a"], ["b", "a"]]),
    "narwhals": narwhals.from_native(pl.Series(["a", "b", "a"]), series_only=True),
}


@pytest.mark.parametrize("y", LABELS.values(), ids=LABELS.keys())
def test_labels_of_any_library_are_their_python_values(y: Any) -> None:
    model = classifier()
    model.learn_many(pd.DataFrame({"v": [1.0, 2.0, 3.0]}), y)
    assert model.classes == ["a", "b"]
    assert {type(label) for label in model.classes} == {str}


@pytest.mark.parametrize(
    "y",
    [pd.Series([5, 3, 5]), pd.array([5, 3, 5], "Int64"), pl.Series([5, 3, 5], dtype=pl.Int128), pa.array([5, 3, 5])],
    ids=["pandas", "nullable", "int128", "pyarrow"],
)
def test_whole_numbers_as_labels_stay_such(y: Any) -> None:
    model = classifier()
    model.learn_many(np.ones((3, 1)), y)
    assert model.classes == [5, 3]
    assert {type(label) for label in model.classes} == {int}


MISSING_LABELS: dict[str, Any] = {
    "pandas NA": pd.Series([1, None, 2], dtype="Int64"),
    "pandas None": pd.Series(["a", None, "b"]),
    "pandas NaN": pd.Series([1.0, math.nan, 2.0]),
    "pandas categories": pd.Series(["a", None, "b"], dtype="category"),
    "pandas NaT": pd.Series(pd.to_datetime(["2024", None, "2025"])),
    "list with NA": [1, pd.NA, 2],
    "polars null": pl.Series([1, None, 2]),
    "polars NaN": pl.Series([1.0, math.nan, 2.0]),
    "pyarrow null": pa.array(["a", None, "b"]),
}


@pytest.mark.parametrize("y", MISSING_LABELS.values(), ids=MISSING_LABELS.keys())
def test_a_missing_label_is_refused_and_nothing_is_learned(y: Any) -> None:
    for model in (classifier(), regressor()):
        model.learn_one({"v": 1.0}, 1)
        before = pickle.dumps(model)
        with pytest.raises(BraidedError, match=r"of record (2|3) is"):
            model.learn_many(pl.DataFrame({"new": [1.0, 2.0, 3.0]}), y)
        assert pickle.dumps(model) == before


def test_a_table_is_no_label() -> None:
    for y in (pd.DataFrame({"y": [1]}), pl.DataFrame({"y": [1]}), pa.table({"y": [1]}), pl.LazyFrame({"y": [1]})):
        with pytest.raises(BraidedError, match=r"y is a table .*: give one column of it"):
            classifier().learn_many(pd.DataFrame({"v": [1.0]}), y)


def test_a_regressor_takes_decimals_and_refuses_text() -> None:
    model = regressor()
    model.learn_many(pl.DataFrame({"v": [1.0, 2.0]}), pl.Series([Decimal("1.5"), Decimal("2.5")]))
    assert model.records_learned == 2
    with pytest.raises(BraidedError, match="the target of record 3 is 'x'"):
        model.learn_many(pl.DataFrame({"v": [1.0]}), pl.Series(["x"]))


@pytest.mark.parametrize(
    "frame", [pd.DataFrame({"v": []}), pl.DataFrame({"v": []}), pa.table({"v": pa.array([], pa.float64())})], ids=type
)
def test_a_frame_without_rows(frame: Any) -> None:
    for model in (classifier(), regressor()):
        model.learn_many(frame, [])
        assert len(model.predict_many(frame)) == 0
        model.learn_many(pd.DataFrame({"v": [1.0, 2.0]}), [1, 2])
        assert len(model.predict_many(frame)) == 0
        predicted = model.predict_many(frame)
        assert type(predicted).__name__ in ("Series", "ChunkedArray")
        assert model.records_learned == 2
    assert str(predicted.type if isinstance(frame, pa.Table) else predicted.dtype) in ("float64", "Float64", "double")


def test_a_frame_without_columns_has_empty_records() -> None:
    by_frame, by_record = classifier(), classifier()
    by_frame.learn_many(pd.DataFrame(index=range(3)), ["a", "b", "a"])
    for label in ("a", "b", "a"):
        by_record.learn_one({}, label)
    assert by_frame.predict_proba_many(pd.DataFrame(index=[5])).iloc[0].to_dict() == by_record.predict_proba_one({})
    by_frame.learn_many(pl.DataFrame(), [])
    with pytest.raises(BraidedError, match="X has 0 records and y has 1 labels"):
        by_frame.learn_many(pl.DataFrame(), ["a"])


def test_a_single_class_is_certain() -> None:
    model = classifier()
    for make in FRAMES.values():
        frame = make(np.ones((3, len(NAMES))))
        model.learn_many(frame, ["only"] * 3)
        np.testing.assert_array_equal(array_of(model.predict_proba_many(frame)), np.ones((3, 1)))


def test_columns_of_several_levels_are_tuples(tmp_path: Any) -> None:
    columns = pd.MultiIndex.from_product([["left", "right"], [1, 2]])
    frame = pd.DataFrame(np.arange(12.0).reshape(3, 4), columns=columns)
    model = classifier()
    model.learn_many(frame, ["a", "b", "a"])
    assert model.feature_names == [("left", 1), ("left", 2), ("right", 1), ("right", 2)]
    model.save(tmp_path / "model")
    loaded = MODLClassifier.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict_proba_many(frame), model.predict_proba_many(frame))


def test_rows_of_a_nullable_frame_are_records_too() -> None:
    frame = pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": pd.array([None, 2.5], "Float64")})
    by_frame, by_record = classifier(), classifier()
    by_frame.learn_many(frame, ["x", "y"])
    for record, label in zip(frame.astype(object).to_dict("records"), ["x", "y"], strict=True):
        by_record.learn_one(record, label)
    assert by_record.feature_names == ["a", "b"]
    assert pickle.dumps(by_frame.braid.state()) == pickle.dumps(by_record.braid.state())


@pytest.mark.parametrize("make", [FRAMES["pandas"], FRAMES["polars NaN"]], ids=["pandas", "polars"])
def test_in_a_pipeline_of_river(make: Callable[[Any], Any]) -> None:
    values, places = made_up(200, available=1.0)
    model = compose.Pipeline(preprocessing.StandardScaler(), classifier())
    for start in range(0, 200, 50):
        model.learn_many(make(values[start : start + 50]), pd.Series(places[start : start + 50]))
    assert (np.asarray(model.predict_many(make(values))) == places).mean() > 0.7
    assert array_of(model.predict_proba_many(make(values))).shape == (200, 2)
