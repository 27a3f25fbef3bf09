"""Where processor time goes: sections of the code, each thread's own, without what is nested."""

from __future__ import annotations

import functools
import importlib
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

spent: dict[str, float] = defaultdict(float)
_lock = threading.Lock()
_local = threading.local()


def watch(
    label: str, module: str, name: str, clock: Callable[[], float] = time.thread_time
) -> None:
    """Count the time in a function, or a method as ``Class.method``, under a label."""
    holder: Any = importlib.import_module(module)
    *path, last = name.split(".")
    for part in path:
        holder = getattr(holder, part)
    inner = getattr(holder, last)

    @functools.wraps(inner)
    def timed(*args: Any, **options: Any) -> Any:
        outer = getattr(_local, "nested", None)
        _local.nested = 0.0
        began = clock()
        try:
            return inner(*args, **options)
        finally:
            took = clock() - began
            with _lock:
                spent[label] += took - _local.nested
            _local.nested = None if outer is None else outer + took

    setattr(holder, last, timed)
