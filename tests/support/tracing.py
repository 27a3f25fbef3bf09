"""Which functions of Sherd a run went through, and in which order."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def hops(run: Callable[[], Any], watched: Iterable[str]) -> list[str]:
    """The calls of the watched functions (``module:function``) while ``run`` lasts, in order.

    Calls in other threads count too; generators count once, when they begin.
    """
    wanted = set(watched)
    seen: list[str] = []
    begun: set[int] = set()

    def note(frame: Any, event: str, _arg: object) -> None:
        if event != "call":
            return
        name = f"{frame.f_globals.get('__name__')}:{frame.f_code.co_qualname}"
        if name in wanted and id(frame) not in begun:
            if frame.f_code.co_flags & 0x20:  # a generator comes back to the same frame
                begun.add(id(frame))
            seen.append(name)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen
