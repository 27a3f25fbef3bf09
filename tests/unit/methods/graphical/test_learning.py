"""Everything that one owner's release asks of its table, together, costs no more than the plan."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sherd
from sherd.methods.graphical import learning
from sherd.methods.graphical.dp_graph import design_of
from sherd.methods.graphical.measuring import CodedTable, Marginal, NoisyCounts, Request
from sherd.methods.graphical.private_choice import NoisyChoice
from sherd.randomness import Randomness

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from sherd.methods.graphical.private_choice import MarginalCandidate

CELLS = list(itertools.product((0, 1), repeat=3))
TABLES = list(itertools.combinations_with_replacement(CELLS, 3))
"""All tables of three records over three yes-no attributes."""

SCHEMA = sherd.Schema.from_data(
    {
        "missing": "refuse",
        "attributes": {f"a{i}": {"type": "category", "values": ["a", "b"]} for i in range(3)},
    }
)


def coded(rows: Sequence[tuple[int, ...]]) -> CodedTable:
    """A coded table of these records."""
    return CodedTable(list(np.array(rows).T), (2, 2, 2))


class Noting:
    """The measurer and the chooser of a release, which note what was asked."""

    def __init__(self, table: CodedTable, source: Randomness, kind: Any) -> None:
        self._measurer, self._chooser = NoisyCounts(table, source), NoisyChoice(table, source, kind)
        self.requests: list[Request] = []
        self.choices: list[tuple[list[MarginalCandidate], Fraction]] = []
        self.rows = table.rows

    def measure(self, requests: Sequence[Request]) -> Any:
        """Note the requests and answer them."""
        self.requests += requests
        return self._measurer.measure(requests)

    def choose(self, candidates: Sequence[MarginalCandidate], rate: Fraction) -> int:
        """Note the choice and make it."""
        self.choices.append((list(candidates), rate))
        return self._chooser.choose(candidates, rate)


def permute_and_flip(utilities: Sequence[int], rate: Fraction) -> np.ndarray[Any, Any]:
    """The probabilities of a choice of pure ε, over all orders."""
    best = max(utilities)
    keep = [math.exp(float(rate) * (u - best) / 4) for u in utilities]
    chances = np.zeros(len(utilities))
    orders = list(itertools.permutations(range(len(utilities))))
    for order in orders:
        left = 1.0
        for place in order:
            chances[place] += left * keep[place] / len(orders)
            left *= 1 - keep[place]
    return chances


def exponential(utilities: Sequence[int], rate: Fraction) -> np.ndarray[Any, Any]:
    """The probabilities of a choice of zCDP."""
    weights = np.exp(float(rate) * np.array(utilities) / 4)
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("choice", ["all", "tree"])
@pytest.mark.parametrize("delta", [None, 1e-9], ids=["pure", "gaussian"])
def test_all_that_is_asked_costs_the_plan_by_enumeration(
    delta: float | None, choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables of three records, all neighbours, for the questions of several seeded releases.

    Laplace: the largest loss of any answer is Σ|c − c′|/b. Gaussian: the Rényi divergence of order
    α is at most α·Σ(c − c′)²/(2σ²). Choices add the loss or divergence of their exact law. The
    questions are those of tables whose labels all keep a bin.
    """
    monkeypatch.setattr(learning, "fit_model", lambda *_: None)
    monkeypatch.setattr(learning, "FURTHER", 1e9)
    plan = sherd.Plan(method="dp-graph", epsilon=100.0, delta=delta, choice=choice)
    design = design_of(plan, SCHEMA)
    for seed, rows in enumerate(([(0, 0, 0), (1, 1, 1)] * 9, [(0, 1, 1), (1, 0, 0)] * 5)):
        asked = Noting(coded(rows), Randomness.seeded(seed), design.kind)
        learned = learning.learn(design, asked, asked)
        assert bool(asked.choices) == (choice == "tree")
        worst = max(cost(asked, coded(a), coded(b), design.kind) for a, b in neighbours())
        assert worst <= float(learned.spent) * (1 + 1e-9)
        assert learned.spent <= design.total
        measured = float(sum(one.noise.cost for one in asked.requests))
        assert worst > 0.99 * measured > 0.6 * float(design.total)


@pytest.mark.parametrize(
    ("attributes", "further"), [(2, 0), (16, 15), (39, 38), (100, 6), (300, 0)]
)
def test_what_is_tried_beyond_a_tree_is_bounded(attributes: int, further: int) -> None:
    """Little noise: as many marginals again, of many attributes fewer; 300 never came to an end."""
    labels = {"type": "category", "values": ["a", "b"]}
    schema = sherd.Schema.from_data({"attributes": {f"a{i}": labels for i in range(attributes)}})
    design = design_of(sherd.Plan(method="dp-graph", epsilon=9.0), schema)
    one = Marginal(attributes=(0, 1), bins=((0, 1), (0, 1)))
    possible = [one] * (attributes * (attributes - 1) // 2)
    assert learning.further_picks(design, possible, attributes - 1, 10**7) == further
    assert further * len(possible) <= learning.MOST_TREES


def neighbours() -> Any:
    """Every pair of tables that differ in one record, up to the order of records."""
    for rows in TABLES:
        for place, new in itertools.product(range(3), CELLS):
            yield rows, [*rows[:place], new, *rows[place + 1 :]]


def cost(asked: Noting, one: CodedTable, other: CodedTable, kind: str) -> float:
    """What all answers together tell of two tables at most: ε, or ρ over several orders."""
    orders = (1.5, 2.0, 8.0)
    total = np.zeros(1 if kind == "laplace" else len(orders))
    for request in asked.requests:
        change = np.abs(one.histogram(request.marginal) - other.histogram(request.marginal))
        scale = float(request.noise.scale)
        total += change.sum() / scale if kind == "laplace" else (change**2).sum() / (2 * scale**2)
    for candidates, rate in asked.choices:
        utilities = [
            [int(np.abs(table.histogram(c.marginal) - c.expected).sum()) for c in candidates]
            for table in (one, other)
        ]
        if kind == "laplace":
            p, q = (permute_and_flip(u, rate) for u in utilities)
            total += np.abs(np.log(p / q)).max()
        else:
            p, q = (exponential(u, rate) for u in utilities)
            for i, order in enumerate(orders):
                total[i] += math.log(float((p**order * q ** (1 - order)).sum())) / (
                    (order - 1) * order
                )
    return float(total.max())
