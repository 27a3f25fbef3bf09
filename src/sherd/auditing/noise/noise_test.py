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

import math
from dataclasses import dataclass, replace
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

NEXT_TO_NONE = 0.2
"""Noise that is next to none, in units of its scale; Laplace's is in one row of six."""

NAMED = 6
"""Columns that are named where nothing would show in them."""

POWER = 100
LEARNT = 80
ENOUGH = 0.98
"""The share of releases with halved noise that must show for the columns alone to do."""


class Pairs:
    """Which sum each row's value was made of, and how the noise of all of them lies.

    ``centre`` is what is expected of a value, ``rows`` how many rows it stands for, and ``weight``
    what they count together.
    """

    def __init__(
        self, cluster: NDArray[np.int64], centre: Floats, weight: Floats, rows: Floats
    ) -> None:
        self.cluster, self.centre = cluster, centre
        self._unit = weight / rows
        self._weight, self._rows = weight / weight.sum(), rows / rows.sum()
        apart = centre - (self._rows * centre).sum()
        self._apart = self._rows * apart / max(np.sqrt((self._rows * apart * apart).sum()), 1e-12)

    def distance(self, noise: Floats) -> float:
        """How large noise is."""
        # Not by BLAS: its threads wait for each other longer than the product takes.
        return float((np.abs(noise) * self._weight).sum())

    def shape(self, noise: Floats) -> tuple[float, ...]:
        """How large it is, how much is next to none, where its middle is, what it goes with.

        Noise that half of the rows lack and that is doubled in the others, or that has the sign of
        its value, is as large as the plan's. The last two are signed; logarithms are compared.
        """
        unit = noise * self._unit
        middle = float((unit * self._rows).sum())
        spread = float((unit * unit * self._rows).sum()) - middle * middle
        together = float((unit * self._apart).sum()) / max(spread, 1e-24) ** 0.5
        return (
            self.distance(noise),
            float(((np.abs(unit) <= NEXT_TO_NONE) * self._rows).sum()),
            math.exp(min(max(middle, -9.0), 9.0)),
            math.exp(together),
        )


