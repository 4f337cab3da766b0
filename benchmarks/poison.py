"""What bad records leave behind in a model: `python benchmarks/poison.py`.

A model learns 5,000 clean records, then bad ones, then 10,000 clean ones. Its error over the last 2,000 of these is
compared with that of a model which met none of the bad ones.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from braided import MODLClassifier, MODLRegressor
from braided.cli.options import JsonOption
from braided.datasets.locate import load
from braided.streams.base import read_whole

Floats = NDArray[np.float64]
PRESETS = ("default", "lean", "classic")
#: Clean records before and after, those that are counted at the end, and those in another unit.
BEFORE, AFTER, COUNTED, IN_UNIT = 5_000, 10_000, 2_000, 3_000
RECORDS = BEFORE + AFTER
#: How far bad values lie from zero, and how many there are: in a row, or as a share of all records.
SIZES = (1e2, 1e4, 1e6, 1e12, 1e300)
BURSTS, SHARES = (20, 50, 200), (0.02, 0.05)
_FEATURES, _MISSING, _CONSTANT, _FACTOR = 8, 0.2, 3.0, 1_000.0


class Attack(NamedTuple):
    """What is hit (`records`, `constant`, `targets` or `unit`), by what, and how many: from 1 on in a row."""

    kind: str
    size: float
    amount: float

    def text(self) -> str:
        """As a table says it."""
        if self.kind == "unit":
            return f"unit x{self.size:,.0f} for {IN_UNIT:,} records"
        many = f"{self.amount:.0f}" if self.amount >= 1 else f"{self.amount:.0%}"
        return f"{self.kind}: {many} of ±{self.size:.0e}".replace("e+0", "e").replace("e+", "e")


class Part(NamedTuple):
    """Values, (n, d), targets, (n,), and which records are clean, (n,)."""

    values: Floats
    targets: Any
    clean: NDArray[np.bool_]

    def rows(self, which: slice) -> Part:
        """Some of the records."""
        return Part(self.values[which], self.targets[which], self.clean[which])


def attacks(regression: bool) -> list[Attack]:
    """All attacks on one kind of target."""
    found = [Attack("records", size, amount) for amount in (*BURSTS, *SHARES) for size in SIZES]
    found += [Attack("constant", size, amount) for amount in (*BURSTS, *SHARES) for size in (1e2, 1e6, 1e300)]
    if regression:
        found += [Attack("targets", size, amount) for amount in (*BURSTS, *SHARES) for size in (1e6, 1e300)]
    return [*found, Attack("unit", _FACTOR, IN_UNIT)]


def _generated(seed: int) -> tuple[Floats, Floats]:
    """Features in various units, some of them missing, and a score with one product in it."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(RECORDS, _FEATURES))
    score = values @ np.random.default_rng(99).normal(size=_FEATURES) + values[:, 0] * values[:, 1]
    score += 0.3 * rng.normal(size=RECORDS)
    return values * [1, 1, 1e-3, 50, 1, 1, 1, 1] + [0, 1_000, 0, 0, 0, 5, 0, 0], score


def _series(seed: int) -> tuple[Floats, Floats]:
    """A value that wanders and has a daily course, by features that tell a part of it."""
    rng = np.random.default_rng(seed)
    drift, step = np.zeros(RECORDS), rng.normal(size=RECORDS)
    for t in range(1, RECORDS):
        drift[t] = 0.98 * drift[t - 1] + step[t]
    hour = np.arange(RECORDS) % 24
    values = np.column_stack([hour, rng.normal(size=(RECORDS, 3))])
    return values, 50.0 + 10.0 * np.sin(hour * np.pi / 12) + drift + 2.0 * values[:, 1]


def stream(name: str, seed: int, data_dir: Path | None) -> tuple[Floats, Any]:
    """A stream's values and targets: a fifth of the values are missing, and the last feature is constant."""
    if name == "series":
        values, targets = _series(seed)
    elif name == "magic04":
        table = read_whole(load(name, data_dir)).table
        rows = np.random.default_rng(seed).permutation(len(table.values))[:RECORDS]
        values, targets = table.values[rows].astype(np.float64), np.asarray(table.targets)[rows]
    else:
        values, score = _generated(seed)
        targets = score if name == "function" else (score > 0).astype(int)
    values[np.random.default_rng(seed + 1_000).random(values.shape) < _MISSING] = np.nan
    return np.column_stack([values, np.full(RECORDS, _CONSTANT)]), targets


CLASSIFICATIONS, REGRESSIONS = ("plane", "magic04"), ("function", "series")


