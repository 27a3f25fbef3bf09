"""What a Parquet file takes to read is told before any of it is unpacked."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sherd
from sherd.verifying import parquet_pages, verify
from sherd.verifying.parquet_pages import coded_rows, row_bytes, too_large

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 30_000


def _written(path: Path, table: pa.Table, **options: Any) -> Any:
    pq.write_table(table, path, compression="zstd", **options)
    return pq.ParquetFile(path).metadata


def _mixed() -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "number": rng.normal(size=ROWS),
            "label": rng.choice(["a", "bcd"], ROWS),
            "text": [f"{i:07d}" for i in range(ROWS)],
            "gone": pa.array([None] * ROWS, pa.int64()),
        }
    )


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_of_either_version_add_up_to_their_columns(tmp_path: Path, version: str) -> None:
    """Every header is read to its end: the pages fill their column and hold all its values."""
    path = tmp_path / "data.parquet"
    told = _written(path, _mixed(), data_page_version=version, data_page_size=1000)
    raw: Any = path.read_bytes()
    for place in range(told.num_columns):
        chunk = told.row_group(0).column(place)
        pages = list(parquet_pages.pages(raw, chunk))
        assert sum(page.values for page in pages if not page.is_dictionary) == ROWS
        assert len(pages) > 1
    assert too_large(path) == ""
    assert coded_rows(path, told, 0, 1) == ROWS
    assert row_bytes(path, told, 0, 1) == 3


def test_texts_behind_a_full_dictionary_are_not_counted_as_coded(tmp_path: Path) -> None:
    """The writer gives a dictionary up once it is large."""
    path = tmp_path / "data.parquet"
    told = _written(path, _mixed(), dictionary_pagesize_limit=50_000)
    assert 0 < coded_rows(path, told, 0, 2) < ROWS
    plain = _written(path, _mixed(), use_dictionary=False)
    assert coded_rows(path, plain, 0, 2) == 0


def test_a_long_label_that_many_rows_repeat_is_seen(tmp_path: Path) -> None:
    """One text in the dictionary, a byte or less for each of its rows."""
    path = tmp_path / "data.parquet"
    table = pa.table({"label": pa.array(["x" * 900_000, "y"]).take(pa.array([0, 1] * 500))})
    told = _written(path, table)
    assert path.stat().st_size < 10_000
    assert row_bytes(path, told, 0, 0) == 900_000


def test_a_page_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    """Ten kilobytes of zeros that would fill the verifier's memory."""
    path = tmp_path / "data.parquet"
    table = pa.table({"label": ["x" * 1_000_000] * 100})
    _written(path, table, use_dictionary=False, data_page_size=1 << 30)
    assert path.stat().st_size < 50_000
    assert "unpacks to more than 64 MB" in too_large(path)


def test_a_row_group_of_too_many_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little room they take on the disk."""
    path = tmp_path / "data.parquet"
    _written(path, pa.table({"age": np.zeros(3_000_000)}), row_group_size=3_000_000)
    assert path.stat().st_size < 100_000
    assert "more than 1,048,576 rows" in too_large(path)
    monkeypatch.setattr(parquet_pages, "MOST_FOOTER", 100)
    assert "what it says of itself" in too_large(path)


def test_a_header_that_says_something_else_is_refused(tmp_path: Path) -> None:
    """A page behind the end of its column, numbers without an end, structures in structures."""
    path = tmp_path / "data.parquet"
    told = _written(path, _mixed())
    chunk = told.row_group(0).column(1)
    start = min(chunk.dictionary_page_offset, chunk.data_page_offset)
    whole = path.read_bytes()
    for bad in (
        b"\xff" * 40,
        b"\x1c" * 40,
        b"\x19" * 40,
        b"\x15\x00\x15\x02\x15\xfe\xff\xff\x0f\x00",
    ):
        path.write_bytes(whole[:start] + bad + whole[start + len(bad) :])
        assert too_large(path) == "the headers of its pages cannot be read", bad


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"PAR1 nothing PAR1", b"PAR1\xff\xff\xff\x7fPAR1"]
)
def test_what_is_no_parquet_is_left_to_its_reader(tmp_path: Path, content: bytes) -> None:
    """It takes no memory, and the reader says what it is not."""
    path = tmp_path / "data.parquet"
    path.write_bytes(content)
    assert too_large(path) == ""


def test_contents_of_a_file_that_is_too_large_are_not_read(tmp_path: Path) -> None:
    """Its hash fits; the check of the file fails, and nothing behind it is tried."""
    schema = sherd.Schema.from_data({"attributes": {"age": {"type": "integer", "domain": [0, 9]}}})
    plan = sherd.Plan(method="dp-um", epsilon=1.0, k=2)
    table = pa.table({"age": [1, 2, 3, 4]})
    folder = sherd.protect(table, schema, plan, ledger=None).save(tmp_path / "out")
    path = folder / "data.parquet"
    _written(path, pa.table({"age": np.zeros(2_000_000, np.int64)}), row_group_size=2_000_000)
    manifest = json.loads((folder / "manifest.json").read_text())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest["files"]["data.parquet"] |= {"sha256": digest, "bytes": path.stat().st_size}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    made = {check.name: check for check in verify(folder).checks}
    assert made["file data.parquet"].passed is False
    assert "rows" in made["file data.parquet"].detail
    assert made["contents"].passed is None
