"""Kernels: functions that are compiled ahead of time into one shared library, and how Python calls them.

A `kernel` is called by other kernels alone, and is inlined into the entry points that need it: an entry point without
calls is the same machine code in every build. An `entry` is what the library exports. It takes the address of a block
of 64-bit words: a number is one of them, and an array is its address and its sizes, in C order. So it is called from
Python by ctypes, without the interpreter's lock, and from other kernels by its address (`kernels.calls`); and what
stays the same from call to call is packed once.

There is a library for each level of processor (`level`). A checkout's are built by `build_kernels.py`, and built again
on first use once a source has changed. With `BRAIDED_JIT=1`, and for learners that a library does not have, Numba
compiles the same functions when they are first needed (`kernels.jit`).
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import operator
import os
import platform
import struct
import subprocess
import sys
from array import array as plain_array
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from braided.errors import BraidedError


class ArrayKind(NamedTuple):
    """An array that an entry point takes."""

    dtype: np.dtype[Any]
    ndim: int


def _array(dtype: Any, ndim: int = 1) -> ArrayKind:
    return ArrayKind(np.dtype(dtype), ndim)


Ints = Annotated[NDArray[np.int64], _array(np.int64)]
IntRows = Annotated[NDArray[np.int64], _array(np.int64, 2)]
IntBlocks = Annotated[NDArray[np.int64], _array(np.int64, 3)]
Hashes = Annotated[NDArray[np.uint64], _array(np.uint64)]
HashRows = Annotated[NDArray[np.uint64], _array(np.uint64, 2)]
Flags = Annotated[NDArray[np.bool_], _array(np.bool_)]
Bytes = Annotated[NDArray[np.uint8], _array(np.uint8)]
ByteRows = Annotated[NDArray[np.uint8], _array(np.uint8, 2)]
Singles = Annotated[NDArray[np.float32], _array(np.float32)]
SingleRows = Annotated[NDArray[np.float32], _array(np.float32, 2)]
SingleFields = Annotated[NDArray[np.float32], _array(np.float32, 4)]
Doubles = Annotated[NDArray[np.float64], _array(np.float64)]
DoubleRows = Annotated[NDArray[np.float64], _array(np.float64, 2)]

_from_buffer, _addressof = ctypes.c_char.from_buffer, ctypes.addressof
F = TypeVar("F", bound=Callable[..., Any])

#: Every kernel with its Numba options, and every entry point, in the order in which they were defined.
KERNELS: dict[Callable[..., Any], dict[str, Any]] = {}
ENTRIES: list[Entry] = []
#: Whether Numba compiles what a library has.
JIT = os.environ.get("BRAIDED_JIT", "") not in {"", "0"}
_ROOT = Path(__file__).parents[3]
_BUILDER = _ROOT / "build_kernels.py"
_LEVELS = {"x86_64": ("x86-64-v3", "x86-64"), "arm64": ("arm64",), "aarch64": ("arm64",)}
#: What Linux calls the instructions that x86-64-v3 has and x86-64 has not.
_V3 = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}


def kernel(**options: Any) -> Callable[[F], F]:
    """Mark a function that entry points are made of; `fastmath` may be given."""

    def mark(function: F) -> F:
        KERNELS[function] = options
        return function

    return mark


class Signature(NamedTuple):
    """A kind of entry point: `opened` makes of a kernel what the library exports."""

    opened: Callable[[Callable[..., Any]], Callable[..., Any]]


class Entry:
    """A function with fixed types that the library exports; Python calls it like any other.

    Arrays of another layout or type than declared are copied, and copied back.
    """

    def __init__(self, function: Callable[..., Any], kernel: Callable[..., Any]) -> None:
        self.function = function
        functools.update_wrapper(self, kernel)
        #: As the library calls it.
        self.symbol = f"{kernel.__module__}.{kernel.__name__}".replace(".", "_")
        ENTRIES.append(self)

    @functools.cached_property
    def types(self) -> tuple[list[Any], Any]:
        """What it takes, an `ArrayKind` or a type each, and what it returns."""
        hints = get_type_hints(self.function, include_extras=True)
        returned = hints.pop("return")
        return [hint.__metadata__[0] if hasattr(hint, "__metadata__") else hint for hint in hints.values()], returned

    @functools.cached_property
    def address(self) -> int:
        """Where the machine code is."""
        if not JIT:
            found = getattr(library(), self.symbol, None)
            if found is not None:
                return int(ctypes.cast(found, ctypes.c_void_p).value or 0)
        try:
            jit = importlib.import_module("braided.kernels.jit")  # which imports this module
        except ImportError as error:
            raise BraidedError(
                f"{self.symbol} is compiled when it is first used: pip install 'braided[compile]'"
            ) from error
        return jit.compile_to_address(self)

    @functools.cached_property
    def native(self) -> Any:
        """The machine code, as a function of what `packed` gives."""
        codes: dict[Any, Any] = {float: ctypes.c_double, np.uint64: ctypes.c_uint64}
        returned = codes.get(self.types[1], ctypes.c_int64)
        return ctypes.CFUNCTYPE(returned, ctypes.c_char_p)(self.address)

    @functools.cached_property
    def _layout(self) -> tuple[list[ArrayKind | None], Callable[..., bytes]]:
        """The arrays among its arguments, and what packs the words of all."""
        kinds = [kind if isinstance(kind, ArrayKind) else None for kind in self.types[0]]
        codes = {float: "d", np.uint64: "Q"}
        words = [
            codes.get(kind, "q") if array is None else "q" * (1 + array.ndim)
            for kind, array in zip(self.types[0], kinds, strict=True)
        ]
        return kinds, struct.Struct("".join(words)).pack

    def packed(self, *arguments: Any) -> bytes | None:
        """The block of 64-bit words that the machine code reads; the arrays must live as long as it is used.

        None where an array has another layout or type than declared.
        """
        kinds, pack = self._layout
        words: list[Any] = []
        for kind, argument in zip(kinds, arguments, strict=True):
            if kind is None:
                words.append(argument)
            elif (
                (argument.dtype is kind.dtype or argument.dtype == kind.dtype)
                and argument.ndim == kind.ndim
                and argument.flags.c_contiguous
            ):
                words.append(address_of(argument))
                words += argument.shape
            else:
                return None
        return pack(*words)

    def __call__(self, *arguments: Any) -> Any:
        """Call it as declared; positions only."""
        block, returned = self.packed(*arguments), self.types[1]
        result = self._call_copied(*arguments) if block is None else self.native(block)
        return bool(result) if returned is bool else None if returned is type(None) else result

    def _call_copied(self, *arguments: Any) -> Any:
        copies = list(arguments)
        for place, kind in enumerate(self._layout[0]):
            if kind is not None:
                copies[place] = np.array(arguments[place], dtype=kind.dtype, order="C")
                if copies[place].ndim != kind.ndim:
                    raise ValueError(f"{self.symbol}: an array of {kind.ndim} dimensions is needed")
        block = self.packed(*copies)
        assert block is not None
        result = self.native(block)
        for array, copied in zip(arguments, copies, strict=True):
            if array is not copied and array.flags.writeable:
                array[...] = copied
        return result


class RepeatedCall:
    """An entry point that is mostly called with the same objects: their block is packed once.

    They live as long as they are the last ones. What is in them may change, their places and shapes may not.
    """

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._last: tuple[tuple[Any, ...], bytes | None] = (), None

    def __call__(self, *arguments: Any) -> None:
        """Call it as it is called otherwise."""
        last, block = self._last
        if len(last) != len(arguments) or not all(map(operator.is_, last, arguments)):
            block = self._entry.packed(*arguments)
            self._last = arguments, block
        if block is None:
            self._entry(*arguments)
        else:
            self._entry.native(block)


def address_of(array: NDArray[Any]) -> int:
    """Where an array's numbers are."""
    if not array.size:
        return 0
    try:  # three times as fast as what NumPy has for it
        return _addressof(_from_buffer(array))  # type: ignore[arg-type]
    except TypeError:  # it is read-only
        return int(array.ctypes.data)


