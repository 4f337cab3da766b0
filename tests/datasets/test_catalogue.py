"""The facts about the data sets hang together."""

from __future__ import annotations

import pytest

from braided.datasets.catalogue import CATALOGUE
from braided.datasets.haphazard import REVIEW_SETTINGS
from braided.datasets.protocol import PAPER_SETTINGS


def test_every_data_set_is_of_the_paper_or_the_review_with_its_settings() -> None:
    assert [*CATALOGUE][:9] == [*PAPER_SETTINGS]
    assert CATALOGUE.keys() == PAPER_SETTINGS.keys() | REVIEW_SETTINGS.keys()
    for name, dataset in CATALOGUE.items():
        assert dataset.name == name
        paper = PAPER_SETTINGS.get(name)
        assert dataset.layout if paper is None else 0 < paper.n_features <= dataset.features
        # What is read by its layout has all features of the file.
        assert dataset.layout is None or paper is None or paper.n_features == dataset.features


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
