"""Residuals: what was added to true counts has exactly the declared noise.

Only somebody with the original can check that. Every histogram that a model's document states is
counted again on the stated cells and bins; what the release measured less what is true must be
noise of the declared kind and scale. Noise left out, halved or doubled shows in its size, which is
the sum of |e| / b for Laplace and of e² / 2σ² for Gaussian noise: what the likelihood of any other
scale depends on, so that no other sum tells more. A shift of all counts shows in their sum.

Chances are bounded from above for any scale, however small (Chernoff): P(S ≥ s) is at most
E[exp(λ S)] / exp(λ s) for every λ > 0.

``insider_checks`` is about those who made a joint model together. Outsiders face all of the noise,
which is checked for every release. Owners of rows who collude, and a party that computes, know the
noise that they drew themselves; what the rest costs is worked out here again.

Notation: e a residual, b or σ the scale, m how many residuals there are.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.guarantees.concentrated import delta_of
from sherd.tables.axis import Axis
from sherd.tables.coding import positions
from sherd.verifying.check import Check

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.tables.schema import Schema

ALARMS = 1e-6
"""The chance of a false alarm of the check."""

EXACT = 200
"""Draws up to which the chance of their sum is exact."""

FINEST = 1024
"""Scales above are those of coarser noise, so that a table of chances has a bounded size."""

_STEPS = np.geomspace(1e-4, 1.0, 60)
"""Values of λ that are tried, as parts of the largest."""


@dataclass(frozen=True, kw_only=True)
class Residuals:
    """Residuals of all measured counts, and how likely they are.

    ``histograms`` are, for each, its attributes, its noise's scale and its residuals.
    """

    kind: str
    histograms: tuple[tuple[tuple[str, ...], float, NDArray[np.int64]], ...]

    @property
    def many(self) -> int:
        """How many residuals there are."""
        return sum(len(apart) for _, _, apart in self.histograms)

    @property
    def words(self) -> str:
        """How large the residuals are, beside what the declared noise does."""
        total, declared = 0, 0.0
        for _, scale, apart in self.histograms:
            grain = grain_of(scale)
            sizes = sizes_of_noise(self.kind, scale / grain)
            total += int(np.abs(apart).sum())
            declared += len(apart) * grain * float(sizes @ np.arange(len(sizes)))
        shown = f"{self.many:,} measured counts are off by {total:,} in all"
        return f"{shown}, where the declared noise does {declared:,.4g} on average"

    @property
    def size(self) -> float:
        """The size of all residuals, in units of their noise."""
        return sum(
            float(self._size(np.abs(apart), scale).sum()) for _, scale, apart in self.histograms
        )

    def too_little(self, size: float | None = None) -> float:
        """The chance, at most, of so little noise."""
        return self._tail(-(self.size if size is None else size), sign=-1)

    def too_much(self) -> float:
        """The chance, at most, of so much noise."""
        return self._tail(self.size, sign=1)

    def shifted(self) -> float:
        """The chance, at most, that residuals add up to so much on either side."""
        total = sum(float(apart.sum()) / scale for _, scale, apart in self.histograms)
        return chance_of_sum(self.kind, self._draws, total)

    def drawn(
        self, rng: np.random.Generator, many: int, factor: float = 1.0
    ) -> NDArray[np.float64]:
        """Sizes of all residuals in simulations with ``factor`` times the declared noise."""
        sizes = np.zeros(many)
        for scale, draws in self._draws.items():
            coarse = scale / grain_of(scale)
            chances = sizes_of_noise(self.kind, factor * coarse)
            places = self._size(np.arange(len(chances)), coarse)
            if draws < len(chances):
                taken = np.searchsorted(np.cumsum(chances)[:-1], rng.random((many, draws)))
                sizes += places[taken].sum(axis=1)
            else:
                sizes += rng.multinomial(draws, chances, size=many) @ places
        return sizes

    def check(self) -> Check:
        """The finding as a check of a release."""
        least = min(self.too_little(), self.too_much(), self.shifted())
        return Check(name="noise on true counts", passed=3 * least > ALARMS, detail=self.words)

    @property
    def _draws(self) -> Counter[float]:
        """How many draws of noise there are of each scale."""
        draws: Counter[float] = Counter()
        for _, scale, apart in self.histograms:
            draws[scale] += len(apart)
        return draws

    def _size(self, sizes: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
        return sizes / scale if self.kind == "laplace" else (sizes / scale) ** 2 / 2

    def _tail(self, least: float, *, sign: int) -> float:
        """A bound of the chance that ``sign`` times the size is at least that."""
        # Beyond these, expectations do not exist, or hang on what the tables of chances leave out.
        steps = _STEPS * (100.0 if sign < 0 else 0.9 if self.kind == "laplace" else 0.5)
        log = np.zeros(len(steps))
        for scale, many in self._draws.items():
            coarse = scale / grain_of(scale)
            chances = sizes_of_noise(self.kind, coarse)
            places = sign * self._size(np.arange(len(chances)), coarse)
            log += many * _log_mean(chances, places, steps)
        return math.exp(min(0.0, float((log - steps * least).min())))


def _log_mean(
    chances: NDArray[np.float64], places: NDArray[np.float64], steps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The logarithm of E[exp(λ place)] for every step λ."""
    means = np.empty(len(steps))
    kept = chances > 0
    logs, places = np.log(chances[kept]), places[kept]
    for at, step in enumerate(steps):
        powers = logs + step * places
        top = powers.max()
        means[at] = top + math.log(np.exp(powers - top).sum())
    return means


