"""Codes keep the order of values, and ranges of codes have honest labels."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.methods.slicing.attribute_codes import Coded, combined, encode
from sherd.tables.schema import Schema


def coded(values: Any, attribute: dict[str, Any], marks: tuple[str, ...] = ()) -> Coded:
    """One attribute's codes."""
    schema = Schema.from_data({"attributes": {"x": attribute}})
    return encode(pa.chunked_array([pa.array(values)]), schema["x"], marks)


def test_measured_values_keep_their_order_and_missing_comes_first() -> None:
    """Codes follow size; a missing cell is code 0."""
    found = coded([5, None, 2, 9, 2], {"type": "integer"})
    assert found.codes.tolist() == [2, 0, 1, 3, 1]
    assert found.values == (None, 2, 5, 9)
    assert found.has_missing


def test_not_a_number_is_missing() -> None:
    """NaN counts as a missing cell."""
    found = coded([1.5, float("nan"), 0.5], {"type": "number"})
    assert found.codes.tolist() == [2, 0, 1]


def test_integer_ranges_end_before_the_next_value() -> None:
    """Published boundaries reach to the next value, not to the largest seen; tight ones stop."""
    found = coded([17, 20, 30, 40], {"type": "integer", "domain": ["10", "90"]})
    assert found.label(0, 1) == "[10, 29]"
    assert found.label(2, 3) == "[30, 90]"
    assert found.label(1, 1) == "[20, 29]"
    assert found.label(0, 3) == "*"
    assert found.label(0, 1, tight=True) == "[17, 20]"
    assert found.label(1, 1, tight=True) == "20"
    assert found.label(0, 3, tight=True) == "[17, 40]"
    assert found.describe(0, 1) == {"low": "10", "high": "29", "closed": True}


def test_numbers_have_half_open_intervals_and_dates_closed_ones() -> None:
    """A number's range ends below the next value, a date's on the day before it."""
    numbers = coded([0.5, 1.25, 2.0], {"type": "number"})
    assert numbers.label(0, 1) == "[0.5, 2)"
    days = coded([dt.date(2020, 1, 1), dt.date(2020, 2, 1)], {"type": "date"})
    assert days.label(0, 0) == "[2020-01-01, 2020-01-31]"


@pytest.mark.parametrize(
    ("kind", "domain", "value"),
    [
        ("date", ["2019-01-01", "2021-01-01"], dt.date(2020, 1, 1)),
        ("datetime", ["2019-01-01", "2021-01-01"], dt.datetime(2020, 1, 1, 12)),  # noqa: DTZ001
        ("number", ["0", "5"], 2.5),
    ],
)
def test_declared_domains_bound_the_outer_ranges(kind: str, domain: list[str], value: Any) -> None:
    """The first range begins at the domain's end, whatever the type."""
    found = coded([value], {"type": kind, "domain": domain})
    low, high, _ = found.interval(0, 0, False)
    assert low < value < high


def test_labels_without_taxonomy_are_sets_in_declared_order() -> None:
    """Few labels are listed, many are named by their ends."""
    letters = [chr(97 + i) for i in range(12)]
    found = coded(letters, {"type": "category", "values": letters})
    assert found.label(0, 2) == "a|b|c"
    assert found.label(3, 3) == "d"
    assert found.label(1, 10) == "b … k (10)"
    assert found.describe(0, 1) == {"values": ["a", "b"]}


def test_taxonomy_ranges_are_nodes_even_where_the_file_mixes_branches() -> None:
    """Leaves are put branch by branch; a cut between branches comes before one inside."""
    paths = [["u", "S", "*"], ["k", "N", "*"], ["p", "S", "*"], ["b", "N", "*"]]
    found = coded(["u", "k", "p", "b"], {"type": "category", "taxonomy": paths})
    assert found.values == ("u", "p", "k", "b")
    assert found.depth.tolist() == [0, 1, 0, 1]
    assert found.label(0, 1) == "S"
    assert found.label(1, 2) == "*"
    assert found.describe(2, 3) == {"values": ["k", "b"]}


def test_missing_joins_a_range_by_name() -> None:
    """A range that covers missing cells says so; missing alone is released as missing."""
    found = coded(["a", None, "b"], {"type": "category", "values": ["a", "b", "c"]})
    assert found.label(0, 0) is None
    assert found.label(0, 1) == "a or missing"
    assert found.describe(0, 1) == {"missing": True, "values": ["a"]}
    assert found.describe(0, 0) == {"missing": True}


def test_marks_for_missing_are_missing() -> None:
    """A schema's mark counts as missing unless it is a listed label."""
    found = coded(["a", "?"], {"type": "category", "values": ["a"]}, ("?",))
    assert found.codes.tolist() == [1, 0]


def test_unlisted_and_dictionary_and_boolean_cells_are_coded() -> None:
    """Labels from data come after declared ones; booleans are labels."""
    assert coded(["z", "a"], {"type": "text"}).codes.tolist() == [1, 0]
    assert coded([True, False], {"type": "boolean"}).codes.tolist() == [1, 0]
    array = pa.array(["b", "a"]).dictionary_encode()
    assert coded(array, {"type": "category", "values": ["a", "b"]}).codes.tolist() == [1, 0]


def test_combinations_get_one_code_each() -> None:
    """Equal combinations share a code, by counting, by sorting, and beyond 62 bits."""
    one = np.array([0, 1, 0, 1], dtype=np.int32)
    two = np.array([5, 5, 5, 6], dtype=np.int32)
    for size in (7, 10**6, 2**31 - 1):
        codes, count = combined([one, two, one], [size, size, size])
        assert count == 3
        assert codes[0] == codes[2] != codes[1]
    assert combined([], [])[1] == 0
