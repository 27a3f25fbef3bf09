"""Testing the released values against the plan: whether the noise is what the plan says.

A manifest says how much noise there is; only the released values show it. With the original at
hand, clusters, their true sums and the scale of each one's noise follow from the plan by the
audit's own account (`epsilon.mechanism`). How far the released values lie from the true centroids
is then compared with simulations of that account:

- with a row map, by the distance of each row from the centroid of its original;
- without one, by the distance of the sorted released values from the sorted centroids;
- in a strict release, by the distance of the ordered centroids from the true ones.

The test is exact: the observed distances and those of the simulations are standardised together,
the largest over all attributes is compared, and the plan is refuted where the observed one exceeds
all simulated ones. So a valid release is refuted once in as many releases as there are simulations
and one. Large tables are judged by fewer simulations and Student's distribution, at the same rate.
Group sizes and the order of rows are tested besides.

Notation: positions are steps of the grid above the lower bound; C clusters; b the scales of the
discrete Laplace noise on the clusters' sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.auditing.epsilon.mechanism import SINGLE, Mechanism, scales, sizes, sums
from sherd.auditing.verdict.confidence_intervals import ranks
from sherd.auditing.verdict.verdict_points import NOISE
from sherd.verifying.check import Check

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case

    Floats = NDArray[np.float64]

SIMULATIONS = 999
"""Simulations of an exact test; its rate of false alarms is one in a thousand."""

ALPHA = 1 / (SIMULATIONS + 1)
FEW = 40
CELLS = 30_000_000
"""Simulated centroids up to which the test is exact."""

SAMPLE = 2_000
POWER = 100


@dataclass(frozen=True, kw_only=True)
class TestedColumn:
    """One attribute under test: its clusters, their noise, and the distance that is looked at.

    ``pairs`` are, with a row map, (cluster, centre expected of a value, rows of that value in the
    cluster); ``places`` are, without one, the sorted rows that are looked at. ``observed`` is the
    distance in the release.
    """

    name: str
    sums: Floats
    sizes: NDArray[np.int64]
    scales: Floats
    steps: float
    strict: bool
    observed: float
    pairs: tuple[NDArray[np.int64], Floats, Floats] | None = None
    places: NDArray[np.int64] | None = None

    @property
    def centres(self) -> Floats:
        """The true centroids."""
        return self.sums / self.sizes

    def distance(self, values: Floats) -> float:
        """How far released values of the clusters lie from the true ones."""
        if self.pairs is not None:
            cluster, centre, weight = self.pairs
            return float(weight @ np.abs(values[cluster] - centre) / weight.sum())
        assert self.places is not None
        return float(np.mean(np.abs(self.at_places(values) - self.at_places(self.centres))))

    def at_places(self, values: Floats) -> Floats:
        """The sorted values at the places looked at, every cluster as often as it has rows."""
        assert self.places is not None
        order = np.argsort(values, kind="stable")
        ends = np.cumsum(self.sizes[order])
        return values[order][np.searchsorted(ends, self.places, side="right")]

    def draw(self, rng: np.random.Generator, factor: float = 1.0) -> float:
        """The distance in a simulated release whose noise is ``factor`` times the plan's."""
        noisy = self.sums + _laplace(rng, factor * self.scales)
        values = noisy / self.sizes
        if self.strict:
            from scipy.optimize import isotonic_regression

            values = isotonic_regression(values, weights=self.sizes).x
            return self.distance(np.clip(values, 0, self.steps))
        return self.distance(np.clip(np.rint(values), 0, self.steps))


def _laplace(rng: np.random.Generator, scale: Floats) -> Floats:
    """Discrete Laplace noise: the difference of two geometric numbers; none at scale 0."""
    chance = -np.expm1(-1 / np.maximum(scale, 1e-300))
    found: Floats = (rng.geometric(chance) - rng.geometric(chance)).astype(np.float64)
    found[scale <= 0] = 0.0
    return found