def residuals(original: pa.Table, schema: Schema, document: Mapping[str, Any]) -> Residuals:
    """By how much each measured count differs from that of the prepared original."""
    fine, binned, sizes = {}, {}, {}
    for one in document["attributes"]:
        name = one["name"]
        place, gaps = positions(original.column(name), Axis.of(schema[name]), schema.missing_values)
        cells = np.searchsorted(one["edges"], place, side="right") - 1
        cells[gaps] = len(one["edges"]) - 1
        fine[name], binned[name] = cells, np.array(one["bins"])[cells]
        sizes[name] = max(one["bins"]) + 1
    parts: list[tuple[tuple[str, ...], float, NDArray[np.int64]]] = []
    for one in (*document["fine"], *document["marginals"]):
        single = len(parts) < len(document["fine"])
        index = np.zeros(original.num_rows, np.int64)
        for name in one["attributes"]:
            index = fine[name] if single else index * sizes[name] + binned[name]
        apart = np.array(one["counts"]) - np.bincount(index, minlength=len(one["counts"]))
        parts.append((tuple(one["attributes"]), float(Fraction(one["scale"])), apart))
    return Residuals(kind=document["noise"], histograms=tuple(parts))


def grain_of(scale: float) -> int:
    """How many whole numbers are taken for one where noise is large.

    Noise of scale b over whole numbers is, but for a part of 1/``FINEST``², noise of scale b/g over
    multiples of g. A table of every size would have as many chances as somebody else's document
    says.

    >>> grain_of(1000.0), grain_of(1e9)
    (1, 976563)
    """
    return max(1, math.ceil(scale / FINEST))


def sizes_of_noise(kind: str, scale: float) -> NDArray[np.float64]:
    """The chance of each size, from 0 on, of a draw of discrete noise; see ``grain_of``."""
    places = np.arange(int((40 if kind == "laplace" else 12) * scale) + 13)
    weights = np.exp(-places / scale if kind == "laplace" else -((places / scale) ** 2) / 2)
    weights[1:] *= 2
    chances: NDArray[np.float64] = weights / weights.sum()
    return chances


def chance_of_sum(kind: str, draws: Mapping[float, int], total: float) -> float:
    """The chance, at most, that noise over its scale adds up to so much on either side.

    ``draws`` is how many draws there are of each scale.
    """
    steps = _STEPS * (0.9 if kind == "laplace" else 4.0)
    log = np.zeros(len(steps))
    for scale, many in draws.items():
        coarse = scale / grain_of(scale)
        sizes = sizes_of_noise(kind, coarse)
        places = np.arange(len(sizes)) / coarse
        both = np.concatenate([sizes, sizes]) / 2
        log += many * _log_mean(both, np.concatenate([places, -places]), steps)
    return min(1.0, 2 * math.exp(min(0.0, float((log - steps * abs(total)).min()))))


def chance_of_less(sizes: NDArray[np.float64], draws: int, total: int) -> float:
    """The chance that sizes of so many draws add up to no more than that.

    Many of them are nearly normal with a longer tail on the other side: that is a bound from above.
    """
    places = np.arange(len(sizes))
    if draws > EXACT:
        mean = float(sizes @ places)
        deviation = math.sqrt(float(sizes @ (places - mean) ** 2))
        return NormalDist(draws * mean, math.sqrt(draws) * deviation).cdf(total + 0.5)
    length = draws * (len(sizes) - 1) + 1
    sums = np.fft.irfft(np.fft.rfft(sizes, length) ** draws, length)
    return float(min(1.0, max(0.0, sums[: total + 1].sum())))


def insider_checks(document: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[Check]:
    """The checks of a model that owners of rows, or parties, learned together."""
    if "joint" in manifest:
        return [_colluders(document, manifest["joint"]["plan"])]
    if "insiders" in manifest["facts"]:
        return [_parties(document, manifest)]
    return []


def _colluders(document: Mapping[str, Any], plan: Mapping[str, Any]) -> Check:
    """What owners of rows who collude see, without their own parts of the noise."""
    owners = len(plan["shares"])
    colluders = min(plan["terms"].get("colluders", owners - 1), owners - 1)
    scales = [Fraction(one["scale"]) for one in (*document["fine"], *document["marginals"])]
    faced = sum((Fraction(owners, owners - colluders) / scale**2 for scale in scales), Fraction(0))
    total = Fraction(document["total"])
    passed = document["noise"] == "gaussian" and faced <= total
    detail = (
        f"costs {float(faced):.6g} of the ρ = {float(total):.6g} that the plan allows, for "
        f"{colluders} of {owners} owners"
    )
    return Check.of("noise that colluders face", passed, detail, "costs more than the plan allows")


def _parties(document: Mapping[str, Any], manifest: Mapping[str, Any]) -> Check:
    """What one of the parties that computed sees, without its own part of the noise."""
    given, hosts = manifest["facts"]["insiders"], len(manifest["facts"]["computing"])
    stated = manifest["plan"]["delta"]
    rho, delta = Fraction(document["spent"]) * hosts / (hosts - 1), Fraction(repr(stated))
    passed = Fraction(given["rho"]) == rho and given["delta"] == stated
    most = Decimal(delta.numerator) / Decimal(delta.denominator)
    passed = passed and delta_of(rho, Fraction(repr(given["epsilon"]))) <= most
    detail = f"leaves each of {hosts} parties an epsilon of {given['epsilon']:g}, as stated"
    return Check.of(
        "noise that parties face",
        passed,
        detail,
        "is not what is stated for the parties that computed",
    )
