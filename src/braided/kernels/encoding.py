"""Piecewise-linear encoding of a standardised value: how far it lies between two knots.

With knots t_0 < ... < t_B a value in [t_b, t_{b+1}] becomes

    e_b = (t_{b+1} - z) / (t_{b+1} - t_b),   e_{b+1} = (z - t_b) / (t_{b+1} - t_b),   all others 0,

and one beyond the last knot becomes that knot alone. A linear map of e is any piecewise-linear function of z with bends
at the knots; and only two of its B + 1 inputs are not zero, so that it costs little more than z itself.
"""

from __future__ import annotations

from statistics import NormalDist

from braided.kernels.native import kernel

#: Outermost knots; inside, the knots are quantiles of the normal distribution, so that bins are used about equally.
_OUTERMOST = 3.0


def knots(bins: int) -> list[float]:
    """The knots of this many bins.

    >>> [round(t, 2) for t in knots(4)]
    [-3.0, -0.67, 0.0, 0.67, 3.0]
    """
    inner = [NormalDist().inv_cdf(i / bins) for i in range(1, bins)]
    return [-_OUTERMOST, *inner, _OUTERMOST]


@kernel()
def encode_piecewise(z, places, out):
    """Write e into `out`, which is zero; `places` are the knots."""
    last = places.shape[0] - 1
    if z <= places[0]:
        out[0] = 1
    elif z >= places[last]:
        out[last] = 1
    else:
        b = 0
        while z > places[b + 1]:
            b += 1
        share = (z - places[b]) / (places[b + 1] - places[b])
        out[b] = 1.0 - share
        out[b + 1] = share
