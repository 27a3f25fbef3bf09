"""Progress of long steps for a watcher, without handing it through every function in between.

>>> steps = []
>>> with watched(lambda step, done, total: steps.append((step, done, total))):
...     tell("compiling", 0, 1)
>>> tell("nobody watches", 0, 1)
>>> steps
[('compiling', 0, 1)]
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_watcher: ContextVar[Callable[[str, int, int], None] | None] = ContextVar("watcher", default=None)


@contextlib.contextmanager
def watched(progress: Callable[[str, int, int], None] | None) -> Iterator[None]:
    """Tell this function of every step until the end of the block."""
    before = _watcher.set(progress)
    try:
        yield
    finally:
        _watcher.reset(before)


def tell(step: str, done: int, total: int) -> None:
    """Tell the watcher, if there is one, how far a step has come."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(step, done, total)
