"""The command line that benchmarks share: measure, and print a table for a person or, with `--json`, all figures."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

Measure = Callable[[int, Console], dict[str, Any]]


def parser(about: str | None, records: int) -> argparse.ArgumentParser:
    """The options that all of them have."""
    found = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--records", type=int, default=records, help="records per measurement (%(default)s)")
    found.add_argument("--json", action="store_true", help="print all figures as JSON")
    return found


def show(measure: Measure, table: Callable[[dict[str, Any]], Table], options: argparse.Namespace) -> None:
    """Measure, telling how far it is on standard error, and print."""
    result = measure(options.records, Console(stderr=True))
    if options.json:
        print(json.dumps(result))
    else:
        Console().print(table(result))
