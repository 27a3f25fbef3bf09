"""Dataframes: any kind in, the same kind out."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import TableError, UsageError
from sherd.tables.frames import like, to_arrow

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")


class Stream:
    """A frame of no library, with Arrow's stream interface only."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Arrow's stream capsule."""
        return self.table.__arrow_c_stream__(requested_schema)


TABLE = pa.table({"a": [1, 2, None], "b": ["x", None, "z"]})


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (TABLE, pa.Table),
        (TABLE.to_batches()[0], pa.RecordBatch),
        (TABLE.to_pandas(types_mapper=pd.ArrowDtype), pd.DataFrame),
        (pl.from_arrow(TABLE), pl.DataFrame),
        (pl.from_arrow(TABLE).lazy(), pl.LazyFrame),
        (Stream(TABLE), pa.Table),
    ],
)
def test_every_kind_goes_in_and_comes_out(frame: Any, kind: type) -> None:
    """The table inside is the same whatever came in, and the kind comes back."""
    table = to_arrow(frame)
    assert table.to_pydict() == TABLE.to_pydict()
    back = like(frame, table)
    assert isinstance(back, kind)
    assert to_arrow(back).to_pydict() == TABLE.to_pydict()


def test_a_duckdb_relation_goes_in_and_comes_out() -> None:
    """A relation is read by DuckDB, and a relation comes back."""
    relation = duckdb.from_arrow(TABLE)
    back = like(relation, to_arrow(relation))
    assert isinstance(back, duckdb.DuckDBPyRelation)
    assert to_arrow(back).to_pydict() == TABLE.to_pydict()


def test_a_reader_is_read_and_a_reader_comes_back() -> None:
    """A stream of batches can be read once; what comes back can be read again."""
    reader = TABLE.to_reader()
    table = to_arrow(reader)
    back = like(reader, table)
    assert isinstance(back, pa.RecordBatchReader)
    assert back.read_all().equals(TABLE)


def test_a_table_without_rows_keeps_its_kind() -> None:
    """No rows are no error, in any kind."""
    empty = TABLE.slice(0, 0)
    for frame in (TABLE.to_batches()[0], TABLE.to_pandas(), pl.from_arrow(TABLE), TABLE):
        back = like(frame, empty)
        assert isinstance(back, type(frame))
        assert to_arrow(back).num_rows == 0


def test_narwhals_helps_with_frames_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that narwhals knows and Arrow does not is taken through narwhals."""
    import narwhals as nw

    wrapped = nw.from_native(pl.from_arrow(TABLE))
    monkeypatch.setattr(nw, "from_native", lambda *_, **__: wrapped)
    assert to_arrow(object()).to_pydict() == TABLE.to_pydict()
    assert isinstance(like(object(), TABLE), pl.DataFrame)
    lazy = wrapped.lazy()
    monkeypatch.setattr(nw, "from_native", lambda *_, **__: lazy)
    assert to_arrow(object()).to_pydict() == TABLE.to_pydict()


@pytest.mark.parametrize("frame", [[1, 2], {"a": [1]}, "people.csv", None])
def test_what_is_no_table_is_refused(frame: object) -> None:
    """The refusal names the kind given and the kinds known."""
    with pytest.raises(UsageError, match="does not know") as caught:
        to_arrow(frame)
    assert type(frame).__qualname__ in str(caught.value)


def test_names_given_twice_are_refused_everywhere() -> None:
    """Two columns of one name cannot be told apart."""
    arrow = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    for frame in (arrow, pd.DataFrame([[1, 2]], columns=["a", "a"]), arrow.to_reader()):
        with pytest.raises(TableError, match="name 'a' is used 2 times"):
            to_arrow(frame)
    with pytest.raises(TableError, match="name '1' is used 2 times"):
        to_arrow(pd.DataFrame([[1, 2]], columns=[1, "1"]))


def test_metadata_and_index_are_dropped() -> None:
    """A pandas index tells rows apart; it and all metadata stay behind."""
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["ann", "bob"], name="who"))
    table = to_arrow(frame)
    assert table.column_names == ["a"]
    assert table.schema.metadata is None
    assert list(like(frame, table).index) == [0, 1]
    tagged = pa.table({"a": [1]}).replace_schema_metadata({"who": "ann"})
    assert to_arrow(tagged).schema.metadata is None


