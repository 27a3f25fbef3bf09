"""The noise of every method has the declared scale, for every type of attribute.

Each test looks at m = 4,000 clusters whose true centroid is known and divides what the release
adds by the scale the papers declare. The mean of its absolute value is 1 with a standard error
of 1/√m = 0.016; the test allows 0.075 (4.7 standard errors: a false alarm in 4·10⁵, and seeds
are fixed). Scales 30 % off are then missed by more than 14 standard errors and must fail.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.release.protect import Settings

M = 4000
K = 5
SPAN = 10 * M
TOLERANCE = 0.075
METHODS = ("dp", "idp", "dp-um", "idp-ls", "idp-cbls")
KINDS = ("number", "integer", "date", "datetime", "ordinal", "category")
PER_CLUSTER = np.array([0, 1, 2, 3, 4])
LABELS = [f"c{i:06d}" for i in range(3 * SPAN)]


def _case(kind: str, positions: np.ndarray[Any, Any]) -> tuple[pa.Array, dict[str, Any]]:
    """Positions from SPAN to 2·SPAN on an axis from 0 to 3·SPAN, as values of a type."""
    top = 3 * SPAN - 1
    if kind == "number":
        return pa.array(positions / 4), {
            "type": "number",
            "domain": ["0", str(top / 4)],
            "grid": "0.25",
        }
    if kind == "integer":
        return pa.array(positions), {"type": "integer", "domain": ["0", str(top)]}
    if kind == "date":
        ends = [dt.date(1900, 1, 1) + dt.timedelta(days=d) for d in (0, top)]
        days = (ends[0] - dt.date(1970, 1, 1)).days
        column = pa.array((positions + days).astype(np.int32)).cast(pa.date32())
        return column, {"type": "date", "domain": [e.isoformat() for e in ends]}
    if kind == "datetime":
        end = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=top)
        column = pa.array(positions * 1000).cast(pa.timestamp("ms", tz="UTC"))
        return column, {"type": "datetime", "domain": ["1970-01-01", end.isoformat()]}
    return pa.array([LABELS[i] for i in positions]), {"type": kind, "values": LABELS}


def _positions(kind: str, column: pa.ChunkedArray, low: Any) -> np.ndarray[Any, Any]:
    """Released values back on the axis."""
    if kind == "number":
        return column.to_numpy() * 4
    if kind == "integer":
        return column.to_numpy()
    if kind == "date":
        start = (dt.date(1900, 1, 1) - dt.date(1970, 1, 1)).days
        return column.cast(pa.int32()).to_numpy() - start
    if kind == "datetime":
        return column.cast(pa.timestamp("ms")).cast(pa.int64()).to_numpy() / 1000
    return np.array([int(label[1:]) for label in column.to_pylist()])


def _standardised(method: str, kind: str) -> np.ndarray[Any, Any]:
    """What a release adds to each known centroid, over the declared scale."""
    base = SPAN + 10 * np.arange(M)
    if method in ("dp", "idp"):
        positions, size = base, 1
    else:
        positions, size = (base[:, None] + PER_CLUSTER).ravel(), K
    width = 3 * SPAN - 1
    clusters = positions.reshape(M, size)
    smallest, largest = clusters[:, 0], clusters[:, -1]
    reach = {
        "dp": np.full(M, width),
        "idp": np.maximum(width - smallest, smallest),
        "dp-um": np.full(M, width),
        "idp-ls": np.maximum(width - smallest, largest),
        "idp-cbls": np.full(M, 5),  # (4−1)+(2−1)+(4−3), and its mirror
    }[method]
    # A centroid's scale of about 400 steps: far above rounding, far below the distance to the
    # ends of the axis (100 scales), so that neither is seen.
    epsilon = round(float(np.mean(reach)) / size / 400, 3)
    column, attribute = _case(kind, positions)
    schema = sherd.Schema.from_data({"attributes": {"x": attribute}})
    more = {} if size == 1 else {"k": K}
    plan = sherd.Plan(method=method, epsilon=epsilon, guarantee="paper", **more)
    release = sherd.protect(
        pa.table({"x": column}), schema, plan, settings=Settings(seed=11, keep_order=True)
    )
    released = _positions(kind, release.table.column("x"), None).reshape(M, size)
    assert (released == released[:, :1]).all()
    return (released[:, 0] - clusters.mean(axis=1)) / (reach / (size * epsilon))


def _passes(noise: np.ndarray[Any, Any]) -> bool:
    """Whether the scale, and the shape at three quantiles, are those of a unit Laplace."""
    size = np.sort(np.abs(noise))
    shape = all(
        abs(np.mean(size > point) - math.exp(-point)) < 4.7 * 0.5 / math.sqrt(M)
        for point in (0.5, 1.0, 2.0)
    )
    return bool(abs(size.mean() - 1) < TOLERANCE and shape)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_the_declared_scale_passes_and_others_fail(method: str, kind: str) -> None:
    """The declared noise passes; the same noise against a scale 30 % off does not."""
    noise = _standardised(method, kind)
    assert _passes(noise)
    assert not _passes(noise / 1.3)
    assert not _passes(noise / 0.7)
    assert abs(np.mean(noise > 0) - 0.5) < 4.7 * 0.5 / math.sqrt(M)


def _flips(method: str, epsilon: float, values: list[bool], runs: int) -> float:
    """How often a release shows True where the true centroid is False."""
    schema = sherd.Schema.from_data({"attributes": {"x": {"type": "boolean"}}})
    more = {} if method in ("dp", "idp") else {"k": len(values)}
    plan = sherd.Plan(method=method, epsilon=epsilon, guarantee="paper", **more)
    table = pa.table({"x": values * (runs if not more else 1)})
    if not more:
        released = sherd.protect(table, schema, plan, settings=Settings(seed=5)).table
        return float(np.mean(released.column("x").to_numpy()))
    shown = [
        sherd.protect(table, schema, plan, settings=Settings(seed=s, threads=1))
        .table["x"][0]
        .as_py()
        for s in range(runs)
    ]
    return float(np.mean(shown))


def _chance(scale: float, least: int) -> float:
    """P(discrete Laplace of this scale ≥ least), least above 0."""
    q = math.exp(-1 / scale)
    return q**least / (1 + q)


# (method, epsilon, values, sensitivity of the sum, least noise that shows True)
BOOLEAN = [
    ("dp", 1.0, [False], 1, 1),
    ("idp", 1.0, [False], 1, 1),
    ("dp-um", 0.5, [False] * 3, 1, 2),
    ("idp-ls", 0.5, [False] * 3, 1, 2),
    ("idp-cbls", 1.5, [False, False, True], 3, 2),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("method", "epsilon", "values", "reach", "least"), BOOLEAN)
def test_booleans_flip_as_often_as_declared(
    method: str, epsilon: float, values: list[bool], reach: int, least: int
) -> None:
    """The share of flipped booleans is the exact one; scales 30 % off give another."""
    runs = 40_000 if method in ("dp", "idp") else 3000
    share = _flips(method, epsilon, values, runs)
    room = 4.7 * 0.5 / math.sqrt(runs)
    if method in ("dp", "idp"):
        room /= 2
    assert abs(share - _chance(reach / epsilon, least)) < room
    assert abs(share - _chance(0.7 * reach / epsilon, least)) > room
    if method in ("dp", "idp"):
        assert abs(share - _chance(1.3 * reach / epsilon, least)) > room
