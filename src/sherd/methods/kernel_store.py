"""Kernels compiled before they are needed: machine code that lies in the package.

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

import hashlib
import pickle
import platform
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

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
