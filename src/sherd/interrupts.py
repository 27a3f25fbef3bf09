"""Ctrl-C and a polite end, as an exception that nothing swallows.

Python turns a signal into ``KeyboardInterrupt`` wherever the program happens to be. Inside a
weak reference's callback (every import has some), a destructor, a callback from C, or an
extension that clears errors, that exception is printed or dropped, and the run goes on as if
nobody had asked. So the request is remembered: as long as the main thread is not on its way out,
it is asked again.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

_EVERY = 0.05
"""Seconds between two looks at whether the main thread is on its way out."""

_LOOKS = 2
"""This many looks in a row must find that it is not, before it is asked again."""


class _Request:
    """Whether somebody has asked for the end, and whether that is done with."""

    def __init__(self) -> None:
        self.open = False

    def take(self, _signal: int, _frame: FrameType | None) -> None:
        """Raise in the main thread, and see to it that this is not the last word."""
        if not self.open:
            self.open = True
            _thread.start_new_thread(self._watch, ())
        raise KeyboardInterrupt

    def _watch(self) -> None:
        still = 0
        while self.open:
            time.sleep(_EVERY)
            still = 0 if _on_its_way_out() else still + 1
            if self.open and still >= _LOOKS:
                still = 0
                _thread.interrupt_main(signal.SIGINT)


_REQUEST = _Request()


def _on_its_way_out() -> bool:
    """Whether the main thread is handling an interrupt, or an error that came of one."""
    # Handled means within `except`, `finally` or the end of a `with`: what is undone there
    # is left in peace.
    active: Any = sys._current_exceptions().get(threading.main_thread().ident or 0)  # noqa: SLF001
    error: BaseException | None = active[1] if isinstance(active, tuple) else active
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _tell_other(unraisable: sys.UnraisableHookArgs, /) -> None:
    # An interrupt that was dropped comes again; nobody needs to read where it was dropped.
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)


def watch() -> None:
    """From now on, an interrupt or a polite end is asked for until the main thread leaves.

    A polite end (a container that stops, a batch system's limit) cleans up like Ctrl-C.
    Interrupts that the caller's shell has switched off stay off.
    """
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _REQUEST.take)
    signal.signal(signal.SIGTERM, _REQUEST.take)
    sys.unraisablehook = _tell_other


def asked() -> bool:
    """Whether somebody has asked for the end."""
    return _REQUEST.open


def finish() -> None:
    """The work is done and told: there is nothing left that an interrupt could stop."""
    settle()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)


def settle() -> None:
    """The request to end has been heard; the rest is done in peace."""
    _REQUEST.open = False
