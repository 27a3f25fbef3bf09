"""Utilities and their sensitivities, by brute force over neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sherd.errors import PlanError
from sherd.methods.specialising.scores import (
    UTILITIES,
    _entropy,
    monotone_change,
    scores,
    sensitivity,
)

CHILDREN = st.integers(2, 4)


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Class counts of children before and after one record is substituted.

    The last row stands for everything outside the node, so a record may enter or leave it.
    """
    rows, classes = draw(CHILDREN) + 1, draw(st.integers(1, 4))
    flat = draw(
        st.lists(
            st.integers(0, 40) | st.integers(0, 10**6), min_size=rows * classes,
            max_size=rows * classes,
        )
    )  # fmt: skip
    before = np.array(flat, np.int64)
    source, target = (draw(st.integers(0, before.size - 1)) for _ in range(2))
    before[source] += 1
    after = before.copy()
    after[source] -= 1
    after[target] += 1
    return before.reshape(rows, classes), after.reshape(rows, classes)


@pytest.mark.parametrize("utility", UTILITIES)
@settings(deadline=None)
@given(pair=neighbours())
def test_no_substitution_changes_a_utility_by_more(
    utility: str, pair: tuple[np.ndarray, np.ndarray]
) -> None:
    """The observed change never exceeds the declared sensitivity."""
    before, after = (scores(utility, one[:-1], np.array([0]))[0] for one in pair)
    assert abs(int(before - after)) <= sensitivity(utility, int(pair[0].sum()))


@pytest.mark.parametrize("utility", ["max", "spread"])
@settings(deadline=None)
@given(pair=neighbours(), place=st.integers(0, 10**6))
def test_monotone_utilities_never_fall_when_a_record_comes(
    utility: str, pair: tuple[np.ndarray, np.ndarray], place: int
) -> None:
    """One epsilon' for two parts of the data rests on this."""
    children = pair[0][:-1]
    more = children.copy()
    more.reshape(-1)[place % more.size] += 1
    before, after = (scores(utility, one, np.array([0]))[0] for one in (children, more))
    assert 0 <= after - before <= 1


def test_declared_sensitivities_are_reached() -> None:
    """None is larger than need be: some neighbours change max by 1 and gain by 2."""
    first = np.array([0])
    assert scores("max", np.array([[1, 0], [0, 1]]), first) == 2
    assert scores("max", np.array([[1, 1], [0, 0]]), first) == 1
    before, after = np.array([[0, 2], [1, 1]]), np.array([[0, 2], [2, 0]])
    assert scores("gain", before, first) == 0
    assert scores("gain", after, first) == 2


def test_info_gain_is_the_information_gain() -> None:
    """|D_v| times the drop of entropy, to fixed-point precision."""
    children = np.array([[30, 10], [5, 55]])

    def bits(counts: np.ndarray) -> float:
        share = counts / counts.sum()
        return float(-(share * np.log2(share)).sum() * counts.sum())

    exact = bits(children.sum(axis=0)) - bits(children[0]) - bits(children[1])
    assert scores("info-gain", children, np.array([0]))[0] / 256 == pytest.approx(exact, abs=0.05)


def test_entropy_of_pure_and_empty_sets_is_nothing() -> None:
    """Sets of one class, or of no records, hold no information."""
    assert _entropy(np.array([[7, 0], [0, 0]])).tolist() == [0, 0]


def test_candidates_are_scored_apart() -> None:
    """Children of one candidate are added up, those of the next are not."""
    children = np.array([[4, 1], [2, 3], [5, 0], [0, 1], [1, 3]])
    assert scores("max", children, np.array([0, 2])).tolist() == [7, 9]
    assert scores("spread", children, np.array([0, 2])).tolist() == [5, 5]


def test_unknown_utility_is_refused() -> None:
    """A name that is no utility."""
    with pytest.raises(PlanError, match="the utility is unknown"):
        scores("best", np.zeros((1, 1), np.int64), np.array([0]))


@settings(deadline=None)
@given(pair=neighbours(), place=st.integers(0, 10**6))
def test_purity_never_rises_when_a_record_comes(
    pair: tuple[np.ndarray, np.ndarray], place: int
) -> None:
    """Up to rounding it falls, by no more than is declared."""
    children = pair[0][:-1]
    more = children.copy()
    more.reshape(-1)[place % more.size] += 1
    before, after = (scores("purity", one, np.array([0]))[0] for one in (children, more))
    assert -2 <= before - after <= monotone_change("purity", int(more.sum()))


def test_only_monotone_utilities_have_a_monotone_change() -> None:
    """The others need twice the budget and are refused where one is assumed."""
    assert monotone_change("max", 5) == monotone_change("spread", 5) == 1
    with pytest.raises(PlanError, match="not monotone"):
        monotone_change("gain", 5)
