"""Columns of a Parquet file are read in memory that their number does not change."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sherd
from sherd.verifying import parquet_columns
from sherd.verifying.parquet_columns import BoundedParquet, TextsTooLongError, joined, opened

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = st.one_of(
    st.lists(st.none() | st.integers(-5, 5)).map(lambda cells: pa.array(cells, pa.int64())),
    st.lists(st.none() | st.floats()).map(lambda cells: pa.array(cells, pa.float64())),
    st.lists(st.none() | st.text(max_size=9)).map(lambda cells: pa.array(cells, pa.string())),
    st.lists(st.none() | st.booleans()).map(lambda cells: pa.array(cells, pa.bool_())),
    st.lists(st.none() | st.dates()).map(lambda cells: pa.array(cells, pa.date32())),
    st.lists(st.none() | st.datetimes()).map(lambda cells: pa.array(cells, pa.timestamp("us"))),
)


@given(column=COLUMNS, room=st.sampled_from([0, 1 << 20]), step=st.integers(1, 9))
def test_a_column_is_put_together_as_it_was_whatever_the_room(
    tmp_path_factory: pytest.TempPathFactory, column: pa.Array, room: int, step: int
) -> None:
    """In memory or mapped from a file, however few rows are read at a time: one array, the same."""
    path = tmp_path_factory.mktemp("column") / "data.parquet"
    table = pa.table({"a": column, "a.b": column})
    pq.write_table(table, path, store_schema=False)
    with pytest.MonkeyPatch.context() as patch, opened(path) as file:
        patch.setattr(parquet_columns, "ROWS_AT_ONCE", step)
        for group in range(file.num_row_groups):
            made = joined(BoundedParquet(path=path), file, "a", group, room)
            made.validate(full=True)
            expected = file.read_row_group(group).column("a").combine_chunks()
            assert made.equals(expected) or made.to_pandas().equals(expected.to_pandas())


def test_fewer_rows_of_more_or_longer_columns_are_read_together(tmp_path: Path) -> None:
    """As many as fit, one at the least; columns that come along are counted too."""
    path = tmp_path / "data.parquet"
    texts = pa.array(["x" * 100_000, "y"]).take(pa.array([0, 1] * 50))
    pq.write_table(pa.table({"n": np.arange(100), "text": texts, "n.more": texts}), path)
    bounded = BoundedParquet(path=path)
    with opened(path) as file:
        most = 1 << 18
        assert bounded.rows_at_once(file, ["text"], 0, most) == (16 << 20) // 100_008
        assert bounded.rows_at_once(file, ["n"], 0, most) == (16 << 20) // 100_016
        assert [part.num_rows for part in bounded.batches(file, ["n"], 0, 64)] == [64, 36]
        assert all(part.column_names == ["n"] for part in bounded.batches(file, ["n"], 0, 64))


def test_texts_that_no_array_holds_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not written again, and nothing says that they differ."""
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"text": ["abc"] * 10}), path)
    monkeypatch.setattr(parquet_columns, "_LONGEST_TEXT", 20)
    with opened(path) as file, pytest.raises(TextsTooLongError):
        joined(BoundedParquet(path=path), file, "text", 0, 0)


VERIFY = """
import resource, sys
from sherd.verifying import verify
assert verify(sys.argv[1]).passed  # everything that is imported takes its room before
status = open("/proc/self/status", encoding="ascii").read()
held = int(status.split("VmData:")[1].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (held + (160 << 20),) * 2)
made = verify(sys.argv[2])
print(made.failed)
sys.exit(not made.passed)
"""


@pytest.mark.parametrize("texts", [False, True])
def test_a_row_group_is_verified_in_less_memory_than_it_takes(tmp_path: Path, texts: bool) -> None:
    """Forty columns of numbers, or a few of long texts, under a limit that the system enforces."""
    rows = 1 << 19 if texts else 1 << 20
    attributes: dict[str, object] = {
        f"n{i}": {"type": "integer", "domain": [0, 9]} for i in range(40)
    }
    numbers = pa.array(np.arange(rows) % 10)
    columns: dict[str, pa.Array] = dict.fromkeys(attributes, numbers)
    if texts:
        label = {"type": "category", "role": "insensitive"}
        attributes = {"n0": attributes["n0"], "t0": label, "t1": label}
        words = pa.array([f"{i:06d}" + "x" * 250 for i in range(rows)])
        columns = {"n0": numbers, "t0": words, "t1": words}
    schema = sherd.Schema.from_data({"attributes": attributes})
    plan = sherd.Plan(method="dp-um", epsilon=1e6, k=2)
    table = pa.table(columns)
    small = sherd.protect(table.slice(0, 100), schema, plan, ledger=None)
    large = sherd.protect(table, schema, plan, ledger=None)
    assert large.tables["data"].nbytes > 1.5 * (160 << 20)
    folders = small.save(tmp_path / "small"), large.save(tmp_path / "large")
    done = subprocess.run(
        [sys.executable, "-c", VERIFY, *map(str, folders)],
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


REPEATED = """
import resource, sys
from pathlib import Path
from sherd.verifying import parquet_columns as columns
path = Path(sys.argv[1])
with columns.opened(path) as file:
    status = open("/proc/self/status", encoding="ascii").read()
    held = int(status.split("VmData:")[1].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (held + (160 << 20),) * 2)
    columns._LONGEST_TEXT = 600 << 20
    try:
        columns.joined(columns.BoundedParquet(path=path), file, "text", 0, 0)
    except columns.TextsTooLongError:
        sys.exit(0)
sys.exit(1)
"""


def test_a_text_that_many_rows_repeat_does_not_fill_the_memory(tmp_path: Path) -> None:
    """Seven kilobytes on the disk, a terabyte as texts."""
    path = tmp_path / "data.parquet"
    codes = pa.array(np.zeros(1 << 20, np.int32))
    texts = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 900_000]))
    pq.write_table(pa.table({"text": texts}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 10_000
    done = subprocess.run(
        [sys.executable, "-c", REPEATED, str(path)],
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
