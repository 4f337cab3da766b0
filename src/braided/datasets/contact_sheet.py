"""A picture of I-MNIST to judge it by eye: originals and what becomes of them."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from braided import extras
from braided.datasets.imnist import SIDE, DeformedDigits

_ORIGINALS, _DEFORMED, _ZOOM, _GAP = 10, 9, 2, 2


def contact_sheet(stream: DeformedDigits) -> NDArray[np.float64]:
    """Ten digits, one per row: the original, then nine of its deformations; grey values in [0, 1]."""
    pixels, labels = next(stream.digits.bytes())
    places = [labels.index(digit) for digit in range(_ORIGINALS)]
    n_images = stream.digits.n_records or len(pixels)
    numbers = np.array([place + i * n_images for place in places for i in range(_DEFORMED)])
    deformed = stream.records(numbers).reshape(_ORIGINALS, _DEFORMED, -1)
    rows = []
    for place, versions in zip(places, deformed, strict=True):
        tiles = [pixels[place] / 255.0, *versions]
        framed = [np.pad(tile.reshape(SIDE, SIDE), _GAP // 2, constant_values=0.35) for tile in tiles]
        rows.append(np.hstack(framed))
    return np.kron(np.vstack(rows), np.ones((_ZOOM, _ZOOM)))


def png(stream: DeformedDigits) -> bytes:
    """The contact sheet as a PNG."""
    image = extras.require("matplotlib.image", "plot")
    out = io.BytesIO()
    image.imsave(out, contact_sheet(stream), cmap="gray", vmin=0.0, vmax=1.0, format="png")
    return out.getvalue()
