"""The algorithm by itself: what it asks, in which order, and what it makes of the answers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sherd
from sherd.methods.specialising.hierarchy import Hierarchy
from sherd.methods.specialising.plain_oracle import PlainOracle
from sherd.methods.specialising.scores import Budget
from sherd.methods.specialising.specialise import Candidate, specialise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sherd.methods.specialising.specialise import Cuts


def hierarchies(**attributes: dict[str, Any]) -> list[Hierarchy]:
    """Hierarchies of attributes given as in a schema file."""
    schema = sherd.Schema.from_data({"attributes": attributes})
    return [Hierarchy.of(attribute) for attribute in schema]


NUMBER = {"type": "integer", "domain": ["0", "7"]}
LABELS = {"type": "category", "values": ["a", "b", "c"]}


class Scripted:
    """An oracle that answers from a list and writes down what it was asked."""

    def __init__(self, answers: list[int] | None = None) -> None:
        self.answers = answers
        self.asked: list[list[list[tuple[int, ...]]]] = []

    def choose(self, groups: Sequence[Sequence[Candidate]]) -> list[int]:
        """The next answers, or the last candidate always."""
        self.asked.append([[one.edges for one in group] for group in groups])
        if self.answers is None:
            return [len(group) - 1 for group in groups]
        return [self.answers.pop(0) for _ in groups]

    def count(self, cuts: Cuts, choices: int) -> np.ndarray:
        """Not asked in these tests."""
        raise AssertionError((cuts, choices))


def test_every_measured_attribute_is_split_first() -> None:
    """One choice for each measured attribute, of every inner edge of its grid."""
    oracle = Scripted()
    specialise(hierarchies(x=NUMBER, c=LABELS, y=NUMBER), oracle, h=1, max_leaves=100)
    assert [len(group) for group in oracle.asked[0]] == [7, 7]
    assert oracle.asked[0][0][0] == (0, 1, 8)


def test_splits_follow_a_numeric_cut_for_both_children_together() -> None:
    """Children of one cell have nothing to split; no split is drawn after the last cut."""
    oracle = Scripted([3, 0, 0, 0, 0])
    found = specialise(hierarchies(x=NUMBER), oracle, h=2, max_leaves=100)
    assert oracle.asked[1] == [[(0, 4, 8)]]
    assert [len(group) for group in oracle.asked[2]] == [3, 3]
    assert oracle.asked[3] == [[(0, 1, 4), (4, 5, 8)]]
    assert len(oracle.asked) == 4
    assert found.cuts == ((0, 1, 4, 8),)
    assert found.choices == 4


def test_cuts_replace_a_value_in_all_records() -> None:
    """The state is a cut of each attribute; steps are kept in order."""
    found = specialise(hierarchies(c=LABELS, x=NUMBER), Scripted([0, 0, 0]), h=2, max_leaves=100)
    assert found.cuts == ((0, 1, 2, 3), (0, 1, 8))
    assert [step.attribute for step in found.steps] == [0, 1]


def test_it_stops_where_nothing_is_left() -> None:
    """Three labels can be told apart once; what is not spent is not counted as spent."""
    found = specialise(hierarchies(c=LABELS), Scripted(), h=5, max_leaves=100)
    assert len(found.steps) == 1
    assert found.choices == 1


def test_leaves_never_exceed_their_limit() -> None:
    """Candidates that would make too many leaves are not offered."""
    oracle = Scripted()
    found = specialise(hierarchies(c=LABELS, x=NUMBER, d=LABELS), oracle, h=9, max_leaves=4)
    assert np.prod([len(cut) - 1 for cut in found.cuts]) <= 4
    assert found.cuts[0] == (0, 3) or found.cuts[2] == (0, 3)


def test_progress_is_told() -> None:
    """Whoever watches learns of every step."""
    seen: list[tuple[str, int, int]] = []
    specialise(
        hierarchies(x=NUMBER), Scripted(), h=2, max_leaves=9, progress=lambda *a: seen.append(a)
    )
    assert seen == [("specialising", 1, 2), ("specialising", 2, 2)]


class Silent:
    """Noise of nothing: the largest utility wins, the first of equals."""

    def largest(self, groups: Sequence[np.ndarray], rate: Fraction) -> list[int]:
        """The place of the largest; the rate is for real noise."""
        assert rate > 0
        return [int(np.argmax(group)) for group in groups]

    def laplace(self, n: int, rate: Fraction) -> np.ndarray:
        """No noise."""
        assert rate > 0
        return np.zeros(n, np.int64)


@pytest.mark.parametrize("utility", ["max", "gain", "info-gain"])
def test_without_noise_the_telling_attribute_wins(utility: str) -> None:
    """An attribute that gives the class away is cut first, where it does so."""
    rng = np.random.default_rng(1)
    x, c = rng.integers(0, 8, 500), rng.integers(0, 3, 500)
    classes = (x >= 5).astype(np.int64)
    budget = Budget(epsilon=Fraction(1), specialisations=1, numeric=1, sensitivity=1)
    oracle = PlainOracle([c, x], [3, 8], classes, 2, utility=utility, budget=budget, noise=Silent())
    found = specialise(hierarchies(c=LABELS, x=NUMBER), oracle, h=1, max_leaves=100)
    assert found.cuts == ((0, 3), (0, 5, 8))
    assert oracle.count(found.cuts, 2).tolist() == [
        [int((x < 5).sum()), 0],
        [0, int((x >= 5).sum())],
    ]


def test_counts_are_those_of_every_combination() -> None:
    """Leaf counts by brute force, empty leaves included, last attribute fastest."""
    rng = np.random.default_rng(2)
    codes = [rng.integers(0, 3, 300), rng.integers(0, 8, 300)]
    classes = rng.integers(0, 2, 300)
    budget = Budget(epsilon=Fraction(1), specialisations=1, numeric=1, sensitivity=1)
    oracle = PlainOracle(codes, [3, 8], classes, 2, utility="max", budget=budget, noise=Silent())
    counts = oracle.count(((0, 1, 3), (0, 2, 7, 8)), 0)
    place = 0
    for low, high in ((0, 1), (1, 3)):
        for start, stop in ((0, 2), (2, 7), (7, 8)):
            inside = (codes[0] >= low) & (codes[0] < high) & (codes[1] >= start) & (codes[1] < stop)
            assert counts[place].tolist() == np.bincount(classes[inside], minlength=2).tolist()
            place += 1


def test_the_budget_is_never_exceeded() -> None:
    """Choices and counts together cost epsilon, however many choices were made."""
    budget = Budget(epsilon=Fraction(3, 10), specialisations=4, numeric=2, sensitivity=2)
    for made in range(budget.choices + 1):
        # A choice costs 2Δλ; counts change by 2.
        cost = made * 2 * 2 * budget.choice_rate + 2 * budget.count_rate(made)
        assert cost == Fraction(3, 10)
    assert budget.count_rate(budget.choices) == Fraction(3, 10) / 4


def test_without_measured_attributes_no_split_is_budgeted() -> None:
    """Then a choice may cost twice as much."""
    budget = Budget(epsilon=Fraction(1), specialisations=10, numeric=0, sensitivity=1)
    assert budget.choice == Fraction(1, 20)


def test_leaves_are_limited_by_the_noise() -> None:
    """More records, more epsilon or fewer classes allow more leaves; two are always allowed."""
    budget = Budget(epsilon=Fraction(1), specialisations=10, numeric=0, sensitivity=1)
    assert budget.leaves(30_000, 2, Fraction(1)) == int(30_000 / 2 / (4 * np.sqrt(2)))
    assert budget.leaves(30_000, 4, Fraction(2)) < budget.leaves(30_000, 2, Fraction(1))
    assert budget.leaves(1, 2, Fraction(1)) == 2
    assert budget.leaves(1, 2, Fraction(0)) > 10**6
