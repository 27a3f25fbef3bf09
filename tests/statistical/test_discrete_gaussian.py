"""The discrete Gaussian has the declared distribution, by tests that have power.

The sampler is seeded, so a pass stays a pass; each test's false-alarm rate was 10^-4 when its
seed was chosen (no seed was tried twice). OpenDP's draws cannot be seeded: 10^-7.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sherd.randomness import Randomness
from sherd.randomness.gaussian import discrete_gaussian

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.statistical

DEVIATIONS = [Fraction(1, 2), Fraction(7, 4), Fraction(19, 16), Fraction(80), Fraction(5_000)]
DRAWS = 200_000


def p_value(drawn: NDArray[np.int64], deviation: Fraction) -> float:
    """Chi-squared goodness of fit to exp(−x²/(2σ²)) on the whole numbers."""
    from scipy.stats import chi2

    sigma = float(deviation)
    reach = int(12 * sigma) + 12
    places = np.arange(-reach, reach + 1)
    weights = np.exp(-((places / sigma) ** 2) / 2)
    above = np.cumsum(weights / weights.sum())
    cuts = np.unique(np.searchsorted(above, np.arange(1, 40) / 40))
    groups = np.searchsorted(cuts, np.arange(len(places)), side="left")
    expected = np.bincount(groups, weights / weights.sum()) * drawn.size
    inside = np.clip(drawn + reach, 0, len(places) - 1)
    seen = np.bincount(groups[inside], minlength=len(expected))
    kept = expected > 5
    statistic = float(((seen - expected)[kept] ** 2 / expected[kept]).sum())
    return float(chi2.sf(statistic, int(kept.sum()) - 1))


def draw(deviation: Fraction, seed: int) -> NDArray[np.int64]:
    """Seeded draws."""
    return discrete_gaussian(Randomness.seeded(seed), deviation, DRAWS)


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=str)
def test_declared_deviation_passes(deviation: Fraction) -> None:
    """The draws fit the probabilities of the declared deviation."""
    assert p_value(draw(deviation, 30), deviation) > 1e-4


@pytest.mark.parametrize("factor", [Fraction(7, 10), Fraction(13, 10)], ids=str)
@pytest.mark.parametrize("deviation", DEVIATIONS, ids=str)
def test_deviation_off_by_thirty_percent_fails(deviation: Fraction, factor: Fraction) -> None:
    """Noise 30 % too small or too large is found out."""
    assert p_value(draw(deviation * factor, 31), deviation) < 1e-6


def test_two_percent_off_fails() -> None:
    """A pass means something: 2 % too little is found out."""
    assert p_value(draw(Fraction(80) * Fraction(49, 50), 32), Fraction(80)) < 1e-6


@pytest.mark.parametrize("deviation", [Fraction(1, 2), Fraction(40)], ids=str)
def test_opendp_draws_from_the_same_distribution(deviation: Fraction) -> None:
    """OpenDP's sampler on whole numbers passes the test that ours passes."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    n = 20_000
    space = vector_domain(atom_domain(T="i64"), size=n), l2_distance(T="f64")
    theirs = np.array(make_gaussian(*space, scale=float(deviation))([0] * n), np.int64)
    assert p_value(theirs, deviation) > 1e-7
    ours = discrete_gaussian(Randomness.from_system(), deviation, n)
    assert p_value(ours, deviation) > 1e-7
