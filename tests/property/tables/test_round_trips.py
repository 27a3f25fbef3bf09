"""Round trips: through files, through dataframes, and of labels through a draft."""

from __future__ import annotations

import datetime as dt
import math
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sherd.tables.files import read_yaml
from sherd.tables.frames import like, to_arrow, to_series
from sherd.tables.infer import schema as draft
from sherd.tables.read import read
from sherd.tables.released_form import released_form
from sherd.tables.schema import Schema
from sherd.tables.sql import redact
from sherd.tables.write import unescaped, write

# What a UTF-8 text file can hold: no lone surrogates, and no NUL.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
INT = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(allow_nan=False)
DATE = st.dates()
TIME = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))  # noqa: DTZ001
DECIMAL = st.integers(-(10**15), 10**15).map(lambda n: Decimal(n).scaleb(-2))

COLUMNS: dict[str, tuple[st.SearchStrategy[Any], pa.DataType]] = {
    "integer": (INT, pa.int64()),
    "number": (FLOAT, pa.float64()),
    "date": (DATE, pa.date32()),
    "datetime": (TIME, pa.timestamp("us")),
    "boolean": (st.booleans(), pa.bool_()),
    "text": (TEXT.filter(bool), pa.string()),
}


@st.composite
def tables(draw: st.DrawFn, *, kinds: dict[str, Any] = COLUMNS) -> pa.Table:
    """A table with a column of every kind, each with missing cells."""
    rows = draw(st.integers(0, 8))
    columns = {}
    for name, (values, kind) in kinds.items():
        cells = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns[name] = pa.array(cells, kind)
    return pa.table(columns)


@settings(max_examples=150, deadline=None)
@given(tables(), st.sampled_from(["csv", "csv.gz", "csv.zst", "parquet", "feather"]))
def test_a_table_survives_a_file(table: pa.Table, suffix: str) -> None:
    """Every value comes back exactly, floats to the last bit, text to the last sign."""
    schema = Schema.from_data({"attributes": {name: {"type": name} for name in COLUMNS}})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"t.{suffix}"
        write(table, path)
        back = read(path, schema=schema)
    assert back.to_pydict() == table.to_pydict()
    signs = [math.copysign(1, x) for x in table["number"].to_pylist() if x is not None]
    assert signs == [math.copysign(1, x) for x in back["number"].to_pylist() if x is not None]


@settings(max_examples=60, deadline=None)
@given(
    tables(kinds={"text": COLUMNS["text"], "other": COLUMNS["text"]}),
    st.booleans(),
)
def test_text_survives_a_spreadsheet_safe_file_but_for_the_apostrophe(
    table: pa.Table, encode: bool
) -> None:
    """Only what a spreadsheet would run is changed, by one sign in front that can be taken off."""
    if encode:
        table = pa.table({name: table[name].dictionary_encode() for name in table.column_names})
    schema = Schema.from_data({"attributes": {n: {"type": "text"} for n in table.column_names}})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        write(table, path, spreadsheet_safe=True)
        back = read(path, schema=schema)
    for name in table.column_names:
        for before, after in zip(table[name].to_pylist(), back[name].to_pylist(), strict=True):
            risky = before is not None and before.lstrip("'").startswith(tuple("=+-@\t\r"))
            assert after == (f"'{before}" if risky else before)
    assert unescaped(back).to_pydict() == table.to_pydict()


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=6, unique=True), TEXT.filter(lambda s: s.strip()))
def test_any_label_and_any_name_survive_a_draft(labels: list[str], name: str) -> None:
    """A draft reads back as the schema it was made of, typed or not."""
    table = pa.table({name: [*labels, *labels]})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "draft.yaml"
        path.write_bytes(draft(table, name=name).yaml().encode())
        assert Schema.load(path) == Schema.infer(table)
        assert Schema.from_data(read_yaml(path)) == Schema.infer(table)


