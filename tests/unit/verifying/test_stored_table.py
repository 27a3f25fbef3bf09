"""Tables that stay in their files: the same checks come out whatever the pieces, in less memory."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sherd
from sherd.release.bundle import FORMATS, digest
from sherd.tables import write as writing
from sherd.verifying import (
    looseness,
    masked_tables,
    row_groups,
    stored_table,
    verify,
    written_again,
)
from sherd.verifying.file_form import NAME
from sherd.verifying.masked_tables import count_values
from sherd.verifying.stored_table import pieces, whole
from sherd.verifying.stored_table import stored_table as stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = sherd.Schema.from_data(
    {
        "attributes": {
            "age": {"type": "integer", "domain": [0, 99]},
            "pay": {"type": "number", "domain": [0, 50], "grid": "0.5"},
            "born": {"type": "date", "domain": ["2000-01-01", "2001-01-01"]},
            "job": {"type": "category", "values": ["a", "b", "c,d", "=e"]},
            "ill": {"type": "boolean", "role": "sensitive"},
        }
    }
)
COMPLETE = sherd.Schema.from_data({**SCHEMA.as_data(), "missing": "refuse"})
ROWS = 100
MORE = 120 << 20
"""Bytes by which verifying a million and a half rows may grow."""


def _table(rows: int = ROWS, share: float = 0.1) -> pa.Table:
    rng = np.random.default_rng(2)
    days = np.datetime64("2000-01-01") + rng.integers(0, 300, rows)
    gaps = rng.random(rows) < share
    return pa.table(
        {
            "age": pa.array(rng.integers(0, 100, rows), mask=gaps),
            "pay": rng.integers(0, 100, rows) / 2,
            "born": pa.array(days),
            "job": pa.array(rng.choice(["a", "b", "c,d", "=e"], rows), mask=gaps),
            "ill": pa.array(rng.integers(0, 2, rows) == 1),
        }
    )


JOBS = {"sensitive": ["job"], "l": 2}
APART: dict[str, Any] = {"constraints": {"constraints": [["age", "pay"]]}, "looseness": 3}
THREE: dict[str, Any] = {
    "constraints": {"constraints": [["age", "pay", "born"]]},
    "fragments": [["age"], ["pay"], ["born"]],
}
PLANS: dict[str, dict[str, Any]] = {
    "dp": {"epsilon": 1.0},
    "dp-um": {"epsilon": 1.0, "k": 7},
    "dp-um strict": {"epsilon": 1.0, "k": 7, "guarantee": "strict"},
    "diffgen": {"epsilon": 1.0, "class_attribute": "ill"},
    "dp-graph": {"epsilon": 1.0, "delta": 1e-6},
    "slice": {**JOBS, "columns": 3},
    "slice min": {**JOBS, "columns": 3, "min_frequency": 4},
    "slice close": {**JOBS, "columns": 2, "conditions": {"closeness": 0.9, "size": 2}},
    "mondrian": {**JOBS, "k": 4, "conditions": {"likeness": 9, "entropy": 1.1}},
    "anatomy": {**JOBS, "conditions": {"share": 0.6, "recursive": [3, 2]}},
    "fragment": APART,
    "fragment three": {**THREE, "looseness": 4},
    "fragment projections": {**THREE, "looseness": 4, "projections": [[1, 2], [2, 3]]},
}


@pytest.fixture(scope="module")
def releases() -> dict[str, Any]:
    """A release by every plan."""
    made = {}
    for name, parameters in PLANS.items():
        strict = "strict" in name
        table, schema = _table(share=0 if strict else 0.1), COMPLETE if strict else SCHEMA
        plan = sherd.Plan(method=name.split()[0], **parameters)
        made[name] = sherd.protect(table, schema, plan, ledger=None)
    return made


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few rows, row groups of 16 and batches of 8, and room for three values."""
    monkeypatch.setattr(stored_table, "PIECE", 7)
    monkeypatch.setattr(stored_table, "SPOOLED", 64)
    monkeypatch.setattr(masked_tables, "ROOM", 3)
    monkeypatch.setattr(stored_table, "CELLS", 40)
    monkeypatch.setattr(row_groups, "WINDOW", 7)
    monkeypatch.setattr(row_groups, "SMALL", 8)
    monkeypatch.setattr(looseness, "ENTRIES", 50)
    monkeypatch.setattr(written_again, "_BLOCKS", (256, 4096))
    monkeypatch.setattr(writing, "_GROUP", 16)
    monkeypatch.setattr(writing, "_ROWS", 8)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("form", FORMATS)
