"""The nearest ascending sequence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sherd.methods.ranking.isotonic import ascending


def test_what_ascends_stays() -> None:
    """Equal neighbours too, and the empty sequence."""
    assert ascending(np.array([1.0, 1.0, 2.0]), np.ones(3)).tolist() == [1, 1, 2]
    assert ascending(np.array([]), np.array([])).tolist() == []


def test_weights_count() -> None:
    """A cluster of three pulls three times as much."""
    assert ascending(np.array([4.0, 0.0]), np.array([3, 1])).tolist() == [3, 3]
    assert ascending(np.array([4.0, 0.0]), np.array([1, 3])).tolist() == [1, 1]


def test_lengths_differ_is_a_mistake() -> None:
    """Every value has a weight."""
    with pytest.raises(ValueError, match="shorter"):
        ascending(np.array([1.0]), np.array([]))


@settings(deadline=None)  # the first example imports scikit-learn
@given(st.lists(st.tuples(st.floats(-1e9, 1e9), st.integers(1, 1000)), min_size=1, max_size=60))
def test_it_is_scikit_learns(pairs: list[tuple[float, int]]) -> None:
    """The same fit as the reference implementation, and its mean is kept."""
    isotonic = pytest.importorskip("sklearn.isotonic")
    values, weights = (np.array(part, float) for part in zip(*pairs, strict=True))
    found = ascending(values, weights)
    reference = isotonic.isotonic_regression(values, sample_weight=weights)
    assert np.allclose(found, reference, rtol=1e-9, atol=1e-5)
    assert (np.diff(found) >= 0).all()
    assert np.isclose(np.average(found, weights=weights), np.average(values, weights=weights),
                      rtol=1e-9, atol=1e-5)  # fmt: skip
