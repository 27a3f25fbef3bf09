"""Masking one column."""

from __future__ import annotations

import io
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
from sherd.tables.coded_columns import FORM, coded, holds_numbers, is_coded
from sherd.tables.released_form import released_form
from sherd.tables.schema import Schema
from sherd.tables.write import write_pieces

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


def _columns() -> dict[str, tuple[dict[str, Any], pa.Array, int]]:
    """Attributes with cells of every type that is coded, and how many records make a cluster."""
    random, rows = np.random.default_rng(1), 6000
    whole = random.integers(0, 9000, rows)
    gaps = random.random(rows) < 0.1
    day = {"type": "date", "domain": ["2000-01-01", "2030-01-01"]}
    time = {"type": "datetime", "domain": ["2000-01-01", "2030-01-01"]}
    number = {"type": "number", "domain": [-1, 1000]}
    integer = {"type": "integer", "domain": [0, 9000]}
    return {
        "numbers": (number, pa.array(whole / 10), 30),
        "numbers with gaps": (number, pa.array(whole / 10, mask=gaps), 30),
        "single floats": (number, pa.array((whole / 10).astype(np.float32)), 30),
        "decimals": (number, pa.array(whole // 10).cast(pa.decimal128(21, 2)), 30),
        "short integers": (integer, pa.array(whole.astype(np.int16)), 30),
        "integers with gaps": (integer, pa.array(whole, mask=gaps), 30),
        "days": (day, pa.array(whole.astype(np.int32) + 11000).cast(pa.date32()), 30),
        "times": (time, pa.array(whole * 10**11 + 10**15).cast(pa.timestamp("us")), 30),
        "few clusters": (number, pa.array(whole / 10), 5000),
        "a list that is too long": (number, pa.array(whole / 10), 3),
        "hardly a value twice": (
            {"type": "number", "domain": [0, 1], "grid": "1e-9"},
            pa.array(random.random(190_000)),
            3,
        ),
        "too few rows": (number, pa.array(whole[:4095] / 10), 30),
        "no value": (number, pa.nulls(rows, pa.float64()), 30),
        "labels": ({"type": "category", "values": list("ab")}, pa.array(list("ab") * 3000), 30),
        "truths": ({"type": "boolean"}, pa.array([True, False] * 3000), 30),
    }


@pytest.mark.parametrize("case", _columns())
def test_codes_that_are_handed_on_are_those_that_are_looked_up(case: str) -> None:
    """To the byte: an artefact must be the same whichever way it was made."""
    data, cells, k = _columns()[case]
    schema = Schema.from_data({"attributes": {"x": {**data, "missing": "keep"}}})
    places = np.random.default_rng(2).permutation(len(cells)).astype(np.uint32)
    more = {"axis": Axis.of(schema["x"]), "k": k, "epsilon": Fraction(10**6)}
    made, findings = list[bytes](), []
    for coded_at_once in (True, False):
        job = _job("dp-um", cells, coded=coded_at_once, **more)
        column, found = mask_column(job, places, InMemory())
        table = released_form(pa.table({"x": column}), coded=True)
        assert not (holds_numbers(table["x"].type) and not coded_at_once)
        sink = io.BytesIO()
        table = coded(table)
        write_pieces([table.combine_chunks()], table.schema, sink, f"t.{FORM}")
        made.append(sink.getvalue())
        findings.append(found)
        handed_on = coded_at_once and pa.types.is_dictionary(column.type)
        short = ("numbers", "numbers with gaps", "single floats", "decimals", "short integers",
                 "integers with gaps", "days", "times", "few clusters")  # fmt: skip
        assert handed_on == (coded_at_once and case in short)
        assert not handed_on or is_coded(table["x"])
    assert made[0] == made[1]
    assert findings[0] == findings[1]
