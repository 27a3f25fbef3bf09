"""The discrete Gaussian sampler: limits, seeds and sizes."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sherd.errors import PlanError
from sherd.randomness import Randomness
from sherd.randomness.gaussian import MOST_NUMERATOR, discrete_gaussian


def test_a_seed_draws_again() -> None:
    """The same seed gives the same draws, another one others."""
    first, again, other = (
        discrete_gaussian(Randomness.seeded(seed), Fraction(50), 100).tolist() for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_no_draws_are_no_draws() -> None:
    """An empty histogram gets no noise."""
    assert discrete_gaussian(Randomness.seeded(1), Fraction(3), 0).tolist() == []


@pytest.mark.parametrize("deviation", [Fraction(0), Fraction(-1), Fraction(MOST_NUMERATOR + 1)])
def test_a_deviation_that_does_not_fit_is_refused(deviation: Fraction) -> None:
    """Not above 0, or so large that products would wrap."""
    with pytest.raises(PlanError, match="is not valid"):
        discrete_gaussian(Randomness.seeded(1), deviation, 1)


def test_the_largest_deviation_does_not_wrap() -> None:
    """At the limit, draws are spread as widely as they should be."""
    drawn = discrete_gaussian(Randomness.seeded(4), Fraction(MOST_NUMERATOR), 2000)
    assert 0.9 < float(drawn.std()) / MOST_NUMERATOR < 1.1  # 6 standard errors
