"""Noise shared out among owners: what colluders face, what is stated, and what is drawn."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherd.errors import PlanError
from sherd.methods.graphical.fragment_numbers import own_counts
from sherd.methods.graphical.measuring import CodedTable, Marginal, Noise
from sherd.methods.graphical.row_questions import HistogramQuestion
from sherd.methods.graphical.shared_noise import LEAST_DEVIATION, SharedNoise, sum_distance
from sherd.randomness import Randomness
from sherd.release.summed_rows import RowOwners

if TYPE_CHECKING:
    from collections.abc import Sequence

    Chances = np.ndarray[Any, Any]


@given(
    steps=st.integers(16 * 16, 16 * 4000),
    owners=st.integers(1, 30),
    data=st.data(),
    cells=st.integers(1, 100_000),
)
def test_colluders_never_face_less_than_was_asked_for(
    steps: int, owners: int, data: st.DataObject, cells: int
) -> None:
    """The remaining parts cost no more than the noise asked for, τ of kairouz2021 included."""
    colluders = data.draw(st.integers(0, owners - 1))
    sharing = SharedNoise(owners=owners, colluders=colluders)
    noise = Noise(kind="gaussian", scale=Fraction(steps, 16))
    honest = owners - colluders
    part = sharing.part(noise, cells)
    variance = part.scale**2
    tau = Fraction(sum_distance(float(variance), honest))
    assert 1 / (honest * variance) + tau * cells / 4 <= noise.cost
    whole = sharing.whole(noise, cells)
    assert whole.scale**2 <= owners * variance, "more noise is stated than there is"
    assert sharing.faced(whole) <= noise.cost
    # Rounding costs little: two steps of a sixteenth at most.
    least = LEAST_DEVIATION if owners > 1 else 0
    needed = max(least, float(noise.scale) / math.sqrt(honest))
    assert float(part.scale) <= needed + 2 / 16 + 1e-9


ORDERS = (1.01, 1.1, 1.5, 2.0, 5.0, 15.0, 30.0)
LOWEST = 1e-280
"""Outcomes that are rarer are left out: they add nothing to any of these orders."""


def law(scale: Fraction, parts: int) -> Chances:
    """The probabilities of a sum of so many parts, over every outcome."""
    places = np.arange(-200, 201)
    weights = np.exp(-(places**2) / (2 * float(scale) ** 2))
    whole = one = weights / weights.sum()
    for _ in range(parts - 1):
        whole = np.convolve(whole, one)
    return whole


def enumerated_cost(chances: Chances, moves: Sequence[int]) -> float:
    """The least ρ of every order for counts that move by so much, each with its own noise."""
    costs = dict.fromkeys(ORDERS, 0.0)
    for move in moves:
        moved = np.roll(chances, move)
        both = (chances > LOWEST) & (moved > LOWEST)
        for order in ORDERS:
            terms = order * np.log(chances[both]) + (1 - order) * np.log(moved[both])
            costs[order] += float(np.logaddexp.reduce(terms)) / (order - 1) / order
    return max(costs.values())


SEED = Randomness.seeded(0)
SCALES = [Fraction(1, 16), Fraction(1, 2), Fraction(1), Fraction(5, 2), Fraction(4)]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_sums_of_parts_cost_what_is_stated_by_enumeration(scale: Fraction) -> None:
    """Up to five owners, any colluders, every outcome: those who collude, and all others."""
    noise = Noise(kind="gaussian", scale=scale)
    worst = 0.0
    for owners in range(1, 6):
        for colluders in range(owners):
            sharing = SharedNoise(owners=owners, colluders=colluders)
            part = sharing.part(noise, 2).scale
            faced = enumerated_cost(law(part, sharing.honest), (1, -1))
            assert faced <= float(noise.cost) * (1 + 1e-9)
            seen = enumerated_cost(law(part, owners), (1, -1))
            stated = float(sharing.whole(noise, 2).cost)
            assert seen <= stated * (1 + 1e-9), "more noise is stated than there is"
            worst = max(worst, faced / float(noise.cost))
    assert worst > 0.99


def test_tables_of_rows_cost_what_is_stated_by_enumeration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All tables of two records at an owner, all neighbours, what the owner answers to a question.

    The counts of an answer move as one owner's do, so the sum of honest parts costs what it says,
    and the sum of one part fewer costs more.
    """
    monkeypatch.setattr(Noise, "draw", lambda _self, _source, n: np.zeros(n, np.int64))
    cells = list(itertools.product((0, 1), repeat=2))
    bins = ((0, 1), (0, 1))
    pair, sizes = Marginal(attributes=(0, 1), bins=bins), (2, 2)
    noise = Noise(kind="gaussian", scale=Fraction(4))
    among = RowOwners(owners=3, colluders=1, rows=6)
    sharing = SharedNoise(owners=3, colluders=1)
    question = HistogramQuestion(binnings=bins, marginals=(((0, 1), noise.scale),))
    part = sharing.part(noise, pair.cells).scale
    enough, fewer = law(part, 2), law(part, 1)
    worst = 0.0
    for rows in itertools.combinations_with_replacement(cells, 2):
        for place, new in itertools.product(range(2), cells):
            answers = [
                own_counts(CodedTable(list(np.array(r).T), sizes), among, question, SEED)
                for r in (list(rows), [*rows[:place], new, *rows[place + 1 :]])
            ]
            moves = [int(move) for move in answers[0] - answers[1] if move]
            assert sorted(moves) in ([], [-1, 1])
            worst = max(worst, enumerated_cost(enough, moves))
            assert not moves or enumerated_cost(fewer, moves) > float(noise.cost)
    assert 0.9 * float(noise.cost) < worst <= float(noise.cost) * (1 + 1e-9)


