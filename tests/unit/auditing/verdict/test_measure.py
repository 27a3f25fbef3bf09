"""An attack is called a success only where both its own error and the control group's allow it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from sherd.auditing.verdict.measure import beside_control, clopper_pearson

SHARES = (0.01, 0.03, 0.1, 0.3, 0.5, 0.9)


def told_apart(trials: int, share: float, among_others: float, *, alone: bool = False) -> float:
    """The exact chance that the lower end of the hits is above the others' share."""
    chances = [binom.pmf(np.arange(trials + 1), trials, p) for p in (share, among_others)]
    above = np.zeros((trials + 1, trials + 1))
    for hits in range(trials + 1):
        alone_low = clopper_pearson(hits, trials)[0]
        for others in range(hits):  # with no fewer hits among others nothing is above them
            low = alone_low if alone else beside_control(hits, others, trials)[0]
            above[hits, others] = low > others / trials
    return float(chances[0] @ above @ chances[1])


@pytest.mark.parametrize("trials", [20, 60])
def test_groups_that_do_not_differ_are_rarely_told_apart(trials: int) -> None:
    """In 2.5 % of cases at most, whatever the share; by the hits' own interval far more often."""
    assert max(told_apart(trials, share, share) for share in SHARES) <= 0.025
    assert told_apart(trials, 0.1, 0.1, alone=True) > 0.05


def test_groups_that_differ_are_told_apart() -> None:
    """A fifth beside a half, of 60 each, is found in more than four of five cases."""
    assert told_apart(60, 0.5, 0.2) > 0.8


def test_interval_lies_within_the_possible() -> None:
    """At the ends, and without a single trial."""
    assert beside_control(0, 0, 0) == (0.0, 1.0)
    assert beside_control(0, 5, 10)[0] == 0.0
    assert beside_control(10, 5, 10)[1] == 1.0