def placed(array: Any) -> tuple[int, int]:
    """Where the numbers of an array, of NumPy or of the standard library, are, and how many."""
    found: tuple[int, int] = array.buffer_info() if type(array) is plain_array else (address_of(array), array.size)
    return found


def entry(of: Signature | Callable[..., Any]) -> Any:
    """Mark a kernel as an entry point: one with annotated arguments, or with a signature of `kernels.calls`."""
    if isinstance(of, Signature):
        return lambda function: Entry(of.opened(kernel()(function)), function)
    return Entry(kernel()(of), of)


def levels() -> tuple[str, ...]:
    """The levels that there may be libraries for on this kind of machine, the fastest first."""
    return _LEVELS.get(platform.machine(), ())


@functools.cache
def level() -> str:
    """The level in use: the fastest that the processor has, or what `BRAIDED_CPU` says.

    `x86-64-v3` is x86-64 with AVX2 and FMA; `x86-64` runs everywhere; `arm64` is the only one of its kind. Two levels
    round differently; docs/systems.md says what is the same where.
    """
    known, chosen = levels(), os.environ.get("BRAIDED_CPU")
    if chosen and chosen not in known:
        raise BraidedError(f"BRAIDED_CPU is {chosen!r}: use one of {', '.join(known) or 'none: there is no library'}")
    if chosen or len(known) < 2:
        return chosen or "".join(known)
    return known[0] if _has_v3() else known[1]


def _has_v3() -> bool:
    try:
        with Path("/proc/cpuinfo").open() as lines:
            flags = next((line.split() for line in lines if line.startswith("flags")), [])
    except OSError:
        flags = []
    return set(flags) >= _V3


@functools.cache
def library() -> ctypes.CDLL | None:
    """The library of this level; None where there is none."""
    built = Path(__file__).parent / "lib"
    if _BUILDER.exists():
        built = _built_from_checkout()
    path = built / f"braided-{level()}.so"
    return ctypes.CDLL(str(path)) if path.exists() else None


def _built_from_checkout() -> Path:
    """The folder of the libraries of a checkout's sources as they are now."""
    folder = _ROOT / "build" / "kernels" / source_hash(_ROOT)
    if not (folder / f"braided-{level()}.so").exists():
        done = subprocess.run([sys.executable, str(_BUILDER), level()], check=False)
        if done.returncode:
            raise BraidedError(f"the kernels of this checkout could not be built: run {_BUILDER} to see why")
    return folder


def source_hash(root: Path) -> str:
    """The hash of all files of a checkout that may say what a kernel does."""
    from hashlib import sha256

    package, found = root / "src" / "braided", sha256((root / "build_kernels.py").read_bytes())
    for folder in (".", "combiners", "datasets", "kernels", "learners", "streams"):
        for path in sorted((package / folder).glob("*.py")):
            found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:16]
