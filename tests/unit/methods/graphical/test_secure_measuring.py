"""Histograms counted inside secure computation are those of one owner, noise included."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from sherd.methods.graphical import secure_measuring
from sherd.methods.graphical.measuring import CodedTable, Marginal, Noise, NoisyCounts, Request
from sherd.methods.graphical.secure_measuring import (
    EVERYBODY,
    HolderLayout,
    Insiders,
    SecureMeasurer,
)
from sherd.methods.graphical.shared_noise import SharedNoise
from sherd.randomness import Randomness
from sherd.secure.engine.interface import PlainEngine

TINY = Noise(kind="laplace", scale=Fraction(1, 16))
"""So little noise that none is ever drawn: e^-16 a count."""


def measurer(
    codes: list[np.ndarray], sizes: list[int], holder: np.ndarray, parties: int, seed: int = 0
) -> tuple[SecureMeasurer, PlainEngine]:
    """All parties in one process; ``holder`` says for each record and attribute who has it."""
    engine = PlainEngine([Randomness.seeded(seed + p) for p in range(parties)])
    whole = [int(one[0]) if len(set(one.tolist())) == 1 else None for one in holder.T]
    # An attribute whose cells everybody has is marked by -1.
    layout = HolderLayout(holders=tuple(whole), sizes=tuple(sizes), rows=len(codes[0]))
    cells = {
        p: tuple(
            np.where((holder[:, a] == p) | (holder[:, a] == EVERYBODY), column, -1)
            for a, column in enumerate(codes)
        )
        for p in range(parties)
    }
    sources = {p: Randomness.seeded(1000 + seed + p) for p in range(parties)}

    def draws(party: int) -> Any:
        return lambda noise, n: noise.draw(sources[party], n)

    return SecureMeasurer(engine, layout, cells, draws), engine


@st.composite
def tables(draw: st.DrawFn) -> Any:
    """A table, its split by columns or by cells, and marginals of one to three attributes."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=3, max_size=5))
    n, parties = draw(st.integers(1, 30)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    codes = [rng.integers(0, size, n) for size in sizes]
    columns = rng.integers(0, parties, len(sizes))
    if draw(st.booleans()):
        columns[-1] = EVERYBODY
    holder = np.tile(columns, (n, 1))
    if draw(st.booleans()):
        split = (rng.random(len(sizes)) < 0.5) & (columns != EVERYBODY)
        holder = np.where(split, rng.integers(0, parties, holder.shape), holder)
    every = [c for k in (1, 2, 3) for c in itertools.combinations(range(len(sizes)), k)]
    wanted = draw(st.lists(st.sampled_from(every), min_size=1, max_size=6))
    marginals = [
        Marginal(attributes=c, bins=tuple(_bins(rng, sizes[a]) for a in c)) for c in wanted
    ]
    return codes, sizes, holder, parties, marginals


def _bins(rng: np.random.Generator, size: int) -> tuple[int, ...]:
    """A random coarsening: every bin up to the largest occurs."""
    return tuple(np.unique(rng.integers(0, size, size), return_inverse=True)[1].ravel().tolist())


@settings(max_examples=150, deadline=None)
@given(given_=tables())
def test_counts_are_those_of_the_whole_table(given_: Any) -> None:
    """By columns and cell by cell, two to four parties, any marginals: exact but for noise."""
    codes, sizes, holder, parties, marginals = given_
    secure, engine = measurer(codes, sizes, holder, parties)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secure_measuring, "RECORDS_AT_ONCE", 7)
        found = secure.measure([Request(marginal=one, noise=TINY) for one in marginals])
    table = CodedTable(codes, sizes)
    for one, answer in zip(marginals, found, strict=True):
        assert (answer.counts == table.histogram(one)).all()
    assert [one.what for one in engine.transcript] == ["noisy counts"]
    assert engine.transcript[0].count == sum(one.cells for one in marginals)


