"""What each table of the paper shows, in a sentence made of its figures: a new run never leaves it false."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from braided.reproduce.documents import CellDocument, Document, by_stream, percent
from braided.reproduce.page_tables import short
from braided.reproduce.tables import DEFAULT, KALMAN

#: Of each stream the cells by method.
Streams = list[dict[str, CellDocument]]


def listed(words: Iterable[str]) -> str:
    """Words as a sentence has them.

    >>> listed(["german", "magic04", "a8a"])
    'german, magic04 and a8a'
    """
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _done(document: Document) -> Streams:
    """Of each stream the cells that have figures, by method."""
    return list(by_stream(document, "ours_mean").values())


def _dataset(cells: dict[str, CellDocument]) -> str:
    return str(next(iter(cells.values()))["dataset"])


def _value(cell: CellDocument, whose: str = "ours") -> str:
    return short(cell[f"{whose}_mean"], cell["unit"])


def _has(cells: dict[str, CellDocument], *methods: str) -> bool:
    return all(method in cells for method in methods)


def _best(cells: dict[str, CellDocument], whose: str) -> set[str]:
    """The methods with the fewest errors."""
    means = {method: cell[f"{whose}_mean"] for method, cell in cells.items() if f"{whose}_mean" in cell}
    if not means:
        return set()
    least = min(means.values())
    return {method for method, mean in means.items() if math.isclose(mean, least)}


def _won(found: Streams, method: str, rival: str, whose: str) -> str:
    """`n of m`: where a method makes fewer errors than a rival."""
    pairs = [
        (percent(cells[method], whose), percent(cells[rival], whose)) for cells in found if _has(cells, method, rival)
    ]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    return f"{sum(a < b for a, b in known)} of {len(known)}"


def _times_best(found: Streams, method: str, whose: str) -> str:
    """`n of m`: where a method makes the fewest errors of all, perhaps with others."""
    some = [_best(cells, whose) for cells in found if method in cells]
    return f"{sum(method in best for best in some)} of {sum(bool(best) for best in some)}"


def _same_as_published(cell: CellDocument) -> bool:
    """Within two standard deviations, of both together."""
    spread = math.hypot(cell["ours_sd"], cell.get("paper_sd", 0.0))
    return abs(float(cell["ours_mean"] - cell["paper_mean"])) <= 2.0 * spread


def table1(document: Document) -> list[str]:
    """MODL beside its published figures, and the default beside all."""
    found = _done(document)
    sentences = []
    modl = {_dataset(cells): cells["modl"] for cells in found if "modl" in cells}
    near = [name for name, cell in modl.items() if _same_as_published(cell)]
    far = [
        f"{_value(cell)} errors on {name}, where {_value(cell, 'paper')} are published"
        for name, cell in modl.items()
        if name not in near
    ]
    if near:
        text = f"MODL comes within two standard deviations (of both together) of its published figure on {listed(near)}"
        sentences.append(f"{text}; it makes {listed(far)}." if far else f"{text}.")
    elif far:
        sentences.append(f"MODL makes {listed(far)}.")
    default = [cells for cells in found if DEFAULT in cells]
    if default:
        first = [_dataset(cells) for cells in default if DEFAULT in _best(cells, "ours")]
        if first:
            figures = ", ".join(f"{_value(c[DEFAULT])} on {_dataset(c)}" for c in default if _dataset(c) in first)
            sentences.append(f"Our default makes the fewest errors on {len(first)} of {len(default)} sets: {figures}.")
        else:
            sentences.append(f"Our default makes the fewest errors on none of the {len(default)} sets.")
    return sentences


def table2(document: Document) -> list[str]:
    """MODL beside Aux-Drop, by data set."""
    return _by_dataset(document, "modl", "auxdrop-odl", "MODL makes fewer errors than Aux-Drop", "availabilities")


def lr(document: Document) -> list[str]:
    """MODL beside Aux-Drop, and where it is best."""
    found = _done(document)
    sentences = _by_dataset(document, "modl", "auxdrop-odl", "MODL makes fewer errors than Aux-Drop", "learning rates")
    best = []
    for name in dict.fromkeys(map(_dataset, found)):
        cells = [each["modl"] for each in found if _dataset(each) == name and "modl" in each]
        ours, paper = (
            min((c for c in cells if f"{w}_mean" in c), key=lambda c: float(c[f"{w}_mean"]), default=None)
            for w in ("ours", "paper")
        )
        if ours and paper:
            rates = [cell["setting"].rpartition("=")[2] for cell in (ours, paper)]
            best.append(f"{rates[0]} on {name} (paper {rates[1]})")
    return sentences + ([f"Its best rate is {listed(best)}."] if best else [])


def _by_dataset(document: Document, method: str, rival: str, text: str, along: str) -> list[str]:
    parts = []
    for name in dict.fromkeys(map(_dataset, found := _done(document))):
        some = [cells for cells in found if _dataset(cells) == name]
        ours, paper = (_won(some, method, rival, whose) for whose in ("ours", "paper"))
        parts.append(f"at {ours} {along} on {name} (paper {paper})")
    return [f"{text} {listed(parts)}."] if parts else []


def table3(document: Document) -> list[str]:
    """What share of each data set the three methods get wrong."""
    parts = []
    for method, name in {DEFAULT: "our default", "modl": "MODL", "auxdrop-odl": "Aux-Drop"}.items():
        some = [f"{_beside_paper(c[method])} of {_dataset(c)}" for c in _done(document) if method in c]
        if some:
            parts.append(f"{name} {listed(some)}")
    return [f"Images that are answered wrong: {'; '.join(parts)}."] if parts else []


def _beside_paper(cell: CellDocument) -> str:
    """Our figure, with the paper's if there is one."""
    return _value(cell) + (f" (paper {_value(cell, 'paper')})" if "paper_mean" in cell else "")