def check_noise(case: Case, *, order_kept: bool = False, joint: bool = False) -> list[Check]:
    """The checks of released values against the plan; none where the plan adds no such noise."""
    if not case.mechanisms:
        return []
    checks = [] if order_kept or not case.rows else [_shuffled(case)]
    if joint:
        detail = "not testable: each owner made clusters of its own rows"
        return [*checks, Check(name=NOISE, passed=None, detail=detail)]
    torn = _torn(case)
    if torn is not None:
        return [*checks, torn]
    columns = [_column(case, name) for name in case.mechanisms]
    return [*checks, judged([one for one in columns if one is not None], case.rng("noise"))]


def judged(columns: list[TestedColumn], rng: np.random.Generator) -> Check:
    """Consistent with the plan, refuted, or not testable: the largest distance decides."""
    if not columns:
        detail = "not testable: no attribute has a declared domain and two clusters"
        return Check(name=NOISE, passed=None, detail=detail)
    exact = sum(len(one.sums) for one in columns) * SIMULATIONS <= CELLS
    many = SIMULATIONS if exact else FEW
    drawn = np.array([[one.draw(rng) for _ in range(many)] for one in columns])
    observed = np.array([[one.observed] for one in columns])
    yardstick = _Yardstick.of(np.hstack([drawn, observed]) if exact else drawn)
    seen = yardstick.largest(observed)[0]
    if exact:
        simulated = yardstick.largest(drawn)
        least = float(simulated.max())
        p = (1 + int(np.count_nonzero(simulated >= seen))) / (many + 1)
    else:
        from scipy import stats

        tests, widened = 2 * (len(columns) + 1), np.sqrt(1 + 1 / many)
        least = float(stats.t.isf(ALPHA / tests, many - 1)) * widened
        p = float(min(1.0, tests * stats.t.sf(seen / widened, many - 1)))
    if p <= ALPHA:
        z = yardstick.scores(observed)[:-1, 0]
        worst = int(np.argmax(np.abs(z)))
        how = "too little" if z[worst] < 0 else "too much"
        detail = f"refuted: '{columns[worst].name}' has {how} noise for its plan (p ≤ {ALPHA:g})"
        return Check(name=NOISE, passed=False, detail=detail)
    halved = np.array([[one.draw(rng, 0.5) for _ in range(POWER)] for one in columns])
    power = float(np.mean(yardstick.largest(halved) > least))
    if power < 0.5:
        detail = f"not testable: noise halved would be found in {power:.0%} of releases only"
        return Check(name=NOISE, passed=None, detail=detail)
    words = f"consistent with the plan; noise halved would be found in {power:.0%} of releases"
    blind = _blind(columns, yardstick, least)
    if blind:
        words += f", a single unmasked column not in {', '.join(blind)}"
    return Check(name=NOISE, passed=True, detail=f"{words} (false alarms: {ALPHA:.1%})")


@dataclass(frozen=True, kw_only=True)
class _Yardstick:
    """Distances in units of how they vary in valid releases; the last score is of all together.

    Their logarithms are compared: too little noise is as far from the middle as too much.
    """

    small: Floats
    middle: Floats
    spread: Floats
    together: tuple[float, float]

    @classmethod
    def of(cls, pool: Floats) -> _Yardstick:
        small = np.maximum(0.05 * pool.mean(axis=1, keepdims=True), 1e-9)
        logs = np.log(pool + small)
        middle, spread = logs.mean(axis=1, keepdims=True), logs.std(axis=1, keepdims=True)
        spread = np.maximum(spread, 1e-9)
        whole = ((logs - middle) / spread).mean(axis=0)
        return cls(
            small=small,
            middle=middle,
            spread=spread,
            together=(float(whole.mean()), max(float(whole.std()), 1e-9)),
        )

    def scores(self, distances: Floats) -> Floats:
        each = (np.log(distances + self.small) - self.middle) / self.spread
        whole = (each.mean(axis=0) - self.together[0]) / self.together[1]
        return np.vstack([each, whole])

    def largest(self, distances: Floats) -> Floats:
        found: Floats = np.abs(self.scores(distances)).max(axis=0)
        return found


