"""The table of streams: the records all models see, figures that can be counted, and the run behind it."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError
from braided.estimators.params import CLASSIFICATION, REGRESSION
from braided.records import Records
from braided.streams import ArrayStream, read_whole
from command import reproduce
from conftest import real
from reproduction import runs
from reproduction.cells import Cell
from reproduction.command import write
from reproduction.comparisons import best_of_river, ranks
from reproduction.documents import by_stream
from reproduction.jobs import STREAMS as PROTOCOL
from reproduction.jobs import JobSpec, code_digest, data_digest, perform
from reproduction.measures import TIME
from reproduction.stream_models import DEFAULT
from reproduction.stream_sources import FILES, STREAMS, OneHot, StreamSource
from reproduction.tables import TABLES

TABLE = TABLES["streams"]


def cells() -> list[Cell]:
    return TABLE.cells("released")


def results(figures: dict[str, float], **more: Any) -> dict[JobSpec, dict[str, Any]]:
    """Results in which each method has this figure everywhere; .5 for one that is not named, .4 for what was last."""
    out = {}
    for cell in cells():
        value = figures.get(cell.method, 0.5)
        regression = STREAMS[cell.job.dataset].task == REGRESSION
        metrics = {"mae": value} if regression else {"error_rate": value, "log_loss": 2 * value}
        for job in cell.jobs():
            if not cell.method.startswith("last"):
                out[job] = {
                    "records": 100,
                    "metrics": metrics,
                    "last": 0.4,
                    "seconds": 0.02,
                    "wall_seconds": 1.0,
                } | more
    return out


def document(some: list[Cell], done: dict[JobSpec, dict[str, Any]]) -> dict[str, Any]:
    return TABLE.document("streams", some, done, None)


def test_every_stream_has_every_model_of_its_task_once() -> None:
    found = [(cell.job.dataset, cell.p_f, cell.method) for cell in cells()]
    assert len(set(found)) == len(found)
    per_stream = Counter((STREAMS[dataset].task, dataset, p_f) for dataset, p_f, _ in found)
    assert {count for (task, _, _), count in per_stream.items() if task == CLASSIFICATION} == {9 + 2}
    assert {count for (task, _, _), count in per_stream.items() if task == REGRESSION} == {8 + 2}
    assert len(per_stream) == 2 * len(STREAMS)


def test_runs_are_as_many_as_can_differ() -> None:
    runs = {(cell.job.dataset, cell.p_f, cell.method): cell.seeds for cell in cells()}
    assert runs["trump", 1.0, "river-linear"] == 1, "neither the records nor the model know the seed"
    assert runs["trump", 0.5, "river-linear"] == runs["trump", 1.0, DEFAULT] == 5
    assert (runs["weather", 0.5, "river-srp"], runs["weather", 0.5, DEFAULT]) == (1, 1)
    assert runs["phishing", 1.0, "river-nb"] == runs["phishing", 1.0, "river-srp"] == 5


@pytest.mark.parametrize("name", [name for name in STREAMS if name not in FILES])
def test_streams_of_river_have_the_records_they_say(name: str) -> None:
    assert len(STREAMS[name].load(None).table) == STREAMS[name].records


def test_files_have_the_records_they_say() -> None:
    data = real()
    if not all((data / "streams" / f"{name}.csv.gz").exists() for name in FILES):
        pytest.skip("electricity, weather or phoneme is not here: put them into $BRAIDED_DATA/streams")
    for name in FILES:
        assert len(STREAMS[name].load(data).table) == STREAMS[name].records


def tables_of(source: StreamSource, available: float, seed: int) -> Records:
    return read_whole(source.stream(available, seed, None)).table


def test_a_seed_gives_all_models_the_same_records_and_another_seed_others() -> None:
    for name in ("phishing", "agrawal-drift"):
        first, again, other = (tables_of(STREAMS[name], 0.5, seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first.values, again.values)
        assert first.targets == again.targets
        assert (np.isnan(first.values) != np.isnan(other.values)).any()
        assert (first.targets == other.targets) == STREAMS[name].in_time
        assert np.isnan(first.values).mean() == pytest.approx(0.5, abs=0.02)


def test_half_missing_hides_values_of_the_same_records() -> None:
    whole, masked = (tables_of(STREAMS["segments"], available, 3) for available in (1.0, 0.5))
    assert whole.targets == masked.targets
    there = ~np.isnan(masked.values)
    np.testing.assert_array_equal(whole.values[there], masked.values[there])


def test_a_nominal_column_is_missing_as_a_whole_and_said_to_be_one() -> None:
    batch = tables_of(STREAMS["chicks"], 0.5, 0)
    chicks = [i for i, name in enumerate(batch.names) if batch.categories.get(name, ("",))[0] == "chick"]
    assert len(chicks) == 50
    missing = np.isnan(batch.values[:, chicks])
    assert (missing.all(axis=1) == missing.any(axis=1)).all()
    assert set(batch.values[:, chicks][~missing.any(axis=1)].sum(axis=1)) == {1.0}
    assert {name for name in batch.names if name not in batch.categories} == {"time"}


def tiny(labels: list[Any]) -> StreamSource:
    values = np.arange(len(labels), dtype=float)[:, None]
    stream = ArrayStream("tiny", Records(("x",), values, labels))
    task = REGRESSION if isinstance(labels[0], float) else CLASSIFICATION
    return StreamSource("tiny", len(labels), lambda data_dir: stream, task)


def test_figures_of_guesses_are_those_counted_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STREAMS, "tiny", tiny(["a", "a", "b", "b", "b"]))
    found = perform(JobSpec("tiny", "majority", "default", available=1.0, protocol=PROTOCOL), None)
    # Said: nothing, a, a, a and after two of each whichever was first; the last label: nothing, a, a, b, b.
    assert found["metrics"]["error_rate"] == pytest.approx(4 / 5)
    assert found["last"] == pytest.approx(2 / 5)
    assert found["unanswered"] == 1
    # Of the four that had an answer: certain and right, certain and wrong, 1/3, 1/2.
    clip = np.finfo(float).eps
    losses = [-math.log(1 - clip), -math.log(clip), -math.log(1 / 3), -math.log(1 / 2)]
    assert found["metrics"]["log_loss"] == pytest.approx(np.mean(losses))
    monkeypatch.setitem(STREAMS, "tiny", tiny([1.0, 3.0, 5.0]))
    values = perform(JobSpec("tiny", "mean", "default", available=1.0, protocol=PROTOCOL), None)
    assert values["metrics"] == {"mae": pytest.approx((1 + 2 + 3) / 3)}
    assert values["last"] == pytest.approx((1 + 2 + 2) / 3)


def test_log_loss_is_that_of_the_models_own_probabilities() -> None:
    from river.naive_bayes import GaussianNB

    job = JobSpec("phishing", "river-nb", "default", seed=4, available=0.5, protocol=PROTOCOL, limit=300)
    stream = STREAMS["phishing"].stream(0.5, 4, None, 300)
    model, losses, errors = GaussianNB(), [], 0
    for batch in stream.batches():
        for values, label in zip(batch.values, batch.targets, strict=True):
            x = {name: value for name, value in zip(batch.names, values, strict=True) if value == value}
            said = model.predict_proba_one(x)
            errors += not said or max(said, key=lambda key: said[key]) != label
            if any(said.values()):
                losses.append(-math.log(min(max(said.get(label, 0.0), 2.0**-52), 1 - 2.0**-52)))
            model.learn_one(x, label)
    found = perform(job, None)
    assert found["metrics"]["log_loss"] == pytest.approx(np.mean(losses))
    assert found["metrics"]["error_rate"] == pytest.approx(errors / 300)
    assert found["unanswered"] == 300 - len(losses)


def test_time_is_that_of_work_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from braided.evaluation import Evaluation

    clock, worked = iter([0.0, 10.0]), iter([0.0, 5.0])
    monkeypatch.setattr(runs.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(runs.time, "process_time", lambda: next(worked))

    class Busy(Evaluation):
        def run(self, stream: Any) -> Any:
            yield from ()
            self.history.tally.add(*counted)
            self.seconds = 8.0

        def finish(self) -> None:
            pass

    from braided.estimators.river import RiverClassifier
    from braided.records import Predictions
    from braided.zoo.rivals import rival

    counted = (Predictions(np.ones((1, 1)), np.zeros((1, 0))), ["a"], ["a"])
    monkeypatch.setattr(runs, "Evaluation", Busy)
    found = runs.streams(
        RiverClassifier(rival("majority", "", 0)), ArrayStream("d", Records(("x",), np.zeros((1, 1)), ["a"]))
    )
    assert found["seconds"] == pytest.approx(4.0)


def test_what_was_last_is_counted_beside_and_has_neither_log_loss_nor_time() -> None:
    found = document(cells(), results({"majority": 0.7, "mean": 9.0}))
    by_method = by_stream(found, "error_rate")["weather", 0.5, ""]
    assert by_method["last label"]["error_rate"] == 0.4
    assert by_method["majority"]["error_rate"] == 0.7
    assert "log_loss" not in by_method["last label"]
    assert by_method["majority"]["log_loss"] == 1.4
    assert TIME not in by_method["majority"]
    assert by_method[DEFAULT][TIME] == pytest.approx(200.0)
    assert by_stream(found, "mae")["trump", 1.0, ""]["last value"]["mae"] == 0.4


def test_the_best_of_rivers_is_the_best_on_that_stream() -> None:
    found = document(cells(), results({DEFAULT: 0.2, "river-arf": 0.3}))
    best = {key: best_of_river(methods, "error_rate") for key, methods in by_stream(found, "error_rate").items()}
    assert {cell["method"] for cell in best.values() if cell} == {"river-arf"}
    assert best_of_river({}, "mae") is None


def test_ranks_and_means_by_model() -> None:
    found = document(cells(), results({DEFAULT: 0.2, "river-amf": 0.25, "majority": 0.8, "mean": 0.8}))
    assert ranks(found, "error_rate")[DEFAULT] == [1.0] * 22
    assert ranks(found, "error_rate")["river-amf"] == [2.0] * 22
    assert ranks(found, "error_rate")["last label"] == [3.0] * 22
    assert ranks(found, "log_loss")["river-nb"] == [6.0] * 22, "seven are equal: places 3 to 9"
    grid = TABLE.views[CLASSIFICATION](found)
    rows = {row[0][0]: dict(zip(grid.header, (lines[0] for lines in row), strict=True)) for row in grid.rows}
    assert (rows["default"]["errors, %"], rows["default"]["log loss"]) == ("**20.0**", "**0.40**")
    assert (rows["amf"]["ahead"], rows["amf"]["rank"]) == ("22/22", "2.0")
    assert rows["last label"]["log loss"] == ""
    numbers = TABLE.views[REGRESSION](found)
    assert numbers.rows[0][1] == ["**25.0**"], "of the error of the mean"


def test_the_best_are_bold_with_all_that_are_equal() -> None:
    found = document(cells(), results({DEFAULT: 0.2, "river-knn": 0.2}))
    grid = TABLE.details["error_rate"](found)
    row = dict(zip(grid.header, grid.rows[0], strict=True))
    assert row[""] == ["phishing"]
    assert (row[DEFAULT], row["river-knn"]) == (["**20.00%**", "± 0.00%"], ["**20.00%**", "± 0.00%"])
    assert row["river-nb"] == ["50.00%", "± 0.00%"]
    row_of_stream = TABLE.views[f"{CLASSIFICATION} streams"](found).rows[1]
    assert row_of_stream == [["phishing", "half missing"], ["**20.00%**"], ["50.00%"], ["**20.00%** knn"], ["40.00%"]]


def test_a_failed_run_is_shown_with_its_reason_counted_once_and_left_out_of_the_comparison(tmp_path: Path) -> None:
    done = results({DEFAULT: 0.2})
    for job in done:
        if job.dataset == "phishing" and job.model in {"majority", "river-srp"} and job.available == 1.0:
            done[job] = {"error": "ValueError: no luck"}
    found = document(cells(), done)
    assert sum(cell.get("failed", 0) for cell in found["cells"]) == 5 + 5
    assert "failed: ValueError: no luck" in TABLE.details["error_rate"](found).markdown()
    assert len(ranks(found, "error_rate")[DEFAULT]) == 21
    assert {path.name for path in write(found, tmp_path)} == {f"streams.{kind}" for kind in ("csv", "json", "png")}


def test_what_was_not_run_leaves_the_rest(tmp_path: Path) -> None:
    for some, done in (([cell for cell in cells() if cell.method == DEFAULT], results({})), (cells(), {})):
        found = document(some, done)
        assert all(view(found).header for view in {**TABLE.views, **TABLE.details}.values())
        assert len(write(found, tmp_path)) >= 2


def test_the_key_knows_the_code_the_stream_and_the_models_settings() -> None:
    job = JobSpec("trump", "modl", "default", available=1.0, protocol=PROTOCOL)
    keys = {replace(job, **change).key("d") for change in ({}, {"preset": "lean"}, {"available": 0.5}, {"seed": 1})}
    assert len(keys) == 4
    assert code_digest(PROTOCOL) != code_digest()
    assert data_digest("trump", None) != data_digest("chicks", None)
    assert job.run_options().task == REGRESSION


def test_a_file_that_is_not_here_is_an_error_that_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(BraidedError, match=r"stream 'weather' is not at .*weather.csv.gz.*get it from https://"):
        data_digest("weather", tmp_path)


def test_one_hot_keeps_other_columns_in_their_place() -> None:
    stream = ArrayStream("d", Records((0, "k"), np.array([[1.0, 3.0], [np.nan, 4.0]]), ["a", "b"]))
    batch = next(OneHot(stream, {"k": [3.0, 4.0]}).batches())
    assert batch.names == (0, "k=3", "k=4")
    np.testing.assert_array_equal(batch.values, [[1.0, 1.0, 0.0], [np.nan, 0.0, 1.0]])


def test_the_command_runs_quickly_and_resumes(tmp_path: Path) -> None:
    arguments = ["streams", "--quick", "--dataset", "chicks", "--seeds", "1", "--limit", "40"]
    arguments += ["--jobs", "1", "--out", str(tmp_path / "out")]
    reproduce(*arguments)
    document = json.loads((tmp_path / "out" / "streams.json").read_text())
    assert {(cell["method"], cell["p_f"], cell["records"]) for cell in document["cells"]} == {
        (cell.method, cell.p_f, 40) for cell in cells() if cell.job.dataset == "chicks"
    }
    means = [cell["mae"] for cell in document["cells"] if cell["method"] == "mean"]
    assert means[0] == means[1], "what is missing does not matter to the mean"
    assert "18 runs were done before, 0 are left" in reproduce(*arguments).stderr
    assert json.loads((tmp_path / "out" / "streams.json").read_text())["cells"] == document["cells"]