@dataclass(frozen=True, kw_only=True)
class NoisyColumn:
    """One attribute under test: true sums, their noise, and what is looked at.

    ``pairs`` are known where it is known what a released value stands for; ``places`` are, where
    not, the sorted rows that are looked at.
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
    pairs: Pairs | None = None
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
        """The distance of released centroids from the true ones, and how the noise lies.

        Of ascending ones it is the distance and how many differ.
        """
        if self.ascends:
            return self.distance(values), float(1 + np.count_nonzero(np.diff(values) > 1e-6))
        if self.pairs is None:
            return (self.distance(values),)
        return self.pairs.shape(values[self.pairs.cluster] - self.pairs.centre)

    def distance(self, values: Floats) -> float:
        """How far released values of the clusters lie from the true ones."""
        if self.pairs is not None:
            return self.pairs.distance(values[self.pairs.cluster] - self.pairs.centre)
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
    noise: Floats = (rng.geometric(chance) - rng.geometric(chance)).astype(np.float64)
    noise[scale <= 0] = 0.0
    return noise


@dataclass(frozen=True, kw_only=True)
class _Looks:
    """All that is looked at: every column by itself, and clusters recognised by their members."""

    columns: list[NoisyColumn]
    profiles: ClusterProfiles | None = None
    only_sizes: bool = False

    def of(self, one: NoisyColumn, looked: tuple[float, ...]) -> tuple[float, ...]:
        """What counts of what is looked at in a column."""
        return looked[:1] if self.only_sizes and not one.ascends else looked

    @property
    def widths(self) -> list[int]:
        """How many things are looked at in each column."""
        return [len(self.of(one, one.observed)) for one in self.columns]

    @property
    def even(self) -> NDArray[np.bool_]:
        """Which of all that is looked at grow with the noise; the others say how it lies."""
        parts = [
            [True] * width if one.ascends else [True] + [False] * (width - 1)
            for one, width in zip(self.columns, self.widths, strict=True)
        ]
        if self.profiles is not None:
            parts.append([True] * len(self.profiles.subjects))
        return np.concatenate(parts).astype(np.bool_)

    @property
    def cells(self) -> int:
        """How much a simulation takes."""
        rows = 0 if self.profiles is None else sum(map(len, self.profiles.rows))
        return rows + sum(len(one.sums) for one in self.columns)

    @property
    def observed(self) -> Floats:
        """What the release shows."""
        parts = [self.of(one, one.observed) for one in self.columns]
        if self.profiles is not None:
            parts.append(self.profiles.look(self.profiles.released))
        return np.concatenate(parts)[:, None]

    def drawn(self, rng: np.random.Generator, many: int, factor: float = 1.0) -> Floats:
        """What simulated releases show: a row for each thing looked at."""
        return np.array([self._drawn(rng, factor) for _ in range(many)]).T

    def _drawn(self, rng: np.random.Generator, factor: float) -> list[float]:
        values = [one.noisy(rng, factor) for one in self.columns]
        both = zip(self.columns, values, strict=True)
        looks = [x for one, v in both for x in self.of(one, one.look(v))]
        if self.profiles is not None:
            looks += self.profiles.look(self.profiles.simulated(values, rng))
        return looks

    def suffices(self, rng: np.random.Generator) -> bool:
        """Whether halved noise would show in nearly all releases; the release has no say in it."""
        plain, halved = (self.drawn(rng, LEARNT, factor) for factor in (1.0, 0.5))
        yardstick = _Yardstick.of(plain, self.even, _weights(plain, halved, self.even))
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
    if not exact:
        # Few simulations and Student's distribution do for sizes, not for shares that hardly vary.
        looks = replace(looks, only_sizes=True)
    many = max(SIMULATIONS, min(MORE, FREE // looks.cells)) if exact else FEW
    even, weights = looks.even, None
    if exact:
        weights = _weights(looks.drawn(rng, LEARNT), looks.drawn(rng, LEARNT, 0.5), even)
    drawn, observed = looks.drawn(rng, many), looks.observed
    yardstick = _Yardstick.of(np.hstack([drawn, observed]) if exact else drawn, even, weights)
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
    blind = _blind(looks, yardstick, least)
    if blind:
        more = f" and {len(blind) - NAMED} more" if len(blind) > NAMED else ""
        words += f", a single unmasked column not in {', '.join(blind[:NAMED])}{more}"
    return Check(name=NOISE, passed=True, detail=f"{words} (false alarms: {percent(ALPHA)})")


def _weights(plain: Floats, halved: Floats, even: NDArray[np.bool_]) -> Floats:
    """The direction in which halved noise differs most from the plan's (Fisher's discriminant)."""
    plain, halved = np.log(plain[even] + 1e-9), np.log(halved[even] + 1e-9)
    spread = np.atleast_2d((np.cov(plain) + np.cov(halved)) / 2)
    ridge = 0.05 * np.trace(spread) / len(spread) + 1e-12
    shift = halved.mean(axis=1) - plain.mean(axis=1)
    weights: Floats = np.zeros(len(even))
    weights[even] = np.linalg.solve(spread + ridge * np.eye(len(spread)), shift)
    return weights


def _refuted(looks: _Looks, scores: Floats) -> Check:
    """Name the column that stands out most, and which way."""
    names = [one.name for one in looks.columns]
    subjects = () if looks.profiles is None else looks.profiles.subjects
    whose = np.repeat(np.arange(len(names)), looks.widths).tolist() + list(subjects)
    grows = looks.even
    alone = scores[: len(whose)]
    if np.abs(alone[~grows]).max(initial=0) > np.abs(alone[grows]).max():
        worst = int(np.argmax(np.where(grows, 0, np.abs(alone))))
        how = "noise that does not lie as its plan draws it"
    else:
        worst = int(np.argmax(np.where(grows, np.abs(alone), 0)))
        how = f"too {'little' if alone[worst] < 0 else 'much'} noise for its plan"
    detail = f"refuted: '{names[whose[worst]]}' has {how} (p ≤ {ALPHA:g})"
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
    def of(cls, pool: Floats, even: NDArray[np.bool_], weights: Floats | None) -> _Yardstick:
        small = np.maximum(0.05 * pool.mean(axis=1, keepdims=True), 1e-9)
        logs = np.log(pool + small)
        middle, spread = logs.mean(axis=1, keepdims=True), logs.std(axis=1, keepdims=True)
        spread = np.maximum(spread, 1e-9)
        both = even.astype(np.float64)[None]
        if weights is not None:
            both = np.vstack([both, weights * spread[:, 0]])
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
        distance: Floats = np.log(distances + self.small[first]) - self.middle[first]
        return distance / self.spread[first]

    def scores(self, distances: Floats) -> Floats:
        each = self.each(distances)
        whole = (self.weights @ each - self.together[0]) / self.together[1]
        return np.vstack([each, whole])

    def largest(self, distances: Floats) -> Floats:
        largest: Floats = np.abs(self.scores(distances)).max(axis=0)
        return largest


def _blind(looks: _Looks, yardstick: _Yardstick, least: float) -> list[str]:
    """The attributes in which values without any noise would not be found."""
    bare = np.concatenate([looks.of(one, one.bare()) for one in looks.columns])[:, None]
    # Columns come first in what is looked at; clusters recognised by members are of several.
    z = np.abs(yardstick.each(bare))[:, 0]
    names, start = [], 0
    for one, width in zip(looks.columns, looks.widths, strict=True):
        if one.scales.any() and z[start : start + width].max() <= least:
            names.append(one.name)
        start += width
    return names
