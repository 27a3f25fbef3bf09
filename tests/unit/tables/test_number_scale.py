"""Axes taken from the data, where the plan allows it by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sherd.errors import PlanError, TableError
from sherd.tables.number_scale import axis_of
from sherd.tables.schema import Attribute, Schema

if TYPE_CHECKING:
    from sherd.tables.axis import Axis


def _attribute(**data: Any) -> Attribute:
    return Schema.from_data({"attributes": {"x": data}})["x"]


def _axis(values: Any, factor: float = 2.0, **data: Any) -> Axis:
    column = pa.chunked_array([values if isinstance(values, pa.Array) else pa.array(values)])
    return axis_of(_attribute(**data), column, domain_from_data=factor)


def _ends(axis: Axis) -> tuple[float, float]:
    return float(axis.low * axis.step), float(axis.high * axis.step)


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([1.0, 2.0], (0, 4)),
        ([-1.0, 2.0], (-2, 4)),
        ([-3.0, -1.0], (-6, 0)),
        ([0.0, 0.0], (0, 1)),
        ([1.0, float("inf"), float("nan"), None], (0, 2)),
        (pa.array([1, 2], pa.uint64()), (0, 4)),
        (pa.array([Decimal("1.5")]), (0, 3)),
        (pa.array(["1.5"]), (0, 3)),
    ],
    ids=str,
)
def test_bounds_are_the_factor_times_the_largest(values: Any, ends: tuple[int, int]) -> None:
    """As in the papers, [0, α·max]; below 0 only where there are negative values."""
    assert _ends(_axis(values, type="number")) == ends


def test_whole_numbers_keep_whole_bounds() -> None:
    """Rounded outwards."""
    assert _ends(_axis([3], 1.5, type="integer")) == (0, 5)


def test_dates_and_times_widen_to_both_sides() -> None:
    """By the factor's share of their span, by a day where there is none."""
    days = [dt.date(2020, 1, 1), dt.date(2020, 1, 11)]
    start = (dt.date(2020, 1, 1) - dt.date(1970, 1, 1)).days
    assert _ends(_axis(days, type="date")) == (start - 10, start + 20)
    assert _ends(_axis(days[:1], type="date")) == (start - 1, start + 1)
    assert _ends(_axis([d.isoformat() for d in days], type="date")) == (start - 10, start + 20)
    moments = pa.array([0, 10], pa.timestamp("s", tz="Asia/Tokyo"))
    assert _ends(_axis(moments, type="datetime")) == (-10, 20)
    assert _ends(_axis(pa.array([0, 1], pa.date32()), type="datetime")) == (-86_400, 172_800)


def test_a_declared_domain_is_kept() -> None:
    """Being allowed to look is not having to."""
    assert _ends(_axis([5.0], type="number", domain=["0", "1"])) == (0, 1)


def test_without_values_there_is_nothing_to_take() -> None:
    """Neither a domain nor labels."""
    with pytest.raises(TableError, match="no values to take its domain from"):
        _axis(pa.array([None, None], pa.float64()), type="number")
    with pytest.raises(TableError, match="no values to take its labels from"):
        axis_of(
            _attribute(type="category"), pa.chunked_array([pa.array([None, "?"])]),
            by_frequency=True, missing_values=["?"],
        )  # fmt: skip


def test_a_domain_beyond_the_calendar_is_refused() -> None:
    """The factor is too large for dates."""
    with pytest.raises(PlanError, match="would leave the calendar"):
        _axis([dt.date(2020, 1, 1), dt.date(2021, 1, 1)], 1e6, type="date")


def test_text_that_is_no_number_is_not_quoted() -> None:
    """The message names the column's type only."""
    with pytest.raises(TableError, match="cannot be read as number") as caught:
        _axis(["marker"], type="number")
    assert "marker" not in str(caught.value)


def _labels(column: pa.Array, **data: Any) -> tuple[str, ...] | None:
    axis = axis_of(
        _attribute(type="category", **data), pa.chunked_array([column]), by_frequency=True,
        missing_values=["?"],
    )  # fmt: skip
    return axis.labels


def test_labels_by_falling_frequency() -> None:
    """Then as declared, then by name; marks and gaps do not count; declared ones stay."""
    column = pa.array(["b", "a", "c", "c", None, "?"])
    assert _labels(column) == ("c", "a", "b")
    assert _labels(column.dictionary_encode()) == ("c", "a", "b")
    assert _labels(column, values=["z", "b", "a", "c"]) == ("c", "b", "a", "z")
    strange = pa.array(["q", "q", "a"])
    assert _labels(strange, values=["a", "b"], other="b") == ("a", "b")


def test_ordinals_keep_their_order() -> None:
    """Frequency orders categories only."""
    attribute = _attribute(type="ordinal", values=["low", "high"])
    column = pa.chunked_array([pa.array(["high", "high", "low"])])
    assert axis_of(attribute, column, by_frequency=True).labels == ("low", "high")
