"""The test itself: whether released values lie as far from the truth as the plan's noise puts them.

Each column under test says what noise the plan gives it and how far its released values lie from
the true ones. The same is computed in simulations of the plan, and the release is refuted where it
stands out from them. The test is exact: observed and simulated distances are standardised together
and the largest score over all columns decides, so a valid release is refuted once in a thousand.
Large tables are judged by fewer simulations and Student's distribution, at the same rate.

Where the columns by themselves would show halved noise too seldom, clusters are recognised by their
members besides (`cluster_profiles`). One more score weighs all of it together as noise of half the
size would change it. Its weights come from simulations of their own, so that the test stays exact.

Notation: b the scales of the discrete Laplace noise on sums; positions are steps of the grid above
the lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.verdict.verdict_points import NOISE, percent
from sherd.verifying.check import Check

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.auditing.noise.cluster_profiles import ClusterProfiles

    Floats = NDArray[np.float64]

ALPHA = 1 / 1_000
"""The rate of false alarms."""

SIMULATIONS = 999
"""Simulations of an exact test, the fewest that this rate allows."""

MORE = 1_999
"""Simulations of small tables: with more of them the power does not hang on one."""

FEW = 40
CELLS = 30_000_000
"""Simulated centroids up to which the test is exact."""

FREE = 1_000_000
"""Simulated centroids up to which there are more simulations than must be."""

POWER = 100
LEARNT = 80
ENOUGH = 0.98
"""The share of releases with halved noise that must show for the columns alone to do."""


@dataclass(frozen=True, kw_only=True)
class NoisyColumn:
    """One attribute under test: true sums, their noise, and what is looked at.

    ``pairs`` are, where it is known what a released value stands for, (sum, centre expected of a
    value, weight of its rows); ``places`` are, where not, the sorted rows that are looked at.
    ``low`` and ``high`` are where released values are clamped, ``ascends`` whether they were made
    to ascend, ``observed`` what the release shows (see ``look``).
    """

    name: str
    sums: Floats
    sizes: NDArray[np.int64]
    scales: Floats
    observed: tuple[float, ...] = ()
    low: float = 0.0
    high: float = np.inf
    ascends: bool = False
    pairs: tuple[NDArray[np.int64], Floats, Floats] | None = None
    places: NDArray[np.int64] | None = None

    @property
    def centres(self) -> Floats:
        """The true centroids."""
        return self.sums / self.sizes

    @property
    def weights(self) -> Floats:
        """What a row of each cluster counts: distances are in units of noise, at least half a step.

        Otherwise the few clusters with the most noise would drown all others. Where there is none,
        nothing varies, and it counts little.
        """
        noise = self.scales / self.sizes
        return np.where(noise > 0, 1.0, 0.1) / np.maximum(noise, 0.5)

    def look(self, values: Floats) -> tuple[float, ...]:
        """The distance of released centroids from the true ones; of ascending ones, levels too."""
        distance = self.distance(values)
        if not self.ascends:
            return (distance,)
        return distance, float(1 + np.count_nonzero(np.diff(values) > 1e-6))

    def distance(self, values: Floats) -> float:
        """How far released values of the clusters lie from the true ones."""
        if self.pairs is not None:
            cluster, centre, weight = self.pairs
            # Not by BLAS: its threads wait for each other longer than the product takes.
            return float(np.average(np.abs(values[cluster] - centre), weights=weight))
        return self.distance_at(self.at_places(values))

    def distance_at(self, shown: Floats) -> float:
        """How far sorted values, at the places looked at, lie from the true ones."""
        assert self.places is not None
        cluster = np.searchsorted(np.cumsum(self.sizes), self.places, side="right")
        distances = np.abs(shown - self.at_places(self.centres))
        return float(np.average(distances, weights=self.weights[cluster]))

    def at_places(self, values: Floats) -> Floats:
        """The sorted values at the places looked at, every cluster as often as it has rows."""
        assert self.places is not None
        order = np.argsort(values, kind="stable")
        ends = np.cumsum(self.sizes[order])
        return values[order][np.searchsorted(ends, self.places, side="right")]

    def noisy(self, rng: np.random.Generator, factor: float = 1.0) -> Floats:
        """The values of a simulated release whose noise is ``factor`` times the plan's."""
        values = (self.sums + discrete_laplace(rng, factor * self.scales)) / self.sizes
        if self.ascends:
            from scipy.optimize import isotonic_regression

            values = isotonic_regression(values, weights=self.sizes).x
        else:
            values = np.rint(values)
        return np.clip(values, self.low, self.high)

    def bare(self) -> tuple[float, ...]:
        """What a release without noise shows."""
        return self.look(self.centres if self.ascends else np.rint(self.centres))


