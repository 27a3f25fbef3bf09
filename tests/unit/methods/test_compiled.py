"""Compiled kernels: kept on disk, compiled by one process of several, or not kept at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.methods import compiled as module
from sherd.methods.compiled import OneCompiles, compiled

if TYPE_CHECKING:
    import pytest

KERNEL = '''
import sys
from sherd.methods.compiled import compiled

@compiled
def twice(x):
    """Double."""
    return x + x

assert twice(4) == 8
print(sum(twice._cache_misses.values()), sum(twice._cache_hits.values()))
'''


def test_of_processes_that_start_at_once_one_compiles(tmp_path: Path) -> None:
    """Whoever comes second waits for the first and takes what it made."""
    script = tmp_path / "kernel.py"
    script.write_text(KERNEL, encoding="utf-8")
    environment = {
        "PYTHONPATH": str(Path(module.__file__).parents[2]),
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
    }
    started = [
        subprocess.Popen(
            [sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    found = [process.communicate(timeout=120)[0].split() for process in started]
    assert sorted(found) == [["0", "1"], ["0", "1"], ["1", "0"]]


def test_where_nothing_can_be_kept_it_is_compiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cache that cannot be made is done without."""
    import numba

    inner: Any = numba.njit

    def njit(*given: Any, cache: bool = False, **options: Any) -> Any:
        if cache and not given:
            raise RuntimeError("cannot cache function: no locator available")
        return inner(*given, **options)

    monkeypatch.setattr(numba, "njit", njit)

    def half(x: int) -> float:
        return x / 2

    made = compiled(half)
    assert not isinstance(made._cache, OneCompiles)  # type: ignore[attr-defined]
    assert made(4) == 2
