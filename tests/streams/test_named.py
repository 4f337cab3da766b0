"""Streams that are known by name."""

from __future__ import annotations

import subprocess
import sys

from braided.streams.named import named_streams


def test_the_data_sets_are_known_wherever_open_stream_is_imported() -> None:
    """`braided.datasets` enters them, and is imported when a name is first looked up."""
    code = "from braided.streams import open_stream; print(open_stream('bananas').n_records)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "5300\n"
    assert list(named_streams())[:2] == ["shuttle", "german"]


def test_what_is_slow_to_import_waits_until_it_is_needed() -> None:
    code = "import sys, braided; print([name for name in sys.modules if name.startswith('braided.streams.readers')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