def test_a_column_of_several_kinds_is_named_and_not_quoted() -> None:
    """A mixed pandas column is refused by its name."""
    with pytest.raises(TableError, match="column 'a' holds values of several kinds") as caught:
        to_arrow(pd.DataFrame({"a": [1, "Zaphod"]}))
    assert "Zaphod" not in str(caught.value)


def test_a_polars_column_arrow_cannot_hold_is_refused() -> None:
    """A column of Python objects has no Arrow form."""
    frame = pl.DataFrame({"a": pl.Series([object()], dtype=pl.Object)})
    with pytest.raises(TableError, match="column 'a' holds values that Sherd cannot"):
        to_arrow(frame)


PANDAS = {
    "int64": pd.Series([1, 2]),
    "int8": pd.Series([1, 2], dtype="int8"),
    "uint64": pd.Series([1, 2**64 - 1], dtype="uint64"),
    "Int64": pd.Series([1, None], dtype="Int64"),
    "UInt8": pd.Series([1, None], dtype="UInt8"),
    "float64": pd.Series([1.5, np.nan]),
    "float32": pd.Series([1.5, np.nan], dtype="float32"),
    "Float64": pd.Series([1.5, None], dtype="Float64"),
    "bool": pd.Series([True, False]),
    "boolean": pd.Series([True, None], dtype="boolean"),
    "str": pd.Series(["x", None], dtype="str"),
    "string": pd.Series(["x", None], dtype="string"),
    "string[python]": pd.Series(["x", None], dtype="string[python]"),
    "object": pd.Series(["x", None], dtype=object),
    "object of dates": pd.Series([dt.date(2020, 1, 31), None], dtype=object),
    "object of decimals": pd.Series([Decimal("1.50"), None], dtype=object),
    "category": pd.Series(pd.Categorical(["b", None], categories=["c", "b"])),
    "ordered category": pd.Series(pd.Categorical(["b", "c"], categories=["c", "b"], ordered=True)),
    "category of numbers": pd.Series(pd.Categorical([3, 1], categories=[3, 2, 1])),
    "datetime64": pd.to_datetime(pd.Series(["2020-01-31", None])),
    "datetime64[ns]": pd.Series(np.array(["2020-01-31T12", "NaT"], dtype="datetime64[ns]")),
    "datetime64 with zone": pd.Series(
        pd.to_datetime(["2020-01-31 12:00", None]).tz_localize("Europe/Berlin")
    ),
    "timedelta": pd.Series(pd.to_timedelta([1, 2], unit="D")),
    "int64[pyarrow]": pd.Series([1, None], dtype="int64[pyarrow]"),
    "decimal[pyarrow]": pd.Series(
        [Decimal("1.50"), None], dtype=pd.ArrowDtype(pa.decimal128(9, 2))
    ),
}


@pytest.mark.parametrize("kind", PANDAS)
def test_the_type_of_a_pandas_column_does_not_come_back(kind: str) -> None:
    """A result looks the same whatever type, categories and gaps the caller's column had."""
    frame = pd.DataFrame({"a": PANDAS[kind]})
    assert to_arrow(frame).num_rows == 2
    for column in ([1, None], [1.5, None], [True, None], ["x", None], [dt.date(2020, 1, 31), None]):
        result = pa.table({"a": column})
        found, other = (like(one, result) for one in (frame, pd.DataFrame({"a": [1, 2]})))
        pd.testing.assert_frame_equal(found, other)
        assert to_arrow(found).to_pydict() == result.to_pydict()


def test_a_missing_cell_does_not_change_a_pandas_type() -> None:
    """Whole numbers and truth values have pandas' own types, with and without a gap."""
    frame = pd.DataFrame({"i": [1], "b": [True]})
    for gap in ([1], [None]):
        result = pa.table({"i": pa.array(gap, pa.int64()), "b": [None if gap[0] is None else True]})
        result = result.set_column(1, "b", result["b"].cast(pa.bool_()))
        kinds = [str(kind) for kind in like(frame, result).dtypes]
        assert kinds == ["Int64", "boolean"]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": [1, 2]}),
        pd.DataFrame({"a": pd.array([1, 2], dtype="Int64")}),
        pl.DataFrame({"a": [1, 2]}),
        pl.DataFrame({"a": pl.Series(["x", "y"], dtype=pl.Enum(["x", "y"]))}),
        pa.table({"a": [1, 2]}),
        pa.table({"a": pa.array(["x", "y"]).dictionary_encode()}),
        pa.table({"a": pa.array([1, 2]).dictionary_encode()}),
        "duckdb",
    ],
)
def test_values_that_no_longer_fit_stay_as_they_are(frame: Any) -> None:
    """An interval in place of a number, or a group in place of a label, is not lost."""
    frame = duckdb.sql("SELECT 1 AS a") if isinstance(frame, str) else frame
    result = pa.table({"a": ["[1, 5)", None]})
    assert to_arrow(like(frame, result)).to_pydict() == result.to_pydict()


