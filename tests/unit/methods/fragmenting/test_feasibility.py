from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import InfeasibleError, PlanError
from sherd.methods.fragmenting.constraints import Constraints
from sherd.methods.fragmenting.feasibility import (
    check_feasible,
    check_sizes,
    excesses,
    forced_suppression,
    group_sizes,
)


@pytest.mark.parametrize("k", range(1, 60))
@pytest.mark.parametrize("fragments", [2, 3, 5])
def test_group_sizes_reach_the_looseness_evenly(k: int, fragments: int) -> None:
    """Any two sizes multiply to k, and one less anywhere would not do."""
    sizes = group_sizes(k, fragments)
    check_sizes(sizes, k, fragments)
    assert max(sizes) - min(sizes) <= max(1, round(k**0.5))
    least, second = sorted(sizes)[:2]
    assert (least - 1) * second < k or least == 1


@pytest.mark.parametrize("sizes", [[4], [3, 3], [0, 100], [True, 12], [4.0, 3]])
def test_wrong_group_sizes_are_refused(sizes: list[int]) -> None:
    """Too few, too small and not whole."""
    with pytest.raises(PlanError):
        check_sizes(sizes, 12, 2)


def test_forced_suppression_is_the_least() -> None:
    """The formula agrees with leaving out one tuple after another."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        counts = rng.integers(0, 9, rng.integers(1, 6))
        limit = int(rng.integers(1, 5))
        left = counts.copy()
        while left.max() > left.sum() // limit:
            left[left.argmax()] -= 1
        assert forced_suppression(counts, limit) == counts.sum() - left.sum()


def test_too_frequent_values_are_named_before_any_work() -> None:
    """The error names attributes and shares, never the value."""
    table = pa.table({"a": ["secret"] * 50 + [f"v{i}" for i in range(50)], "b": list(range(100))})
    rules = Constraints(constraints=(("a", "b"),))
    found = excesses(table, rules, (("a",), ("b",)), (2, 2))
    assert [(e.attributes, e.limit, e.largest) for e in found] == [(("a",), 4, 50)]
    with pytest.raises(InfeasibleError, match="values of a are too frequent") as caught:
        check_feasible(found, 100, 0.05, all_tried=False)
    assert "secret" not in str(caught.value)
    check_feasible(found, 100, 0.9, all_tried=False)
    check_feasible((), 100, 0.0, all_tried=False)
