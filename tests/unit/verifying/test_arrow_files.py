"""What an Arrow file takes to read is told before any of it is unpacked."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.cli import run
from sherd.tables.write import write
from sherd.verifying import arrow_files, verify
from sherd.verifying.arrow_files import too_large, written_out
from sherd.verifying.arrow_messages import block_messages, footer_of

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 8000
TABLE = pa.table(
    {
        "number": np.arange(ROWS) % 5 / 3,
        "text": [f"{i % 100:07d}" for i in range(ROWS)],
        "flag": pa.array([True, None] * (ROWS // 2)),
        "time": pa.array(range(ROWS), pa.timestamp("us")),
    }
)
LABELS = TABLE.set_column(1, "text", TABLE["text"].dictionary_encode())


def _written(path: Path, table: pa.Table, compression: str | None = "zstd") -> Path:
    make = pa.ipc.new_file if path.name.endswith(".feather") else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with make(str(path), table.schema, options=options) as writer:
        writer.write_table(table)
    return path


@pytest.mark.parametrize("name", ["data.feather", "data.arrows", "data.coded.arrows"])
@pytest.mark.parametrize("rows", [0, 1, ROWS])
def test_what_releases_are_written_as_is_read(tmp_path: Path, name: str, rows: int) -> None:
    """Every form, without rows, with one, with columns that are coded."""
    write(TABLE.slice(0, rows), tmp_path / name)
    assert too_large(tmp_path / name) == ""


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("name", ["data.feather", "data.arrows"])
def test_files_of_earlier_versions_are_read(
    tmp_path: Path, name: str, compression: str | None
) -> None:
    """With dictionaries, and packed in any way: what is wrong about them is said elsewhere."""
    assert too_large(_written(tmp_path / name, LABELS, compression)) == ""


@pytest.mark.parametrize("name", ["data.feather", "data.arrows"])
def test_a_batch_of_too_many_rows_is_refused(tmp_path: Path, name: str) -> None:
    """However little room they take on the disk."""
    path = _written(tmp_path / name, pa.table({"age": np.zeros(3_000_000)}))
    assert path.stat().st_size < 10_000
    assert "more than 1,048,576 rows" in too_large(path)


@pytest.mark.parametrize("name", ["data.feather", "data.arrows"])
def test_long_texts_are_refused_before_they_are_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Forty kilobytes of one letter that would fill the verifier's memory."""
    monkeypatch.setattr(arrow_files, "MOST_BYTES", 256 << 20)
    path = _written(tmp_path / name, pa.table({"text": ["x" * 1_000_000] * 300}))
    assert path.stat().st_size < 50_000
    held = pa.total_allocated_bytes()
    assert "unpacks to more than 256 MB" in too_large(path)
    assert pa.total_allocated_bytes() == held


def test_a_column_that_says_it_is_longer_is_refused(tmp_path: Path) -> None:
    """Arrow would take room for as much as the column's first bytes say."""
    path = _written(tmp_path / "data.feather", TABLE.select(["number"]))
    raw = path.read_bytes()
    batch = list(block_messages(raw, footer_of(raw)))[-1]
    where = batch.start + batch.buffers[-1].tolist()[0]
    path.write_bytes(raw[:where] + struct.pack("<q", 1 << 40) + raw[where + 8 :])
    assert "unpacks to more than 1024 MB" in too_large(path)


@pytest.mark.parametrize("name", ["data.feather", "data.arrows"])
def test_dictionaries_are_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """All of them are held at once."""
    codes = pa.array([0, 1], pa.int8())
    labels = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 40_000, "y" * 40_000]))
    path = _written(tmp_path / name, pa.table({"a": labels, "b": labels}))
    assert too_large(path) == ""
    monkeypatch.setattr(arrow_files, "MOST_LISTED", 100_000)
    assert "dictionaries unpack to more" in too_large(path)
    assert too_large(_written(path, pa.table({"a": labels, "b": labels}), None)) == ""