def discrete_laplace(rng: np.random.Generator, scale: Floats) -> Floats:
    """Discrete Laplace noise: the difference of two geometric numbers; none at scale 0."""
    chance = -np.expm1(-1 / np.maximum(scale, 1e-300))
    found: Floats = (rng.geometric(chance) - rng.geometric(chance)).astype(np.float64)
    found[scale <= 0] = 0.0
    return found


@dataclass(frozen=True, kw_only=True)
class _Looks:
    """All that is looked at: every column by itself, and clusters recognised by their members."""

    columns: list[NoisyColumn]
    profiles: ClusterProfiles | None = None

    @property
    def cells(self) -> int:
        """How much a simulation takes."""
        rows = 0 if self.profiles is None else sum(map(len, self.profiles.rows))
        return rows + sum(len(one.sums) for one in self.columns)

    @property
    def observed(self) -> Floats:
        """What the release shows."""
        parts = [one.observed for one in self.columns]
        if self.profiles is not None:
            parts.append(self.profiles.look(self.profiles.released))
        return np.concatenate(parts)[:, None]

    def drawn(self, rng: np.random.Generator, many: int, factor: float = 1.0) -> Floats:
        """What simulated releases show: a row for each thing looked at."""
        return np.array([self._drawn(rng, factor) for _ in range(many)]).T

    def _drawn(self, rng: np.random.Generator, factor: float) -> list[float]:
        values = [one.noisy(rng, factor) for one in self.columns]
        found = [x for one, v in zip(self.columns, values, strict=True) for x in one.look(v)]
        if self.profiles is not None:
            found += self.profiles.look(self.profiles.simulated(values, rng))
        return found

    def suffices(self, rng: np.random.Generator) -> bool:
        """Whether halved noise would show in nearly all releases; the release has no say in it."""
        plain, halved = (self.drawn(rng, LEARNT, factor) for factor in (1.0, 0.5))
        yardstick = _Yardstick.of(plain, _weights(plain, halved))
        # The test itself goes by a rarer score than the largest of so few.
        least = 1.5 * yardstick.largest(plain).max()
        return bool(np.mean(yardstick.largest(halved) > least) > ENOUGH)


