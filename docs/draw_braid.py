"""Draw docs/braid.svg, who leads along a stream, docs/flow.svg, what happens to one record, and the site's two signs.

The first is measured, on a stream that comes with River: `python docs/draw_braid.py FOLDER`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

import numpy as np

import braided
from braided.streams.open import open_stream

STREAM, STRETCH = "agrawal-drift", 1_000
INK, SOFT, PALE, PAPER = "#263238", "#607d8b", "#90a4ae", "#ffffff"
COLOURS = {
    "all together": INK, "olr": "#f4a261", "olr 2": "#e76f51", "olr 3": "#c62828", "fourier": "#5aa9e6",
    "fourier 2": "#1565c0", "mlp": "#2e9e6b", "recent": "#9e9e9e", "forest": "#8e63b0",
}  # fmt: skip
LEFT, RIGHT, TOP, ROW, WIDTH = 24, 488, 66, 34, 640


@dataclass(frozen=True)
class Lead:
    """Errors of the whole and of each learner alone, in each stretch of the stream: name to (stretches,)."""

    errors: dict[str, list[int]]

    def ranks(self) -> dict[str, list[int]]:
        """Place of each in each stretch, 0 for the fewest errors; of equals, those placed higher before stay so."""
        names = list(self.errors)
        table = np.array([self.errors[name] for name in names])  # (names, stretches)
        places, before = [], np.arange(len(names))
        for column in table.T:
            order = np.lexsort((before, column))
            before = np.empty(len(names), dtype=int)
            before[order] = np.arange(len(names))
            places.append(before)
        return {name: [int(row[i]) for row in places] for i, name in enumerate(names)}


def measure() -> Lead:
    """One pass of the default over the stream, each record predicted and then learned."""
    history = braided.record(braided.MODLClassifier(), open_stream(STREAM))
    curve = history.curve()
    at = [int(np.flatnonzero(curve[:, 0] == end)[0]) for end in range(STRETCH, history.records + 1, STRETCH)]
    sums = np.vstack([np.zeros(curve.shape[1]), curve[at]])
    stretches = np.diff(sums, axis=0).astype(int)
    columns = {"all together": 1, **{str(name): 4 + i for i, name in enumerate(history.learners)}}
    return Lead({name: stretches[:, column].tolist() for name, column in columns.items()})


def text(x: float, y: float, what: str, anchor: str = "start", fill: str = INK, bold: bool = False) -> str:
    """One line of text."""
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{fill}"{weight}>{escape(what)}</text>'


def svg(height: float, title: str, parts: list[str]) -> str:
    """The whole picture, in letters that a phone still shows."""
    view = f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="15"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {view}>'
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>"]) + "\n"


def strand(places: list[int], width: float) -> str:
    """A smooth path through the places, level at each."""
    step = (RIGHT - LEFT) / (len(places) - 1)
    path = [f"M{LEFT} {TOP + ROW * places[0]}"]
    for i, (here, there) in enumerate(pairwise(places)):
        middle, end = LEFT + (i + 0.5) * step, LEFT + (i + 1) * step
        path.append(f"C{middle:.1f} {TOP + ROW * here} {middle:.1f} {TOP + ROW * there} {end:.1f} {TOP + ROW * there}")
    return f'd="{" ".join(path)}" fill="none" stroke-linecap="round" stroke-width="{width}"'


def draw_braid(lead: Lead) -> str:
    """The strands by place, the whole last and thickest; where two cross, the later one lies on top."""
    ranks, n = lead.ranks(), len(lead.errors)
    stretches = len(lead.errors["all together"])
    step, bottom = (RIGHT - LEFT) / (stretches - 1), TOP + ROW * (n - 1)
    parts = [text(LEFT, 24, "fewest errors on top, in each 1,000 records", fill=SOFT)]
    change = LEFT + (stretches / 2 - 0.5) * step
    parts.append(f'<path d="M{change} 38V{bottom + 12}" stroke="{PALE}" stroke-dasharray="4 5" stroke-width="1.5"/>')
    parts.append(text(change, bottom + 34, "what is right changes", anchor="middle", fill=SOFT))
    parts.append(text(RIGHT + 14, 24, "errors, last 1,000", fill=SOFT))
    for name in [*(name for name in ranks if name != "all together"), "all together"]:
        width = 7 if name == "all together" else 4
        parts.append(f'<path {strand(ranks[name], width + 5)} stroke="{PAPER}"/>')
        parts.append(f'<path {strand(ranks[name], width)} stroke="{COLOURS[name]}"/>')
        y = TOP + ROW * ranks[name][-1] + 5
        parts.append(text(RIGHT + 14, y, name, fill=COLOURS[name], bold=True))
        parts.append(text(WIDTH - 4, y, str(lead.errors[name][-1]), anchor="end", fill=COLOURS[name]))
    parts.append(text(LEFT, bottom + 34, "1,000", fill=SOFT))
    parts.append(text(RIGHT, bottom + 34, f"{stretches * STRETCH:,} records", anchor="end", fill=SOFT))
    return svg(
        bottom + 46, "Which learner makes the fewest errors changes along the stream; the whole stays ahead", parts
    )


def box(x: float, y: float, width: float, height: float, name: str, more: str, stroke: str = PALE) -> list[str]:
    """A frame with a name, and below it what it is."""
    place, middle = f'x="{x}" y="{y}" width="{width}" height="{height}"', y + height / 2
    return [
        f'<rect {place} rx="8" fill="{PAPER}" stroke="{stroke}" stroke-width="2"/>',
        text(x + width / 2, middle - 5, name, anchor="middle", bold=True),
        text(x + width / 2, middle + 15, more, anchor="middle", fill=SOFT),
    ]


def draw_flow() -> str:
    """A record from the top to the answer at the bottom, and its label back up to the learners."""
    learners = [name for name in COLOURS if name != "all together"]
    kinds = ["linear", "forgetful", "more so", "cosines", "cosines", "network", "habit", "trees"]
    parts = box(150, 8, 340, 54, "a record", "current 5.2, heat missing, vibration 0.3", INK)
    parts += box(70, 96, 500, 54, "features", "each value scaled by its own past, heat estimated from the rest")
    parts += box(150, 356, 340, 54, "combiner", "two weights per learner, in closed form")
    parts += box(4, 444, 300, 54, "the answer", "busy 0.93, idle 0.07", INK)
    parts += box(336, 444, 300, 54, "the label, when it comes", "each learner learns by itself", INK)
    for i, (name, kind) in enumerate(zip(learners, kinds, strict=True)):
        x, width = 3 + 79.5 * i, 77
        centre = x + width / 2
        for start, end, y, to in ((320, centre, 150, 200), (centre, 320, 260, 356)):
            path = f"M{start} {y}C{start} {(y + to) / 2} {end} {(y + to) / 2} {end} {to}"
            parts.append(f'<path d="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="4"/>')
        parts += box(x, 200, width, 60, name, kind, COLOURS[name])
    parts.append(f'<path d="M320 62V96M240 410V444" stroke="{INK}" stroke-width="4"/>')
    parts.append(f'<path d="M612 444V276" stroke="{INK}" stroke-width="2.5" stroke-dasharray="6 6"/>')
    parts.append(f'<path d="M605 280L612 265L619 280Z" fill="{INK}"/>')
    return svg(504, "A record is scaled and filled in, scored by eight learners, and their scores are joined", parts)


def draw_sign(colours: tuple[str, str, str]) -> str:
    """Three strands, plaited; one that goes below another leaves a gap."""
    at = np.linspace(0, 1, 241)
    phases = 2 * np.pi * (0.8 * at + 0.04 + np.arange(3)[:, None] / 3)  # (strands, points)
    y, height = 12 + 8 * np.sin(phases), np.sin(2 * phases)
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke-width="2.8">']
    for i, colour in enumerate(colours):
        others = [k for k in range(3) if k != i]
        hidden = ((np.abs(y[others] - y[i]) < 3.4) & (height[others] > height[i])).any(axis=0)
        runs = np.split(np.arange(at.size), np.flatnonzero(np.diff(hidden)) + 1)
        shown = [run[:: max(len(run) // 12, 1)] for run in runs if not hidden[run[0]] and len(run) > 12]
        path = "".join("M" + "L".join(f"{1 + 22 * at[k]:.1f} {y[i, k]:.1f}" for k in run) for run in shown)
        parts.append(f'  <path d="{path}" stroke="{colour}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main(folder: Path) -> None:
    """Write the four pictures."""
    pictures = {
        "braid.svg": draw_braid(measure()), "flow.svg": draw_flow(),
        "favicon.svg": draw_sign(("#546e7a", "#ff7043", "#90a4ae")),
        "logo.svg": draw_sign(("#ffffff", "#ffab91", "#b0bec5")),
    }  # fmt: skip
    for name, picture in pictures.items():
        (folder / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
