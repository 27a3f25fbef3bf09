from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import TableError, UsageError
from sherd.release.information_loss import Root, Sigma, mean_square, mean_sse, squared_error
from sherd.tables.schema import Schema

SCHEMA = Schema.from_data(
    {
        "missing_values": ["?"],
        "attributes": {
            "age": {"type": "integer", "domain": ["0", "100"]},
            "job": {"type": "category", "values": ["clerk", "nurse", "pilot"]},
        },
    }
)
BEFORE = pa.table({"age": [10, 20, 30, 40], "job": ["clerk", "nurse", "pilot", "pilot"]})
AFTER = pa.table({"age": [12, 20, 30, 36], "job": ["nurse", "nurse", "pilot", "clerk"]})


def by_hand(sigma: Sigma, root: Root, ranks: dict[str, int]) -> float:
    """The definition, record by record, with Python's own numbers."""
    ages, labels = [10, 20, 30, 40], ["clerk", "nurse", "pilot", "pilot"]
    places = [ranks[label] for label in labels]
    power = 1 if sigma == "sigma" else 2
    spread = [math.sqrt(sum((v - sum(c) / 4) ** 2 for v in c) / 4) ** power for c in (ages, places)]
    total = 0.0
    for row, (age, job) in enumerate(zip([12, 20, 30, 36], AFTER["job"].to_pylist(), strict=True)):
        squares = ((age - ages[row]) / spread[0]) ** 2
        squares += ((ranks[job] - places[row]) / spread[1]) ** 2
        distance = math.sqrt(squares) / 2 if root == "outside" else math.sqrt(squares / 2)
        total += distance**2
    return total / 4


@pytest.mark.parametrize("sigma", ["sigma", "variance"])
@pytest.mark.parametrize("root", ["outside", "inside"])
@pytest.mark.parametrize("by_frequency", [False, True])
def test_each_reading_equals_the_definition(sigma: Sigma, root: Root, by_frequency: bool) -> None:
    """Every reading of the mean SSE equals a record-by-record sum, in both orders of labels."""
    ranks = {"clerk": 0, "nurse": 1, "pilot": 2}
    if by_frequency:
        ranks = {"pilot": 0, "clerk": 1, "nurse": 2}
    found = squared_error(BEFORE, AFTER, SCHEMA, sigma=sigma, root=root, by_frequency=by_frequency)
    assert found.value == pytest.approx(by_hand(sigma, root, ranks))
    assert sum(found.by_attribute.values()) == pytest.approx(found.value)
    assert ("σ²" in found.variant) == (sigma == "variance")


def test_unchanged_table_has_no_loss() -> None:
    """A release equal to the original has mean SSE 0."""
    assert mean_sse(BEFORE, BEFORE, SCHEMA) == 0


def test_missing_cells() -> None:
    """Missing on both sides costs nothing; missing on one side costs the attribute's width."""
    before = pa.table({"age": [0, None, 10], "job": ["clerk", "?", "clerk"]})
    after = pa.table({"age": [0, None, None], "job": ["clerk", "?", "clerk"]})
    assert mean_sse(before, before, SCHEMA) == 0
    found = squared_error(before, after, SCHEMA)
    assert found.by_attribute["age"] == pytest.approx((10 / 5) ** 2 / 3 / 4)
    assert found.by_attribute["job"] == 0


def test_constant_attribute_counts_unscaled() -> None:
    """An attribute without spread is compared in its own unit, and an empty one not at all."""
    assert mean_square(np.array([5.0, 5.0]), np.array([7.0, 5.0])) == 2.0
    assert mean_square(np.array([np.nan]), np.array([1.0])) == 0.0


def test_rows_must_pair() -> None:
    """Tables of different length cannot be compared record by record."""
    with pytest.raises(TableError, match="number of rows"):
        mean_sse(BEFORE, AFTER.slice(0, 2), SCHEMA)


def test_unknown_reading() -> None:
    """A reading nobody defined is refused by name."""
    with pytest.raises(UsageError, match="sigma 'x'"):
        mean_sse(BEFORE, AFTER, SCHEMA, sigma="x")
