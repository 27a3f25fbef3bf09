"""What the owner should know of how cells were treated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.release.method import Finding

if TYPE_CHECKING:
    from sherd.tables.treatment import Treated


def treatments(treated: tuple[Treated, ...]) -> list[Finding]:
    """What was done to cells, the worst first."""
    return [
        Finding(
            name=f"share {one.how}",
            attribute=one.attribute,
            value=one.share,
            meaning=one.meaning(),
        )
        for one in sorted(treated, key=lambda one: -one.share)
    ]