def test_the_same_checks_come_out_of_small_pieces(
    plan: str, form: str, releases: dict[str, Any], tmp_path: Path, tiny: None
) -> None:
    """In every format: as of the tables in memory, and the files are what their cells give."""
    release = releases[plan]
    checks = verify(release.save(tmp_path / "out", format=form)).checks
    assert [check for check in checks if check.passed is False] == []
    assert {check.name: check.passed for check in checks}[NAME] is True
    # Whoever holds the tables in memory gets the same, word for word.
    in_memory = {check.name: check for check in verify(release).checks}
    assert [c for c in checks if c.name in in_memory and c != in_memory[c.name]] == []
    assert len([c for c in checks if c.name in in_memory]) == len(in_memory)


@pytest.mark.parametrize(
    ("form", "safe"), [*((f, False) for f in FORMATS), *((f, True) for f in FORMATS if "csv" in f)]
)
def test_cells_come_out_as_they_are(form: str, safe: bool, tmp_path: Path, tiny: None) -> None:
    """Some columns or all, from a table with columns whose names begin alike."""
    table = _table()
    path = tmp_path / f"data.{form}"
    writing.write(table, path, spreadsheet_safe=safe)
    with contextlib.ExitStack() as stack:
        held = stored(path, {"spreadsheet_safe": safe}, SCHEMA, stack)
        assert held.shape == table.shape
        assert held.column_names == table.column_names
        assert whole(held).to_pylist() == table.to_pylist()
        some = pa.concat_tables(pieces(held, "job", "age"))
        assert some.to_pylist() == table.select(["job", "age"]).to_pylist()
        assert max(part.num_rows for part in pieces(held, "age")) <= 7


def test_a_column_is_not_mistaken_for_another_one_that_begins_alike(tmp_path: Path) -> None:
    """Parquet takes a dot for what separates a field from its parts."""
    table = pa.table({"age.1": [1], "age": [2]})
    writing.write(table, tmp_path / "data.parquet")
    with contextlib.ExitStack() as stack:
        held = stored(tmp_path / "data.parquet", {}, SCHEMA, stack)
        assert [part.to_pydict() for part in pieces(held, "age")] == [{"age": [2]}]


@pytest.mark.parametrize("form", FORMATS)
def test_an_empty_table_has_no_pieces(form: str, tmp_path: Path) -> None:
    """And a file of no rows is what writing it gives."""
    path = tmp_path / f"data.{form}"
    empty = _table(0)
    writing.write(empty, path)
    with contextlib.ExitStack() as stack:
        assert list(pieces(stored(path, {}, SCHEMA, stack), "age")) == []
    assert written_again.oddity(path, {}) is None