CODES = [np.arange(90) % 3, np.arange(90) // 45]
PAIR = Marginal(attributes=(0, 1), bins=((0, 1, 2), (0, 1)))


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_noise_is_distributed_as_one_owners(kind: Any) -> None:
    """Two and three parties beside one owner; false alarms 10^-4 each.

    The test has power: with 30 % more or less noise the samples are told apart.
    """
    noise = Noise(kind=kind, scale=Fraction(8))
    many = [Request(marginal=PAIR, noise=noise)] * 700
    one = NoisyCounts(CodedTable(CODES, [3, 2]), Randomness.seeded(3)).measure(many)
    exact = CodedTable(CODES, [3, 2]).histogram(PAIR)
    alone = np.concatenate([(answer.counts - exact).ravel() for answer in one])
    for parties in (2, 3):
        holder = np.tile([0, parties - 1], (90, 1))
        secure, _ = measurer(CODES, [3, 2], holder, parties, seed=parties)
        joint = np.concatenate([(m.counts - exact).ravel() for m in secure.measure(many)])
        assert ks_2samp(joint, alone).pvalue > 1e-4
        assert joint.var() == pytest.approx(noise.variance, rel=0.1)
        for wrong in (0.7, 1.3):
            assert ks_2samp(np.rint(joint * wrong), alone).pvalue < 1e-4


def test_insiders_are_accounted_apart_from_outsiders() -> None:
    """A party knows its own part: with two, it faces half the variance, and twice the ρ."""
    gaussian = Request(marginal=PAIR, noise=Noise(kind="gaussian", scale=Fraction(20)))
    for parties in (2, 3):
        costs = Insiders.of([gaussian] * 3, parties)
        assert 0.98 * 3 / 400 < costs.outsiders <= 3 * gaussian.noise.cost
        assert costs.insiders / costs.outsiders == pytest.approx(parties / (parties - 1))
    laplace = Request(marginal=PAIR, noise=Noise(kind="laplace", scale=Fraction(20)))
    inside = Insiders.of([laplace], 2)
    assert inside.insiders == inside.outsiders == laplace.noise.cost


@pytest.mark.parametrize("part", [0.8, 1.0, 1.2])
def test_a_sum_of_parts_is_as_close_as_stated(part: float) -> None:
    """Two parts' exact sum beside one draw of their variance, where the distance can be seen."""
    places = np.arange(-40, 41)
    mass = np.exp(-(places**2) / (2 * part**2))
    both = np.convolve(mass / mass.sum(), mass / mass.sum())
    wide = np.arange(-80, 81)
    ideal = np.exp(-(wide**2) / (4 * part**2))
    near = np.abs(wide) < 6
    ratio = np.abs(np.log(both[near] / (ideal / ideal.sum())[near])).max()
    stated = 10 * math.exp(-2 * math.pi**2 * part**2 / 2)
    assert stated / 100 < ratio <= stated


@pytest.mark.parametrize("by_cells", [False, True], ids=["columns", "cells"])
def test_opened_counts_cost_what_is_stated_by_enumeration(
    by_cells: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables of two records over two yes-no attributes at two parties, and all neighbours.

    Without noise every histogram opens what moves by one down and one up, or not at all. With
    it, over every outcome, both parts cost an outsider no more than is stated, one part a party.
    """
    monkeypatch.setattr(Noise, "draw", lambda _self, _source, n: np.zeros(n, np.int64))
    noise, bins = Noise(kind="gaussian", scale=Fraction(4)), ((0, 1), (0, 1))
    requests = [
        Request(marginal=Marginal(attributes=a, bins=tuple(bins[i] for i in a)), noise=noise)
        for a in ((0,), (1,), (0, 1))
    ]
    holder = np.array([[0, 1], [1, 0]]) if by_cells else np.array([[0, 1], [0, 1]])
    cells = list(itertools.product((0, 1), repeat=2))

    def opened(rows: Any) -> Any:
        secure, _ = measurer(list(np.array(rows).T), [2, 2], holder, 2)
        return [one.counts.ravel() for one in secure.measure(requests)]

    known = {rows: opened(rows) for rows in itertools.product(cells, repeat=2)}
    moved = set()
    for rows, before in known.items():
        for place, new in itertools.product(range(2), cells):
            other = tuple(new if i == place else row for i, row in enumerate(rows))
            for one, two in zip(before, known[other], strict=True):
                moved.add(tuple(sorted(move for move in (one - two).tolist() if move)))
    assert moved == {(), (-1, 1)}

    costs = Insiders.of(requests[:1], 2)
    part = SharedNoise(owners=2, colluders=0).part(noise, 2)
    places = np.arange(-300, 301)
    alone = np.exp(-(places**2) / (2 * float(part.scale) ** 2))
    alone /= alone.sum()
    for chances, stated in (
        (np.convolve(alone, alone), costs.outsiders),
        (alone, costs.insiders),
    ):
        near, far = chances, np.roll(chances, 1)
        both = (near > 1e-280) & (far > 1e-280)
        for order in (1.01, 1.5, 2.0, 8.0, 30.0):
            terms = order * np.log(near[both]) + (1 - order) * np.log(far[both])
            cost = 2 * np.logaddexp.reduce(terms) / (order - 1) / order
            assert 0.95 * float(stated) < cost <= float(stated) * (1 + 1e-9)
