"""`braided datasets` from the outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from unittest import mock

import pytest

from command import braided
from conftest import real


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def datasets(cache: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {"XDG_CACHE_HOME": str(cache), "BRAIDED_DATA": ""}
    environment |= {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    with mock.patch.dict(os.environ, environment):
        return braided("datasets", *arguments, code=code)


def refused(done: subprocess.CompletedProcess[str], message: str) -> None:
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert message in done.stderr


def test_list_where_nothing_is_here(cache: Path, tmp_path: Path) -> None:
    done = datasets(cache, "list", "--data-dir", str(tmp_path))
    assert "not here" in done.stdout
    rows = {row["name"]: row for row in json.loads(datasets(cache, "list", "--json").stdout)}
    assert rows["higgs"] == {
        "name": "higgs",
        "records": 11_000_000,
        "features": 28,
        "features_used": 21,
        "classes": 2,
        "origin": "the UCI repository, https://archive.ics.uci.edu/dataset/280 (HIGGS)",
        "files": [],
        "sample": None,
    }


def test_list_and_verify_what_is_here(cache: Path, excerpts: Path, tmp_path: Path) -> None:
    rows = json.loads(datasets(cache, "list", "--json", "--data-dir", str(excerpts)).stdout)
    kinds = {row["name"]: row["sample"] for row in rows}
    assert kinds["german"] is False
    assert kinds["imnist"] is False
    assert {name for name, sample in kinds.items() if sample} == {"higgs", "susy", "cifar10"}
    # The excerpt has the official file's size, and other numbers.
    refused(datasets(cache, "verify", "german", "--data-dir", str(excerpts), code=2), "another SHA-256")
    shutil.copytree(excerpts / "german", tmp_path / "german")
    copy = tmp_path / "german" / "german.data-numeric"
    copy.write_bytes(copy.read_bytes()[:-100])
    refused(datasets(cache, "verify", "--data-dir", str(tmp_path), code=2), "101,900 bytes where 102,000")


def test_the_official_file_is_right() -> None:
    """Without its own cache, so that a fetched file is found too."""
    folder = real("german")
    done = braided("datasets", "verify", "german", "--data-dir", str(folder))
    assert "german: full, right by SHA-256" in done.stdout, done.stderr


def test_the_cache_is_looked_in_last_and_samples_after_full_files(cache: Path, tmp_path: Path) -> None:
    for folder, file in ((cache / "braided", "HIGGS.csv"), (tmp_path / "d", "higgs_10k.csv.gz")):
        (folder / "higgs").mkdir(parents=True)
        (folder / "higgs" / file).write_text("1,2\n")
    rows = json.loads(datasets(cache, "list", "--json", "--data-dir", str(tmp_path / "d")).stdout)
    higgs = next(row for row in rows if row["name"] == "higgs")
    assert (higgs["sample"], Path(higgs["files"][0]).name) == (False, "HIGGS.csv")
    refused(datasets(cache, "verify", "higgs", code=2), "1 records where 11,000,000 are expected")


def test_one_line_for_what_cannot_be_done(cache: Path, tmp_path: Path) -> None:
    refused(datasets(cache, "fetch", "german", "--to", str(tmp_path), code=2), "cannot be reached: go online")
    assert list((tmp_path / "german").iterdir()) == []
    refused(datasets(cache, "fetch", "iris", code=2), "data set 'iris' is not known: use one of german")
    refused(datasets(cache, "verify", "magic04", code=2), "run `braided datasets fetch magic04`")
