"""Writing: the same bytes for the same table, and every value comes back as it was."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sherd.errors import StorageError, TableError, UsageError
from sherd.tables.read import read
from sherd.tables.schema import Schema
from sherd.tables.write import csv_blocks, write

SUFFIXES = ["csv", "csv.gz", "csv.zst", "parquet", "feather"]


def text(table: pa.Table, **options: Any) -> str:
    """The table as CSV text."""
    return b"".join(bytes(block) for block in csv_blocks(table, **options)).decode()


@pytest.fixture
def table() -> pa.Table:
    """A table with a column of every kind."""
    return pa.table(
        {
            "i": [1, None, -3],
            "f": [0.1, 1e300, None],
            "s": ['a "b", c', "two\nlines", None],
            "c": pa.array(["x", None, "y"]).dictionary_encode(),
            "z": pa.array([0, 1_700_000_000_123_456, None], pa.timestamp("us", "Europe/Berlin")),
            "d": [dt.date(2020, 1, 31), None, dt.date(1, 1, 1)],
            "n": pa.array([Decimal("1.50"), None, Decimal("-0.01")]),
            "b": [True, None, False],
        }
    )


def test_cells_are_written_as_they_are(table: pa.Table) -> None:
    """Labels as labels, decimals exact, dates ISO, times with their zone, quotes if needed."""
    assert text(table) == (
        "i,f,s,c,z,d,n,b\n"
        '1,0.1,"a ""b"", c",x,1970-01-01 01:00:00.000000+01:00,2020-01-31,1.50,true\n'
        ',1e+300,"two\nlines",,2023-11-14 23:13:20.123456+01:00,,,\n'
        "-3,,,y,,0001-01-01,-0.01,false\n"
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_written_table_reads_back(suffix: str, table: pa.Table, tmp_path: Path) -> None:
    """Every value survives every format; instants do, whatever the zone is called."""
    path = tmp_path / f"t.{suffix}"
    write(table, path)
    kinds = {"i": "integer", "f": "number", "s": "text", "c": "category", "z": "datetime",
             "d": "date", "n": "number", "b": "boolean"}  # fmt: skip
    schema = Schema.from_data({"attributes": {n: {"type": k} for n, k in kinds.items()}})
    back = read(path, schema=schema)
    for name in table.column_names:
        before, after = table[name].to_pylist(), back[name].to_pylist()
        if name == "n":
            before, after = ([None if v is None else float(v) for v in c] for c in (before, after))
        assert after == before, name


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_table_gives_the_same_bytes(
    suffix: str, table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the clock nor the path nor metadata leaves a trace in the file."""
    first, second = tmp_path / f"one.{suffix}", tmp_path / f"other.{suffix}"
    write(table, first)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 100_000)
    write(table.replace_schema_metadata({"made": "later"}), second)
    assert first.read_bytes() == second.read_bytes()


def test_no_metadata_is_left_in_parquet(tmp_path: Path) -> None:
    """No pandas metadata and no index column reach the file."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2]}, index=["ann", "bob"])
    path = tmp_path / "t.parquet"
    write(pa.Table.from_pandas(frame).drop_columns(["__index_level_0__"]), path)
    schema = pq.read_schema(path)
    assert schema.metadata is None
    assert schema.names == ["a"]
    assert b"ann" not in path.read_bytes()


def test_compression_is_ended_where_writing_fails(
    table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be ended some time later, into a file that is closed by then."""
    made = list[gzip.GzipFile]()

    class Noted(gzip.GzipFile):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            made.append(self)

        def write(self, _data: Any) -> int:
            raise KeyboardInterrupt

    monkeypatch.setattr(gzip, "GzipFile", Noted)
    with pytest.raises(KeyboardInterrupt):
        write(table, tmp_path / "t.csv.gz")
    assert [each.closed for each in made] == [True]


