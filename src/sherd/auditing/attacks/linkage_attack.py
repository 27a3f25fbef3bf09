"""Re-identification by distance: the original that lies nearest to a released record.

Domingo-Ferrer and Torra (2001). Distances are those of ``Space``: every attribute in units of
its standard deviation, labels by rank, as in the papers' own loss. The second attack knows
some pairs: it weighs every attribute as those pairs teach (by what a line through them leaves
over, by the median deviation, or not at all, whichever links most of them), and rules the
known originals out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.attacks.attack import Attack
from sherd.auditing.case.case import Space, pick, take
from sherd.auditing.case.nearest import linked
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Measure, clopper_pearson

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case, Columns

KNOWN = 0.05
"""The share of records the second attacker knows."""

_LEAST = 0.01  # no attribute is trusted beyond a hundredth of its spread
_LEARN, _TRY = 50_000, 300


def by_distance(case: Case) -> list[Measure]:
    """Link a sample of released records to their nearest original."""
    assert case.order is not None
    rows = pick(case.rng("linkage"), case.n_released, case.limits.attacked)
    space = Space.of(case.original, case.names)
    points = space.points(case.released, rows)
    hits = linked(points, case.original, space, case.order[rows])
    return [_measure(case, "linkage", hits, 1 / case.n)]


def with_known(case: Case) -> list[Measure]:
    """The same by somebody who knows 5 % of the pairs."""
    assert case.order is not None
    rng = case.rng("linkage-known")
    shuffled = rng.permutation(case.n_released)
    cut = max(2, int(KNOWN * case.n_released))
    known, unknown = shuffled[:cut], shuffled[cut:]
    if not unknown.size:
        return []
    rows = unknown[: case.limits.attacked]
    barred = np.zeros(case.n, np.bool_)
    barred[case.order[known]] = True
    best = _best(case, known)
    space, fitted = _learnt(case, known[:_LEARN], rows, best)
    hits = linked(space.points(fitted), case.original, space, case.order[rows], barred=barred)
    return [_measure(case, "linkage-known", hits, 1 / (case.n - cut))]


def _best(case: Case, known: NDArray[np.int64]) -> str:
    """The way of weighing attributes that links most of the known records themselves."""
    assert case.order is not None
    learn, test = known[: len(known) // 2][:_LEARN], known[len(known) // 2 :][:_TRY]
    scores = {}
    for way in ("plain", "mean", "median"):
        space, fitted = _learnt(case, learn, test, way)
        hits = linked(space.points(fitted), case.original, space, case.order[test])
        scores[way] = float(hits.mean())
    return max(scores, key=lambda way: scores[way])


def _learnt(
    case: Case, known: NDArray[np.int64], rows: NDArray[np.int64], way: str
) -> tuple[Space, Columns]:
    """A space that weighs attributes as the known pairs teach, and the released rows in it."""
    assert case.order is not None
    plain = Space.of(case.original, case.names)
    if way == "plain":
        return plain, take(case.released, rows)
    fitted: Columns = {}
    left = []
    for i, name in enumerate(case.names):
        x, y = case.released[name][known], case.original[name][case.order[known]]
        both = ~(np.isnan(x) | np.isnan(y))
        slope, shift, residual = _line(x[both], y[both], way, float(plain.divisors[i]))
        fitted[name] = shift + slope * case.released[name][rows]
        left.append(max(residual, _LEAST * float(plain.divisors[i])))
    scaled = np.array(left)
    return replace(plain, divisors=scaled, gaps=plain.gaps * plain.divisors / scaled), fitted


def _line(
    x: NDArray[np.float64], y: NDArray[np.float64], way: str, spread: float
) -> tuple[float, float, float]:
    """Slope and shift of original on released, and what is left over.

    By medians the released value is taken as it is: most cells may be exact, and a few far off.
    """
    if x.size < 3:
        return 1.0, 0.0, spread
    if way == "median":
        return 1.0, 0.0, float(np.median(np.abs(y - x)))
    variance = float(x.var())
    slope = float(((x - x.mean()) * (y - y.mean())).mean()) / variance if variance > 0 else 0.0
    shift = float(y.mean() - slope * x.mean())
    return slope, shift, float(np.sqrt(np.square(y - shift - slope * x).mean()))


def _measure(case: Case, code: str, hits: NDArray[np.float64], chance: float) -> Measure:
    low, high = clopper_pearson(float(hits.sum()), len(hits))
    sampled = len(hits) < case.n_released
    return Measure(
        spec=CATALOGUE[code],
        value=float(hits.mean()),
        low=low,
        high=high,
        basis=f"{hits.sum():,.1f} of {len(hits):,} released records"
        + (" at random" if sampled else "")
        + f" against {'all ' if case.whole is None else ''}{case.n:,} originals",
        baseline=chance,
        against="a random guess",
        sampled=sampled,
    )


BY_DISTANCE = Attack(
    name="linkage",
    title="Distance-based record linkage",
    knows="all true values of every person in the release",
    does="links each released record to the nearest original",
    wins="when the nearest original is the record's own (ties drawn by lot)",
    source="Domingo-Ferrer and Torra 2001",
    run=by_distance,
)
WITH_KNOWN = Attack(
    name="linkage-known",
    title="Linkage with known records",
    knows="the same, and which released row belongs to 5 % of the persons",
    does="learns from the known pairs how far each attribute can be trusted, rules those persons "
    "out, and links the rest",
    wins="when the nearest remaining original is the record's own",
    source="after Torra, Abowd and Domingo-Ferrer 2006",
    run=with_known,
)
