"""What cells lost: the papers' mean SSE and IL1s, what was suppressed, clamped, recoded, left out.

The audit prepares the original as the release's schema says and counts what that does. Records
that a method left out besides are those it was given and did not release.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Measure
from sherd.release.information_loss import mean_square

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case
    from sherd.tables.prepare import Treated


def cell_losses(case: Case) -> list[Measure]:
    """Mean SSE and IL1s over the protected attributes; needs the pairs."""
    squares: dict[str, float] = {}
    shifts: dict[str, float] = {}
    shuffled = []
    for name in case.protected:
        before, after = case.paired(name)
        squares[name] = mean_square(before, after)
        shifts[name] = _shift(before, after)
        shuffled.append(2.0 if _varies(before) else 0.0)
    l2 = len(squares) ** 2
    parts = {name: value / l2 for name, value in squares.items()}
    n = f"{case.n_released:,} records × {len(squares)} attributes, exact"
    by_frequency = any(
        case.scales[name].labels is not None and case.schema[name].labels is None
        for name in case.protected
    )
    order = "order of frequency" if by_frequency else "declared order"
    return [
        Measure(
            spec=CATALOGUE["mean-sse"],
            value=sum(parts.values()),
            basis=f"{n}; variant (1/l)·sqrt(Σ (d/σ)²), categories in {order}",
            baseline=sum(shuffled) / l2,
            against="the original with its columns shuffled",
            parts=parts,
        ),
        Measure(
            spec=CATALOGUE["il1s"],
            value=float(np.mean(list(shifts.values()))),
            basis=n,
            parts=shifts,
        ),
    ]


def _varies(values: NDArray[np.float64]) -> bool:
    present = values[~np.isnan(values)]
    return bool(present.size) and float(present.max()) > float(present.min())


def _shift(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    spread = float(np.nanstd(before)) if np.isfinite(before).any() else 0.0
    distance = np.abs(after - before)
    gaps = np.isnan(distance)
    if gaps.any():
        both = np.isnan(before) & np.isnan(after)
        width = float(np.nanmax(before) - np.nanmin(before)) if np.isfinite(before).any() else 0.0
        distance[gaps] = width
        distance[both] = 0
    return float(np.mean(distance)) / (math.sqrt(2) * (spread or 1.0))


def suppressed(case: Case) -> list[Measure]:
    """The share of cells that the release lost."""
    parts = {}
    for name in case.names:
        before = float(np.mean(np.isnan(case.original[name])))
        after = float(np.mean(np.isnan(case.released[name])))
        parts[name] = max(0.0, after - before)
    cells = case.n_released * len(parts)
    return [
        Measure(
            spec=CATALOGUE["suppressed"],
            value=float(np.mean(list(parts.values()))),
            basis=f"{cells:,} cells, exact",
            parts=parts,
        )
    ]


def treatment(case: Case, treated: Sequence[Treated]) -> list[Measure]:
    """The shares of cells clamped and recoded, of records dropped and left out."""
    rows = max((one.of for one in treated), default=case.table_rows)
    measures = []
    for how in ("clamped", "recoded"):
        parts = _parts(treated, how)
        cells = sum(one.cells for one in treated if one.how == how)
        total = rows * max(1, len(case.protected))
        measures.append(
            Measure(
                spec=CATALOGUE[how],
                value=cells / total,
                basis=f"{cells:,} of {total:,} cells of protected attributes, exact",
                parts=parts,
            )
        )
    gone = rows - case.table_rows
    measures.append(
        Measure(
            spec=CATALOGUE["dropped"],
            value=gone / rows,
            basis=f"{gone:,} of {rows:,} records, exact",
            parts=_parts(treated, "dropped"),
        )
    )
    left = max(0, case.table_rows - case.release_rows)
    measures.append(
        Measure(
            spec=CATALOGUE["left-out"],
            value=left / case.table_rows,
            basis=f"{left:,} of {case.table_rows:,} records that the method was given, exact",
        )
    )
    return measures


def _parts(treated: Sequence[Treated], how: str) -> dict[str, float]:
    """The share of each attribute's cells that were treated in one way."""
    shares: dict[str, float] = {}
    for one in treated:
        if one.how == how:
            shares[one.attribute] = shares.get(one.attribute, 0.0) + one.share
    return shares
