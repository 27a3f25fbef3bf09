"""Zero-concentrated differential privacy (zCDP) and what it means as (ε, δ).

ρ-zCDP bounds the Rényi divergence of order α between the outputs on neighbouring tables by
αρ, for every α > 1. Costs add up: a release of parts that cost ρ1, ρ2, … costs their sum.
ρ-zCDP is (ε, δ)-differential privacy for every α > 1 with

    δ = exp((α − 1)(αρ − ε)) / (α − 1) · (1 − 1/α)^α

(Canonne, Kamath and Steinke 2020, Proposition 12). Any α proves a bound; the best one is
searched for in floating point, and what is then returned is certified in decimal arithmetic
of 60 digits with a margin far above its rounding, so no float decides what is promised.

>>> rho = rho_of(Fraction(1), Fraction(1, 10**9))
>>> 0.0149 < rho < 0.0150, float(epsilon_of(rho, Fraction(1, 10**9))) < 1.000001
(True, True)
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import ClassVar

from sherd.errors import PlanError
from sherd.guarantees.notions import Notion, number

DIGITS = 60
"""Decimal digits of a certificate."""

_MARGIN = Decimal(1) + Decimal(10) ** -40
_RELATIVE = Fraction(1, 10**9)


@dataclass(frozen=True, kw_only=True)
class ZeroConcentratedDP(Notion):
    """ρ-zCDP: the Rényi divergence of every order α is at most αρ.

    >>> ZeroConcentratedDP(rho=0.5).words()[:38]
    'ρ-zero-concentrated differential priva'
    """

    code: ClassVar[str] = "zero-concentrated-differential-privacy"
    is_differential_privacy: ClassVar[bool] = True
    rho: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rho) and self.rho > 0):
            raise PlanError(
                "rho is out of range", must="a finite number above 0", got=repr(self.rho)
            )

    def words(self) -> str:
        """One sentence that says what is promised."""
        return self.definition().replace("privacy:", f"privacy with ρ = {number(self.rho)}:", 1)

    @classmethod
    def definition(cls) -> str:
        """What is promised in general."""
        return (
            "ρ-zero-concentrated differential privacy: whatever the data, the Rényi divergence of "
            "every order α between what is released with a person's true data and with any "
            "other in its place is at most αρ"
        )


def delta_at(rho: Fraction, epsilon: Fraction, order: Fraction) -> Decimal:
    """The δ that the order α proves for ρ and ε, rounded up.

    >>> delta_at(Fraction(1, 2), Fraction(5), Fraction(5)) < Decimal("0.0003")
    True
    """
    if order <= 1:
        raise PlanError("the order is out of range", must="above 1", got=str(order))
    with localcontext() as context:
        context.prec = DIGITS
        alpha, less = _decimal(order), _decimal(order - 1)
        exponent = _decimal((order - 1) * (order * rho - epsilon))
        proved = exponent.exp() / less * (less / alpha) ** alpha
        return proved * _MARGIN


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _log_delta(rho: float, epsilon: float, alpha: float) -> float:
    less = alpha - 1
    return less * (alpha * rho - epsilon) - math.log(less) + alpha * math.log1p(-1 / alpha)


def best_order(rho: float, epsilon: float) -> Fraction:
    """The order at which the bound is best, nearly."""
    # The bound is convex in log(α − 1) near its minimum; golden section on that scale.
    low, high = math.log(1e-6), math.log(max(2.0, 2 * epsilon / rho + 2))
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(80):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        at_left = _log_delta(rho, epsilon, 1 + math.exp(left))
        at_right = _log_delta(rho, epsilon, 1 + math.exp(right))
        low, high = (low, right) if at_left < at_right else (left, high)
    return 1 + Fraction(math.exp((low + high) / 2)).limit_denominator(10**9)


def delta_of(rho: Fraction, epsilon: Fraction) -> Decimal:
    """The smallest δ, nearly, for which ρ-zCDP is certified to be (ε, δ)-DP."""
    return delta_at(rho, epsilon, best_order(float(rho), float(epsilon)))


@functools.lru_cache(maxsize=256)
def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest ρ, nearly, that is certified to be (ε, δ)-differential privacy.

    >>> rho_of(Fraction(1, 10), Fraction(1, 10**9)) < rho_of(Fraction(1), Fraction(1, 10**9))
    True
    """
    if epsilon <= 0 or not 0 < delta < 1:
        raise PlanError(
            "epsilon and delta are out of range",
            must="epsilon above 0, delta above 0 and below 1",
            got=f"epsilon {float(epsilon):g}, delta {float(delta):g}",
        )
    bound, wanted = float(epsilon), math.log(delta)
    low, high = 0.0, bound
    while _log_delta(high, bound, float(best_order(high, bound))) < wanted:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        proved = _log_delta(middle, bound, float(best_order(middle, bound)))
        low, high = (middle, high) if proved <= wanted else (low, middle)
    rho = Fraction(low) * (1 - _RELATIVE)
    return _certified(rho.limit_denominator(10**15), epsilon, delta)


def _certified(rho: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The ρ, or one slightly smaller, whose δ is proved to be small enough."""
    for _ in range(60):
        if rho > 0 and delta_of(rho, epsilon) <= _decimal(delta):
            return rho
        rho *= 1 - _RELATIVE
    raise PlanError(
        "no rho can be certified for this epsilon and delta",
        must="values that floating point can hold",
        got=f"epsilon {float(epsilon):g}, delta {float(delta):g}",
    )


def epsilon_of(rho: Fraction, delta: Fraction) -> Fraction:
    """The smallest ε, nearly, for which ρ-zCDP is certified to be (ε, δ)-DP."""
    if rho <= 0 or not 0 < delta < 1:
        raise PlanError(
            "rho and delta are out of range",
            must="rho above 0, delta above 0 and below 1",
            got=f"rho {float(rho):g}, delta {float(delta):g}",
        )
    cost, wanted = float(rho), math.log(delta)
    low, high = 0.0, cost + 2 * math.sqrt(cost * -wanted) + 1e-12
    for _ in range(100):
        middle = (low + high) / 2
        proved = _log_delta(cost, middle, float(best_order(cost, middle)))
        low, high = (middle, high) if proved > wanted else (low, middle)
    epsilon = (Fraction(high) * (1 + _RELATIVE)).limit_denominator(10**15)
    for _ in range(60):
        if delta_of(rho, epsilon) <= _decimal(delta):
            return epsilon
        epsilon *= 1 + _RELATIVE
    raise PlanError("no epsilon can be certified for this rho and delta")
