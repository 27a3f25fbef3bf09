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

    def __post_init__(self) -> None:
        # Names of files and fields are somebody else's: they write no lines of their own, and
        # move no cursor.
        for part in ("name", "detail"):
            object.__setattr__(self, part, _shown(getattr(self, part)))


def _shown(text: str) -> str:
    r"""A text with every sign escaped that is not printed as itself.

    >>> print(_shown("a\tb"))
    a\tb
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