@pytest.mark.parametrize(("factor", "found"), [(1.0, False), (0.8, True), (1.25, True)])
def test_drawn_parts_have_the_stated_deviation(factor: float, found: bool) -> None:
    """Sums of drawn parts have the stated variance, and parts a fifth off would be found.

    40,000 sums: the variance is known to 0.7 %; five deviations are a false alarm in 2 million.
    """
    sharing = SharedNoise(owners=5, colluders=2)
    noise, n = Noise(kind="gaussian", scale=Fraction(20)), 40_000
    part = sharing.part(noise, 10)
    scale = Fraction(round(part.scale * 16 * Fraction(factor)), 16)
    drawn = sum(
        Noise(kind="gaussian", scale=scale).draw(Randomness.seeded(owner), n) for owner in range(5)
    )
    ratio = float(np.var(drawn)) / float(sharing.whole(noise, 10).scale ** 2)
    assert (abs(ratio - 1) > 5 * math.sqrt(2 / n) + 0.01) == found


def test_laplace_noise_is_refused_and_small_noise_made_more() -> None:
    """What cannot be shared out soundly is refused, with words that say what to do."""
    with pytest.raises(PlanError, match="give a delta"):
        SharedNoise(owners=2, colluders=1).part(Noise(kind="laplace", scale=Fraction(9)), 4)
    # Little noise is made more where parts are summed, for whomever; one owner draws it all itself.
    small = Noise(kind="gaussian", scale=Fraction(1))
    assert SharedNoise(owners=3, colluders=0).part(small, 4).scale == LEAST_DEVIATION
    assert SharedNoise(owners=4, colluders=3).part(small, 4).scale == LEAST_DEVIATION
    assert SharedNoise(owners=1, colluders=0).part(small, 4).scale == small.scale


def test_more_colluders_mean_more_noise() -> None:
    """The price of withstanding more owners, in the deviation of what is released."""
    noise = Noise(kind="gaussian", scale=Fraction(100))
    stated = [SharedNoise(owners=10, colluders=t).whole(noise, 10).scale for t in range(10)]
    assert all(a < b for a, b in itertools.pairwise(stated))
    assert float(stated[0]) == pytest.approx(100, rel=0.005)
    assert float(stated[9]) == pytest.approx(100 * math.sqrt(10), rel=0.005)
