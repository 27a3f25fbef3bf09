"""Conversion between ρ and (ε, δ), held to numbers worked out in other ways."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sherd.errors import PlanError
from sherd.guarantees.concentrated import (
    ZeroConcentratedDP,
    delta_at,
    delta_of,
    epsilon_of,
    rho_of,
)

DELTA = Fraction(1, 10**9)


@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1", "3", "20"])
def test_rho_keeps_the_promise_and_wastes_little(epsilon: str) -> None:
    """The δ of the ρ found is at most the one given, and 0.1 % more of it would exceed that."""
    wanted = Fraction(epsilon)
    rho = rho_of(wanted, DELTA)
    assert delta_of(rho, wanted) <= float(DELTA)
    more = rho * Fraction(1001, 1000)
    orders = 1 + np.exp(np.linspace(-10, 14, 4001))
    with np.errstate(over="ignore", under="ignore"):
        log_delta = (
            (orders - 1) * (orders * float(more) - float(wanted))
            - np.log(orders - 1)
            + orders * np.log1p(-1 / orders)
        )
    assert log_delta.min() > math.log(DELTA)


def test_the_tight_conversion_beats_the_textbook_one() -> None:
    """More than ε = ρ + 2√(ρ ln(1/δ)) allows, so less noise at the same promise."""
    log = math.log(1 / DELTA)
    textbook = (math.sqrt(log + 1) - math.sqrt(log)) ** 2
    assert float(rho_of(Fraction(1), DELTA)) > 1.2 * textbook


def test_the_gaussian_of_that_rho_is_inside_the_promise() -> None:
    """The exact δ of a Gaussian that costs ρ (Balle and Wang 2018) is below the δ promised."""
    from scipy.stats import norm

    for epsilon in (0.1, 1.0, 3.0):
        rho = float(rho_of(Fraction(str(epsilon)), DELTA))
        distance = math.sqrt(2 * rho)  # sensitivity over deviation
        exact = norm.cdf(distance / 2 - epsilon / distance) - math.exp(epsilon) * norm.cdf(
            -distance / 2 - epsilon / distance
        )
        assert 0 < exact <= float(DELTA)


def test_there_and_back() -> None:
    """The ε of a ρ that was made from an ε is that ε, to six digits and never below by more."""
    for epsilon in ("0.3", "1", "5"):
        back = epsilon_of(rho_of(Fraction(epsilon), DELTA), DELTA)
        assert float(back) == pytest.approx(float(epsilon), rel=1e-6)


def test_costs_add_up() -> None:
    """Two releases of half the ρ cost the ε of one, less than twice their own."""
    rho = rho_of(Fraction(1), DELTA)
    half = epsilon_of(rho / 2, DELTA)
    assert float(epsilon_of(rho / 2 + rho / 2, DELTA)) == pytest.approx(1, rel=1e-6)
    assert 2 * half > 1.3


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0.1), (1, 0), (1, 1), (-1, 0.1)])
def test_values_out_of_range_are_refused(epsilon: float, delta: float) -> None:
    """An ε of 0, or a δ that is 0 or 1."""
    with pytest.raises(PlanError, match="out of range"):
        rho_of(Fraction(epsilon), Fraction(delta))
    with pytest.raises(PlanError, match="out of range"):
        epsilon_of(Fraction(epsilon), Fraction(delta))
    with pytest.raises(PlanError, match="order"):
        delta_at(Fraction(1), Fraction(1), Fraction(1))


def test_the_notion_speaks() -> None:
    """Its words name ρ; a ρ that is not above 0 is refused."""
    notion = ZeroConcentratedDP(rho=0.25)
    assert "ρ = 0.25" in notion.words()
    assert notion.as_data() == {"notion": notion.code, "rho": 0.25}
    with pytest.raises(PlanError, match="rho"):
        ZeroConcentratedDP(rho=0)