def _blind(columns: list[TestedColumn], yardstick: _Yardstick, least: float) -> list[str]:
    """The attributes in which values without any noise would not be found."""
    bare = [one.distance(one.centres if one.strict else np.rint(one.centres)) for one in columns]
    z = np.abs(yardstick.scores(np.array(bare)[:, None]))[:-1, 0]
    return [
        one.name
        for one, score in zip(columns, z, strict=True)
        if one.scales.any() and score <= least
    ]


def _column(case: Case, name: str) -> TestedColumn | None:
    """An attribute as it is tested; None where the plan does not say enough."""
    mechanism = case.mechanisms[name]
    if mechanism.step <= 0:
        return None
    steps = round(mechanism.width / mechanism.step)
    scaled = replace(mechanism, low=0.0, high=float(steps), floor=mechanism.floor / mechanism.step)
    original = _positions(case.original[name], mechanism, steps)
    if mechanism.method in SINGLE:
        return _each_value(case, name, original, scaled)
    present = np.sort(original[~np.isnan(original)])
    if len(present) < 2 * mechanism.k:
        return None
    column = TestedColumn(
        name=name,
        sums=sums(present, scaled),
        sizes=sizes(len(present), mechanism.k),
        scales=scales(present, scaled),
        steps=float(steps),
        strict=not case.rows,
        observed=0.0,
        places=np.arange(len(present) // mechanism.k) * mechanism.k + mechanism.k // 2,
    )
    if not case.rows:
        return _ordered(case, name, column, mechanism)
    released = _positions(case.released[name], mechanism, steps)
    if case.order is None:
        sorted_rows = np.sort(released[~np.isnan(released)])
        assert column.places is not None
        true = column.at_places(column.centres)
        return replace(column, observed=float(np.mean(np.abs(sorted_rows[column.places] - true))))
    values, expected, pairs = _paired(present, column)
    before = original[case.order]
    both = ~(np.isnan(before) | np.isnan(released))
    centre = expected[np.searchsorted(values, before[both])]
    observed = float(np.mean(np.abs(released[both] - centre)))
    return replace(column, places=None, pairs=pairs, observed=observed)


def _positions(values: Floats, mechanism: Mechanism, steps: int) -> Floats:
    found: Floats = np.rint((values - mechanism.low) / mechanism.step)
    return np.clip(found, 0, steps)


def _paired(present: Floats, column: TestedColumn) -> tuple[Floats, Floats, Any]:
    """Every value's expected centroid, and how many of its rows lie in which cluster."""
    count = len(column.sizes)
    cluster = np.repeat(np.arange(count), column.sizes)
    values, place = np.unique(present, return_inverse=True)
    times = np.bincount(place)
    expected = np.bincount(place, weights=column.centres[cluster]) / times
    keys, rows = np.unique(place * count + cluster, return_counts=True)
    # Values inside one cluster expect its centroid: they are looked at as one.
    inside = expected[keys // count] == column.centres[keys % count]
    whole = np.bincount(keys[inside] % count, weights=rows[inside], minlength=count)
    kept = np.flatnonzero(whole)
    pairs = (
        np.concatenate([kept, keys[~inside] % count]),
        np.concatenate([column.centres[kept], expected[keys[~inside] // count]]),
        np.concatenate([whole[kept], rows[~inside].astype(np.float64)]),
    )
    return values, expected, pairs


def _each_value(case: Case, name: str, original: Floats, scaled: Mechanism) -> TestedColumn | None:
    """Values masked one by one: a sample of pairs, or all values where nobody said which."""
    released = _positions(case.released[name], case.mechanisms[name], round(scaled.high))
    if case.order is None:
        x, y = (np.sort(v[~np.isnan(v)]) for v in (original, released))
        if len(x) != len(y) or len(x) < 2:
            return None
        places = np.unique(np.linspace(0, len(x) - 1, min(len(x), SAMPLE)).astype(np.int64))
        observed = float(np.mean(np.abs(y[places] - x[places])))
        pairs = None
    else:
        before = original[case.order]
        rows = np.flatnonzero(~(np.isnan(before) | np.isnan(released)))
        rows = case.rng(f"noise {name}").permutation(rows)[:SAMPLE]
        x, places = before[rows], None
        if len(x) < 2:
            return None
        observed = float(np.mean(np.abs(released[rows] - x)))
        pairs = (np.arange(len(x)), x, np.ones(len(x)))
    reach = np.full(len(x), scaled.width)
    if scaled.method == "idp":
        reach = np.maximum(scaled.high - x, x - scaled.low)
    return TestedColumn(
        name=name,
        sums=x,
        sizes=np.ones(len(x), np.int64),
        scales=reach / scaled.epsilon,
        steps=scaled.high,
        strict=False,
        observed=observed,
        pairs=pairs,
        places=places,
    )


def _ordered(
    case: Case, name: str, column: TestedColumn, mechanism: Mechanism
) -> TestedColumn | None:
    """The ordered centroids of a strict release."""
    import pyarrow.compute as pc

    table = getattr(case.drawable, "table", None)
    if table is None or "attribute" not in table.column_names:
        return None
    part = table.filter(pc.equal(table.column("attribute"), name)).sort_by("cluster")
    values = part.column("value").to_numpy()
    if len(values) != len(column.sums):
        return None
    shown = (values - mechanism.low) / mechanism.step
    count = len(column.sums)
    pairs = (np.arange(count), column.centres, column.sizes.astype(np.float64))
    made = replace(column, places=None, pairs=pairs)
    return replace(made, observed=made.distance(shown))


def _torn(case: Case) -> Check | None:
    """Refuted where released values are not those of whole clusters."""
    for name, mechanism in case.mechanisms.items():
        if not (case.rows and mechanism.clusters):
            continue
        present = case.released[name][~np.isnan(case.released[name])]
        _, counts = np.unique(present, return_counts=True)
        left = counts % mechanism.k
        if left.sum() != len(present) % mechanism.k or np.count_nonzero(left) > 1:
            detail = f"refuted: the rows of '{name}' are not made of clusters of {mechanism.k}"
            return Check(name=NOISE, passed=False, detail=detail)
    return None


def _shuffled(case: Case) -> Check:
    """Whether the order of the rows tells nothing of the originals' order.

    Rows are taken in twos, next to each other. In a shuffled release either of the two could have
    stood first, so the product of what changes from one to the other, in the original and in the
    release, is as often positive as negative: S = Σ d is beyond t·√Σd² with a chance of at most
    2·exp(−t²/2), whatever the columns look like (Hoeffding).
    """
    name, n = "order of the rows", case.n_released
    if case.order is not None:
        place = np.arange(n, dtype=np.float64)
        pairs = [(place, case.order.astype(np.float64))]
    else:
        pairs = [(case.original[a], case.released[a]) for a in case.names if case.n == n]
    scores = [one for one in (_swaps(x, y) for x, y in pairs) if one is not None]
    if not scores:
        return Check(name=name, passed=None, detail="not testable: no attribute varies")
    p = min(1.0, 2 * len(scores) * float(np.exp(-(max(scores) ** 2) / 2)))
    if p <= ALPHA:
        detail = f"refuted: rows lie as in the original, not shuffled (p ≤ {ALPHA:g})"
        return Check(name=name, passed=False, detail=detail)
    detail = f"consistent with shuffling (false alarms: at most {ALPHA:.1%})"
    return Check(name=name, passed=True, detail=detail)


def _swaps(x: Floats, y: Floats) -> float | None:
    """How far changes from row to row go together on both sides; None where nothing changes."""
    a, b = ranks(x), ranks(y)
    even = len(a) // 2 * 2
    d = (a[1:even:2] - a[:even:2]) * (b[1:even:2] - b[:even:2])
    norm = float(np.sqrt(d @ d))
    return abs(float(d.sum())) / norm if norm > 0 else None
