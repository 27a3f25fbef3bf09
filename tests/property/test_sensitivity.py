"""No record moves a cluster's sum by more than its declared sensitivity."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sherd.methods.ranking.individual_ranking import Clusters, Ranking, rank, reduce
from sherd.methods.ranking.masking import Masking
from sherd.release.method import find
from sherd.tables.axis import Axis
from sherd.tables.schema import Attribute, Type

WIDTH = 12
AXIS = Axis.of(Attribute(name="x", type=Type.INTEGER, domain=(Decimal(0), Decimal(WIDTH))))

cases = st.integers(3, 5).flatmap(
    lambda k: st.tuples(st.just(k), st.lists(st.integers(0, WIDTH), min_size=k, max_size=4 * k + 2))
)


def _rank(values: list[int], k: int) -> Ranking:
    places = np.arange(len(values), dtype=np.uint32)
    return rank(pa.chunked_array([pa.array(values)]), AXIS, k, places)


def _masking(name: str) -> Masking:
    found = find(name)
    assert isinstance(found, Masking)
    return found


def _alone(members: list[int], depth: int) -> Clusters:
    return reduce(_rank(members, len(members)), depth)


@pytest.mark.parametrize("name", ["dp-um", "idp-ls", "idp-cbls"])
@settings(max_examples=30, deadline=None)
@given(case=cases)
def test_under_a_fixed_clustering(name: str, case: tuple[int, list[int]]) -> None:
    """Any record of a cluster to any value of the domain, the others and the cluster fixed."""
    k, values = case
    masking = _masking(name)
    ranking = _rank(values, k)
    declared = masking.sensitivity(reduce(ranking, masking.depth), WIDTH)
    ends = np.cumsum(ranking.sizes)
    members = np.split(ranking.positions(), ends[:-1])
    for cluster, most in zip(members, declared, strict=True):
        here = cluster.tolist()
        before = masking.sums(_alone(here, masking.depth))[0]
        for i in range(len(here)):
            for value in range(WIDTH + 1):
                changed = [*here[:i], value, *here[i + 1 :]]
                after = masking.sums(_alone(changed, masking.depth))[0]
                assert abs(int(after) - int(before)) <= most


@given(case=cases, data=st.data())
def test_neighbours_ordered_sums_differ_by_the_width_in_all(
    case: tuple[int, list[int]], data: st.DataObject
) -> None:
    """What makes a strict release differentially private, clusters recomputed."""
    k, values = case
    i = data.draw(st.integers(0, len(values) - 1))
    changed = [*values[:i], data.draw(st.integers(0, WIDTH)), *values[i + 1 :]]
    before, after = (reduce(_rank(table, k)).sums for table in (values, changed))
    assert int(np.abs(before - after).sum()) <= WIDTH
    assert int(np.abs(before - after).sum()) == abs(changed[i] - values[i])


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=40),
    st.integers(0, 40),
    st.data(),
)
def test_value_by_value(values: list[int], new: int, data: st.DataObject) -> None:
    """For k = 1 a changed record changes its own cell only, by at most the local reach."""
    i = data.draw(st.integers(0, len(values) - 1))
    positions = np.array(values)
    cells = Clusters(
        sizes=np.ones(len(values), np.int64), sums=positions, low=(positions,), high=(positions,)
    )
    assert abs(new - values[i]) <= _masking("idp").sensitivity(cells, 40)[i] <= 40
    assert (_masking("dp").sensitivity(cells, 40) == 40).all()
