"""Gaussian noise as a sum of parts, one drawn by each of several parties.

Of m parties, each draws one part of variance s² for every count; t of them may collude and
subtract theirs. What they then still face is the sum of h = m − t parts. A sum of discrete
Gaussians is not one exactly, but nearly: by Theorem 1 of kairouz2021, for histograms with d
counts at distance √2, it costs at most

    ρ = 1/(h·s²) + τ·d/4,    τ = 10·Σ_{k=1}^{h−1} exp(−2π²·s²·k/(k + 1)),

where τ = 0 for a single part. ``SharedNoise`` rounds s up so far that this is no more than what
the noise asked for costs: the rounding is paid for by noise and not by privacy.

Everybody else faces all m parts. Their deviation √m·s is no multiple of 1/16; it is stated
rounded *down* to one, so that nobody is told of more noise than there is.

Notation: m owners, t colluders, h = m − t, s the deviation of a part, S the stated one of the sum.

>>> sharing = SharedNoise(owners=4, colluders=3)
>>> noise = Noise(kind="gaussian", scale=Fraction(10))
>>> sharing.part(noise, 8).scale, sharing.whole(noise, 8).scale
(Fraction(10, 1), Fraction(20, 1))
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

from sherd.errors import PlanError
from sherd.methods.graphical.measuring import SHARPNESS, Noise

LEAST_DEVIATION = 2
"""Parts of which several are summed have this deviation at least, whatever was asked for: then
their sum is as good as one draw, to more digits than anybody counts, for colluders and for those
who face all parts."""

_ROUNDED_OFF = Fraction(1, 10**300)
"""What a float may lose of τ: it rounds what is smaller to 0."""


def sum_distance(variance: float, parts: int) -> float:
    """τ: how far a sum of parts is from one draw, for each count.

    >>> sum_distance(50.0, 2) < 1e-200, sum_distance(0.1, 1)
    (True, 0.0)
    """
    terms = (math.exp(-2 * math.pi**2 * variance * k / (k + 1)) for k in range(1, parts))
    return 10.0 * sum(terms)


@dataclass(frozen=True, kw_only=True)
class SharedNoise:
    """How noise is shared out: over so many owners, of whom so many may collude."""

    owners: int
    colluders: int

    @property
    def honest(self) -> int:
        """How many parts must be enough."""
        return self.owners - self.colluders

    def part(self, noise: Noise, cells: int) -> Noise:
        """One owner's part of the noise on a histogram with so many counts."""
        if noise.kind != "gaussian":
            raise PlanError(
                "this noise cannot be shared out",
                must="Gaussian noise",
                do="give a delta",
            )
        steps = _least_steps(self, noise, cells)
        return Noise(kind="gaussian", scale=Fraction(steps, SHARPNESS))

    def whole(self, noise: Noise, cells: int) -> Noise:
        """The noise of all owners together, as it is stated: never more than there is."""
        part = self.part(noise, cells)
        return Noise(kind="gaussian", scale=self._stated(int(part.scale * SHARPNESS)))

    def faced(self, whole: Noise) -> Fraction:
        """What a histogram with stated noise costs in the eyes of those who collude.

        >>> noise = Noise(kind="gaussian", scale=Fraction(20))
        >>> SharedNoise(owners=4, colluders=3).faced(noise)
        Fraction(1, 100)
        """
        return whole.cost * self.owners / self.honest

    def _stated(self, steps: int) -> Fraction:
        return Fraction(math.isqrt(self.owners * steps**2), SHARPNESS)

    def cost(self, steps: int, cells: int) -> Fraction:
        """What colluders face costs, where parts have so many sixteenths of deviation."""
        faced = self.faced(Noise(kind="gaussian", scale=self._stated(steps)))
        if self.honest == 1:
            return faced
        distance = Fraction(sum_distance((steps / SHARPNESS) ** 2, self.honest)) + _ROUNDED_OFF
        return faced + distance * cells / 4


@functools.lru_cache(maxsize=4096)
def _least_steps(sharing: SharedNoise, noise: Noise, cells: int) -> int:
    """The least deviation of a part, in sixteenths, that costs no more than the noise asked for."""
    steps = math.isqrt(math.ceil(SHARPNESS**2 * noise.scale**2 / sharing.honest) - 1) + 1
    if sharing.owners > 1:
        steps = max(steps, LEAST_DEVIATION * SHARPNESS)
    while sharing.cost(steps, cells) > noise.cost:
        steps += 1
    return steps
