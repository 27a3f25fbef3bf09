"""One check of a release, and how it came out."""

from __future__ import annotations

from dataclasses import dataclass

from sherd.errors import SherdError

UNREADABLE = (
    SherdError,
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    NotImplementedError,
    RecursionError,
)
"""What reading somebody else's manifest or table raises where it is not what it must be."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """A named check; ``passed`` is None where it could not be made."""

    name: str
    passed: bool | None
    detail: str
