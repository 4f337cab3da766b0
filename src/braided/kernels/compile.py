"""How the functions that kernels are made of are compiled.

All are inlined into the entry point that calls them. Left to itself, the linker of a process that has just compiled a
kernel takes a helper's machine code from wherever it met it first, and each copy was optimised in other company:
sums were added up in another order than by a process that loads the same kernel from the disk cache. An entry point
without calls is the same machine code in every process.
"""

from __future__ import annotations

import functools

from numba import njit

from braided.kernels.cache import choose_cache

#: Whether what is compiled is kept on disk.
CACHED = choose_cache()
kernel = functools.partial(njit, cache=CACHED, forceinline=True)
