"""Compile the kernels of this checkout into shared libraries: when a wheel is built, and on first use after an edit.

    python build_kernels.py --here                 the library of this machine's level, into build/kernels
    python build_kernels.py x86-64                 that of another level
    python build_kernels.py --into FOLDER          those of all levels of this kind of machine, for a wheel
    python build_kernels.py --requirements         what this needs, as pip names it

Numba compiles each entry point into an object file, on all cores, and a linker makes one library of them: the C
compiler that is there, or else the one of the package ziglang. Object files are kept by a hash of the sources of the
kernels that are in them, so that after an edit only those are compiled that depend on it.
"""

from __future__ import annotations

import argparse
import ast
import fcntl
import gc
import hashlib
import importlib
import inspect
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import types
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
PACKAGE = ROOT / "src" / "braided"
KEPT = ROOT / "build" / "kernels"
REQUIREMENTS = ["numba==0.68.1", "numpy>=2.0"]
LINKER = "ziglang==0.15.2"
_STRICT = [] if sys.platform == "darwin" else ["-Wl,--no-undefined"]
#: Libraries of earlier sources that are kept.
_MAX_EARLIER = 4


def linker() -> list[str]:
    """The command of a C compiler; empty if there is none."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name.split()[0]):
            return name.split()
    return [sys.executable, "-m", "ziglang", "cc"] if find_spec("ziglang") else []


def requirements() -> list[str]:
    """What the build needs and may have to be installed."""
    there = linker()
    return REQUIREMENTS if there and "ziglang" not in there else [*REQUIREMENTS, LINKER]


def load() -> Any:
    """`braided.kernels.native`, with all entry points; of the package itself only what has any is imported."""
    if "braided" not in sys.modules:
        package = types.ModuleType("braided")
        package.__path__ = [str(PACKAGE)]
        sys.modules["braided"] = package
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if "\n@entry" in text:
            importlib.import_module(".".join(path.relative_to(ROOT / "src").with_suffix("").parts))
    return importlib.import_module("braided.kernels.native")


def meaning(source: str) -> str:
    """What a source says without its layout, comments and docstrings."""
    tree = ast.parse(textwrap.dedent(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def sources(function: Callable[..., Any], native: Any) -> str:
    """The sources of a kernel and of all that it calls, and the constants that they use."""
    found: dict[str, str] = {}

    def note(name: str, value: Any, used: set[str]) -> None:
        value = value.function if isinstance(value, native.Entry) else value
        if isinstance(value, types.FunctionType):
            if value in native.KERNELS:  # others stand for what jit.py generates
                add(value)
        elif isinstance(value, types.ModuleType) and value.__name__.startswith("braided."):
            for part in used & set(vars(value)):
                note(f"{name}.{part}", vars(value)[part], set())
        elif isinstance(value, type):
            found[name] = repr(getattr(value, "_fields", value))
        elif not isinstance(value, types.ModuleType):
            found[name] = value.tobytes().hex() if hasattr(value, "tobytes") else repr(value)

    def add(one: types.FunctionType) -> None:
        name = f"{one.__module__}.{one.__qualname__}"
        if name not in found:
            found[name] = meaning(inspect.getsource(one)) + repr(
                sorted(native.KERNELS.get(one, {}).get("fastmath", ()))
            )
            known = {**one.__globals__, **inspect.getclosurevars(one).nonlocals}
            used = set(one.__code__.co_names + one.__code__.co_freevars)
            for other in sorted(used & set(known)):
                note(f"{one.__module__}.{other}", known[other], used)

    add(function)  # type: ignore[arg-type]
    return "\n".join(f"{name}: {found[name]}" for name in sorted(found))


def compile_some(level: str, objects: dict[str, Path]) -> None:
    """Compile entry points into object files; run in a process of its own, where what they share is compiled once."""
    os.environ.update(NUMBA_CPU_NAME={"arm64": "generic"}.get(level, level), NUMBA_CPU_FEATURES="")
    os.environ["NUMBA_DISABLE_INTEL_SVML"] = os.environ["NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING"] = "1"
    gc.disable()  # compilers keep nearly all that they make
    native = load()
    jit = importlib.import_module("braided.kernels.jit")
    for entry in native.ENTRIES:
        if entry.symbol in objects:
            write(objects[entry.symbol], jit.compile_to_object(entry))


def write(path: Path, content: bytes) -> None:
    """Write a file that others see whole or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def tell(text: str, last: bool = False) -> None:
    """Show how far the build is, in one line of a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="\n" if last else "", file=sys.stderr, flush=True)
    elif last:
        print(text, file=sys.stderr, flush=True)


def build(level: str, into: Path) -> None:
    """Build the library of a level into a folder."""
    if not linker():
        raise SystemExit(f"building braided's kernels needs a C compiler to link them: pip install {LINKER}")
    if find_spec("numba") is None:
        raise SystemExit("compiling braided's kernels needs Numba: pip install 'braided[compile]'")
    native, start = load(), time.perf_counter()
    tools = f"{version('numba')} {version('llvmlite')} {level}"
    tools += meaning((PACKAGE / "kernels" / "jit.py").read_text())
    texts = {entry.symbol: sources(entry.function, native) for entry in native.ENTRIES}
    objects = {
        symbol: KEPT / "objects" / f"{hashlib.sha256((tools + symbol + text).encode()).hexdigest()[:24]}.o"
        for symbol, text in texts.items()
    }
    (KEPT / "objects").mkdir(parents=True, exist_ok=True)
    missing: dict[str, dict[str, Path]] = {}
    for entry in native.ENTRIES:
        if not objects[entry.symbol].exists():
            missing.setdefault(entry.__module__, {})[entry.symbol] = objects[entry.symbol]
    if missing:
        cores = min(
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, len(missing)
        )
        what = f"braided: compiling kernels for {level}"
        with multiprocessing.get_context("spawn").Pool(cores) as pool:
            largest_first = sorted(missing.values(), key=lambda some: -sum(len(texts[symbol]) for symbol in some))
            jobs = [(len(some), pool.apply_async(compile_some, (level, some))) for some in largest_first]
            total, done = sum(map(len, largest_first)), 0
            for n, job in jobs:
                tell(f"{what}: {done} of {total}")
                job.get()
                done += n
        tell(f"{what}: {total} in {time.perf_counter() - start:.0f} s on {cores} cores", last=True)
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=KEPT) as folder:
        library = Path(folder) / "library"
        command = [*linker(), "-shared", "-s", *_STRICT, "-o", str(library), *map(str, objects.values()), "-lm"]
        subprocess.run(command, check=True)
        write(into / f"braided-{level}.so", library.read_bytes())


def tidy(folder: Path) -> None:
    """Remove what was built of earlier sources."""
    folders = sorted(
        (path for path in KEPT.iterdir() if path.is_dir() and path.name != "objects"), key=lambda p: p.stat().st_mtime
    )
    for path in folders[: -1 - _MAX_EARLIER]:
        if path != folder:
            shutil.rmtree(path, ignore_errors=True)
    old = time.time() - 30 * 86400
    for path in (KEPT / "objects").iterdir():
        if path.stat().st_mtime < old:
            path.unlink(missing_ok=True)


def main() -> None:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(description="Compile the kernels of this checkout.")
    parser.add_argument("level", nargs="?")
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--into", type=Path)
    parser.add_argument("--requirements", action="store_true")
    asked = parser.parse_args()
    if asked.requirements:
        print("\n".join(requirements()))
        return
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as lock:  # of several processes one builds, and the others find what it has built
        fcntl.flock(lock, fcntl.LOCK_EX)
        native = load()
        kept = KEPT / native.source_hash(ROOT)
        for level in [native.level()] if asked.here else [asked.level] if asked.level else native.levels():
            library = kept / f"braided-{level}.so"
            if not library.exists():
                build(level, kept)
            if asked.into:
                asked.into.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, asked.into)
        tidy(kept)


if __name__ == "__main__":
    main()