def test_gzip_carries_no_time_and_no_name(table: pa.Table, tmp_path: Path) -> None:
    """The gzip header's time is zero and its name empty."""
    path = tmp_path / "t.csv.gz"
    write(table, path)
    head = path.read_bytes()[:10]
    assert head[3] == 0
    assert head[4:8] == bytes(4)
    assert gzip.decompress(path.read_bytes()).decode() == text(table)


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@x", "\tx", "\rx"])
@pytest.mark.parametrize("encode", [False, True])
def test_formulas_are_escaped_on_request(cell: str, encode: bool) -> None:
    """Text a spreadsheet would run gets an apostrophe, plain or behind a dictionary."""
    column = pa.array([cell, "x=1", None])
    table = pa.table({"a": column.dictionary_encode() if encode else column, "n": [-1, 2, 3]})
    rows = list(csv.reader(io.StringIO(text(table, spreadsheet_safe=True), newline="")))
    assert rows[1:] == [["'" + cell, "-1"], ["x=1", "2"], ["", "3"]]
    plain = list(csv.reader(io.StringIO(text(table), newline="")))
    assert plain[1] == [cell, "-1"]


def test_a_column_name_can_be_a_formula_too() -> None:
    """The header is escaped like the cells, and quoted like them."""
    assert text(pa.table({"=a": [1], "b,c": [2]}), spreadsheet_safe=True) == '\'=a,"b,c"\n1,2\n'


def test_a_lone_missing_cell_is_not_an_empty_line() -> None:
    """Readers skip empty lines, so a lone missing cell is written as an empty text."""
    assert text(pa.table({"a": [1, None, 3]})) == 'a\n1\n""\n3\n'


def test_a_lone_missing_cell_reads_back(tmp_path: Path) -> None:
    """A column with gaps keeps its rows."""
    path = tmp_path / "t.csv"
    write(pa.table({"a": [1, None, 3]}), path)
    assert read(path).to_pydict() == {"a": [1, None, 3]}


def test_a_table_without_rows_has_its_header(tmp_path: Path) -> None:
    """No rows are no error in any format."""
    table = pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())})
    for suffix in SUFFIXES:
        write(table, tmp_path / f"t.{suffix}")
        assert read(tmp_path / f"t.{suffix}").column_names == ["a", "b"]
    assert text(table) == "a,b\n"


def test_dictionaries_that_differ_between_chunks_are_written(tmp_path: Path) -> None:
    """Each chunk's codes are read with its own labels."""
    chunks = [pa.array(["x", "y"]).dictionary_encode(), pa.array(["y", "z"]).dictionary_encode()]
    table = pa.table({"a": pa.chunked_array(chunks)})
    for suffix in SUFFIXES:
        write(table, tmp_path / f"t.{suffix}")
        assert read(tmp_path / f"t.{suffix}")["a"].to_pylist() == ["x", "y", "y", "z"]


def test_many_rows_are_written_in_blocks() -> None:
    """Blocks join to the whole table."""
    table = pa.table({"a": range(200_000)})
    assert text(table).count("\n") == 200_001
    assert len(list(csv_blocks(table))) > 2


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_is_a_storage_error(suffix: str, tmp_path: Path) -> None:
    """Nothing is written in silence where there is no room."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    path = tmp_path / f"t.{suffix}"
    path.symlink_to("/dev/full")
    with pytest.raises(StorageError, match="cannot be written"):
        write(pa.table({"a": range(100_000)}), path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_folder_that_is_not_there_is_a_storage_error(suffix: str, tmp_path: Path) -> None:
    """The path is taken as it is given."""
    with pytest.raises(StorageError, match="No such file"):
        write(pa.table({"a": [1]}), tmp_path / "none" / f"t.{suffix}")


def test_an_unknown_suffix_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The format is the suffix's."""
    with pytest.raises(UsageError, match="format is unknown"):
        write(pa.table({"a": [1]}), tmp_path / "t.xlsx")
    assert list(tmp_path.iterdir()) == []


def test_columns_csv_cannot_hold_are_refused(tmp_path: Path) -> None:
    """Lists are refused everywhere, names given twice too."""
    with pytest.raises(TableError, match="cannot handle"):
        write(pa.table({"a": [[1]]}), tmp_path / "t.csv")
    with pytest.raises(TableError, match="cannot be written as CSV"):
        write(
            pa.table({"a": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}), tmp_path / "t.csv"
        )
    with pytest.raises(TableError, match="used 2 times"):
        write(pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "a"]), tmp_path / "t.csv")
