"""`released` against the published tables."""

from __future__ import annotations

import pytest

from braided.run import Job, RunOptions
from conftest import real


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stream", "seeds", "published", "within"),
    [("svmguide3", 20, 288.0, 4.0), ("magic04", 10, 5124.7, 2 * 153.4)],
)
def test_released_is_within_two_standard_deviations(stream: str, seeds: int, published: float, within: float) -> None:
    job = Job(RunOptions(stream=stream, preset="released", seeds=seeds), real(stream))
    for _ in job.run():
        pass
    mean = job.document()["summary"]["modl"]["errors_mean"]
    assert abs(mean - published) < within, f"{mean} errors, published {published}"


def test_default_beats_the_published_model_on_the_small_sets() -> None:
    for stream, published in (("german", 286.1), ("svmguide3", 288.0)):
        job = Job(RunOptions(stream=stream, seeds=3), real(stream))
        for _ in job.run():
            pass
        assert job.document()["summary"]["modl"]["errors_mean"] < published
