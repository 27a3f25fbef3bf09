"""What happened to cells and records before and beside the method: clamped, recoded, left out.

The audit prepares the original as the release's schema says and counts what that does. Records
that a method left out besides are those it was given and did not release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sherd.auditing.case.case import Case
    from sherd.tables.treatment import Treated


def treatment(case: Case, treated: Sequence[Treated]) -> list[Measure]:
    """The shares of cells clamped and recoded, of records dropped and left out."""
    rows = max((one.of for one in treated), default=case.table_rows)
    found = []
    for how in ("clamped", "recoded"):
        parts = _parts(treated, how)
        cells = sum(one.cells for one in treated if one.how == how)
        total = rows * max(1, len(case.protected))
        found.append(
            Measure(
                spec=CATALOGUE[how],
                value=cells / total,
                basis=f"{cells:,} of {total:,} cells of protected attributes, exact",
                parts=parts,
            )
        )
    gone = rows - case.table_rows
    found.append(
        Measure(
            spec=CATALOGUE["dropped"],
            value=gone / rows,
            basis=f"{gone:,} of {rows:,} records, exact",
            parts=_parts(treated, "dropped"),
        )
    )
    left = max(0, case.table_rows - case.release_rows)
    found.append(
        Measure(
            spec=CATALOGUE["left-out"],
            value=left / case.table_rows,
            basis=f"{left:,} of {case.table_rows:,} records that the method was given, exact",
        )
    )
    return found


def _parts(treated: Sequence[Treated], how: str) -> dict[str, float]:
    """The share of each attribute's cells that were treated in one way."""
    found: dict[str, float] = {}
    for one in treated:
        if one.how == how:
            found[one.attribute] = found.get(one.attribute, 0.0) + one.share
    return found
