"""Published figures to print beside ours: cumulative errors, mean and standard deviation over 20 runs.

Sources: Table 1 of the MODL paper (Valkanas, Oreshkin and Coates, AISTATS 2025), and for Aux-Drop also its own paper
(Agarwal et al. 2023), which gives means.
"""

from __future__ import annotations

#: (data set, model) -> mean and standard deviation in the MODL paper.
MODL_PAPER: dict[tuple[str, str], tuple[float, float]] = {
    ("german", "olvf"): (333.4, 9.7),
    ("german", "auxdrop-odl"): (306.6, 9.1),
    ("german", "auxdrop-ogd"): (327.0, 45.8),
    ("german", "modl"): (286.1, 5.3),
    ("svmguide3", "olvf"): (346.4, 11.6),
    ("svmguide3", "auxdrop-odl"): (296.9, 1.3),
    ("svmguide3", "auxdrop-ogd"): (296.6, 0.6),
    ("svmguide3", "modl"): (288.0, 1.0),
    ("magic04", "olvf"): (6152.4, 54.7),
    ("magic04", "auxdrop-odl"): (5607.1, 235.1),
    ("magic04", "auxdrop-ogd"): (5477.4, 299.3),
    ("magic04", "modl"): (5124.7, 153.4),
    ("a8a", "olvf"): (8993.8, 40.3),
    ("a8a", "auxdrop-odl"): (6700.4, 124.5),
    ("a8a", "auxdrop-ogd"): (7261.8, 283.5),
    ("a8a", "modl"): (5670.5, 278.2),
}
#: (data set, model) -> mean in Aux-Drop's own paper.
AUXDROP_PAPER: dict[tuple[str, str], float] = {
    ("german", "auxdrop-odl"): 300.4,
    ("german", "auxdrop-ogd"): 312.8,
    ("svmguide3", "auxdrop-odl"): 297.2,
    ("svmguide3", "auxdrop-ogd"): 297.5,
    ("magic04", "auxdrop-odl"): 5536.7,
    ("magic04", "auxdrop-ogd"): 5382.8,
    ("a8a", "auxdrop-odl"): 6710.7,
    ("a8a", "auxdrop-ogd"): 7313.5,
}


def beside(stream: str, model: str) -> str:
    """The published figure as it is printed beside ours, or nothing.

    >>> beside("magic04", "auxdrop-odl")
    '5607.1 +- 235.1; 5536.7'
    """
    if (stream, model) not in MODL_PAPER:
        return ""
    mean, sd = MODL_PAPER[stream, model]
    own = AUXDROP_PAPER.get((stream, model))
    return f"{mean} +- {sd}" + (f"; {own}" if own is not None else "")
