"""The exact loss equals brute force over every substitution."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sherd.methods.ranking.individual_ranking import Clusters
from sherd.methods.ranking.sensitivity import (
    cluster_based,
    local,
    loss,
    shifts_of_means,
    shifts_of_trimmed,
)


def _cut(values: list[int], k: int) -> list[list[int]]:
    values = sorted(values)
    p = len(values) // k
    return [values[j * k : (j + 1) * k] for j in range(p - 1)] + [values[(p - 1) * k :]]


def _clusters(values: list[int], k: int, depth: int) -> Clusters:
    groups = _cut(values, k)
    return Clusters(
        sizes=np.array([len(g) for g in groups]),
        sums=np.array([sum(g) for g in groups]),
        low=tuple(np.array([g[i] for g in groups]) for i in range(depth)),
        high=tuple(np.array([g[-1 - i] for g in groups]) for i in range(depth)),
    )


def _trim(group: list[int]) -> int:
    return sum([group[1], *group[1:-1], group[-2]])


def _worst(values: list[int], k: int, width: int, scales: np.ndarray, reduce) -> float:  # type: ignore[no-untyped-def]
    """Every record to every value of the domain: the largest Σ |change| / scale."""
    base = [reduce(g) for g in _cut(values, k)]
    worst = 0.0
    for i in range(len(values)):
        for new in range(width + 1):
            other = [reduce(g) for g in _cut([*values[:i], new, *values[i + 1 :]], k)]
            total = 0.0
            for before, after, scale in zip(base, other, scales, strict=True):
                if before != after:
                    total += abs(before - after) / scale if scale else np.inf
            worst = max(worst, total)
    return worst


tables = st.integers(3, 5).flatmap(
    lambda k: st.tuples(st.just(k), st.lists(st.integers(0, 12), min_size=k, max_size=4 * k + 2))
)


@given(tables)
def test_loss_of_means_is_the_worst_substitution(case: tuple[int, list[int]]) -> None:
    """For idp-ls: the two extreme substitutions are the worst of all."""
    k, values = case
    found = _clusters(values, k, 1)
    scales = local(found, 12)
    assert np.isclose(loss(shifts_of_means(found, 12), scales), _worst(values, k, 12, scales, sum))


@given(tables)
def test_loss_of_dp_um_is_the_worst_substitution(case: tuple[int, list[int]]) -> None:
    """For dp-um too, and it never exceeds the share of epsilon."""
    k, values = case
    found = _clusters(values, k, 1)
    scales = np.full(len(found.sums), 12)
    exact = loss(shifts_of_means(found, 12), scales)
    assert np.isclose(exact, _worst(values, k, 12, scales, sum))
    assert exact <= 1 + 1e-12


@given(tables)
def test_loss_of_trimmed_means_covers_every_substitution(case: tuple[int, list[int]]) -> None:
    """For idp-cbls: equal where the ends of the domain lie beyond every value.

    A value can only rise above a cluster that leaves room above it; on a closed domain the
    worst substitution may fall short of the account, never exceed it.
    """
    k, values = case
    inner = [v + 1 for v in values]
    found = _clusters(inner, k, 3)
    scales = cluster_based(found)
    exact = loss(shifts_of_trimmed(found), scales)
    assert np.isclose(exact, _worst(inner, k, 14, scales, _trim))
