"""Masking one column."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.engines import InMemory
from sherd.methods.ranking.column_masking import ColumnJob, mask_column, scales_of
from sherd.methods.ranking.individual_ranking import rank, reduce
from sherd.methods.ranking.masking import Masking
from sherd.randomness import Randomness
from sherd.release.method import Finding, find
from sherd.tables.axis import Axis
from sherd.tables.schema import Schema

AXIS = Axis.of(
    Schema.from_data({"attributes": {"x": {"type": "integer", "domain": ["0", "100"]}}})["x"]
)


def _job(method: str, values: Any, **more: Any) -> ColumnJob:
    masking = find(method)
    assert isinstance(masking, Masking)
    return ColumnJob(
        **{
            "column": pa.chunked_array(
                [values if isinstance(values, pa.Array) else pa.array(values)]
            ),
            "axis": AXIS,
            "epsilon": Fraction(1),
            "k": 3,
            "masking": masking,
            "enlarge": False,
            "floor": Fraction(0),
            "missing_values": (),
            "randomness": Randomness.seeded(5),
            **more,
        }
    )


def _places(n: int) -> Any:
    return np.arange(n, dtype=np.uint32)


def _masked(job: ColumnJob) -> tuple[list[Any], dict[str, Finding]]:
    column, found = mask_column(job, _places(len(job.column)), InMemory())
    return column.to_pylist(), {finding.name: finding for finding in found}


def _scales(job: ColumnJob) -> list[float]:
    ranking = rank(job.column, job.axis, job.k, _places(len(job.column)))
    return scales_of(job, reduce(ranking, job.masking.depth)).values().tolist()


VALUES = [0, 0, 0, 50, 50, 50]


@pytest.mark.parametrize(
    ("method", "scales"),
    [("dp-um", [100, 100]), ("idp-ls", [100, 50]), ("idp-cbls", [0, 0])],
)
def test_scales_are_the_papers(method: str, scales: list[float]) -> None:
    """R, max(R − u, v), and the width within the cluster, over epsilon."""
    assert _scales(_job(method, VALUES)) == scales
    half = _job(method, VALUES, epsilon=Fraction(1, 2))
    assert _scales(half) == [2 * scale for scale in scales]


def test_the_last_clusters_size_counts() -> None:
    """Noise is on sums; the floor is on the released value, so five records need more."""
    job = _job("idp-cbls", [5] * 8, floor=Fraction(2))
    assert _scales(job) == [6, 10]


def test_enlarged_scales_follow_from_the_loss() -> None:
    """The counter-example {0,0,0,½,½,½}: 1.5 times as wide; dp-um needs nothing."""
    assert np.allclose(_scales(_job("idp-ls", VALUES, enlarge=True)), [150, 75], rtol=1e-6)
    assert _scales(_job("dp-um", VALUES, enlarge=True)) == [100, 100]


def test_accounts_are_exact() -> None:
    """The loss factor of the counter-examples, and the share that met no noise."""
    assert _masked(_job("idp-ls", VALUES))[1]["loss factor"].value == 1.5
    column = list(range(1, 10))
    found = _masked(_job("idp-cbls", column))[1]
    assert found["loss factor"].value == 3.0
    assert found["share without noise"].value == 0
    still = _masked(_job("idp-cbls", [7, 7, 7, 8, 9, 10, 11]))[1]
    assert still["share without noise"].value == pytest.approx(3 / 7)
    assert still["share without noise"].attribute == "x"


@pytest.mark.parametrize("method", ["dp-um", "idp-ls", "idp-cbls"])
def test_a_column_without_values_stays_without(method: str) -> None:
    """No cluster, no noise, nothing to account for."""
    released, found = _masked(_job(method, pa.array([None] * 4, pa.int64())))
    assert released == [None] * 4
    assert found == {}


@pytest.mark.parametrize("method", ["dp", "idp"])
def test_value_by_value(method: str) -> None:
    """Each on its own, gaps stay at their place; a huge epsilon leaves values as they are."""
    values = [3, None, 99, 0]
    assert _masked(_job(method, values, epsilon=Fraction(10**6)))[0] == values
    noisy, found = _masked(_job(method, [50] * 200))
    assert len(set(noisy)) > 20
    assert found == {}
    floored = _job(method, [50] * 200, epsilon=Fraction(10**6), floor=Fraction(10))
    assert len(set(_masked(floored)[0])) > 10


@pytest.mark.parametrize("method", ["dp", "dp-um"])
def test_rows_are_put_at_their_places(method: str) -> None:
    """As the shuffled order says."""
    values = [10, 10, 10, 20, 20, 20]
    job = _job(method, values, epsilon=Fraction(10**6))
    order = np.array([5, 0, 4, 1, 3, 2])
    column, _ = mask_column(job, np.argsort(order).astype(np.uint32), InMemory())
    assert column.to_pylist() == [values[row] for row in order]
