"""Propositions 8 and 9 by hand, and what re-clustering costs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sherd.methods.ranking.individual_ranking import Clusters
from sherd.methods.ranking.sensitivity import (
    cluster_based,
    local,
    loss,
    shifts_of_means,
    shifts_of_trimmed,
    trimmed,
)


def clusters(values: list[int], k: int, depth: int = 1) -> Clusters:
    """Clusters of sorted values, made the slow way."""
    values = sorted(values)
    p = len(values) // k
    groups = [values[j * k : (j + 1) * k] for j in range(p - 1)] + [values[(p - 1) * k :]]
    return Clusters(
        sizes=np.array([len(g) for g in groups]),
        sums=np.array([sum(g) for g in groups]),
        low=tuple(np.array([g[i] for g in groups]) for i in range(depth)),
        high=tuple(np.array([g[-1 - i] for g in groups]) for i in range(depth)),
    )


def test_proposition_8_by_hand() -> None:
    """{2, 3, 7} and {8, 9, 9} on [0, 10]: max(10 − 2, 7) = 8 and max(10 − 8, 9) = 9."""
    assert local(clusters([2, 3, 7, 8, 9, 9], 3), 10).tolist() == [8, 9]


def test_proposition_9_by_hand() -> None:
    """{1, 2, 4, 7}: upwards (7−2)+(4−2)+(7−4) = 10, downwards (4−1)+(4−2)+(2−1) = 6."""
    one = clusters([1, 2, 4, 7], 4, 3)
    up, down = shifts_of_trimmed(one)
    assert (up.tolist(), down.tolist()) == ([10], [6])
    assert cluster_based(one).tolist() == [10]
    assert trimmed(one).tolist() == [2 + 2 + 4 + 4]


def test_second_smallest_is_not_the_second_distinct() -> None:
    """{3,3,3,4,5,6,6} has 3 as second smallest and 6 as second largest: it stays as it is."""
    one = clusters([3, 3, 3, 4, 5, 6, 6], 7, 3)
    assert trimmed(one).tolist() == [30]
    # upwards (6−3)+(3−3)+(6−6), downwards (6−3)+(6−5)+(3−3)
    assert [s.tolist() for s in shifts_of_trimmed(one)] == [[3], [4]]


def test_idp_ls_spends_one_and_a_half_on_two_halves() -> None:
    """{0,0,0,½,½,½} on [0,1] at k = 3, 0 → 1: 1.5 times the share of epsilon."""
    halves = clusters([0, 0, 0, 1, 1, 1], 3)
    assert loss(shifts_of_means(halves, 2), local(halves, 2)) == 1.5


def test_idp_cbls_spends_three_on_one_to_nine() -> None:
    """1…9 at k = 3, 1 → 10: every cluster moves by its whole sensitivity, 3 times."""
    nine = clusters(list(range(1, 10)), 3, 3)
    assert loss(shifts_of_trimmed(nine), cluster_based(nine)) == 3.0


def test_dp_um_never_spends_more_than_its_share() -> None:
    """The changes telescope: their sum is at most the width of the axis."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        values = rng.integers(0, 101, rng.integers(3, 60)).tolist()
        found = clusters(values, 3)
        width = np.full(len(found.sums), 100)
        assert loss(shifts_of_means(found, 100), width) <= 1 + 1e-12


def test_idp_ls_never_spends_more_than_one_plus_log_two() -> None:
    """Σ (u_{j+1} − u_j) / max(R − u_j, v_j) stays below the integral 1 + ln 2."""
    fine = clusters(list(range(10_001)), 1)
    assert loss(shifts_of_means(fine, 10_000), local(fine, 10_000)) == pytest.approx(
        2 * math.log(2), abs=1e-3
    )
    # The worst case: one step up to the middle, then evenly to the end.
    worst = [0] * 3 + [v for v in range(5000, 10_001) for _ in range(3)]
    found = clusters(worst, 3)
    assert loss(shifts_of_means(found, 10_000), local(found, 10_000)) <= 1 + math.log(2)


def test_a_sum_that_moves_without_noise_costs_everything() -> None:
    """No noise where something moves is an infinite loss."""
    found = clusters([0, 0, 0, 1, 1, 1], 3)
    assert loss(shifts_of_means(found, 2), np.array([0, 1])) == math.inf
    assert loss((np.array([0, 0]), np.array([0, 0])), np.array([0, 0])) == 0