def test_a_long_label_that_many_cells_name_is_seen(tmp_path: Path) -> None:
    """It is added up, not written out."""
    codes = pa.array(np.zeros(60_000, np.int8))
    labels = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 1_000_000]))
    table = pa.table({"a": labels})
    assert written_out(table) == 60_000 * 1_000_004
    path = _written(tmp_path / "data.feather", table)
    assert path.stat().st_size < 10_000
    assert "labels take more than 1024 MB" in too_large(path)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.string()), pa.struct([("a", pa.string())]), pa.binary(), pa.duration("s")]
)
def test_columns_of_other_types_are_refused(tmp_path: Path, kind: pa.DataType) -> None:
    """Each of their cells can name the same bytes, or has columns of its own."""
    path = _written(tmp_path / "data.feather", pa.table({"a": pa.array([None], kind)}))
    assert too_large(path) == "a column of it is of a type that no release has"


def test_codes_of_no_label_are_refused(tmp_path: Path) -> None:
    """They would be looked up in memory that is not the list's."""
    indices = pa.array([0, 90], pa.int8())
    wild = pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False)
    path = _written(tmp_path / "data.feather", pa.table({"a": wild}), None)
    assert too_large(path) == "its batches cannot be read"


def test_batches_that_are_longer_than_their_bytes_are_refused(tmp_path: Path) -> None:
    """Arrow reads them, and whoever computes with them would read what lies behind them."""
    path = _written(tmp_path / "data.arrows", TABLE.select(["number"]), None)
    raw = path.read_bytes()
    given, lie = struct.pack("<q", ROWS), struct.pack("<q", 100 * ROWS)
    path.write_bytes(raw.replace(given, lie))
    with pa.ipc.open_stream(path.read_bytes()) as stream:
        assert stream.read_next_batch().num_rows == 100 * ROWS
    assert too_large(path) == "its batches cannot be read"


@pytest.mark.parametrize("content", [b"ARROW1", b"ARROW1\0\0 nothing ARROW1", b"\xff" * 40, b"x"])
@pytest.mark.parametrize("name", ["data.feather", "data.arrows"])
def test_what_is_no_arrow_file_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    """But for nothing at all, which its reader refuses."""
    (tmp_path / name).write_bytes(content)
    assert "cannot be read" in too_large(tmp_path / name)
    (tmp_path / name).write_bytes(b"")
    assert too_large(tmp_path / name) == ""


CHANGED = """
import contextlib, resource, sys
from pathlib import Path
import pyarrow as pa
from sherd.verifying import arrow_files
from sherd.verifying.arrow_files import too_large
from sherd.verifying.arrow_messages import block_messages, footer_of, is_file, messages
from sherd.verifying.check import UNREADABLE
from sherd.verifying.stored_table import arrow_batches

arrow_files.MOST_BYTES = 32 << 20  # half of what this process may take

def read(path):
    if too_large(path):
        return False
    try:
        with arrow_batches(path) as (_, batches):
            return all(batch.num_rows >= 0 for batch in batches)
    except MemoryError:
        raise
    except (*UNREADABLE, pa.ArrowException, OSError):
        return False

path = Path(sys.argv[1])
assert read(path)  # everything that is imported takes its room before
raw = path.read_bytes()
named = list(block_messages(raw, footer_of(raw)) if is_file(raw) else messages(raw))
bodies = {place for one in named for place in range(one.start + 16, one.end)}
status = Path("/proc/self/status").read_text(encoding="ascii")
held = int(status.split("VmData:")[1].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (held + (64 << 20),) * 2)
outcomes = []
for place in set(range(len(raw))) - bodies:
    for value in {0, 1, 0x7F, 0x80, 0xFF, raw[place] ^ 1, raw[place] ^ 16} - {raw[place]}:
        path.write_bytes(raw[:place] + bytes([value]) + raw[place + 1 :])
        outcomes.append(read(path))
with contextlib.suppress(MemoryError):
    bytearray(64 << 20)
    sys.exit("the limit does not hold")
print(outcomes.count(True), outcomes.count(False))
"""


