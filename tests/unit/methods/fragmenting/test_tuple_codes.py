"""Ranks of cells are the same whether numbers are sorted or counted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sherd.methods.fragmenting.tuple_codes import positions
from sherd.tables.schema import Schema


def _ranks(cells: pa.Array, kind: str) -> list[int]:
    schema = Schema.from_data({"attributes": {"x": {"type": kind}}})
    return positions(pa.table({"x": cells}), schema["x"]).tolist()


@pytest.mark.parametrize("kind", ["integer", "number"])
@pytest.mark.parametrize("distinct", [5, 3000, 10**9])
def test_ranks_are_those_among_the_different_values(kind: str, distinct: int) -> None:
    """Few values, many, and hardly any twice."""
    cells = np.random.default_rng(1).integers(-distinct, distinct, 6000)
    given = cells / 4 if kind == "number" else cells
    place = {value: at for at, value in enumerate(sorted(set(given.tolist())))}
    expected = [place[value] for value in given.tolist()]
    assert _ranks(pa.array(given), kind) == expected
    assert _ranks(pa.array(given.astype(object)).dictionary_encode(), kind) == expected


def test_a_missing_cell_is_last() -> None:
    """Whatever the number of values."""
    cells = [None, *range(6000)]
    assert _ranks(pa.array(cells), "integer") == [6000, *range(6000)]
