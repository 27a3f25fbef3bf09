"""Compiling a kernel: Numba behind a decorator that keeps the function's type.

Modules that use it are imported where a run starts, never at the top of a method's
module, so that asking what a method promises does not import Numba.

Kernels that were compiled ahead are loaded (see ``kernel_store``). Where they do not fit the
machine, compiling takes seconds of its time, once: Numba keeps the result beside the source,
or in the user's own cache where that cannot be written. Of several processes that need a
kernel at once, as owners on one machine do, one compiles and the others wait for it. Where
nothing can be kept, every process compiles for itself. Whoever watches the run is told.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sherd.errors import MissingPartError
from sherd.methods.kernel_store import SHIPPED, KernelStore
from sherd.release.watching import tell

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")

AHEAD = "SHERD_KERNELS"
"""Names a folder that compiled kernels are written to; none is loaded then."""

STEP = "compiling, once on this machine"


class OneCompiles:
    """Numba's cache of one function, whose misses hold a lock until the result is kept.

    Functions that call each other are locked from the caller down and never in a circle.
    """

    def __init__(self, inner: Any, function: Callable[..., object]) -> None:
        self._inner = inner
        self._function = function
        self._lock = Path(inner.cache_path) / f"{function.__qualname__}.lock"
        self._held: Any = None
        self._ahead = os.environ.get(AHEAD)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was kept; if nothing was, wait for whoever compiles and look again."""
        if self._ahead:
            return None
        found = self._load(sig, target_context)
        if found is not None:
            return found
        with contextlib.suppress(ImportError, OSError):  # no locks here: everybody compiles
            import fcntl

            self._held = self._held or self._lock.open("wb")
            fcntl.flock(self._held, fcntl.LOCK_EX)
        found = self._inner.load_overload(sig, target_context)
        if found is not None:
            self._release()
        else:
            tell(STEP, 0, 1)
        return found

    def _load(self, sig: Any, target_context: Any) -> Any:
        found = KernelStore(SHIPPED).load(self._function, sig, target_context)
        return self._inner.load_overload(sig, target_context) if found is None else found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a result, and let the others have it."""
        if self._ahead:  # also what only other kernels call here: Python may call it elsewhere
            KernelStore(Path(self._ahead)).save(self._function, sig, data)
            return
        tell(STEP, 1, 1)
        try:
            self._inner.save_overload(sig, data)
        finally:
            self._release()

    def _release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None


def compiled(function: F, **options: Any) -> F:
    """The function, compiled at its first call and kept on disk for the next process."""
    try:
        from numba import njit
    except ImportError:
        raise MissingPartError(
            "this method needs the package 'numba'",
            do="install sherd[slicing] or sherd[fragments]",
        ) from None
    try:
        made: Any = njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # neither the source's folder nor the user's can be written
        return cast("F", njit(nogil=True, **options)(function))
    if not hasattr(made, "_cache"):  # NUMBA_DISABLE_JIT: the function itself, to be traced
        return cast("F", made)
    made._cache = OneCompiles(made._cache, function)  # noqa: SLF001 - no other door
    return cast("F", made)


def kernel(function: Callable[..., object]) -> Any:
    """The same for a function whose arguments Python's types cannot name."""
    return compiled(function)


def borrowing_kernel(function: Callable[..., object]) -> Any:
    """A kernel that only reads and writes the arrays it is handed: it may not make any.

    Numba then counts no references. Where a kernel takes twenty arrays and does little with
    them, counting takes longer than the work.
    """
    return compiled(function, _nrt=False)
