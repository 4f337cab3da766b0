"""`braided feed --key`: a fleet is made and taught with the bits of `braided run --key`."""

from __future__ import annotations

from pathlib import Path

import pytest
from help_fleet_model import digest_of, exported, made
from help_serve import serving
from rich.console import Console

from braided import BraidedError
from braided.run import Job, RunOptions
from braided.serve.feed import FeedSettings, feed

RAW = ["machine;colour;t;y"] + [
    f"M-{i % 4};{('red', 'green', 'blue')[i % (2 + i // 80)]};{20 + i % 5},{i % 10};{'ab'[(i % 4 > 1) == (i % 5 > 2)]}"
    for i in range(150)
]
NUMBERS = ["a,machine,y", *(f"{i % 7 - 3.5},{i % 3},{(i % 7 - 3.5) * (i % 3 - 1)}" for i in range(150))]


def fed(settings: FeedSettings) -> int:
    told: list[str] = []
    return int(feed(settings, Console(quiet=True), told.append)["sent"])


@pytest.mark.parametrize(("rows", "share"), [(RAW, "braid"), (RAW, "none"), (NUMBERS, "braid"), (NUMBERS, "start")])
def test_a_fleet_is_made_and_taught(tmp_path: Path, rows: list[str], share: str) -> None:
    file = tmp_path / "records.csv"
    file.write_text("\n".join(rows) + "\n")
    job = Job(RunOptions(stream=str(file), key="machine", share=share))
    for _ in job.run():
        pass
    with serving(tmp_path / "state") as client:
        settings = FeedSettings(str(file), f"{client.base_url}/models/m", create=True, key="machine", share=share)
        assert (fed(settings), fed(settings)) == (150, 0)
        found = client.get("/models/m").json()
        assert (found["key"], found["share"], found["keys"]) == ("machine", share, 4 if rows is RAW else 3)
        assert (found["encode"] is None) == (rows is NUMBERS)
        assert digest_of(exported(client)) == job.document()["runs"][0]["state_sha256"]


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    file = tmp_path / "records.csv"
    file.write_text("\n".join([*NUMBERS[:20], "1.0,,1.0"]) + "\n")
    with serving(tmp_path / "state") as client:
        made(client, "fleet")
        client.put("/models/plain", json={})
        for name, key, words in (
            ("fleet", None, "the model is a fleet with key 'machine': give --key machine"),
            ("fleet", "a", "give --key machine"),
            ("plain", "machine", "--key machine: the model exists and is not a fleet: leave out --key"),
        ):
            with pytest.raises(BraidedError, match=words):
                fed(FeedSettings(str(file), f"{client.base_url}/models/{name}", key=key))
        with pytest.raises(BraidedError, match="there is no key in column 'machine'"):
            fed(FeedSettings(str(file), f"{client.base_url}/models/new", create=True, key="machine"))
        assert client.get("/models/new").status_code == 404
    with pytest.raises(BraidedError, match="--share start is for a fleet that is made: give --create and --key"):
        FeedSettings(str(file), "http://127.0.0.1:1/models/m", share="start")
