"""What a stranger's Parquet file unfolds to is known before it is read."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sherd.errors import VerificationError
from sherd.federation.owner.foreign_parquet import unfolded
from sherd.federation.owner.release_taking import _read_bounded

if TYPE_CHECKING:
    from pathlib import Path

TABLE = pa.table(
    {
        "a": [1, 2, 3] * 1000,
        "b": [0.5, None, 2.5] * 1000,
        "c": ["x", "y", None] * 1000,
        "d": [True, False, None] * 1000,
    }
)


def written(table: pa.Table, **options: Any) -> bytes:
    """A table as Parquet, its groups of rows 1,000 long."""
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=1000, **options)
    return sink.getvalue()


def measured(raw: bytes, columns: list[str]) -> int:
    """What columns of a file unfold to."""
    return unfolded(pq.ParquetFile(io.BytesIO(raw)), memoryview(raw), columns)


@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_what_honest_files_say(compression: str, listed: bool, version: str) -> None:
    """The pages of a column unfold to what the footer says less their heads."""
    raw = written(TABLE, compression=compression, use_dictionary=listed, data_page_version=version)
    groups = pq.ParquetFile(io.BytesIO(raw)).metadata
    for number, name in enumerate(TABLE.column_names):
        columns = [groups.row_group(at).column(number) for at in range(groups.num_row_groups)]
        said = sum(column.total_uncompressed_size for column in columns)
        assert said - 200 * len(columns) < measured(raw, [name]) < said


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY"])
def test_a_small_file_of_long_texts(tmp_path: Path, encoding: str) -> None:
    """Texts that compress well, or are written as changes of the one before, are not read."""
    texts = ["x" * 100_000 + str(number) for number in range(300)]
    raw = written(
        pa.table({"a": texts}),
        compression="zstd",
        use_dictionary=False,
        column_encoding={"a": encoding},
    )
    assert len(raw) < 1 << 16
    path = tmp_path / "data.parquet"
    path.write_bytes(raw)
    own = pa.schema([("a", pa.string())])
    before = pa.total_allocated_bytes()
    with pytest.raises(VerificationError):
        _read_bounded(path, own, 1000, 1 << 20)
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_damaged_heads_are_refused() -> None:
    """Whatever a byte of a file is changed to, its size is told or refused."""
    raw = written(TABLE)
    file = pq.ParquetFile(io.BytesIO(raw))
    column = file.metadata.row_group(0).column(0)
    for place in range(column.dictionary_page_offset, column.dictionary_page_offset + 40):
        for value in (0, 0x7F, 0x80, 0xFF, 0x9C):
            changed = bytearray(raw)
            changed[place] = value
            try:
                assert unfolded(file, memoryview(changed), ["a"]) >= 0
            except ValueError:
                continue
