"""Multivariate microaggregation moves more with one record than noise could cover."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from types import ModuleType

PAPER = Path(__file__).parents[3] / "benchmarks" / "001-masking"


@pytest.fixture(name="multivariate")
def _multivariate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The experiment."""
    monkeypatch.syspath_prepend(str(PAPER))
    return importlib.import_module("multivariate")


def test_clusters_hold_k_to_three_k_records(multivariate: ModuleType) -> None:
    """MDAV's clusters have k records but for the last; rankings' are consecutive."""
    points = np.random.default_rng(0).random((103, 3))
    sizes = np.bincount(multivariate.mdav(points, 5))
    assert sizes.min() == 5
    assert sizes.max() < 10
    assert multivariate.ranked(np.array([5.0, 1, 3, 2, 4, 9, 7]), 2).tolist() == [
        2,
        0,
        1,
        0,
        1,
        2,
        2,
    ]


def test_matching_is_the_best_there_is(multivariate: ModuleType) -> None:
    """Sums in another order have not moved; one that moved counts by how far."""
    before = np.array([[1.0, 2.0], [5.0, 5.0], [9.0, 0.0]])
    assert multivariate.moved(before, before[::-1]) == 0
    assert (
        multivariate.moved(before, before[::-1] + np.array([[0.0, 0.0], [0.0, 0.5], [0.0, 0.0]]))
        == 0.5
    )


@pytest.mark.parametrize("k", [5, 25])
def test_one_record_of_the_wine_moves_more_than_one_range(multivariate: ModuleType, k: int) -> None:
    """Ranking stays within its one range, MDAV does not, and its noise costs an order more."""
    found = multivariate.measured(multivariate.table("wine", 500), k, 4, 1)
    assert max(found.ranking) <= 1
    assert np.mean(found.mdav) > 3
    assert found.sse_ranking < found.sse_mdav
    errors = [found.noisy(k, 1.0, multivariate=m) for m in (True, False)]
    assert errors[0] > 10 * errors[1]