def _run(script: str, *given: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, given)],
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["data.feather", "labels.feather", "data.coded.arrows"])
def test_changed_headers_are_read_or_refused(tmp_path: Path, name: str) -> None:
    """Every byte to a few values, in little memory, in a process that must not end by them."""
    if name == "labels.feather":
        _written(tmp_path / name, LABELS.select(["number", "text"]))
    else:
        write(TABLE.select(["number", "text"]), tmp_path / name)
    done = _run(CHANGED, tmp_path / name)
    assert done.returncode == 0, done.stdout + done.stderr
    read, refused = map(int, done.stdout.split())
    assert read > 100
    assert refused > 1000


def _released(folder: Path, name: str) -> Path:
    """A release in this form."""
    schema = sherd.Schema.from_data({"attributes": {"age": {"type": "integer", "domain": [0, 9]}}})
    plan = sherd.Plan(method="dp-um", epsilon=1.0, k=2)
    release = sherd.protect(pa.table({"age": [1, 2, 3, 4]}), schema, plan, ledger=None)
    return release.save(folder, format=name)


def _exchanged(folder: Path, name: str, table: pa.Table) -> None:
    """The table of a release exchanged for another, and its manifest made to fit."""
    path = _written(folder / name, table)
    manifest = json.loads((folder / "manifest.json").read_text())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest["files"][name] |= {"sha256": digest, "bytes": path.stat().st_size}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


VERIFIED = """
import resource, sys
from pathlib import Path
import pyarrow as pa
from sherd.verifying import verify
small, bomb = map(Path, sys.argv[1:])
assert verify(small).passed
resource.setrlimit(resource.RLIMIT_DATA, (500_000_000, 500_000_000))
try:
    with pa.memory_map(str(bomb / "data.feather")) as file:
        pa.ipc.open_file(file).get_batch(0)
except MemoryError:
    print([check.name for check in verify(bomb).failed])
"""


def test_a_bomb_is_refused_within_half_a_gigabyte(tmp_path: Path) -> None:
    """80 KB that say they are 200 million rows; the limit, which the system holds, is passed."""
    small = _released(tmp_path / "small", "feather")
    bomb = _released(tmp_path / "bomb", "feather")
    _exchanged(bomb, "data.feather", pa.table({"age": np.zeros(200_000_000, np.int64)}))
    assert (bomb / "data.feather").stat().st_size < 100_000
    done = _run(VERIFIED, small, bomb)
    assert done.stdout.strip() == "['file data.feather']", done.stdout + done.stderr


@pytest.mark.parametrize("name", ["feather", "arrows"])
def test_contents_of_a_file_that_is_too_large_are_not_read(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its hash fits; the check of the file fails, and nothing behind it is tried."""
    folder = _released(tmp_path / "out", name)
    assert verify(folder).passed
    _exchanged(folder, f"data.{name}", pa.table({"age": np.zeros(2_000_000, np.int64)}))
    made = {check.name: check for check in verify(folder).checks}
    assert made[f"file data.{name}"].passed is False
    assert "rows" in made[f"file data.{name}"].detail
    assert made["contents"].passed is None
    assert run(["verify", str(folder)]) == 4
    printed = capsys.readouterr()
    assert f"FAIL  file data.{name}: it has a batch of more than 1,048,576 rows" in printed.out
    assert "Traceback" not in printed.err


def test_batches_have_the_rows_of_releases() -> None:
    """The bound lies above what is written."""
    from sherd.tables.write import rows_of_piece

    assert rows_of_piece("data.feather") <= arrow_files.MOST_ROWS
    assert rows_of_piece("data.feather") * 8 * 2000 <= arrow_files.MOST_BYTES
