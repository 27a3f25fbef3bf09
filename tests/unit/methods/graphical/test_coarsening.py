"""Bins stand out from the noise, cover every cell, and keep apart what rules tell apart."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherd.methods.graphical.coarsening import MOST_BINS, coarsen, nonnegative
from sherd.methods.graphical.public_grid import MOST_CELLS, PublicGrid
from sherd.tables.schema import Attribute, Type

AGE = Attribute(name="age", type=Type.INTEGER, domain=(Decimal(0), Decimal(19)))
COLOUR = Attribute(name="colour", type=Type.CATEGORY, values=tuple("abcdefgh"))


@given(
    st.lists(st.integers(-200, 2000), min_size=21, max_size=21),
    st.floats(1, 300),
    st.booleans(),
    st.lists(st.integers(0, 2), min_size=21, max_size=21),
)
def test_bins_cover_every_cell_whatever_the_noise(
    counts: list[int], deviation: float, missing: bool, kinds: list[int]
) -> None:
    """Bins are numbered from 0, shares within one add up to 1, kinds are never mixed."""
    grid = PublicGrid.of(AGE, keeps_missing=missing)
    told = np.array(kinds[: grid.size])
    one = coarsen(np.array(counts[: grid.size]), deviation, grid, rows=5000, kinds=told)
    assert set(one.bins) == set(range(one.size))
    np.testing.assert_allclose(np.bincount(one.bins, one.within), 1)
    for number in range(one.size):
        cells = [c for c, b in enumerate(one.bins) if b == number and c < grid.cells]
        assert len({kinds[c] for c in cells}) <= 1
        assert cells == list(range(cells[0], cells[-1] + 1)) if cells else True


def test_bins_hold_several_deviations() -> None:
    """Cells of 100 records with noise of 100 are merged by fours, at least."""
    grid = PublicGrid.of(AGE)
    one = coarsen(np.full(20, 100), 100.0, grid, rows=2000, kinds=np.zeros(20, np.int64))
    assert one.size <= 5
    assert np.bincount(one.bins).min() >= 3


def test_rare_labels_share_a_bin() -> None:
    """Labels that noise could explain are one bin; frequent ones stay by themselves."""
    grid = PublicGrid.of(COLOUR)
    counts = np.array([500, 3, 400, 10, -5, 20, 300, 8])
    one = coarsen(counts, 20.0, grid, rows=1200, kinds=np.zeros(8, np.int64))
    rare = {one.bins[i] for i in (1, 3, 4, 5, 7)}
    assert len(rare) == 1 or one.size == 3
    assert len({one.bins[0], one.bins[2], one.bins[6]}) == 3


def test_the_class_keeps_its_labels() -> None:
    """With ``every`` nothing is merged, not even what is empty."""
    grid = PublicGrid.of(COLOUR, keeps_missing=True)
    one = coarsen(
        np.zeros(9, np.int64), 50.0, grid, rows=10, kinds=np.zeros(9, np.int64), every=True
    )
    assert one.bins == (*range(8), 7)  # missing cells do not stand out, and get no share
    assert one.within.tolist() == [1.0] * 8 + [0.0]


def test_many_labels_are_bounded() -> None:
    """A thousand frequent labels: the largest stay, the rest share a bin."""
    many = Attribute(name="x", type=Type.CATEGORY, values=tuple(f"v{i}" for i in range(1000)))
    counts = np.arange(1000) + 500
    one = coarsen(counts, 1.0, PublicGrid.of(many), rows=10**6, kinds=np.zeros(1000, np.int64))
    assert one.size == MOST_BINS + 1


def test_wide_domains_have_few_cells_and_single_ends() -> None:
    """At most 128 cells and those of zero and the ends, which are single values."""
    wide = Attribute(name="gain", type=Type.INTEGER, domain=(Decimal(-50), Decimal(99_999)))
    grid = PublicGrid.of(wide)
    assert grid.cells <= MOST_CELLS + 6
    widths = dict(zip(grid.edges, np.diff(grid.edges), strict=False))
    assert widths[0] == widths[50] == widths[100_049] == 1


def test_nonnegative_counts_keep_their_total() -> None:
    """The projection is never below 0 and adds up, also where noise is all there is."""
    for counts in ([5, -9, 3], [0, 0], [10**6, -(10**6), 7]):
        found = nonnegative(np.array(counts), 12.0)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(12)
