"""Noise shared out among owners: what colluders face, what is stated, and what is drawn."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherd.errors import PlanError
from sherd.methods.graphical.measuring import Noise
from sherd.methods.graphical.shared_noise import LEAST_DEVIATION, SharedNoise, sum_distance
from sherd.randomness import Randomness


@given(
    steps=st.integers(16 * 16, 16 * 4000),
    owners=st.integers(1, 30),
    data=st.data(),
    cells=st.integers(1, 100_000),
)
def test_colluders_never_face_less_than_was_asked_for(
    steps: int, owners: int, data: st.DataObject, cells: int
) -> None:
    """The remaining parts cost no more than the noise asked for, τ of kairouz2021 included."""
    colluders = data.draw(st.integers(0, owners - 1))
    sharing = SharedNoise(owners=owners, colluders=colluders)
    noise = Noise(kind="gaussian", scale=Fraction(steps, 16))
    honest = owners - colluders
    part = sharing.part(noise, cells)
    variance = part.scale**2
    tau = Fraction(sum_distance(float(variance), honest))
    assert 1 / (honest * variance) + tau * cells / 4 <= noise.cost
    whole = sharing.whole(noise, cells)
    assert whole.scale**2 <= owners * variance, "more noise is stated than there is"
    assert sharing.faced(whole) <= noise.cost
    # Rounding costs little: two steps of a sixteenth at most.
    least = LEAST_DEVIATION if honest > 1 else 0
    needed = max(least, float(noise.scale) / math.sqrt(honest))
    assert float(part.scale) <= needed + 2 / 16 + 1e-9


def test_sum_of_parts_is_as_good_as_one_draw() -> None:
    """Over every outcome: the Rényi divergence of a sum of parts is within the stated cost."""
    owners, noise, cells = 3, Noise(kind="gaussian", scale=Fraction(4)), 2
    part = SharedNoise(owners=owners, colluders=0).part(noise, cells)
    x = np.arange(-200, 201)
    weights = np.exp(-(x**2) / (2 * float(part.scale) ** 2))
    one = weights / weights.sum()
    whole = one
    for _ in range(owners - 1):
        whole = np.convolve(whole, one)
    kept = whole > 1e-280
    moved = np.roll(whole, 1)
    both = kept & (moved > 1e-280)
    for alpha in (1.5, 2.0, 8.0, 30.0):
        terms = alpha * np.log(whole[both]) + (1 - alpha) * np.log(moved[both])
        divergence = 2 * np.logaddexp.reduce(terms) / (alpha - 1)  # two counts move
        assert divergence <= alpha * float(noise.cost) * (1 + 1e-9)


@pytest.mark.parametrize(("factor", "found"), [(1.0, False), (0.8, True), (1.25, True)])
def test_drawn_parts_have_the_stated_deviation(factor: float, found: bool) -> None:
    """Sums of drawn parts have the stated variance, and parts a fifth off would be found.

    40,000 sums: the variance is known to 0.7 %; five deviations are a false alarm in 2 million.
    """
    sharing = SharedNoise(owners=5, colluders=2)
    noise, n = Noise(kind="gaussian", scale=Fraction(20)), 40_000
    part = sharing.part(noise, 10)
    scale = Fraction(round(part.scale * 16 * Fraction(factor)), 16)
    drawn = sum(
        Noise(kind="gaussian", scale=scale).draw(Randomness.seeded(owner), n) for owner in range(5)
    )
    ratio = float(np.var(drawn)) / float(sharing.whole(noise, 10).scale ** 2)
    assert (abs(ratio - 1) > 5 * math.sqrt(2 / n) + 0.01) == found


def test_laplace_noise_is_refused_and_small_noise_made_more() -> None:
    """What cannot be shared out soundly is refused, with words that say what to do."""
    with pytest.raises(PlanError, match="give a delta"):
        SharedNoise(owners=2, colluders=1).part(Noise(kind="laplace", scale=Fraction(9)), 4)
    # Little noise is made more where parts are summed; one honest owner draws it all itself.
    small = Noise(kind="gaussian", scale=Fraction(1))
    assert SharedNoise(owners=3, colluders=0).part(small, 4).scale == LEAST_DEVIATION
    assert SharedNoise(owners=4, colluders=3).part(small, 4).scale == small.scale


def test_more_colluders_mean_more_noise() -> None:
    """The price of withstanding more owners, in the deviation of what is released."""
    noise = Noise(kind="gaussian", scale=Fraction(100))
    stated = [SharedNoise(owners=10, colluders=t).whole(noise, 10).scale for t in range(10)]
    assert all(a < b for a, b in itertools.pairwise(stated))
    assert float(stated[0]) == pytest.approx(100, rel=0.005)
    assert float(stated[9]) == pytest.approx(100 * math.sqrt(10), rel=0.005)
