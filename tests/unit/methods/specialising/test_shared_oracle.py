"""Information gain by straight lines: near the logarithm's, with the sensitivity it declares."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lined_gain import lined_gain

from sherd.methods.specialising.scores import scores, sensitivity
from sherd.methods.specialising.shared_oracle import entropy_lines


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 20, 1000, 45_222, 10**6])
def test_the_lines_are_convex_whole_and_no_steeper_than_declared(n: int) -> None:
    """All that the proof rests on, at every count there is."""
    lines = entropy_lines(n)
    values = lines.at(np.arange(n + 1))
    steps = np.diff(values)
    assert values[0] == values[1] == 0
    assert (np.diff(steps) >= 0).all()
    assert steps[-1] == lines.slopes[-1]
    assert 2 * int(lines.slopes[-1]) <= sensitivity("info-gain", n)


def test_the_lines_are_near_the_logarithm() -> None:
    """Off by no more than the docstring says, at every count up to a hundred thousand."""
    n = 10**5
    counts = np.arange(1, n + 1)
    off = entropy_lines(n).at(counts) / 256 - counts * np.log2(counts)
    assert (np.abs(off) <= (0.012 + 1 / 512) * counts).all()


@st.composite
def substituted(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Class counts of children and of all else, before and after a record is substituted."""
    rows, classes = draw(st.integers(3, 5)), draw(st.integers(1, 4))
    count = st.integers(0, 30) | st.integers(0, 10**5)
    flat = draw(st.lists(count, min_size=rows * classes, max_size=rows * classes))
    before = np.array(flat, np.int64)
    source, target = (draw(st.integers(0, before.size - 1)) for _ in range(2))
    before[source] += 1
    after = before.copy()
    after[source] -= 1
    after[target] += 1
    return before.reshape(rows, classes), after.reshape(rows, classes)


@settings(max_examples=200, deadline=None)
@given(pair=substituted())
def test_no_substitution_moves_the_gain_further_than_declared(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    """Neighbours at random, with counts that differ by orders of magnitude."""
    n = int(pair[0].sum())
    before, after = (int(lined_gain(one[:-1], np.array([0]), n)[0]) for one in pair)
    assert abs(before - after) <= sensitivity("info-gain", n)


def test_a_sensitivity_of_half_would_not_do() -> None:
    """The declared one is nearly reached: a record that turns from one class to the other."""
    n = 4096
    before = np.array([[n // 2, 0], [0, n // 2]])
    after = np.array([[n // 2 - 1, 1], [0, n // 2]])
    first = np.array([0])
    moved = abs(int((lined_gain(before, first, n) - lined_gain(after, first, n))[0]))
    assert moved > sensitivity("info-gain", n) / 4


def test_candidates_are_ranked_as_by_logarithms() -> None:
    """Where the exact gains differ by a fiftieth of a bit a record, the order is theirs."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        n = int(rng.integers(50, 50_000))
        children = rng.multinomial(n, rng.dirichlet(np.ones(6)), 2).reshape(6, 2)
        # Two candidates for two nodes of as many records each.
        first = np.array([0, 3])
        exact = scores("info-gain", children, first) / 256
        lined = lined_gain(children, first, 2 * n) / 256
        assert math.isclose(exact[0], lined[0], abs_tol=0.02 * n)
        if abs(exact[0] - exact[1]) > 0.04 * n:
            assert (exact[0] > exact[1]) == (lined[0] > lined[1])
