"""The door to the data: histograms, their sensitivity, and what noise costs."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherd.errors import PlanError
from sherd.methods.graphical.measuring import (
    CodedTable,
    Marginal,
    Measurement,
    Noise,
    NoisyCounts,
    Request,
)
from sherd.randomness import Randomness

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES = (3, 4, 2)
FINE = tuple(tuple(range(size)) for size in SIZES)


def table(records: Sequence[tuple[int, ...]]) -> CodedTable:
    """A coded table of these records."""
    return CodedTable(list(np.array(records).T), SIZES)


records = st.tuples(*(st.integers(0, size - 1) for size in SIZES))
attributes = st.sampled_from(
    [c for r in (1, 2, 3) for c in itertools.combinations(range(len(SIZES)), r)]
)


@given(st.lists(records, min_size=1, max_size=12), records, st.data(), attributes)
def test_a_substituted_record_moves_a_histogram_by_two_at_most(
    rows: list[tuple[int, ...]], other: tuple[int, ...], data: Any, chosen: tuple[int, ...]
) -> None:
    """L1 distance at most 2 and L2 distance at most √2, whatever the bins."""
    place = data.draw(st.integers(0, len(rows) - 1))
    bins = tuple(
        tuple(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
        for n in (SIZES[a] for a in chosen)
    )
    marginal = Marginal(attributes=chosen, bins=bins)
    before = table(rows).histogram(marginal)
    after = table([*rows[:place], other, *rows[place + 1 :]]).histogram(marginal)
    assert before.shape == marginal.shape
    assert before.sum() == len(rows)
    assert np.abs(before - after).sum() <= 2
    assert np.square(before - after).sum() <= 2


def test_a_histogram_counts_what_is_there() -> None:
    """Every combination of bins, held to a count by hand."""
    rows = [(0, 3, 1), (2, 3, 1), (1, 0, 0), (2, 2, 1)]
    marginal = Marginal(attributes=(0, 2), bins=((0, 1, 1), FINE[2]))
    assert table(rows).histogram(marginal).tolist() == [[0, 1], [1, 2]]
    one = Marginal(attributes=(1,), bins=(FINE[1],))
    assert table(rows).histogram(one).tolist() == [1, 0, 1, 2]


@given(st.fractions(min_value=Fraction(1, 10**7), max_value=50))
def test_noise_costs_no_more_than_its_share(amount: Fraction) -> None:
    """Scales are rounded up, by one sixteenth at most."""
    for kind in ("laplace", "gaussian"):
        noise = Noise.costing(kind, amount)
        assert noise.cost <= amount
        finer = noise.scale - Fraction(1, 16)
        assert finer <= 0 or Noise(kind=noise.kind, scale=finer).cost > amount


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3, 2), Fraction(20)])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_the_stated_variance_is_that_of_the_draws(kind: Any, scale: Fraction) -> None:
    """Within six standard errors of a variance (2 % of it at 200,000 draws)."""
    noise = Noise(kind=kind, scale=scale)
    drawn = noise.draw(Randomness.seeded(5), 200_000).astype(float)
    assert float(np.square(drawn).mean()) == pytest.approx(noise.variance, rel=0.04)


def test_every_count_gets_noise_of_its_own() -> None:
    """Noise of the declared scale on each cell, none shared between cells or requests."""
    source = table([(0, 0, 0)] * 5)
    noise = Noise(kind="gaussian", scale=Fraction(30))
    request = Request(marginal=Marginal(attributes=(0, 1), bins=(FINE[0], FINE[1])), noise=noise)
    answers = NoisyCounts(source, Randomness.seeded(6)).measure([request] * 200)
    left = np.array([(a.counts - source.histogram(request.marginal)).ravel() for a in answers])
    assert float(left.std()) == pytest.approx(30, rel=0.1)
    together = np.corrcoef(left.T) - np.eye(left.shape[1])
    assert np.abs(together).max() < 0.4  # 5.6 standard errors of a correlation of 200 pairs


def test_what_is_not_valid_is_refused() -> None:
    """Attributes out of order, bins missing, noise of no kind, counts of another shape."""
    with pytest.raises(PlanError, match="attributes"):
        Marginal(attributes=(1, 0), bins=(FINE[1], FINE[0]))
    with pytest.raises(PlanError, match="bins"):
        Marginal(attributes=(0,), bins=())
    with pytest.raises(PlanError, match="noise"):
        Noise(kind="laplace", scale=Fraction(0))
    with pytest.raises(PlanError, match="no budget"):
        Noise.costing("gaussian", Fraction(0))
    for kind in ("laplace", "gaussian"):
        with pytest.raises(PlanError, match=r"too small.*raise epsilon"):
            Noise.costing(kind, Fraction(1, 10**15))
    request = Request(
        marginal=Marginal(attributes=(0,), bins=(FINE[0],)),
        noise=Noise(kind="laplace", scale=Fraction(1)),
    )
    with pytest.raises(PlanError, match="measurement"):
        Measurement(request=request, counts=np.zeros(4, np.int64))


TINY = [Marginal(attributes=(0,), bins=((0, 1),)), Marginal(attributes=(0, 1), bins=((0, 1),) * 2)]


def log_chances(noise: Noise) -> Any:
    """The logarithm of the probability of noise from −60 to 60."""
    places = np.arange(-4000, 4001)
    scale = float(noise.scale)
    weights = -np.abs(places) / scale if noise.kind == "laplace" else -((places / scale) ** 2) / 2
    return (weights - np.logaddexp.reduce(weights))[3940:4061]


@pytest.mark.parametrize("marginal", TINY, ids=["fine", "pair"])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_a_measurement_costs_what_it_says_by_enumeration(kind: Any, marginal: Marginal) -> None:
    """All tables of three records over two yes-no attributes, all neighbours, all answers.

    Counts' noise is independent, so losses add up over them: the largest loss is 2/b of ε exactly,
    and the Rényi divergence of order α is α/σ² at most.
    """
    noise = Noise(kind=kind, scale=Fraction(5, 2))
    chances = log_chances(noise)
    worst = 0.0
    cells = list(itertools.product((0, 1), repeat=2))
    for rows in itertools.combinations_with_replacement(cells, 3):
        for place, new in itertools.product(range(3), cells):
            pair = [list(rows), [*rows[:place], new, *rows[place + 1 :]]]
            before, after = (
                CodedTable(list(np.array(r).T), (2, 2)).histogram(marginal).ravel() for r in pair
            )
            loss, divergence = 0.0, np.zeros(3)
            for c, d in zip(before.tolist(), after.tolist(), strict=True):
                p, q = chances[4 : len(chances) - 4], chances[4 + c - d : len(chances) - 4 + c - d]
                loss += float(np.abs(p - q).max())
                for at, order in enumerate((1.5, 2.0, 8.0)):
                    power = np.logaddexp.reduce(order * p + (1 - order) * q)
                    divergence[at] += max(0.0, power / (order - 1)) / order
            if kind == "laplace":
                assert loss <= float(noise.cost) + 1e-12
                worst = max(worst, loss / float(noise.cost))
            else:
                assert (divergence <= float(noise.cost) + 1e-9).all()
                worst = max(worst, float(divergence.max()) / float(noise.cost))
    assert worst > 0.99
