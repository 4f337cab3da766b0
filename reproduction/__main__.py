"""`python -m reproduction`: the tables and figures, ours beside what is published."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from braided import checks, extras
from braided.errors import BraidedError
from braided.files import write_atomically
from braided.presets import PRESETS
from braided.report.folder import check_folder
from braided.values import printable

extras.require("matplotlib", "plot")

from reproduction.command import Options, Reproduction, checked  # noqa: E402
from reproduction.documents import Document  # noqa: E402
from reproduction.executors import Processes, Ray  # noqa: E402
from reproduction.page import refreshed  # noqa: E402
from reproduction.tables import TABLES  # noqa: E402

_ABOUT = """Reproduce tables and figures of the paper, ours beside theirs.

Every run is kept under --out as it ends and never done twice: after an interruption the same command goes on, in a
run over a large file from its last checkpoint, which is written every minute."""
_SCALED = "the paper's figures are of all records: scaled to as many as were run, at the same error rate"
_MARKUP = re.compile(r"\*+|</?small>")


def shown(document: Document) -> Group:
    """The views of a document, for the terminal."""
    found = []
    for name, view in TABLES[document["what"]].views.items():
        grid = view(document)
        title = ": ".join(filter(None, (document["what"], name.replace("_", " "), document["title"])))
        table = Table(title=title, title_justify="left", box=None, header_style="dim", padding=(0, 2, 0, 0))
        for place, text in enumerate(grid.header):
            table.add_column(Text(text), justify="right" if place else "left")
        for row in grid.rows:
            style = "bold" if row[0][0].startswith("*") else ""
            table.add_row(*(Text(_MARKUP.sub("", "\n".join(lines)), style=style) for lines in row))
        if grid.rows:
            found.append(table)
    errors = [cell for cell in document["cells"] if cell.get("unit") == "errors" and "paper_mean" in cell]
    return Group(*found, *([Text(_SCALED, style="dim italic")] if any(cell["sample"] for cell in errors) else []))


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m reproduction", description=_ABOUT)
    add = parser.add_argument
    add("tables", nargs="*", metavar="TABLE", help=f"{', '.join(TABLES)}, or all")
    add("--preset", default="released", help="of MODL and the baselines: released (usual), paper or default")
    add("--seeds", type=_count, help="seeds per cell, instead of the paper's 20 or 5")
    add("--jobs", type=_count, help="processes; one for each core if not given")
    add("--limit", type=_count, help="use only this many records of each stream")
    add("--dataset", action="append", default=[], help="only this data set; repeatable")
    add("--quick", action="store_true", help="a minute's worth: 1,000 records, 2 seeds, fewer cells")
    add("--ray", help="run on a Ray cluster: its address, or local for one on this machine; needs braided[ray]")
    add("--out", type=Path, default=Path("results"), help="folder for CSV, JSON, PNG and finished runs (%(default)s)")
    add("--write", type=Path, help="run nothing, but make the tables between this page's markers again, from the JSON "
        "in the folder that has its name without the ending")  # fmt: skip
    add("--scale", help="scale each feature of the small sets to a range over the whole file, -1,1 or 0,1, as the "
        "published figures seem to have had german")  # fmt: skip
    add("--whole-german", action="store_true", help="in haphazard, read all 1,000 records of german, of which the "
        "review's way of reading leaves 959")  # fmt: skip
    add("--data-dir", type=Path, help="folder with the data sets; $BRAIDED_DATA if not given")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Do what the arguments say; 1 if runs failed."""
    given = _parser().parse_args(arguments)
    checks.choice("--preset", given.preset, PRESETS)
    if given.write is not None:
        page = refreshed(given.write.read_text(encoding="utf-8"), given.write.with_suffix(""))
        write_atomically(given.write, page.encode())
        return 0
    if not given.tables:
        raise BraidedError("nothing to reproduce: name a table such as table1, or all, or give --write")
    check_folder(given.out)
    options = Options(
        tables=checked(given.tables),
        preset=given.preset,
        seeds=given.seeds,
        limit=given.limit,
        datasets=tuple(given.dataset),
        quick=given.quick,
        out=given.out,
        whole_german=given.whole_german,
        scale=given.scale,
    )
    executor = Processes(given.jobs) if given.ray is None else Ray(given.ray, given.jobs)
    documents = Reproduction(options, given.data_dir, executor, Console(stderr=True)).run()
    for document in documents:
        Console().print(shown(document))
    failed: int = sum(cell.get("failed", 0) for document in documents for cell in document["cells"])
    if failed:
        print(f"{failed} runs failed: their cells say why; run the command again to try them again", file=sys.stderr)
    return min(failed, 1)


def run() -> int:
    """The command; bad input is one line on standard error and exit code 2."""
    try:
        return main()
    except (BraidedError, OSError) as error:
        print(f"reproduction: {printable(str(error))}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(run())
