"""The facts about the data sets hang together."""

from __future__ import annotations

import pytest

from braided.datasets.catalogue import CATALOGUE
from braided.datasets.protocol import PAPER_SETTINGS


def test_every_data_set_has_its_settings() -> None:
    assert set(CATALOGUE) == set(PAPER_SETTINGS)
    for name, dataset in CATALOGUE.items():
        assert dataset.name == name
        assert 0 < PAPER_SETTINGS[name].n_features <= dataset.features


@pytest.mark.parametrize("name", CATALOGUE)
def test_what_is_fetched_is_full_and_checked(name: str) -> None:
    form = CATALOGUE[name].download
    assert not form.sample
    for file in form.files:
        assert file.url is not None
        assert file.url.startswith("https://")
        assert file.sha256 is not None or file.records is not None
        assert file.sha256 is None or len(file.sha256) == 64
