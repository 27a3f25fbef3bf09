"""What preparation did to a table's cells, attribute by attribute, for its owner's eyes only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sherd.tables.schema import Attribute

WORRYING = 0.01
"""The share of an attribute's cells from which their treatment is worth a warning."""


@dataclass(frozen=True, kw_only=True)
class Treated:
    """How many cells of an attribute were treated in one way, of how many, and why.

    ``how`` is ``kept``, ``recoded``, ``clamped`` or ``dropped``.
    """

    attribute: str
    how: str
    why: str
    cells: int
    of: int

    @property
    def share(self) -> float:
        """The share of the attribute's cells."""
        return self.cells / self.of

    @property
    def worrying(self) -> bool:
        """Whether so many cells were changed that the schema may be wrong."""
        return self.how != "kept" and self.share > WORRYING

    def meaning(self) -> str:
        """The treatment in words.

        >>> one = Treated(attribute="age", how="clamped", why="too old", cells=3, of=4)
        >>> one.meaning()
        'WARNING: 3 of 4 cells were clamped: too old; is the schema right?'
        """
        text = f"{self.cells} of {self.of} cells were {self.how}: {self.why}"
        if self.how == "dropped":
            text += ", and their rows with them"
        return f"WARNING: {text}; is the schema right?" if self.worrying else text


def warned(meaning: str, share: float) -> str:
    """What is said of a share of records that were left out; above ``WORRYING`` it warns.

    >>> warned("left out", 0.4), warned("left out", 0.001)
    ('WARNING: 40 % left out', 'left out')
    """
    return f"WARNING: {share:.0%} {meaning}".replace("%", " %", 1) if share > WORRYING else meaning


def note(
    treated: list[Treated], attribute: Attribute, how: str, why: str, cells: NDArray[np.bool_]
) -> None:
    """Add to the list what was done, where it was done to any cell."""
    count = int(cells.sum())
    if count:
        treated.append(
            Treated(attribute=attribute.name, how=how, why=why, cells=count, of=len(cells))
        )
