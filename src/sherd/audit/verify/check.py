"""One check of a release, and how it came out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Check:
    """A named check; ``passed`` is None where it could not be made."""

    name: str
    passed: bool | None
    detail: str
