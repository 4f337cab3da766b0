"""What an installed braided does on any system: learns, predicts, is saved and loaded, and runs as a command."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

_FIRST = (
    "from braided import MODLRegressor; m = MODLRegressor(); m.learn_one({'a': 1.0}, 1.0); m.predict_one({'a': 1.0})"
)


def main() -> None:
    """Fail if any of it does; say where braided came from."""
    start = time.perf_counter()
    import braided

    model = braided.MODLClassifier()
    for record in range(200):
        model.learn_one({"a": float(record % 2), "b": 1.0}, "odd" if record % 2 else "even")
        if record == 0:
            model.predict_one({"a": 1.0})
            answered = time.perf_counter() - start
    print(f"braided {braided.__version__} from {Path(braided.__file__).parent}, Python {sys.version.split()[0]}")
    print(f"first answer after {answered:.2f} s, import and all", flush=True)
    said = model.predict_proba_one({"a": 1.0})
    if not said["odd"] > 0.9:
        raise SystemExit(f"'odd' should be nearly sure, and has {said['odd']:.3f}")
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.braided")
        if braided.MODLClassifier.load(Path(folder) / "model.braided").predict_proba_one({"a": 1.0}) != said:
            raise SystemExit("a loaded model answers otherwise than the saved one")
    subprocess.run([sys.executable, "-m", "braided", "run", "--limit", "500", "--quiet"], check=True)
    eight = [subprocess.Popen([sys.executable, "-c", _FIRST]) for _ in range(8)]
    if any(process.wait() for process in eight):
        raise SystemExit("of eight processes that start at once, one fails")
    if {"numba", "llvmlite"} & set(sys.modules):
        raise SystemExit("Numba is imported, and must not be needed")


if __name__ == "__main__":
    main()
