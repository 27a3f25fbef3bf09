"""Columns as codes: the same cells back, a form that the cells alone decide, and no other form."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sherd.tables.coded_columns import FORM, LEAST_ROWS, coded, is_coded
from sherd.tables.released_form import released_form
from sherd.tables.write import write_pieces

VALUES = {
    "numbers": pa.array([-0.0, 0.0, 5e-324, -7.25, 1e300]),
    "whole": pa.array([-(2**63), 2**63 - 1, 0, 7], pa.int64()),
    "days": pa.array([-1, 0, 20_000], pa.int32()).view(pa.date32()),
    "times": pa.array([-1, 0, 10**15], pa.int64()).view(pa.timestamp("us")),
}


def cells(kind: str, rows: int = LEAST_ROWS, *, gaps: bool = False) -> pa.Table:
    """A column of a few values in a random order, in released form."""
    random, values = np.random.default_rng(1), VALUES[kind]
    places = pa.array(random.integers(0, len(values), rows), mask=random.random(rows) < 0.1 * gaps)
    return released_form(pa.table({"a": values.take(places)}))


def stored(table: pa.Table) -> bytes:
    """A table as a stream."""
    sink = io.BytesIO()
    write_pieces([table.combine_chunks()], table.schema, sink, f"t.{FORM}")
    return sink.getvalue()


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kind", VALUES)
def test_cells_come_back_to_the_bit(kind: str, gaps: bool) -> None:
    """Negative zeros, the ends of whole numbers, days, times and missing cells."""
    plain = cells(kind, gaps=gaps)
    short = coded(plain)
    assert is_coded(short["a"])
    assert short.nbytes < plain.nbytes / 2
    assert stored(released_form(short)) == stored(plain)


def test_the_form_follows_from_the_cells_alone() -> None:
    """Neither the pieces a table came in nor a list of its input's values show in the bytes."""
    plain = cells("numbers", 10_000, gaps=True)
    whole = plain["a"].combine_chunks()
    pieces = pa.table({"a": pa.chunked_array([whole[:3], whole[3:3], whole[3:]])})
    listed = pa.DictionaryArray.from_arrays(
        pa.array([0] * 10_000, pa.int32()), pa.array([9.0, 8.0, 7.0])
    )
    again = released_form(pa.table({"a": listed}))
    assert stored(coded(pieces)) == stored(coded(plain))
    assert coded(again)["a"].chunk(0).dictionary.to_pylist() == [9.0]


@pytest.mark.parametrize(
    ("rows", "values", "code"),
    [
        (LEAST_ROWS - 1, 3, None),
        (LEAST_ROWS, 256, "uint8"),
        (LEAST_ROWS, 257, "uint16"),
        (LEAST_ROWS, 1025, None),  # codes and list together would be more than half
        (300_000, 65_536, "uint16"),
        (300_000, 65_537, None),
    ],
)
def test_codes_are_as_short_as_the_list_allows(rows: int, values: int, code: str | None) -> None:
    """And a column that would not be half as long stays plain."""
    numbers = np.arange(rows) % values
    column = coded(pa.table({"a": np.sort(numbers) if values > 60_000 else numbers}))["a"]
    kind = column.type
    assert (str(kind.index_type) if pa.types.is_dictionary(kind) else None) == code
    assert is_coded(column) == (code is not None)


def test_texts_and_truths_stay_plain() -> None:
    """A long text that many cells name is what a reader would have to be afraid of."""
    table = pa.table({"t": ["x"] * LEAST_ROWS, "b": [True] * LEAST_ROWS})
    assert coded(table).equals(table)
    assert not any(is_coded(column) for column in table.columns)


def built(codes: object, values: object, kind: object = np.uint8) -> pa.ChunkedArray:
    """A column of codes that somebody else made."""
    listed = values if isinstance(values, pa.Array) else pa.array(values)
    indices = codes if isinstance(codes, pa.Array) else pa.array(np.array(codes, kind))  # type: ignore[call-overload]
    return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, listed)])


UNDER = pa.Array.from_buffers(
    pa.uint8(), 3, [pa.py_buffer(b"\x03"), pa.py_buffer(bytes([0, 1, 1]))]
)
FORGED = {
    "unsorted": built([0, 1], [2.0, 1.0]),
    "a value twice": built([0, 1], [1.0, 1.0]),
    "a value that no cell has": built([0, 0], [1.0, 2.0]),
    "codes that are too long": built([0, 1], [1.0, 2.0], np.uint16),
    "codes with a sign": built([0, 1], [1.0, 2.0], np.int8),
    "a missing value in the list": built([0, 1], [1.0, None]),
    "narrow numbers": built([0, 1], pa.array([1, 2], pa.int32())),
    "decimals": built([0, 1], pa.array([1, 2], pa.decimal128(5, 1))),
    "truths": built([0, 1], [False, True]),
    "something under a missing cell": built(UNDER, [1.0, 2.0]),
    "two lists": pa.chunked_array(
        [built([0, 1], [1.0, 2.0]).chunk(0), built([0, 1], [1.0, 3.0]).chunk(0)]
    ),
    "an order": pa.chunked_array(
        [pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.uint8()), [1.0, 2.0], ordered=True)]
    ),
    "no cells": pa.chunked_array([], pa.dictionary(pa.uint8(), pa.float64())),
    "labels": built([0, 1], ["a", "b"]),
}


@pytest.mark.parametrize("case", FORGED)
def test_no_other_form_is_taken(case: str) -> None:
    """Whatever could be said by the form besides the cells is refused."""
    assert not is_coded(FORGED[case])


def test_the_same_in_the_right_form_is_taken() -> None:
    """The cases above are refused for what is wrong about them."""
    assert is_coded(built([0, 1], [1.0, 2.0]))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=40))
def test_any_whole_numbers(values: list[int | None]) -> None:
    """Cells come back, and what is coded is coded in the one form."""
    plain = released_form(pa.table({"a": pa.array(values * LEAST_ROWS, pa.int64())}))
    column = coded(plain)["a"]
    assert is_coded(column) or not any(value is not None for value in values)
    assert stored(released_form(pa.table({"a": column}))) == stored(plain)


def test_a_column_of_many_values_is_not_counted_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at its beginning does."""
    asked: list[int] = []
    unique = pc.unique

    def counted(cells: pa.ChunkedArray) -> pa.Array:
        asked.append(len(cells))
        return unique(cells)

    monkeypatch.setattr(pc, "unique", counted)
    column = pa.table({"a": np.arange(100_000)})
    assert coded(column).equals(column)
    assert asked == [LEAST_ROWS]