PANDAS = {
    "int64": (INT, pa.int64(), False),
    "int16": (st.integers(-(2**15), 2**15 - 1), pa.int16(), False),
    "Int64": (INT, pa.int64(), True),
    "UInt32": (st.integers(0, 2**32 - 1), pa.uint32(), True),
    "float64": (FLOAT, pa.float64(), True),
    "Float64": (FLOAT, pa.float64(), True),
    "bool": (st.booleans(), pa.bool_(), False),
    "boolean": (st.booleans(), pa.bool_(), True),
    "str": (TEXT, pa.string(), True),
    "string": (TEXT, pa.string(), True),
    "string[python]": (TEXT, pa.string(), True),
    "object": (TEXT, pa.string(), True),
    "category": (TEXT, pa.string(), True),
    "datetime64[us]": (TIME, pa.timestamp("us"), True),
    "datetime64[ns, Europe/Berlin]": (TIME, pa.timestamp("ns", "Europe/Berlin"), True),
    "timedelta64[ms]": (st.integers(-(10**9), 10**9), pa.duration("ms"), True),
    "int64[pyarrow]": (INT, pa.int64(), True),
    "string[pyarrow]": (TEXT, pa.string(), True),
}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_pandas_frame_survives(data: st.DataObject) -> None:
    """Any selection of pandas types goes in; values and gaps come back in types of the result."""
    pd = pytest.importorskip("pandas")
    names = data.draw(st.lists(st.sampled_from(sorted(PANDAS)), min_size=1, unique=True))
    rows = data.draw(st.integers(0, 6))
    columns = {}
    for name in names:
        values, kind, gaps = PANDAS[name]
        cell = st.none() | values if gaps else values
        cells = pa.array(data.draw(st.lists(cell, min_size=rows, max_size=rows)), kind)
        columns[name] = pd.Series(cells.to_pylist(), dtype=name)
    frame = pd.DataFrame(columns, index=data.draw(st.permutations(range(rows))) if rows else None)
    table = to_arrow(frame)
    assert table.column_names == names
    held = [name for name in names if not name.startswith("timedelta")]
    inside = released_form(table.select(held))
    back = like(frame[held], inside)
    assert to_arrow(back).to_pydict() == inside.to_pydict()
    assert [str(kind) for kind in back.dtypes] == [
        str(to_series(inside.slice(0, 0).column(name)).dtype) for name in held
    ]


POLARS = ("Int8", "Int64", "UInt16", "Float32", "Float64", "Boolean", "String", "Date", "Time",
          "Categorical")  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_polars_frame_survives(data: st.DataObject) -> None:
    """Any polars frame goes in; what comes back has the cells and types of the result."""
    pl = pytest.importorskip("polars")
    from polars.testing.parametric import dataframes

    kinds = [
        *(getattr(pl, name) for name in POLARS),
        pl.Decimal(20, 3),
        pl.Datetime("us", "Europe/Berlin"),
        pl.Datetime("ms"),
        pl.Duration("ns"),
        pl.Enum(["x", "y", "z"]),
    ]
    frame = data.draw(dataframes(allowed_dtypes=kinds, max_cols=5, min_cols=1, max_size=6))
    back = like(frame, to_arrow(frame))
    assert to_arrow(back).to_pydict() == to_arrow(frame).to_pydict()


@settings(max_examples=300, deadline=None)
@given(
    st.text("abc:@/?#%=& ", min_size=1, max_size=6),
    st.text("xyz:@/?#%=& ", min_size=4, max_size=12).filter(
        lambda s: len([c for c in s if c in "xyz"]) >= 4
    ),
)
def test_no_part_of_a_password_survives_redaction(user: str, password: str) -> None:
    """Whatever signs a password has, none of its letters is left."""
    shown = redact(f"postgresql://{user}:{password}@host/db")
    assert not set("xyz") & set(shown.removeprefix("postgresql://"))
