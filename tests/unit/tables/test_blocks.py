"""Tables block by block, and how large a table is taken to be before a row of it is read."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import sherd
from sherd.engines import choose
from sherd.engines.selection import TABLES_IN_MEMORY
from sherd.tables.read import Extent, extent, read_blocks
from sherd.tables.write import write

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = sherd.Schema.from_data({"attributes": {n: {"type": "integer"} for n in "ab"}})


def numbers(rows: int) -> pa.Table:
    """Two columns of single digits: the shortest cells there are in a text."""
    rng = np.random.default_rng(3)
    return pa.table({n: rng.integers(0, 10, rows) for n in "ab"})


def need(found: Extent) -> int:
    """The bytes a table is taken to need."""
    assert found.rows is not None
    return found.rows * sum(found.column_bytes)


def written(folder: Path, name: str, table: pa.Table) -> Path:
    """The table in a file of the kind that the name says."""
    path = folder / name
    if name.endswith(".parquet"):
        pq.write_table(table, path)
    elif name.endswith(".feather"):
        feather.write_feather(table, path, compression="lz4")
    elif name.endswith(".arrows"):
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
    else:
        plain = folder / "plain.csv"
        write(table, plain)
        data = plain.read_bytes()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.feather", "t.arrows"])
def test_a_table_is_never_taken_to_be_smaller_than_it_is(tmp_path: Path, name: str) -> None:
    """Short cells, compression and dictionaries do not hide how much memory a table needs."""
    table = numbers(50_000)
    found = extent(written(tmp_path, name, table), columns=2)
    assert need(found) >= 0.99 * table.nbytes
    assert need(found) <= 9 * table.nbytes, "an estimate that says nothing"


def test_a_small_parquet_file_may_hold_a_large_table(tmp_path: Path) -> None:
    """A column that is one value throughout takes kilobytes on disk and megabytes in memory."""
    table = pa.table({"a": np.zeros(2_000_000, np.int64)})
    path = written(tmp_path, "t.parquet", table)
    assert path.stat().st_size < 100_000
    assert extent(path) == Extent(rows=2_000_000, column_bytes=(8,))


def test_compressed_text_is_not_judged_by_its_compressed_length(tmp_path: Path) -> None:
    """A .csv.gz that does not fit when unpacked is not sent to the engine `memory`."""
    table = pa.table({n: np.zeros(300_000, np.int64) for n in "ab"})
    path = written(tmp_path, "t.csv.gz", table)
    assert path.stat().st_size < 5_000
    room = int(TABLES_IN_MEMORY * table.nbytes) - 1
    found = extent(path, columns=2)
    chosen = choose("auto", memory=room, rows=found.rows, column_bytes=found.column_bytes)
    assert chosen.name != "memory"


def test_gzip_of_several_members_is_estimated_by_its_length(tmp_path: Path) -> None:
    """The last member's length says nothing of the whole."""
    path = tmp_path / "t.csv.gz"
    rng = np.random.default_rng(0)
    members = [bytes(rng.integers(48, 58, 20_000, np.uint8)) for _ in range(4)]
    path.write_bytes(b"".join(map(gzip.compress, members)) + gzip.compress(b""))
    assert extent(path).rows == path.stat().st_size * 8 // 2


def test_nothing_is_known_of_what_is_no_file(tmp_path: Path) -> None:
    """Addresses, tables that come with Sherd, folders and missing files are not looked into."""
    for source in ("sqlite:///people.db?table=t", ":adult", tmp_path, tmp_path / "none.csv"):
        assert extent(source) == Extent(rows=None)
    assert choose("auto", memory=1, rows=None).name == "memory"


def test_a_damaged_file_is_left_to_the_reader(tmp_path: Path) -> None:
    """Estimating never fails: whoever reads the file says what is wrong with it."""
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1 and nothing of the kind")
    assert extent(path).rows is not None


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.feather", "t.arrows"])
@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_blocks_together_are_the_table(tmp_path: Path, name: str, rows: int) -> None:
    """Whatever the format, the blocks hold every row once and in order."""
    table = numbers(rows)
    path = written(tmp_path, name, table)
    blocks = list(read_blocks(path, SCHEMA, rows=300))
    assert pa.concat_tables(blocks).equals(sherd.read(path, schema=SCHEMA))
    if rows == 1000 and name in ("t.parquet", "t.feather"):
        assert max(block.num_rows for block in blocks) <= 300