@pytest.mark.parametrize(
    "frame", [pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]}), pa.table({"a": [1]})]
)
def test_numbers_stay_numbers_whether_or_not_all_are_whole(frame: Any) -> None:
    """One fraction must not be seen in the type."""
    for cells in ([1.5, 2.0], [1.0, 2.0]):
        back = to_arrow(like(frame, pa.table({"a": cells})))
        assert back.schema.field("a").type == pa.float64()
        assert back.to_pydict() == {"a": cells}


def test_columns_that_are_new_or_gone_are_no_error() -> None:
    """A release may add a column or leave one out; names that are no text come back."""
    table = pa.table({"1": [1], "new": ["x"]})
    frames = [
        pd.DataFrame({1: [1], "gone": [2]}),
        pl.DataFrame({"1": [1], "gone": [2]}),
        pa.table({"1": [1], "gone": [2]}),
        duckdb.sql('SELECT 1 AS "1", 2 AS gone'),
    ]
    for frame in frames:
        back = like(frame, table)
        assert to_arrow(back).column_names == ["1", "new"]
    assert like(pd.DataFrame({1: [1]}), table).columns.tolist() == [1, "new"]
    assert like(pd.DataFrame({1: [1]}), pa.table({})).shape[1] == 0


POLARS = {
    "Int8": pl.Series([1, None], dtype=pl.Int8),
    "UInt64": pl.Series([2**64 - 1, None], dtype=pl.UInt64),
    "Int128": pl.Series([2**100, None], dtype=pl.Int128),
    "Float32": pl.Series([1.5, None], dtype=pl.Float32),
    "Boolean": pl.Series([True, None]),
    "String": pl.Series(["x", None]),
    "Categorical": pl.Series(["x", None], dtype=pl.Categorical),
    "Enum": pl.Series(["x", None], dtype=pl.Enum(["y", "x"])),
    "Decimal": pl.Series([Decimal("1.50"), None], dtype=pl.Decimal(20, 2)),
    "Date": pl.Series([dt.date(2020, 1, 31), None]),
    "Datetime": pl.Series([0, None], dtype=pl.Datetime("ms", "Europe/Berlin")),
    "Duration": pl.Series([1, None], dtype=pl.Duration("us")),
    "Time": pl.Series([dt.time(12, 30), None]),
}


@pytest.mark.parametrize("kind", POLARS)
def test_polars_columns_go_in_and_types_are_the_results(kind: str) -> None:
    """Every polars type is read; what comes back has the types of the result."""
    frame = pl.DataFrame({"a": POLARS[kind]})
    assert to_arrow(frame).column("a").null_count == 1
    result = pa.table({"a": ["x", None]})
    assert like(frame, result).schema == {"a": pl.String}


def test_dictionaries_and_enums_of_the_caller_are_not_seen_in_a_result() -> None:
    """Labels that only rows which are gone had would be read from them."""
    labels = pa.array(["Ann", "low", "high"]).dictionary_encode()
    table = pa.table({"c": labels})
    result = pa.table({"c": ["high", None]})
    for frame in (table, table.to_batches()[0]):
        assert like(frame, result).schema == result.schema
    assert like(table.to_reader(), result).schema == result.schema
    relation = duckdb.sql("SELECT 'high'::ENUM('Ann', 'low', 'high') AS c")
    assert [str(kind) for kind in like(relation, result).types] == ["VARCHAR"]


def test_no_dataframe_library_is_imported_for_an_arrow_table() -> None:
    """Arrow tables need neither polars nor DuckDB (Arrow itself loads pandas if it is there)."""
    import subprocess

    code = (
        "import sys, pyarrow as pa; from sherd.tables.frames import like, to_arrow;"
        "t = pa.table({'a': [1]}); like(t, to_arrow(t)); like(object(), t);"
        "sys.exit(len({'polars', 'duckdb'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
