"""Time per record of ODL and Fast ODL as the network gets deeper: `python benchmarks/depth.py`."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.table import Table

from braided import MODLClassifier
from braided.learners import HedgeConfig
from braided.presets import Preset
from braided.report.published import find
from measured import parser, show
from speed import stream

LAYERS = (5, 10, 20, 40)
WIDTHS = (25, 50, 100)
_ROUNDS = 3


def _model(config: HedgeConfig, base_features: int = 0) -> MODLClassifier:
    names = tuple(range(base_features)) or None
    return MODLClassifier(preset=Preset("bench", (config,), standardise=False), first_features=names)


def _seconds(model: MODLClassifier, records: int) -> float:
    """The best of some rounds, a record."""
    values, labels = stream(records)
    model.learn_many(values, labels)
    best = float("inf")
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        model.learn_many(values, labels)
        best = min(best, (time.perf_counter() - start) / records)
    return best


def measure(records: int, console: Console) -> dict[str, Any]:
    """Time of every depth, width and form, and of Aux-Drop with six layers."""
    cases = []
    for width in WIDTHS:
        for layers in LAYERS:
            console.print(f"width {width}, {layers} layers", highlight=False)
            for name, fast in (("odl", False), ("fodl", True)):
                config = HedgeConfig(layers=layers, width=width, learning_rate=0.01, fast=fast)
                us = 1e6 * _seconds(_model(config), records)
                cases.append({"model": name, "layers": layers, "width": width, "us": us})
    auxdrop = {}
    for name, fast in (("auxdrop-odl", False), ("auxdrop-fodl", True)):
        config = HedgeConfig(layers=6, aux_layer=3, base_features=2, softmax_twice=True, fast=fast)
        auxdrop[name] = 1e6 * _seconds(_model(config, base_features=2), records)
    return {"cases": cases, "auxdrop_6_layers_us": auxdrop}


def paper_ratio(layers: int, width: int) -> float | None:
    """How many times longer ODL took than Fast ODL in the paper, on HIGGS."""
    seconds = [
        figure.mean
        for model in ("auxdrop-odl", "auxdrop-fodl")
        for figure in find("depth", "higgs", model, setting=f"layers={layers} width={width}")
        if figure.unit == "seconds"
    ]
    return seconds[0] / seconds[1] if seconds else None


def table(result: dict[str, Any]) -> Table:
    """Times, their growth with depth, and the paper's ratio where it has one."""
    us = {(case["model"], case["layers"], case["width"]): case["us"] for case in result["cases"]}
    shown = Table(title="Time per record, predict + learn, 21 features")
    for name in ("width", "layers", "ODL", "Fast ODL", "ODL / Fast ODL", "the paper's ratio"):
        shown.add_column(name, justify="right")
    for width in WIDTHS:
        for layers in LAYERS:
            slow, fast = us["odl", layers, width], us["fodl", layers, width]
            ratio = paper_ratio(layers, width) or paper_ratio(layers + 1, width)
            note = f"{ratio:.1f}" + (" (11 layers)" if layers == 10 else "") if ratio else ""
            shown.add_row(str(width), str(layers), f"{slow:.1f} us", f"{fast:.1f} us", f"{slow / fast:.1f}", note)
    growth = [
        f"width {width}: ODL {us['odl', 40, width] / us['odl', 10, width]:.1f}, "
        f"Fast ODL {us['fodl', 40, width] / us['fodl', 10, width]:.1f}"
        for width in WIDTHS
    ]
    auxdrop = result["auxdrop_6_layers_us"]
    shown.caption = (
        f"40 layers / 10 layers: {'; '.join(growth)}\n"
        f"Aux-Drop, 6 layers: ODL {auxdrop['auxdrop-odl']:.1f} us, Fast ODL {auxdrop['auxdrop-fodl']:.1f} us"
    )
    return shown


if __name__ == "__main__":
    show(measure, table, parser(__doc__, records=1_000).parse_args())
