"""What an attack is: what it knows, what it does, when it wins, and how to run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sherd.auditing.catalogue import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.auditing.case.case import Case
    from sherd.auditing.verdict.measure import Measure, Spec


@dataclass(frozen=True, kw_only=True)
class Attack:
    """An attack on a release.

    ``codes`` are the measures it yields, the first of them its success; by default one that is
    called as the attack is. ``source`` says where it was described. An attack is ``whole`` if a
    sample of the release would flatter it: it is then run on every record.
    """

    name: str
    title: str
    knows: str
    does: str
    wins: str
    source: str
    run: Callable[[Case], list[Measure]]
    whole: bool = False
    codes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", self.codes or (self.name,))

    @property
    def specs(self) -> tuple[Spec, ...]:
        """The measures it yields."""
        return tuple(CATALOGUE[code] for code in self.codes)

    @property
    def needs(self) -> tuple[str, ...]:
        """What must be known to run it."""
        return self.specs[0].needs
