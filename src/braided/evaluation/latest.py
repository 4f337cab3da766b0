"""How often each feature had a value in the latest records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.store import check, counts

Counts = NDArray[np.int64]
#: Records of a block, and how many blocks are kept.
_BLOCK, _BLOCKS = 50, 40


class Latest:
    """Availability in the latest 2,000 records, in blocks of 50.

    Examples
    --------
    >>> latest = Latest()
    >>> latest.count(np.array([0, 1, 1]), np.array([0, 0, 1]), n_features=2, before=0, n=3)
    >>> latest.shares(records=3).tolist()
    [[0.6666666666666666, 0.3333333333333333]]
    """

    def __init__(self) -> None:
        self.blocks = np.zeros((_BLOCKS, 0), dtype=np.int64)

    def count(self, rows: Counts, places: Counts, n_features: int, before: int, n: int) -> None:
        """Count in `n` records after `before` others: the record, from 0 on, and the feature of each value."""
        self.blocks = np.pad(self.blocks, ((0, 0), (0, n_features - self.blocks.shape[1])))
        block_of = (before + np.arange(n)) // _BLOCK
        for block in np.unique(block_of).tolist():
            if block * _BLOCK >= before:
                self.blocks[block % _BLOCKS] = 0
        block_of_value = block_of[rows]
        recent = block_of_value > block_of[-1] - _BLOCKS
        np.add.at(self.blocks, (block_of_value[recent] % _BLOCKS, places[recent]), 1)

    def load(self, arrays: Mapping[str, NDArray[Any]], n_features: int) -> None:
        """Take over the `blocks` of `n_features` features."""
        rule = counts(_BLOCKS, n_features, high=_BLOCK)
        check("state of the latest records", {"blocks": rule}, arrays)
        self.blocks = arrays["blocks"].copy()

    def shares(self, records: int) -> NDArray[np.float64]:
        """(blocks, features): share of the records of each block that had each feature, the oldest block first."""
        last = (records - 1) // _BLOCK if records else -1
        blocks = np.arange(max(last - _BLOCKS + 1, 0), last + 1)
        sizes = np.minimum(_BLOCK, records - blocks * _BLOCK)
        return np.asarray(self.blocks[blocks % _BLOCKS] / sizes[:, None])
