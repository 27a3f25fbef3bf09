"""Reading files: what is accepted, and that what is wrong is said without quoting a cell."""

from __future__ import annotations

import codecs
import gzip
import io
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sherd.errors import FormatError, SherdError, StorageError, TableError, UsageError
from sherd.tables.prepare import prepare
from sherd.tables.read import read, reading_errors
from sherd.tables.schema import Schema
from sherd.tables.textfile import Checked
from sherd.tables.write import write

SECRET = "Zaphod"


def schema(**types: Any) -> Schema:
    """A schema of attributes given as name=type or name={settings}."""
    return Schema.from_data(
        {"attributes": {n: t if isinstance(t, dict) else {"type": t} for n, t in types.items()}}
    )


def put(folder: Path, data: bytes | str, name: str = "t.csv") -> Path:
    """A file with these contents."""
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def refused(path: Path, kind: type[SherdError], match: str, given: Schema | None = None) -> str:
    """The message a file is refused with; it holds no cell."""
    with pytest.raises(kind, match=match) as caught:
        read(path, schema=given)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_schema_gives_every_column_its_type(tmp_path: Path) -> None:
    """Each type of the schema has one Arrow type, and an empty cell is missing in all."""
    path = put(
        tmp_path,
        "i,n,d,t,b,c,o,x,id\n1,0.1,2020-01-31,2020-01-31 12:00:00,true,a,low,text,007\n,,,,,,,,\n",
    )
    table = read(
        path,
        schema=schema(
            i="integer", n="number", d="date", t="datetime", b="boolean", c="category",
            o="ordinal", x="text", id={"role": "identifier", "type": "integer"},
        ),
    )  # fmt: skip
    labels = pa.dictionary(pa.int32(), pa.string())
    assert table.schema.types == [
        pa.int64(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.bool_(), labels, labels,
        pa.string(), pa.string(),
    ]  # fmt: skip
    first, second = table.to_pylist()
    assert first == {
        "i": 1, "n": 0.1, "d": date(2020, 1, 31), "t": datetime(2020, 1, 31, 12),  # noqa: DTZ001
        "b": True, "c": "a", "o": "low", "x": "text", "id": "007",
    }  # fmt: skip
    assert set(second.values()) == {None}


def test_missing_marks_are_missing_in_every_column_quoted_or_not(tmp_path: Path) -> None:
    """The schema's marks are missing cells; text such as NA that is no mark stays text."""
    path = put(tmp_path, 'i,c\n?,"?"\n"?",NA\n"",x\n')
    given = Schema.from_data(
        {
            "missing_values": ["?"],
            "attributes": {"i": {"type": "integer"}, "c": {"type": "category"}},
        }
    )
    assert read(path, schema=given).to_pydict() == {"i": [None] * 3, "c": [None, "NA", "x"]}


@pytest.mark.parametrize(
    ("cells", "kind", "first"),
    [
        (["2020-07-01T12:00:00Z"], pa.timestamp("us", "UTC"), "2020-07-01T12:00"),
        (["2020-07-01 12:00:00+02:00"], pa.timestamp("us", "+02:00"), "2020-07-01T10:00"),
        (["2020-07-01 12:00:00+0200"], pa.timestamp("us", "+02:00"), "2020-07-01T10:00"),
        (["2020-07-01 12:00:00-03"], pa.timestamp("us", "-03:00"), "2020-07-01T15:00"),
        (
            ["2020-07-01 12:00:00+02:00", "2020-01-01 12:00:00+01:00"],
            pa.timestamp("us", "UTC"),
            "2020-07-01T10:00",
        ),
        (["2020-07-01 12:00:00.1234567Z"], pa.timestamp("ns", "UTC"), "2020-07-01T12:00"),
    ],
)
def test_times_keep_their_zone(
    tmp_path: Path, cells: list[str], kind: pa.DataType, first: str
) -> None:
    """A zone all times share is kept, several become UTC, and the instant never changes."""
    path = put(tmp_path, "t\n" + "\n".join(cells) + "\n")
    column = read(path, schema=schema(t="datetime"))["t"]
    assert column.type == kind
    instant = column.cast(pa.timestamp("s", "UTC"), safe=False)[0].as_py()
    assert instant == datetime.fromisoformat(first).replace(tzinfo=UTC)


@pytest.mark.parametrize(("sign", "name"), [(";", "t.csv"), ("\t", "t.csv"), ("\t", "t.tsv")])
def test_the_delimiter_is_found_in_the_header(tmp_path: Path, sign: str, name: str) -> None:
    """Semicolons and tabs are noticed where a comma would give one column."""
    path = put(tmp_path, f"a{sign}b\n1{sign}x,y\n", name)
    assert read(path).to_pydict() == {"a": [1], "b": ["x,y"]}


def test_a_tsv_keeps_its_commas(tmp_path: Path) -> None:
    """In a .tsv file commas are text, even in the header."""
    assert read(put(tmp_path, "a,b\tc\n1\t2\n", "t.tsv")).column_names == ["a,b", "c"]


@pytest.mark.parametrize("given", [None, schema(a="integer", b="text")])
def test_quoted_line_ends_a_byte_order_mark_and_crlf_are_accepted(
    tmp_path: Path, given: Schema | None
) -> None:
    """What spreadsheets write is read: BOM, CRLF, and cells of several lines."""
    path = put(tmp_path, codecs.BOM_UTF8 + b'a,b\r\n1,"two\nlines, ""quoted"""\r\n2,x\r\n')
    assert read(path, schema=given).to_pydict() == {
        "a": [1, 2],
        "b": ['two\nlines, "quoted"', "x"],
    }


def test_quoted_line_ends_may_cross_blocks(tmp_path: Path) -> None:
    """A cell of many lines is one cell wherever the file is cut for reading."""
    cell = "line\n" * 1000
    path = put(tmp_path, "a,b\n" + f'1,"{cell}"\n' * 1000)
    table = read(path, schema=schema(a="integer", b="text"))
    assert table.num_rows == 1000
    assert table["b"][999].as_py() == cell


def test_labels_have_one_dictionary_over_all_blocks(tmp_path: Path) -> None:
    """A label has one code in the whole table, however many blocks it was read in."""
    path = put(tmp_path, "a,b\n" + "".join(f"label {i // 1000},{i}\n" for i in range(200_000)))
    column = read(path, schema=schema(a="category", b="integer"))["a"]
    assert column.num_chunks > 1
    assert all(chunk.dictionary.equals(column.chunk(0).dictionary) for chunk in column.chunks)
    assert len(column.chunk(0).dictionary) == 200
    assert column[199_999].as_py() == "label 199"


def test_a_lone_column_and_a_lone_header_are_tables(tmp_path: Path) -> None:
    """One column is enough, and no rows are no error."""
    assert read(put(tmp_path, "a\n1\n2\n")).to_pydict() == {"a": [1, 2]}
    table = read(put(tmp_path, "a,b\n"), schema=schema(a="integer", b="category"))
    assert table.num_rows == 0
    assert table.schema.field("a").type == pa.int64()


def test_a_last_line_without_its_end_is_read(tmp_path: Path) -> None:
    """The last line need not end; neither need a lone header."""
    assert read(put(tmp_path, "a,b\n1,2")).num_rows == 1
    assert read(put(tmp_path, "a,b"), schema=schema(a="integer", b="integer")).num_rows == 0
    assert read(put(tmp_path, "a,b")).column_names == ["a", "b"]


@pytest.mark.parametrize("kind", ["gzip", "zstd", "bz2", "lz4"])
def test_compressed_files_are_read_and_cut_ones_refused(tmp_path: Path, kind: str) -> None:
    """Every compression is read whole, and a file cut anywhere is refused."""
    suffix = {"gzip": "gz", "zstd": "zst"}.get(kind, kind)
    path = tmp_path / f"t.csv.{suffix}"
    text = "a,b\n" + "".join(f"{i},{SECRET}{i * 7919 % 1000}\n" for i in range(300_000))
    with pa.CompressedOutputStream(str(path), kind) as sink:
        sink.write(text.encode())
    given = schema(a="integer", b="category")
    assert read(path, schema=given).num_rows == 300_000
    whole = path.read_bytes()
    for cut in (len(whole) - 2, len(whole) // 2, 9):
        path.write_bytes(whole[:cut])
        refused(path, FormatError, "damaged or cut short", given)
        refused(path, FormatError, "damaged or cut short")


def test_a_file_that_is_not_compressed_is_not_called_so(tmp_path: Path) -> None:
    """Plain text under a compressed name is refused."""
    refused(put(tmp_path, f"a,b\n{SECRET},1\n", "t.csv.gz"), FormatError, "damaged")


@pytest.mark.parametrize("text", ["", "\n", "\r\n \n"])
def test_an_empty_file_is_refused(tmp_path: Path, text: str) -> None:
    """A file without a header says so."""
    refused(put(tmp_path, text), FormatError, "is empty")
    refused(put(tmp_path, gzip.compress(text.encode()), "t.csv.gz"), FormatError, "is empty")


@pytest.mark.parametrize("given", [None, schema(a="integer", b="category")])
def test_a_name_used_twice_is_named(tmp_path: Path, given: Schema | None) -> None:
    """Two columns of one name are refused by that name."""
    message = refused(put(tmp_path, "a,b,a\n1,2,3\n"), TableError, "name 'a' is used 2", given)
    assert "columns 1, 3" in message


def test_without_a_header_no_cell_is_taken_for_a_name(tmp_path: Path) -> None:
    """A first row of data is never quoted, in whichever way it offends."""
    path = put(tmp_path, f"39,{SECRET},{SECRET}\n40,{SECRET},x\n")
    refused(path, TableError, "used 2 times")
    refused(path, TableError, "used 2 times", schema(a="integer", b="text", c="text"))
    path = put(tmp_path, f"39,{SECRET},x\n")
    refused(path, TableError, "header row", schema(a="integer", b="text", c="text"))
    refused(put(tmp_path, "1,2\n3,4\n"), TableError, "has no header row")


def test_a_column_without_a_name_is_refused(tmp_path: Path) -> None:
    """The unnamed index column that some tools write is refused by its place."""
    refused(put(tmp_path, ",a\n0,1\n"), TableError, "column 1 has no name")


def test_columns_must_be_those_of_the_schema(tmp_path: Path) -> None:
    """A lacking column is answered with the nearest one, an extra one with what to do."""
    path = put(tmp_path, "age,incme\n1,2\n")
    assert "did you mean 'incme'" in refused(
        path, TableError, "lacks the column.* 'income' of the schema",
        schema(age="integer", income="integer"),
    )  # fmt: skip
    message = refused(path, TableError, "schema lacks .* 'incme'", schema(age="integer"))
    assert "mark them as identifier" in message
    refused(path, TableError, "'x'", schema(age="integer", incme="integer", x="text"))


@pytest.mark.parametrize("rows", [1, 400_000])
@pytest.mark.parametrize("given", [None, schema(a="integer", b="text")])
def test_a_ragged_row_is_named_by_its_number(
    tmp_path: Path, rows: int, given: Schema | None
) -> None:
    """The first row with too many or too few cells is said, wherever it stands."""
    for bad, cells in ((f"1,{SECRET},3\n", 3), ("1\n", 1)):
        path = put(tmp_path, "a,b\n" + "1,x\n" * rows + bad + "1,2\n")
        message = refused(path, FormatError, f"row {rows + 1} of the file has {cells} cell", given)
        assert "must be 2" in message


@pytest.mark.parametrize(
    ("kind", "good", "words"),
    [
        ("integer", "1", "whole numbers"),
        ("number", "1.5", "numbers"),
        ("date", "2020-01-31", "dates"),
        ("datetime", "2020-01-31 12:00:00", "times"),
        ("boolean", "true", "true or false"),
    ],
)
@pytest.mark.parametrize("rows", [0, 70_000])
def test_a_cell_of_the_wrong_type_is_named_by_column_and_row(
    tmp_path: Path, kind: str, good: str, words: str, rows: int
) -> None:
    """Column and row are said, the cell is not; a missing cell before it does not count."""
    text = "x,y\n" + f"1,{good}\n" * rows + "1,\n" + f"1,{SECRET}\n" + f"1,{good}\n"
    path = put(tmp_path, text)
    message = refused(path, TableError, "cannot be read", schema(x="integer", y=kind))
    assert f"column 'y' has a cell that cannot be read in row {rows + 2}" in message
    assert words in message


@pytest.mark.parametrize("text", ["1.5", "15e-1", "9007199254740993.5", "-.25"])
def test_a_fraction_is_no_whole_number(tmp_path: Path, text: str) -> None:
    """What somebody wrote as text is not rounded, in whatever way it is written."""
    path = put(tmp_path, f"a\n{text}\n")
    refused(path, TableError, "row 1", schema(a="integer"))
    parquet = tmp_path / "a.parquet"
    write(pa.table({"a": [text]}), parquet)
    refused(parquet, TableError, "row 1", schema(a="integer"))
    with pytest.raises(TableError, match="cannot be read as integer") as caught:
        prepare(pa.table({"a": [text]}), schema(a="integer"))
    assert text not in str(caught.value)
    strictly = Schema.from_data({"attributes": {"a": {"type": "integer", "domain": [0, 10]}}})
    made = prepare(pa.table({"a": [text]}), strictly, strict=True)
    assert made.table["a"].to_pylist() == [5]


@pytest.mark.parametrize("cells", [[1.5, 2.0], [Decimal("1.50"), Decimal("2.00")]])
def test_numbers_of_a_source_are_rounded_to_whole_ones(tmp_path: Path, cells: list[Any]) -> None:
    """Their type says that they may have fractions; the reference says what becomes of them."""
    parquet = tmp_path / "a.parquet"
    write(pa.table({"a": cells}), parquet)
    assert read(parquet, schema=schema(a="integer"))["a"].to_pylist() == [2, 2]


@pytest.mark.parametrize("text", ["2.0", "2e0", "+2.", "2"])
def test_a_whole_number_may_be_written_as_a_decimal_one(tmp_path: Path, text: str) -> None:
    """As spreadsheets write them."""
    path = put(tmp_path, f"a\n{text}\n")
    assert read(path, schema=schema(a="integer"))["a"].to_pylist() == [2]


@pytest.mark.parametrize("given", [None, schema(a="integer", b="category")])
@pytest.mark.parametrize("rows", [1, 300_000])
def test_other_encodings_are_refused_at_their_first_byte(
    tmp_path: Path, given: Schema | None, rows: int
) -> None:
    """The offset of the first byte that is not UTF-8 is said."""
    good = b"a,b\n" + b"1,x\n" * rows
    path = put(tmp_path, good + b"1,Z\xfcrich\n")
    message = refused(path, FormatError, "not UTF-8", given)
    assert f"byte {len(good) + 3};" in message
    assert "iconv" in message


@pytest.mark.parametrize("given", [None, schema(a="integer", b="category")])
def test_a_header_in_another_encoding_is_refused(tmp_path: Path, given: Schema | None) -> None:
    """As cells are, in words; Arrow stumbles over a column's name by itself."""
    for header in (b"a\x80,b\n1,x\n", b"a,b\x80"):
        refused(put(tmp_path, header), FormatError, "not UTF-8", given)


def test_a_character_cut_at_the_end_of_the_file_is_not_utf8(tmp_path: Path) -> None:
    """Half a character is as wrong as a wrong one."""
    path = put(tmp_path, b"a,b\n1,x\n" + "1,ü".encode()[:-1])
    refused(path, FormatError, "not UTF-8", schema(a="integer", b="category"))


def test_a_character_across_the_first_block_is_read(tmp_path: Path) -> None:
    """Looking at the beginning of a file does not trip over a character cut in two."""
    text = "a,b\n" + "1,üüü\n" * 300_000
    for shift in range(3):
        path = put(tmp_path, text.replace("a,", "a" * (shift + 1) + ",", 1))
        assert read(path).num_rows == 300_000


@pytest.mark.parametrize("given", [None, schema(a="integer", b="category")])
def test_nul_bytes_are_refused(tmp_path: Path, given: Schema | None) -> None:
    """A NUL byte is said with its place, in the header as in the rows, near and far."""
    refused(put(tmp_path, b"a,b\n1,x\x00\n"), FormatError, "NUL byte", given)
    refused(put(tmp_path, b"a,b\n" + b"1,x\n" * 400_000 + b"1,\x00\n"), FormatError, "NUL", given)
    utf16 = put(tmp_path, "a,b\n1,x\n".encode("utf-16"))
    assert "UTF-16" in refused(utf16, FormatError, "NUL byte", given)


def test_a_quote_that_never_closes_is_refused(tmp_path: Path) -> None:
    """An open quote swallows the rest of the file; the table is not cut short in silence."""
    for rest in ("", "\n", '""\n'):
        path = put(tmp_path, f'a,b\n1,x\n2,"{SECRET}\n3,y{rest}')
        refused(path, FormatError, "inside a quoted cell", schema(a="integer", b="text"))
        refused(path, FormatError, "inside a quoted cell")


def test_a_quoted_cell_may_end_with_a_line_end(tmp_path: Path) -> None:
    """A closed cell that ends with line ends is told from one that was never closed."""
    for rest in ("", "\n", "\n\n"):
        path = put(tmp_path, f'a,b\n1,"x\n"{rest}')
        assert read(path).to_pydict() == {"a": [1], "b": ["x\n"]}


def test_an_endless_cell_is_refused(tmp_path: Path) -> None:
    """A row longer than a block can hold is refused and not quoted, header or not."""
    long = SECRET * 500_000
    given = schema(a="integer", b="text")
    refused(put(tmp_path, f'a,b\n1,"{long}"\n2,x\n'), FormatError, "read as CSV", given)
    refused(put(tmp_path, long), FormatError, "no header row")


def test_files_that_are_not_there_or_no_files_are_refused(tmp_path: Path) -> None:
    """A missing file, a folder and an unknown suffix each say what they are."""
    for name in ("none.csv", "none.parquet", "none.feather"):
        refused(tmp_path / name, UsageError, "does not exist")
    (tmp_path / "folder.csv").mkdir()
    refused(tmp_path / "folder.csv", UsageError, "is a folder")
    for name in ("t.xlsx", "t", "t.parquet.gz", ".gz"):
        refused(put(tmp_path, "x", name), UsageError, "format is unknown")


def test_a_query_needs_a_database(tmp_path: Path) -> None:
    """A query on a file is a mistake, not ignored."""
    with pytest.raises(UsageError, match="needs a database"):
        read(put(tmp_path, "a\n1\n"), query="SELECT 1")


def test_a_source_that_looks_like_an_address_without_its_kind_is_not_shown() -> None:
    """A password in what was taken for a path is not repeated."""
    with pytest.raises(UsageError) as caught:
        read("ann:hunter2@db.example/x")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_file_that_cannot_be_opened_is_a_storage_error(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails is told apart from a file that is wrong."""
    path = put(tmp_path, "a\n1\n", name)

    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", fail)
    refused(path, StorageError, "Permission denied")


@pytest.mark.parametrize("suffix", ["parquet", "pq", "feather", "arrow", "ipc"])
def test_typed_files_keep_their_types_and_cut_ones_are_refused(tmp_path: Path, suffix: str) -> None:
    """Parquet and Arrow files bring their types; a cut file is refused."""
    table = pa.table({"a": pa.array(range(10_000), pa.int16()), "b": ["x"] * 10_000})
    path = tmp_path / f"t.{suffix}"
    if suffix in ("parquet", "pq"):
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    assert read(path, schema=schema(a="integer", b="category")).schema.field("a").type == pa.int16()
    assert read(path).equals(table)
    whole = path.read_bytes()
    for cut in (len(whole) - 5, len(whole) // 2, 3):
        path.write_bytes(whole[:cut])
        refused(path, FormatError, "damaged or is not")


def test_an_arrow_stream_is_read_too(tmp_path: Path) -> None:
    """The .arrow suffix is used for streams as well as for files."""
    table = pa.table({"a": [1, 2]})
    path = tmp_path / "t.arrow"
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table)
    assert read(path).equals(table)


def test_typed_files_with_a_name_twice_are_refused(tmp_path: Path) -> None:
    """The rule about names holds for every format."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    refused(path, TableError, "'a' is used 2 times")
    refused(path, TableError, "'a' is used 2 times", schema(a="integer"))


def test_progress_is_told_and_ends_at_the_whole(tmp_path: Path) -> None:
    """What is done never shrinks and never passes the file's size."""
    path = put(tmp_path, "a,b\n" + "1,x\n" * 1_000_000)
    told: list[tuple[str, int, int]] = []
    read(path, schema=schema(a="integer", b="category"), progress=lambda *t: told.append(t))
    done = [entry[1] for entry in told]
    assert len(done) > 1
    assert done == sorted(done)
    assert told[-1] == ("reading", path.stat().st_size, path.stat().st_size)


def test_a_stream_that_comes_in_drops_is_read_whole() -> None:
    """A short read in the middle is not taken for the end, where a line end is added."""

    class Drops(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 1, 1))

    stream = Checked(Drops(b"a,b\n1,2"), "drops")
    assert [stream.read(4), stream.read(3), stream.read(3), stream.read(3)] == [
        b"a,b\n", b"1,2", b"\n", b"",
    ]  # fmt: skip


def test_codes_keep_their_zeros_wherever_they_stand(tmp_path: Path) -> None:
    """One of many thousand is enough, and the columns beside it stay numbers."""
    path = tmp_path / "codes.csv"
    rows = [f"{i},{10_000 + i}" for i in range(60_000)]
    path.write_text("\n".join(["age,zip", *rows, "7,00815"]) + "\n")
    table = read(path)
    assert [str(kind) for kind in table.schema.types] == ["int64", "string"]
    assert table["zip"][-1].as_py() == "00815"
    assert Schema.infer(table)["zip"].type.value != "integer"


def test_a_late_cell_in_another_form_is_read_like_an_early_one(tmp_path: Path) -> None:
    """Decimal commas and words for "no value" behind a million bytes of plain numbers."""
    given = Schema.from_data(
        {
            "attributes": {
                "n": {"type": "integer", "domain": [0, 9]},
                "x": {"type": "number", "domain": [0, 9]},
                "t": {"type": "datetime", "domain": ["2000-01-01", "2030-01-01"]},
            }
        }
    )
    path = tmp_path / "late.csv"
    rows = ["3,1.5,2020-01-01T00:00:00Z"] * 60_000
    late = ['NaN,"2,5",NaT', "4,inf,2020-01-02T00:00:00Z"]
    path.write_text("\n".join(["n,x,t", *rows, *late]) + "\n")
    table = read(path, schema=given)
    assert table.num_rows == 60_002
    assert table.slice(60_000)["n"].to_pylist() == [None, 4]
    assert table.slice(60_000)["x"].to_pylist()[0] == 2.5
    assert table.slice(60_000)["t"].to_pylist()[0] is None
    path.write_text("\n".join(["n,x,t", *rows, *late, "old,1,2020-01-01T00:00:00Z"]) + "\n")
    assert "in row 60003" in refused(path, TableError, "'n' has a cell that cannot be read", given)


@pytest.mark.parametrize("error", [MemoryError, pa.ArrowMemoryError])
def test_a_want_of_memory_is_not_called_a_damaged_file(error: type[Exception]) -> None:
    """Arrow's own is one of its exceptions too; the command line says what to do."""
    with pytest.raises(MemoryError), reading_errors("table.parquet", "Parquet"):
        raise error("no room")


@pytest.mark.parametrize(
    ("row", "advice"), [("1,2,3", "into double quotes"), ("1", "also where it is empty")]
)
def test_a_row_of_another_length_says_what_to_do(tmp_path: Path, row: str, advice: str) -> None:
    """Too many cells are a delimiter inside one; too few are not."""
    path = tmp_path / "people.csv"
    path.write_text(f"a,b\n1,2\n{row}\n")
    with pytest.raises(FormatError) as caught:
        read(path)
    assert advice in (caught.value.do or "")


def test_a_spreadsheet_is_to_be_saved_as_text(tmp_path: Path) -> None:
    """What a new user tries first."""
    path = tmp_path / "people.xlsx"
    path.write_bytes(b"PK")
    with pytest.raises(UsageError) as caught:
        read(path)
    assert "as CSV in UTF-8" in (caught.value.do or "")