def merge(document: Document) -> list[str]:
    """How often the score sum is the best."""
    ours, paper = (_times_best(_done(document), "score-sum", whose) for whose in ("ours", "paper"))
    return [f"The score sum makes the fewest errors on {ours} data sets, in the paper on {paper}."]


def ablation(document: Document) -> list[str]:
    """How often all learners together are the best."""
    ours, paper = (_times_best(_done(document), "modl", whose) for whose in ("ours", "paper"))
    return [f"All three learners together make the fewest errors in {ours} rows, in the paper in {paper}."]


def glr(document: Document) -> list[str]:
    """The closed form beside gradient steps."""
    ours, paper = (_won(_done(document), "modl", "modl-glr", whose) for whose in ("ours", "paper"))
    return [
        f"With the fast learner in closed form MODL makes fewer errors than by gradient on {ours} data sets, in the "
        f"paper on {paper}."
    ]


def five(document: Document) -> list[str]:
    """Five learners beside three."""
    ours, paper = (_won(_done(document), "modl-5", "modl", whose) for whose in ("ours", "paper"))
    return [f"Five learners make fewer errors than three on {ours} data sets, in the paper on {paper}."]


def depth(document: Document) -> list[str]:
    """The times of ODL and Fast ODL, and how far their errors agree."""
    pairs = [
        (cells["auxdrop-odl"], cells["auxdrop-fodl"])
        for cells in _done(document)
        if _has(cells, "auxdrop-odl", "auxdrop-fodl")
    ]
    if not pairs:
        return []
    ours = [slow["us_per_record"] / fast["us_per_record"] for slow, fast in pairs]
    text = f"ODL takes {min(ours):.1f} to {max(ours):.1f} times as long as Fast ODL"
    paper = [a["paper_seconds"] / b["paper_seconds"] for a, b in pairs if "paper_seconds" in a and "paper_seconds" in b]
    if paper:
        text += f" (paper {min(paper):.1f} to {max(paper):.1f})"
    apart = max(abs(100.0 * (a["ours_mean"] - b["ours_mean"]) / a["records"]) for a, b in pairs)
    return [f"{text}; their errors are at most {apart:.2f}% of the records apart."]


def logistic(document: Document) -> list[str]:
    """The Kalman gain beside FOLKLORE, in errors and in time."""
    found = [cells for cells in _done(document) if _has(cells, KALMAN, "FOLKLORE")]
    if not found:
        return []
    best = {method: _times_best(found, method, "ours") for method in (KALMAN, "FOLKLORE")}
    times = [cells["FOLKLORE"]["us_per_record"] / cells[KALMAN]["us_per_record"] for cells in found]
    return [
        f"The Kalman gain makes the fewest errors on {best[KALMAN]} sets and FOLKLORE on {best['FOLKLORE']}, which "
        f"takes {min(times):.1f} to {max(times):.1f} times as long."
    ]


def curves(document: Document) -> list[str]:
    """Who is ahead at the end."""
    ours = _times_best(_done(document), DEFAULT, "ours")
    return [f"At the end of the stream our default has made the fewest errors on {ours} data sets."]


def toy(document: Document) -> list[str]:
    """How good the quadratic is, near and far."""
    near, far = document["cells"][0], document["cells"][-1]
    parts = [
        f"within {cell['radius']:g} of the true weights the quadratic is off by {cell['largest_difference']:.3f} at "
        f"most, where the log-likelihood changes by {cell['range_of_exact']:.2f}"
        for cell in (near, far)
    ]
    return [f"{parts[0][0].upper()}{parts[0][1:]}; {parts[1]}."]


def stored(document: Document) -> list[str]:
    """What the document says itself."""
    return list(document.get("summary", []))


FINDINGS: dict[str, Callable[[Document], list[str]]] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "merge": merge,
    "ablation": ablation,
    "glr": glr,
    "five": five,
    "lr": lr,
    "depth": depth,
    "logistic": logistic,
    "curves": curves,
}
