"""One check of a release, and how it came out; and the roles that checks ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import SherdError

if TYPE_CHECKING:
    from collections.abc import Mapping

PROTECTED = ("quasi-identifier", "sensitive")
UNTOUCHED = ("insensitive", "weight")

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

    @classmethod
    def of(cls, name: str, passed: bool, good: str, bad: str) -> Check:
        """A check that was made, with the words for either outcome."""
        return cls(name=name, passed=passed, detail=good if passed else bad)

    @classmethod
    def failed(cls, name: str, detail: str) -> Check:
        """A check that failed."""
        return cls(name=name, passed=False, detail=detail)

    @classmethod
    def unmade(cls, name: str, detail: str) -> Check:
        """A check that cannot be made from what was released."""
        return cls(name=name, passed=None, detail=detail)


def _shown(text: str) -> str:
    r"""A text with every sign escaped that is not printed as itself.

    >>> print(_shown("a\tb"))
    a\tb
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def with_role(manifest: Mapping[str, Any], *roles: str) -> list[str]:
    """The attributes of a manifest's schema that have one of these roles."""
    attributes = manifest["schema"]["attributes"]
    return [name for name, one in attributes.items() if one.get("role") in roles]


def released_names(manifest: Mapping[str, Any]) -> list[str]:
    """The attributes of a manifest's schema that are no identifiers."""
    attributes = manifest["schema"]["attributes"]
    return [name for name, one in attributes.items() if one.get("role") != "identifier"]