def _rehash(folder: Path, file: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    package = json.loads((folder / "datapackage.json").read_text())
    package["resources"][0] |= {"bytes": file.stat().st_size, "hash": f"sha256:{digest(file)}"}
    (folder / "datapackage.json").write_text(
        json.dumps(package, indent=2, ensure_ascii=False) + "\n"
    )
    for path in (file, folder / "datapackage.json"):
        manifest["files"][path.name] |= {"sha256": digest(path), "bytes": path.stat().st_size}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def _failed(folder: Path, file: Path) -> set[str]:
    _rehash(folder, file)
    return {check.name for check in verify(folder).checks if check.passed is False}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("row", [0, 15, 16, 50, ROWS - 1])
def test_a_changed_cell_is_seen_wherever_it_is(
    row: int, form: str, releases: dict[str, Any], tmp_path: Path, tiny: None
) -> None:
    """In every row group, though all hashes were made to fit."""
    folder = releases["dp-um"].save(tmp_path / "out", format=form)
    data = releases["dp-um"].tables["data"]
    for name, value, failing in (
        ("pay", 17.25, {"pay: clusters of 7"}),
        ("pay", 17.123, {"pay: grid", "pay: clusters of 7"}),
        ("pay", 60.0, {"pay: bounds", "pay: clusters of 7"}),
        ("born", dt.date(2002, 1, 1), {"born: bounds", "born: clusters of 7"}),
        ("job", "z", {"job: bounds", "job: clusters of 7"}),
    ):
        cells = data.column(name).to_pylist()
        cells[row] = value
        at = data.column_names.index(name)
        changed = data.set_column(at, name, pa.array(cells, data.column(name).type))
        writing.write(changed, folder / f"data.{form}")
        assert _failed(folder, folder / f"data.{form}") >= failing, name


@pytest.mark.parametrize("group", range(7))
def test_a_byte_more_is_seen_in_every_row_group(
    group: int, releases: dict[str, Any], tmp_path: Path, tiny: None
) -> None:
    """A row group written with other settings: the cells are the same, the bytes are not."""
    folder = releases["dp-um"].save(tmp_path / "out")
    path = folder / "data.parquet"
    data = releases["dp-um"].tables["data"]
    parts = [data.slice(at, 16) for at in range(0, ROWS, 16)]
    assert len(parts) == 7
    with pq.ParquetWriter(path, data.schema, compression="zstd", store_schema=False) as writer:
        for at, part in enumerate(parts):
            if at == group:
                # The same rows in another number of pieces.
                writer.write_table(part.slice(0, 1))
                part = part.slice(1)  # noqa: PLW2901 - what is left of it
            writer.write_table(part)
    assert NAME in _failed(folder, path)


def test_row_groups_of_another_length_are_not_read(tmp_path: Path, tiny: None) -> None:
    """A forger's row group of a billion rows does not fill the verifier's memory."""
    path = tmp_path / "data.parquet"
    pq.write_table(_table(), path, compression="zstd", store_schema=False)
    assert written_again.oddity(path, {}) is written_again.BYTES


def test_a_wide_row_group_is_compared_from_disk(
    tmp_path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The columns are mapped, one file each; the bytes come out the same."""
    monkeypatch.setattr(written_again, "_ROOM", 1)
    path = tmp_path / "data.parquet"
    writing.write(_table(), path)
    assert written_again.oddity(path, {}) is None


def test_the_arrow_memory_of_a_verification_does_not_grow_with_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a table of 200,000 rows less than a sixth is held at any time."""
    monkeypatch.setattr(stored_table, "PIECE", 4096)
    monkeypatch.setattr(writing, "_GROUP", 8192)
    plan = sherd.Plan(method="dp-um", epsilon=1.0, k=100)
    release = sherd.protect(_table(200_000), SCHEMA, plan, ledger=None)
    folder = release.save(tmp_path / "out")
    size = release.tables["data"].nbytes
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        assert verify(folder).passed
    finally:
        pa.set_memory_pool(before)
    assert 0 < pool.max_memory() < size / 6


VALUES = st.one_of(
    st.lists(st.none() | st.integers(-3, 20)).map(lambda cells: pa.array(cells, pa.int64())),
    st.lists(st.none() | st.sampled_from([0.0, -0.0, 1.5, 2.5, 1e300])).map(
        lambda cells: pa.array(cells, pa.float64())
    ),
    st.lists(st.none() | st.text("ab", max_size=3)).map(lambda cells: pa.array(cells, pa.string())),
    st.lists(st.none() | st.booleans()).map(lambda cells: pa.array(cells, pa.bool_())),
    st.lists(st.none() | st.dates()).map(lambda cells: pa.array(cells, pa.date32())),
)


@given(values=VALUES, room=st.integers(1, 5), step=st.integers(1, 4))
def test_values_are_counted_whatever_there_is_room_for(
    values: pa.Array, room: int, step: int
) -> None:
    """As a counter in memory counts them; a negative zero is another value than zero."""

    def column() -> Iterator[pa.ChunkedArray]:
        for start in range(0, len(values), step):
            yield pa.chunked_array([values.slice(start, step)])

    present = values.drop_null()
    expected = Counter(str(value) for value in present.to_pylist())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masked_tables, "ROOM", room)
        seen = count_values(column, len(expected))
        assert seen.distinct == len(expected)
        assert seen.least == min(expected.values(), default=0)
        fewer = count_values(column, len(expected) - 1)
        assert fewer.distinct > len(expected) - 1 or not len(present)


CONTENTS = """
import resource, sys
from contextlib import ExitStack
from pathlib import Path
from sherd.release.bundle import read_manifest
from sherd.verifying import verification
small, large = map(Path, sys.argv[1:3])
def failed(folder):
    manifest = read_manifest(folder)
    with ExitStack() as stack:
        if sys.argv[3] == "whole":
            read = lambda: verification.read_tables(folder, manifest)
        else:
            read = lambda: verification._released_tables(folder, manifest, stack)
        checks = verification._contents(read, manifest, dict)
    return [check for check in checks if check.passed is False]
assert not failed(small)  # everything that is imported takes its room before
status = Path("/proc/self/status").read_text(encoding="ascii")
held = next(line for line in status.splitlines() if line.startswith("VmData:"))
most = int(held.split()[1]) * 1024 + int(sys.argv[4])
resource.setrlimit(resource.RLIMIT_DATA, (most, most))
wrong = failed(large)
print(wrong)
sys.exit(bool(wrong))
"""
WHOLE = """
import resource, sys
from sherd.verifying import verify
resource.setrlimit(resource.RLIMIT_DATA, (500_000_000, 500_000_000))
found = verify(sys.argv[1])
print(found.failed)
sys.exit(not found.passed)
"""


def _tiled(release: Any, times: int) -> Any:
    """A valid release with as many rows again, each time in buckets of their own."""
    bucket = release.manifest["facts"].get("bucket")
    known = {bucket} if bucket is not None else set()
    if "association" in release.tables:
        known = set(release.tables["association"].column_names)
    tables = {}
    for name, table in release.tables.items():
        parts = []
        for at in range(times):
            part = table
            for column in known.intersection(table.column_names):
                place = table.column_names.index(column)
                cells = pa.array(np.asarray(table[column]) + at * BASE, table[column].type)
                part = part.set_column(place, column, cells)
            parts.append(part)
        tables[name] = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
    return replace(release, tables=tables)


def _run(script: str, *given: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, given)],
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"},
        capture_output=True,
        text=True,
        check=False,
    )