def judged(
    columns: list[NoisyColumn], rng: np.random.Generator, profiles: ClusterProfiles | None = None
) -> Check:
    """Consistent with the plan, refuted, or not testable: the largest score decides.

    Clusters are recognised by their members where the columns by themselves show too little.
    """
    if not columns:
        detail = "not testable: no attribute has a declared domain and two clusters"
        return Check(name=NOISE, passed=None, detail=detail)
    looks = _Looks(columns=columns)
    if profiles is not None and not looks.suffices(rng):
        looks = _Looks(columns=columns, profiles=profiles)
    exact = looks.cells * SIMULATIONS <= CELLS
    many = max(SIMULATIONS, min(MORE, FREE // looks.cells)) if exact else FEW
    weights = _weights(looks.drawn(rng, LEARNT), looks.drawn(rng, LEARNT, 0.5)) if exact else None
    drawn, observed = looks.drawn(rng, many), looks.observed
    yardstick = _Yardstick.of(np.hstack([drawn, observed]) if exact else drawn, weights)
    seen = yardstick.largest(observed)[0]
    if exact:
        simulated = np.sort(yardstick.largest(drawn))[::-1]
        least = float(simulated[int(ALPHA * (many + 1) + 1e-9) - 1])
        p = (1 + int(np.count_nonzero(simulated >= seen))) / (many + 1)
    else:
        from scipy.special import stdtr, stdtrit

        tests, widened = 2 * (len(drawn) + 1), np.sqrt(1 + 1 / many)
        least = -float(stdtrit(many - 1, ALPHA / tests)) * widened
        p = float(min(1.0, tests * stdtr(many - 1, -seen / widened)))
    if p <= ALPHA + 1e-12:
        return _refuted(looks, yardstick.scores(observed)[:, 0])
    power = float(np.mean(yardstick.largest(looks.drawn(rng, POWER, 0.5)) > least))
    if power < 0.5:
        detail = f"not testable: noise halved would be found in {percent(power)} of releases only"
        return Check(name=NOISE, passed=None, detail=detail)
    words = f"consistent with the plan; noise halved would be found in {percent(power)} of releases"
    blind = _blind(columns, yardstick, least)
    if blind:
        words += f", a single unmasked column not in {', '.join(blind)}"
    return Check(name=NOISE, passed=True, detail=f"{words} (false alarms: {percent(ALPHA)})")


def _weights(plain: Floats, halved: Floats) -> Floats:
    """The direction in which halved noise differs most from the plan's (Fisher's discriminant)."""
    plain, halved = np.log(plain + 1e-9), np.log(halved + 1e-9)
    spread = np.atleast_2d((np.cov(plain) + np.cov(halved)) / 2)
    ridge = 0.05 * np.trace(spread) / len(spread) + 1e-12
    shift = halved.mean(axis=1) - plain.mean(axis=1)
    found: Floats = np.linalg.solve(spread + ridge * np.eye(len(spread)), shift)
    return found


def _refuted(looks: _Looks, scores: Floats) -> Check:
    """Name the column that stands out most, and which way."""
    names, firsts, end = [one.name for one in looks.columns], [], 0
    for one in looks.columns:
        firsts.append(end)
        end += len(one.observed)
    if looks.profiles is not None:
        names += [looks.columns[i].name for i in looks.profiles.subjects]
        firsts += range(end, end + len(looks.profiles.subjects))
    z = scores[firsts]
    worst = int(np.argmax(np.abs(z)))
    how = "too little" if z[worst] < 0 else "too much"
    detail = f"refuted: '{names[worst]}' has {how} noise for its plan (p ≤ {ALPHA:g})"
    return Check(name=NOISE, passed=False, detail=detail)


@dataclass(frozen=True, kw_only=True)
class _Yardstick:
    """Distances in units of how they vary in valid releases; the last scores are of all together.

    Their logarithms are compared: too little noise is as far from the middle as too much.
    """

    small: Floats
    middle: Floats
    spread: Floats
    weights: Floats
    together: tuple[Floats, Floats]

    @classmethod
    def of(cls, pool: Floats, weights: Floats | None) -> _Yardstick:
        small = np.maximum(0.05 * pool.mean(axis=1, keepdims=True), 1e-9)
        logs = np.log(pool + small)
        middle, spread = logs.mean(axis=1, keepdims=True), logs.std(axis=1, keepdims=True)
        spread = np.maximum(spread, 1e-9)
        even = np.ones((1, len(pool)))
        both = even if weights is None else np.vstack([even, weights * spread[:, 0]])
        whole = both @ ((logs - middle) / spread)
        return cls(
            small=small,
            middle=middle,
            spread=spread,
            weights=both,
            together=(
                whole.mean(axis=1, keepdims=True),
                np.maximum(whole.std(axis=1, keepdims=True), 1e-9),
            ),
        )

    def each(self, distances: Floats) -> Floats:
        """The scores one by one, of the first that are looked at."""
        first = slice(len(distances))
        found: Floats = np.log(distances + self.small[first]) - self.middle[first]
        return found / self.spread[first]

    def scores(self, distances: Floats) -> Floats:
        each = self.each(distances)
        whole = (self.weights @ each - self.together[0]) / self.together[1]
        return np.vstack([each, whole])

    def largest(self, distances: Floats) -> Floats:
        found: Floats = np.abs(self.scores(distances)).max(axis=0)
        return found


def _blind(columns: list[NoisyColumn], yardstick: _Yardstick, least: float) -> list[str]:
    """The attributes in which values without any noise would not be found."""
    bare = np.concatenate([one.bare() for one in columns])[:, None]
    # Columns come first in what is looked at; clusters recognised by members are of several.
    z = np.abs(yardstick.each(bare))[:, 0]
    found, start = [], 0
    for one in columns:
        stop = start + len(one.observed)
        if one.scales.any() and z[start:stop].max() <= least:
            found.append(one.name)
        start = stop
    return found
