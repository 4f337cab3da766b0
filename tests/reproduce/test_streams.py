"""The table of streams: the records all models see, figures that can be counted, sentences, and the run behind it."""

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
from braided.reproduce import layouts, pages, stream_models, streams, streams_run, streams_tables, work_share
from braided.reproduce.command import ReproductionOptions, screen_table
from braided.reproduce.documents import by_stream
from braided.reproduce.jobs import STREAMS as PROTOCOL
from braided.reproduce.jobs import JobSpec, code_digest, data_digest, perform
from braided.reproduce.stream_models import DEFAULT, LEAN
from braided.reproduce.stream_sources import FILES, STREAMS, OneHot, StreamSource
from braided.reproduce.tables import TABLES, Cell
from braided.streams import ArrayStream, read_whole
from command import braided
from conftest import real


def cells() -> list[Cell]:
    return TABLES["streams"].cells("released")


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
    monkeypatch.setattr(work_share.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(work_share.time, "process_time", lambda: next(worked))

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
    monkeypatch.setattr(streams_run, "Evaluation", Busy)
    found = streams_run.run(
        RiverClassifier(rival("majority", "", 0)), ArrayStream("d", Records(("x",), np.zeros((1, 1)), ["a"]))
    )
    assert found["seconds"] == pytest.approx(4.0)


def test_what_was_last_is_counted_beside_and_has_neither_log_loss_nor_time() -> None:
    found = streams.document(cells(), results({"majority": 0.7, "mean": 9.0}))
    by_method = by_stream(found, "error_rate")["weather", 0.5, ""]
    assert by_method["last label"]["error_rate"] == 0.4
    assert by_method["majority"]["error_rate"] == 0.7
    assert "log_loss" not in by_method["last label"]
    assert by_method["majority"]["log_loss"] == 1.4
    assert streams.TIME not in by_method["majority"]
    assert by_method[DEFAULT][streams.TIME] == pytest.approx(200.0)
    assert by_stream(found, "mae")["trump", 1.0, ""]["last value"]["mae"] == 0.4


def test_sentences_say_where_we_are_ahead_and_where_behind() -> None:
    done = results({DEFAULT: 0.2, LEAN: 0.6, "river-arf": 0.3})
    worse = {"error_rate": 0.35, "log_loss": 0.1}
    for job in done:
        if (job.dataset, job.available, job.preset, job.model) == ("weather", 0.5, "default", "modl"):
            done[job] = done[job] | {"metrics": worse}
        if (job.dataset, job.available, job.preset, job.model) == ("bananas", 1.0, "default", "modl"):
            done[job] = done[job] | {"metrics": {"error_rate": 0.3, "log_loss": 0.1}}
        if (job.dataset, job.available, job.preset, job.model) == ("waterflow", 1.0, "default", "modl"):
            done[job] = done[job] | {"metrics": {"mae": 0.45}}
    found = streams.document(cells(), done)
    assert found["summary"] == [
        "By errors the default is ahead of the best of River's models in 20 of 22 cells, and `lean` in 0; the default "
        "is level on bananas; the default is behind on weather (half missing).",
        "By log loss the default is ahead of the best of River's models in 22 of 22 cells, and `lean` in 0.",
        "By mean absolute error the default is ahead of the best of River's models in 11 of 12 cells, and `lean` in 0; "
        "the default is behind on waterflow.",
        "By errors a guess that looks at no feature is never ahead of the default.",
        "By mean absolute error a guess that looks at no feature is ahead of the default: the last value on waterflow.",
    ]


def test_ranks_and_means_by_model() -> None:
    found = streams.document(cells(), results({DEFAULT: 0.2, "river-amf": 0.25, "majority": 0.8, "mean": 0.8}))
    assert found["ranks"]["error_rate"][DEFAULT] == [1.0] * 22
    assert found["ranks"]["error_rate"]["river-amf"] == [2.0] * 22
    assert found["ranks"]["error_rate"]["last label"] == [3.0] * 22
    assert found["ranks"]["log_loss"]["river-nb"] == [6.0] * 22, "seven are equal: places 3 to 9"
    grid = streams_tables.by_model(found, CLASSIFICATION)
    rows = {row[0][0]: dict(zip(grid.header, (lines[0] for lines in row), strict=True)) for row in grid.rows}
    assert (rows["default"]["errors, %"], rows["default"]["log loss"]) == ("**20.0**", "**0.40**")
    assert (rows["amf"]["ahead"], rows["amf"]["rank"]) == ("22/22", "2.0")
    assert rows["last label"]["log loss"] == ""
    numbers = streams_tables.by_model(found, REGRESSION)
    assert numbers.rows[0][1] == ["**25.0**"], "of the error of the mean"


def test_the_best_are_bold_with_all_that_are_equal() -> None:
    found = streams.document(cells(), results({DEFAULT: 0.2, "river-knn": 0.2}))
    grid = streams_tables.by_metric(found, "error_rate")
    row = dict(zip(grid.header, grid.rows[0], strict=True))
    assert row[""] == ["phishing"]
    assert (row[DEFAULT], row["river-knn"]) == (["**20.00%**", "± 0.00%"], ["**20.00%**", "± 0.00%"])
    assert row["river-nb"] == ["50.00%", "± 0.00%"]
    beside = streams_tables.beside(found, CLASSIFICATION).rows[1]
    assert beside == [["phishing", "half missing"], ["**20.00%**"], ["50.00%"], ["**20.00%** knn"], ["40.00%"]]


def test_a_failed_run_is_shown_with_its_reason_counted_once_and_left_out_of_the_comparison() -> None:
    done = results({DEFAULT: 0.2})
    for job in done:
        if job.dataset == "phishing" and job.model in {"majority", "river-srp"} and job.available == 1.0:
            done[job] = {"error": "ValueError: no luck"}
    found = streams.document(cells(), done)
    assert sum(cell.get("failed", 0) for cell in found["cells"]) == 5 + 5
    document = found | {"command": "c", "jobs": 4, "seconds": 4.0, "circumstances": pages.provenance()}
    assert "failed: ValueError: no luck" in pages.markdown([document], "results")
    assert "ahead of the best of River's models in 22 of 22 cells" in found["summary"][0]
    assert len(found["ranks"]["error_rate"][DEFAULT]) == 21
    assert pages.picture(document).startswith(b"\x89PNG")
    assert screen_table(document).row_count == 2 * len(STREAMS)


def test_what_was_not_run_leaves_the_rest() -> None:
    found = streams.document([cell for cell in cells() if cell.method == DEFAULT], results({}))
    assert found["beside"] == []
    assert layouts.of("streams").sections(found)
    assert pages.picture(found).startswith(b"\x89PNG")
    nothing = streams.document(cells(), {})
    assert nothing["summary"] == []
    assert layouts.of("streams").sections(nothing)
    assert pages.picture(nothing).startswith(b"\x89PNG")


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


def test_weights_of_the_time_left_follow_the_models() -> None:
    whole = stream_models.seconds("river-srp", "default", "weather", None)
    assert whole > 5 * stream_models.seconds("modl", "default", "weather", None)
    assert stream_models.seconds("river-srp", "default", "weather", 1_000) == pytest.approx(whole * 1_000 / 18_159)
    quick = ReproductionOptions(("streams",), quick=True).cells("streams")
    work = sum(
        stream_models.seconds(job.model, job.preset, job.dataset, job.limit)
        for job in {job for cell in quick for job in cell.jobs()}
    )
    assert work < 120, "a minute's worth, on two cores"


def test_one_hot_keeps_other_columns_in_their_place() -> None:
    stream = ArrayStream("d", Records((0, "k"), np.array([[1.0, 3.0], [np.nan, 4.0]]), ["a", "b"]))
    batch = next(OneHot(stream, {"k": [3.0, 4.0]}).batches())
    assert batch.names == (0, "k=3", "k=4")
    np.testing.assert_array_equal(batch.values, [[1.0, 1.0, 0.0], [np.nan, 0.0, 1.0]])


def test_the_command_runs_quickly_resumes_and_gives_json(tmp_path: Path) -> None:
    arguments = ["reproduce", "streams", "--quick", "--dataset", "chicks", "--seeds", "1", "--limit", "40"]
    arguments += ["--jobs", "1", "--out", str(tmp_path / "out"), "--json"]
    document = json.loads(braided(*arguments).stdout)
    assert {(cell["method"], cell["p_f"], cell["records"]) for cell in document["cells"]} == {
        (cell.method, cell.p_f, 40) for cell in cells() if cell.job.dataset == "chicks"
    }
    means = [cell["mae"] for cell in document["cells"] if cell["method"] == "mean"]
    assert means[0] == means[1], "what is missing does not matter to the mean"
    again = braided(*arguments)
    assert "18 runs were done before, 0 are left" in again.stderr
    assert json.loads(again.stdout)["cells"] == document["cells"]
