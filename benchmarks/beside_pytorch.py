"""The paper's architecture beside the same in eager PyTorch: `python benchmarks/beside_pytorch.py` (extra `torch`)."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from braided.cli.options import JsonOption
from braided.errors import BraidedError
from speed import N_FEATURES, WIDTHS, chunk_seconds, configs, paper_model, stream
from torch_model import torch_seconds

_ROUNDS = 3
#: PyTorch is slow and its times are steady: fewer records will do.
_MAX_TORCH_RECORDS = 300


def _case(width: int, records: int, console: Console) -> dict[str, Any]:
    values, labels = stream(2 * records)
    model = paper_model(width)
    model.learn_many(values[:records], labels[:records])
    _, mlp, set_config = configs(width)
    ours, eager = [], []
    for turn in range(_ROUNDS):
        console.print(f"width {width}: round {turn + 1} of {_ROUNDS}", highlight=False)
        ours.append(1e6 * chunk_seconds(model, values[records:], labels[records:], time.process_time))
        eager.append(1e6 * torch_seconds(values, labels, mlp, set_config, min(records, _MAX_TORCH_RECORDS)))
    return {
        "width": width,
        "ours_us": min(ours),
        "torch_us": min(eager),
        "torch_ratio": min(eager) / min(ours),
    }


def measure(records: int, console: Console) -> dict[str, Any]:
    """Interleaved rounds of both, the best of each, in processor time, which other programs do not take."""
    return {"cases": [_case(width, records, console) for width in WIDTHS]}


def table(result: dict[str, Any]) -> Table:
    """The figures for a person."""
    shown = Table(title=f"Processor time per record, predict + learn, one thread, {N_FEATURES} features, 2 classes")
    for name in ("set width", "ours", "PyTorch", "ratio"):
        shown.add_column(name, justify="right")
    for case in result["cases"]:
        shown.add_row(
            str(case["width"]),
            f"{case['ours_us']:.0f} us",
            f"{case['torch_us']:,.0f} us",
            f"{case['torch_ratio']:.1f}",
        )
    return shown


def main(
    records: Annotated[int, typer.Option(min=1, help="Records per measurement.")] = 2_000,
    as_json: JsonOption = False,
) -> None:
    """Processor time per record of the paper's architecture, here and in eager PyTorch."""
    try:
        result = measure(records, Console(stderr=True))
    except BraidedError as error:
        raise SystemExit(str(error)) from None
    if as_json:
        typer.echo(json.dumps(result))
    else:
        Console().print(table(result))


if __name__ == "__main__":
    typer.run(main)
