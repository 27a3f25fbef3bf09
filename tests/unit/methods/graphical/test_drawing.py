"""Records are drawn so that their counts are the model's, up to rounding."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from sherd.methods.graphical.coarsening import Binning
from sherd.methods.graphical.drawing import draw, refine, systematic
from sherd.methods.graphical.fitting import Model
from sherd.methods.graphical.junction_tree import JunctionTree, project


def model(seed: int) -> Model:
    """A chain of three attributes."""
    rng = np.random.default_rng(seed)
    tree = JunctionTree.of([(0, 1), (1, 2)], (4, 3, 5))
    potentials = [rng.normal(0, 1, [tree.sizes[a] for a in clique]) for clique in tree.cliques]
    marginals, _ = tree.calibrate(potentials)
    return Model(
        tree=tree, marginals=tuple(marginals), fitted=(), factors=(), steps=0, gradient=0.0
    )


@pytest.mark.parametrize("n", [1, 7, 1000, 30_000])
def test_counts_are_the_models_up_to_rounding(n: int) -> None:
    """Each clique's counts differ from n times its shares by rounding, not by chance."""
    chain = model(1)
    drawn = draw(chain, n, np.random.default_rng(2))
    apart = 0.0
    for clique, table in zip(chain.tree.cliques, chain.marginals, strict=True):
        counts = np.zeros(table.shape)
        np.add.at(counts, tuple(drawn[a] for a in clique), 1)
        apart = max(apart, float(np.abs(counts - n * table).max()))
    assert apart <= 8  # a draw at random would be off by up to 100 for 30,000 records


def test_what_is_drawn_is_independent_of_all_else() -> None:
    """Given the attribute between them, the ends of the chain are independent."""
    n = 60_000
    chain = model(3)
    ends = draw(chain, n, np.random.default_rng(4))
    joint = np.zeros((4, 3, 5))
    np.add.at(joint, tuple(ends), 1 / n)
    left = project(joint, (0, 1, 2), (0, 1))
    right = project(joint, (0, 1, 2), (1, 2))
    expected = left[:, :, None] * right[None] / joint.sum(axis=(0, 2))[None, :, None]
    assert np.abs(joint - expected).max() < 0.005  # 5 standard errors of a share


def test_a_column_without_weight_is_never_taken() -> None:
    """Zeros at the start, in the middle and at the end of a row."""
    weights = np.array([[0.0, 0.1, 0.0, 0.2, 0.0], [0.3, 0.0, 1e-9, 0.0, 0.0]])
    group = np.repeat([0, 1], 5000)
    taken = systematic(weights, group, np.random.default_rng(5))
    assert set(taken[:5000].tolist()) == {1, 3}
    assert set(taken[5000:].tolist()) <= {0, 2}


def test_cells_are_spread_within_their_bin() -> None:
    """Three cells in two bins, spread by the binning's shares."""
    binning = Binning(bins=(0, 0, 1), within=np.array([0.25, 0.75, 1.0]))
    bins = np.repeat([0, 1], [400, 100])
    cells = refine(bins, binning, np.random.default_rng(6))
    assert np.bincount(cells).tolist() == [100, 300, 100]


def test_drawing_many_records_holds_little_more_than_them() -> None:
    """An order to draw in, and nothing else of many bytes a record."""
    n = 400_000
    binning = Binning(bins=(0, 0, 1, 2), within=np.array([0.25, 0.75, 1.0, 1.0]))
    tracemalloc.start()
    try:
        bins = draw(model(7), n, np.random.default_rng(8))
        refine(bins[1], binning, np.random.default_rng(9))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 24 * n
