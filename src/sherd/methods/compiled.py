"""Compiling a kernel: Numba behind a decorator that keeps the function's type.

Modules that use it are imported where a run starts, never at the top of a method's
module, so that asking what a method promises does not import Numba.

Kernels that were compiled ahead are loaded (see ``KernelStore``). Where they do not fit the
machine, compiling takes seconds of its time, once: Numba keeps the result beside the source,
or in the user's own cache where that cannot be written. Of several processes that need a
kernel at once, as owners on one machine do, one compiles and the others wait for it. Where
nothing can be kept, every process compiles for itself. Whoever watches the run is told.

``KernelStore`` holds kernels compiled before they are needed, as machine code in the package.
Compiling every kernel takes half a minute of processor time; loading what was compiled takes
milliseconds. ``sherd.methods.compile_ahead`` fills the store when Sherd is set up or packed.
An entry is used only where nothing has changed that it depends on: the version of Python, of
Numba and of the compiler, the kind of machine, and every line of the family's source (a
kernel holds the code of those that it calls, from other files too). Whatever does not fit is
compiled as if the store were empty.

The code is compiled for a public level of the architecture, not for the machine that packs
it, and is used where the processor has everything that the level asks for.

An entry is a pickle, as Numba's own caches are: whoever can write into the package's folder
can run code anyway.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import platform
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sherd.errors import MissingPartError
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
        kernel = self._load(sig, target_context)
        if kernel is not None:
            return kernel
        with contextlib.suppress(ImportError, OSError):  # no locks here: everybody compiles
            import fcntl

            self._held = self._held or self._lock.open("wb")
            fcntl.flock(self._held, fcntl.LOCK_EX)
        kernel = self._inner.load_overload(sig, target_context)
        if kernel is not None:
            self._release()
        else:
            tell(STEP, 0, 1)
        return kernel

    def _load(self, sig: Any, target_context: Any) -> Any:
        kernel = KernelStore(SHIPPED).load(self._function, sig, target_context)
        return self._inner.load_overload(sig, target_context) if kernel is None else kernel

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


def inlined_kernel(function: Callable[..., object]) -> Any:
    """A kernel that is written out where another one calls it.

    A call hands on every array by seven words: twenty arrays take longer to hand on than one of
    these takes to run. For functions called from one or two places: each gets a copy.
    """
    return compiled(function, inline="always")


SHIPPED = Path(__file__).parent / "kernels"
"""Where the package keeps the kernels that came with it."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """A level of an architecture: the compiler's name for it, and what a processor must have."""

    name: str
    features: tuple[str, ...] = ()


_AVX2 = "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave"
LEVELS = {
    "x86_64": Level(name="x86-64-v3", features=tuple(_AVX2.split())),
    "aarch64": Level(name="generic"),
    "arm64": Level(name="generic"),
}


def level() -> Level | None:
    """The level that kernels are compiled ahead for on this kind of machine; None for none."""
    return LEVELS.get(platform.machine())


@cache
def usable() -> bool:
    """Whether this processor has everything that the level asks for."""
    import llvmlite.binding as llvm

    wanted = level()
    if wanted is None:
        return False
    has = llvm.get_host_cpu_features()
    return all(has.get(feature, False) for feature in wanted.features)


@cache
def tag() -> str:
    """What a kernel's code depends on beside its source, as a folder's name."""
    import llvmlite
    import numba

    python = f"{sys.implementation.name}{sys.version_info[0]}.{sys.version_info[1]}"
    machine = f"{platform.system()}-{platform.machine()}".lower()
    known = level()
    return (
        f"{python}-numba{numba.__version__}-llvmlite{llvmlite.__version__}-{machine}-"
        f"{'none' if known is None else known.name}"
    )


@cache
def _stamp(folder: Path) -> str:
    """A fingerprint of every source file of a family."""
    whole = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        whole.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


class KernelStore:
    """A folder of compiled kernels, a file for each function."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def load(self, function: Callable[..., object], sig: Any, target_context: Any) -> Any:
        """The compiled function for these types, or None."""
        try:
            stamp, kept = pickle.loads(self._path(function).read_bytes())  # noqa: S301 - above
            reduced = kept.get(repr(sig)) if stamp == _stamp_of(function) else None
            if reduced is None or not usable():
                return None
            from numba.core.compiler import CompileResult

            target_context.refresh()
            rebuild: Any = CompileResult._rebuild  # noqa: SLF001 - as Numba's own cache does
            return rebuild(target_context, *pickle.loads(reduced))  # noqa: S301 - above
        except Exception:
            return None

    def save(self, function: Callable[..., object], sig: Any, result: Any) -> None:
        """Keep a compiled function."""
        from numba.core import serialize

        dumps: Any = serialize.dumps
        path, stamp, kept = self._path(function), _stamp_of(function), {}
        if path.exists():
            before, kept = pickle.loads(path.read_bytes())  # noqa: S301 - above
            kept = kept if before == stamp else {}
        kept[repr(sig)] = dumps(result._reduce())  # noqa: SLF001 - as Numba's own cache does
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps((stamp, kept)))

    def _path(self, function: Callable[..., object]) -> Path:
        return self.root / tag() / f"{function.__module__}.{function.__qualname__}"


def _stamp_of(function: Callable[..., object]) -> str:
    return _stamp(Path(function.__code__.co_filename).parent)
