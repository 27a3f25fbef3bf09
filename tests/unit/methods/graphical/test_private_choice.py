"""Choices cost what they are said to cost, by enumeration, and are drawn as they are said to be."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sherd.errors import PlanError
from sherd.methods.graphical.measuring import CodedTable, Marginal
from sherd.methods.graphical.private_choice import (
    SENSITIVITY,
    MarginalCandidate,
    NoisyChoice,
    cost_of,
    rate_of,
)
from sherd.randomness import Randomness

if TYPE_CHECKING:
    from collections.abc import Sequence

UTILITIES = [(0, 0, 0), (4, 0, 7), (1, 2, 3), (10, 10, 0)]
RATES = [Fraction(1, 10), Fraction(1), Fraction(3)]


def exponential(utilities: Sequence[int], rate: Fraction) -> np.ndarray[Any, Any]:
    """The exponential mechanism's probabilities."""
    weights = np.exp(float(rate) * np.array(utilities) / (2 * SENSITIVITY))
    return weights / weights.sum()


def permute_and_flip(utilities: Sequence[int], rate: Fraction) -> np.ndarray[Any, Any]:
    """Permute-and-flip's probabilities, over all orders."""
    best = max(utilities)
    keep = [math.exp(float(rate) * (u - best) / (2 * SENSITIVITY)) for u in utilities]
    found = np.zeros(len(utilities))
    orders = list(itertools.permutations(range(len(utilities))))
    for order in orders:
        left = 1.0
        for place in order:
            found[place] += left * keep[place] / len(orders)
            left *= 1 - keep[place]
    return found


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_a_choice_costs_no_more_than_stated(rate: Fraction) -> None:
    """Over all neighbouring utilities: ratios within e^rate, Rényi divergences within α·rate²/8."""
    for before in UTILITIES:
        for moves in itertools.product((-SENSITIVITY, 0, SENSITIVITY), repeat=3):
            after = [u + m for u, m in zip(before, moves, strict=True)]
            p, q = permute_and_flip(before, rate), permute_and_flip(after, rate)
            assert np.abs(np.log(p / q)).max() <= float(cost_of("laplace", rate)) + 1e-12
            p, q = exponential(before, rate), exponential(after, rate)
            for order in (1.5, 2.0, 8.0, 40.0):
                divergence = math.log(float((p**order * q ** (1 - order)).sum())) / (order - 1)
                assert divergence <= order * float(cost_of("gaussian", rate)) + 1e-12


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(3)], ids=str)
def test_choices_from_tables_cost_no_more_than_stated_by_enumeration(rate: Fraction) -> None:
    """All tables of three records over three yes-no attributes, all neighbours, three pairs.

    Utilities are those that a release computes, beside counts that it might expect; the largest
    loss comes near what is stated.
    """
    places, cells = range(3), list(itertools.product((0, 1), repeat=3))
    pairs = list(itertools.combinations(places, 2))
    candidates = [
        MarginalCandidate(
            marginal=Marginal(attributes=pair, bins=((0, 1), (0, 1))), expected=np.array(counts)
        )
        for pair, counts in zip(pairs, ([[0, 0], [0, 0]], [[2, 1], [0, 0]], [[0, 1], [1, 1]]),
                                strict=True)
    ]  # fmt: skip

    def utilities(rows: Sequence[tuple[int, ...]]) -> list[int]:
        table = CodedTable(list(np.array(rows).T), (2, 2, 2))
        chooser = NoisyChoice(table, Randomness.seeded(0), "laplace")
        return [chooser.utility(one) for one in candidates]

    known: dict[Any, list[int]] = {
        rows: utilities(rows) for rows in itertools.combinations_with_replacement(cells, 3)
    }
    worst = {"laplace": 0.0, "gaussian": 0.0}
    for rows, before in known.items():
        for place, new in itertools.product(places, cells):
            after = known[tuple(sorted([*rows[:place], new, *rows[place + 1 :]]))]
            assert max(abs(a - b) for a, b in zip(before, after, strict=True)) <= SENSITIVITY
            p, q = permute_and_flip(before, rate), permute_and_flip(after, rate)
            worst["laplace"] = max(worst["laplace"], float(np.abs(np.log(p / q)).max()))
            p, q = exponential(before, rate), exponential(after, rate)
            for order in (1.5, 2.0, 8.0, 40.0):
                divergence = math.log(float((p**order * q ** (1 - order)).sum())) / (order - 1)
                worst["gaussian"] = max(worst["gaussian"], divergence / order)
    for kind, share in (("laplace", 0.5), ("gaussian", 0.3)):
        stated = float(cost_of(kind, rate))  # type: ignore[arg-type]
        assert share * stated < worst[kind] <= stated + 1e-12


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_choices_have_the_stated_probabilities(kind: Any) -> None:
    """Of 20,000 seeded choices; four standard errors, and 30 % another rate is found out."""
    table = CodedTable([np.array([0, 0, 1, 1, 1, 1]), np.array([0, 1, 0, 1, 1, 1])], [2, 2])
    fine = (0, 1)
    candidates = [
        MarginalCandidate(
            marginal=Marginal(attributes=(a,), bins=(fine,)), expected=np.array(expected)
        )
        for a, expected in ((0, [2, 4]), (1, [5, 1]), (0, [0, 6]))
    ]
    utilities = [0, 6, 4]
    chooser = NoisyChoice(table, Randomness.seeded(8), kind)
    assert [chooser.utility(one) for one in candidates] == utilities
    n = 20_000
    seen = np.bincount([chooser.choose(candidates, Fraction(1)) for _ in range(n)], minlength=3)
    law = permute_and_flip if kind == "laplace" else exponential
    right, wrong = law(utilities, Fraction(1)), law(utilities, Fraction(13, 10))
    error = np.sqrt(right * (1 - right) / n)
    assert (np.abs(seen / n - right) < 4 * error).all()
    assert (np.abs(seen / n - wrong) > 4 * error).any()


def test_rates_cost_no_more_than_their_share() -> None:
    """Rates are rounded down; a share too small for any rate is refused."""
    for kind in ("laplace", "gaussian"):
        for amount in (Fraction(1, 3), Fraction(1, 10**4), Fraction(7)):
            rate = rate_of(kind, amount)
            assert amount * Fraction(99, 100) < cost_of(kind, rate) <= amount
        with pytest.raises(PlanError, match="too small"):
            rate_of(kind, Fraction(1, 10**30))
