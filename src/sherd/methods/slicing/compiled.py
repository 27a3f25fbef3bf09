"""Compiling a kernel: Numba behind a decorator that keeps the function's type.

Modules that use it are imported where a run starts, never at the top of a method's
module, so that asking what a method promises does not import Numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from sherd.errors import MissingPartError

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")


def compiled(function: F) -> F:
    """The function, compiled at its first call and kept on disk for the next process."""
    try:
        from numba import njit
    except ImportError:
        raise MissingPartError(
            "slicing needs the package 'numba'", do="install sherd[slicing]"
        ) from None
    return cast("F", njit(cache=True, nogil=True)(function))