def _spoiled(part: Part, hit: NDArray[np.bool_], attack: Attack, seed: int) -> Part:
    """Some records with bad values, whose labels are those of other records; or with bad targets."""
    rng = np.random.default_rng(seed + 2_000)
    size = attack.size * np.where(np.arange(len(hit)) % 2, 1.0, -1.0)
    values, targets = part.values.copy(), part.targets.copy()
    if attack.kind == "targets":
        targets[hit] = size[hit]
    elif attack.kind == "constant":
        values[hit, -1] = size[hit]
    else:
        values[hit] = size[hit, None]
        if targets.dtype != np.float64:
            targets[hit] = rng.choice(part.targets, size=int(hit.sum()))
    return Part(values, targets, part.clean & ~hit)


def attacked(values: Floats, targets: Any, attack: Attack | None, seed: int) -> tuple[Part, Part]:
    """The stream before and from the attack on; None for no attack."""
    whole = Part(values, targets, np.ones(RECORDS, dtype=bool))
    if attack is not None and attack.kind == "unit":
        values = values.copy()
        values[BEFORE : BEFORE + IN_UNIT] *= attack.size
        whole = whole._replace(values=values)
    elif attack is not None and attack.amount < 1:
        whole = _spoiled(whole, np.random.default_rng(seed + 3_000).random(RECORDS) < attack.amount, attack, seed)
    before, after = whole.rows(slice(0, BEFORE)), whole.rows(slice(BEFORE, None))
    if attack is not None and attack.amount >= 1 and attack.kind != "unit":
        n = int(attack.amount)
        bad = _spoiled(before.rows(slice(-n, None)), np.ones(n, dtype=bool), attack, seed)
        values, targets, clean = (np.concatenate(pair) for pair in zip(bad, after, strict=True))
        after = Part(values, targets, clean)
    return before, after


def _error(model: Any, part: Part) -> float:
    """Learn a part: the error, or the mean absolute one, over its last clean records."""
    said = model.predict_learn_many(part.values, part.targets).values
    if isinstance(model, MODLRegressor):
        with np.errstate(over="ignore"):
            losses = np.abs(said[:, 0] - part.targets)
    else:
        losses = np.asarray(model.classes)[said.argmax(axis=1)] != part.targets
    return float(losses[part.clean][-COUNTED:].mean())


def errors(name: str, preset: str, seed: int, data_dir: Path | None) -> Iterator[tuple[str, float]]:
    """The error of an untouched model, then that after each attack."""
    values, targets = stream(name, seed, data_dir)
    regression = name in REGRESSIONS
    clean: Any = MODLRegressor(preset, seed=seed) if regression else MODLClassifier(preset, seed=seed)
    fresh = copy.deepcopy(clean)
    before, after = attacked(values, targets, None, seed)
    clean.learn_many(before.values, before.targets)
    yield "untouched", _error(copy.deepcopy(clean), after)
    for attack in attacks(regression):
        before, after = attacked(values, targets, attack, seed)
        if attack.amount >= 1:
            model = copy.deepcopy(clean)
        else:
            model = copy.deepcopy(fresh)
            model.learn_many(before.values, before.targets)
        yield attack.text(), _error(model, after)


def table(found: dict[tuple[str, str], dict[str, list[float]]]) -> str:
    """Markdown: for each attack the mean change of the error over the seeds, and the worst seed's."""
    header = [f"{name}, {preset}" for name, preset in found]
    lines = [f"| | {' | '.join(header)} |", f"|---|{'---:|' * len(header)}"]
    for text in next(iter(found.values())):
        cells = []
        for by_attack in found.values():
            base, figures = by_attack["untouched"], by_attack[text]
            changes = [figure / one - 1.0 for figure, one in zip(figures, base, strict=True)]
            untouched = text == "untouched"
            cells.append(f"{fmean(base):.4g}" if untouched else f"{fmean(changes):+.1%} ({max(changes):+.1%})")
        lines.append(f"| {text} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each stream and model.")] = 5,
    preset: Annotated[list[str] | None, typer.Option(help="Presets; all three if none is given.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Streams; all four if none is given.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(envvar="BRAIDED_DATA", help="Folder with the data sets, one sub-folder each.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Errors after bad records beside those of an untouched model (about an hour)."""
    console = Console(stderr=True)
    for names in (CLASSIFICATIONS, REGRESSIONS):
        found: dict[tuple[str, str], dict[str, list[float]]] = {}
        for name in names:
            for one in preset or PRESETS:
                if only and name not in only:
                    continue
                figures = found.setdefault((name, one), {})
                for seed in range(seeds):
                    for text, error in errors(name, one, seed, data_dir):
                        figures.setdefault(text, []).append(error)
                        change = error / figures["untouched"][-1] - 1.0
                        console.print(f"{name} {one} {seed} {text} {error:.4g} {change:+.1%}", highlight=False)
        if found and as_json:
            typer.echo(json.dumps([{"stream": key[0], "preset": key[1], "errors": found[key]} for key in found]))
        elif found:
            typer.echo(table(found) + "\n")


if __name__ == "__main__":
    typer.run(main)
