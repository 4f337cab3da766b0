"""The notebooks under examples/ run from the first cell to the last, and are kept without what they print."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: run make test")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: run make test")
pytest.importorskip("ipykernel", reason="ipykernel is not installed: run make test")

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code), "clear the outputs before you commit"
    assert len(code) >= 5
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}})
    client.execute()
    pictures = [out for cell in code for out in cell.outputs if "image/png" in out.get("data", {})]
    assert pictures, "a notebook shows something"
    spoken = [out for cell in code for out in cell.outputs if out.get("name") == "stderr"]
    assert not spoken, f"{path.name} warns: {spoken}"


def test_there_are_four() -> None:
    assert len(NOTEBOOKS) == 4
