"""Memory that is no longer needed goes back to the system at once.

Arrow's pool and the allocator of C keep what was freed for later. An audit holds whole tables in
turns, so that what is kept of one would add to the next.
"""

from __future__ import annotations

import ctypes
import sys

import pyarrow as pa


def give_back() -> None:
    """Return freed memory; where the system's C library cannot, only Arrow's goes back."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
