"""Sorting, cutting and putting back."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import InternalError, TableError
from sherd.methods.ranking.individual_ranking import WORDS_AT_ONCE, put_back, rank, reduce
from sherd.tables.axis import Axis
from sherd.tables.schema import Attribute, Type


def _axis(high: int = 1000) -> Axis:
    return Axis.of(Attribute(name="x", type=Type.INTEGER, domain=(Decimal(0), Decimal(high))))


def _rank(values: list[int | None], k: int, high: int = 1000):  # type: ignore[no-untyped-def]
    column = pa.chunked_array([pa.array(values, pa.int64())])
    return rank(column, _axis(high), k, np.arange(len(values), dtype=np.uint32))


def test_102_records_at_5_make_20_clusters_the_last_with_7() -> None:
    """The worked example of Algorithm 1 in delvasto2025."""
    ranking = _rank(list(range(102)), 5)
    assert ranking.clusters == 20
    assert ranking.sizes.tolist() == [5] * 19 + [7]
    clusters = reduce(ranking)
    assert clusters.sums[0] == 0 + 1 + 2 + 3 + 4
    assert clusters.sums[-1] == sum(range(95, 102))
    assert clusters.low[0].tolist() == [*range(0, 95, 5), 95]
    assert clusters.high[0].tolist() == [*range(4, 95, 5), 101]


def test_fewer_than_two_clusters_is_one() -> None:
    """From k to 2k − 1 records there is one cluster."""
    for n in range(3, 6):
        ranking = _rank(list(range(n)), 3)
        assert ranking.clusters == 1
        assert ranking.sizes.tolist() == [n]


def test_fewer_records_than_k_is_refused() -> None:
    """A cluster of k cannot be made of fewer."""
    with pytest.raises(TableError, match="fewer values than one cluster needs"):
        _rank([1, 2], 3)


def test_missing_cells_are_kept_apart() -> None:
    """Missing cells take part in no cluster, and their places are known."""
    ranking = _rank([5, None, 3, 4, None], 3)
    assert ranking.positions().tolist() == [3, 4, 5]
    assert ranking.missing.tolist() == [1, 4]


def test_only_missing_cells_make_no_cluster() -> None:
    """A column without values is released without values."""
    ranking = _rank([None, None, None], 3)
    assert ranking.clusters == 0
    out = np.zeros(3)
    put_back(ranking, np.empty(0), out)
    assert out.tolist() == [0, 0, 0]


def test_every_row_gets_its_clusters_cell() -> None:
    """What is put back stands where the row stands in the release."""
    values = [30, 10, 20, 60, 50, 40]
    column = pa.chunked_array([pa.array(values)])
    places = np.array([5, 4, 3, 2, 1, 0], np.uint32)
    ranking = rank(column, _axis(), 3, places)
    out = np.zeros(6)
    put_back(ranking, np.array([1.0, 2.0]), out)
    assert out[places].tolist() == [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("clusters", [1, 2, 3])
def test_clusters_larger_than_a_block_are_reduced_and_put_back(clusters: int) -> None:
    """The last one has nearly twice as many cells as the others."""
    k = WORDS_AT_ONCE + 3
    rows = clusters * k + k - 1
    values = np.random.default_rng(clusters).permutation(rows)
    places = np.random.default_rng(9).permutation(rows).astype(np.uint32)
    ranking = rank(pa.chunked_array([values]), _axis(rows), k, places)
    groups = np.split(np.arange(rows), [k * at for at in range(1, clusters)])
    reduced = reduce(ranking, 2)
    assert reduced.sums.tolist() == [int(group.sum()) for group in groups]
    assert reduced.high[1].tolist() == [int(group[-2]) for group in groups]
    out = np.full(rows, -1)
    put_back(ranking, np.arange(clusters), out)
    assert out[places].tolist() == np.minimum(values // k, clusters - 1).tolist()


def test_values_outside_the_axis_are_clamped() -> None:
    """A value beyond the domain takes its nearest end."""
    assert _rank([-5, 2000, 7], 3).positions().tolist() == [0, 7, 1000]


def test_many_chunks_are_one_column() -> None:
    """How a column is cut into chunks does not matter."""
    rng = np.random.default_rng(1)
    values = rng.integers(0, 1000, 100_000)
    whole = pa.chunked_array([pa.array(values)])
    cut = pa.chunked_array(
        [pa.array(values[:17]), pa.array(values[17:70_000]), pa.array(values[70_000:])]
    )
    places = np.arange(len(values), dtype=np.uint32)
    first, second = (rank(c, _axis(), 7, places) for c in (whole, cut))
    assert (first.words == second.words).all()
    assert (first.positions() == np.sort(values)).all()


def test_a_grid_too_fine_for_the_rows_is_refused() -> None:
    """Position and row number must fit one word together."""
    axis = Axis(name="x", type=Type.INTEGER, low=0, high=2**62, step=_axis().step)
    column = pa.chunked_array([pa.array([1, 2, 3, 4, 5])])
    with pytest.raises(TableError, match="too fine a grid"):
        rank(column, axis, 1, np.arange(5, dtype=np.uint32))


def test_looking_deeper_than_a_cluster_is_a_bug() -> None:
    """Three smallest values need clusters of three."""
    with pytest.raises(InternalError):
        reduce(_rank([1, 2, 3, 4], 2), 3)


def test_sums_that_would_leave_a_word_are_refused() -> None:
    """A fine axis and clusters so large that their sums had no room beside the noise."""
    axis = Axis(name="x", type=Type.INTEGER, low=0, high=2**60, step=_axis().step)
    column = pa.chunked_array([pa.array([1, 2, 3, 4])])
    with pytest.raises(TableError, match="too fine a grid for clusters of this size"):
        rank(column, axis, 3, np.arange(4, dtype=np.uint32))