GROUPED: dict[str, dict[str, Any]] = {
    "slice": {**JOBS, "columns": 3},
    "mondrian": {**JOBS, "k": 4},
    "anatomy": JOBS,
    "fragment": APART,
}
BASE = 20_000


def _grouped(method: str) -> Any:
    """A release with many small buckets or classes."""
    plan = sherd.Plan(method=method, **GROUPED[method])
    return sherd.protect(_table(BASE), SCHEMA, plan, ledger=None)


@pytest.mark.parametrize("method", GROUPED)
def test_buckets_and_classes_are_verified_in_little_memory(method: str, tmp_path: Path) -> None:
    """1.5 million rows within a limit that the system enforces, and that their tables exceed."""
    release = _grouped(method)
    small = release.save(tmp_path / "small")
    large = _tiled(release, 1_500_000 // BASE).save(tmp_path / "large")
    done = _run(CONTENTS, small, large, "in pieces", MORE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert _run(CONTENTS, small, large, "whole", MORE).returncode != 0, "the limit does not hold"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("method", GROUPED)
def test_ten_million_rows_are_verified_in_half_a_gigabyte(method: str, tmp_path: Path) -> None:
    """50 million cells; the interpreter and the check of every byte included."""
    large = _tiled(_grouped(method), 10_000_000 // BASE).save(tmp_path / "large")
    done = _run(WHOLE, large)
    assert done.returncode == 0, done.stdout + done.stderr
