"""The facts about the data sets hang together."""

from __future__ import annotations

import pytest

from braided.datasets.catalogue import CATALOGUE
from braided.datasets.haphazard_files import LAYOUTS
from braided.datasets.protocol import PAPER_SETTINGS


def test_every_data_set_is_of_the_paper_with_its_settings_or_of_the_review_with_its_layout() -> None:
    assert [*CATALOGUE] == [*PAPER_SETTINGS, *LAYOUTS]
    for name, dataset in CATALOGUE.items():
        assert dataset.name == name
        assert name in LAYOUTS or 0 < PAPER_SETTINGS[name].n_features <= dataset.features


@pytest.mark.parametrize("name", CATALOGUE)
def test_what_is_fetched_is_full_and_checked(name: str) -> None:
    form = CATALOGUE[name].download
    assert not form.sample
    for file in form.files:
        assert file.url is not None
        assert file.url.startswith("https://")
        known = file.sha256 or file.text_sha256
        assert known is not None or file.records is not None
        assert known is None or len(known) == 64
