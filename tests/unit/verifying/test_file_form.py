"""A file that says more than its cells is told by ``verify``, though every hash fits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sherd
from sherd.release.bundle import digest
from sherd.verifying import verify
from sherd.verifying.file_form import EARLIER, NAME

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = sherd.Schema.from_data(
    {
        "attributes": {
            "x": {"type": "integer", "domain": [0, 9]},
            "c": {"type": "category", "values": ["a", "b", "c"]},
        }
    }
)


def _bundle(folder: Path, form: str) -> Path:
    rng = np.random.default_rng(1)
    table = pa.table(
        {"x": [None, *rng.integers(0, 10, 59)], "c": [None, *rng.choice(["a", "b"], 59)]}
    )
    made = sherd.protect(table, SCHEMA, sherd.Plan(method="dp", epsilon=1.0), ledger=None)
    made.save(folder, format=form)
    return folder / f"data.{form}"


def _verified(file: Path) -> Any:
    """The check of the form, after the hashes were made to fit."""
    manifest = json.loads((file.parent / "manifest.json").read_text())
    package = json.loads((file.parent / "datapackage.json").read_text())
    package["resources"][0] |= {"bytes": file.stat().st_size, "hash": f"sha256:{digest(file)}"}
    (file.parent / "datapackage.json").write_text(
        json.dumps(package, indent=2, ensure_ascii=False) + "\n"
    )
    for path in (file, file.parent / "datapackage.json"):
        manifest["files"][path.name] |= {"sha256": digest(path), "bytes": path.stat().st_size}
    (file.parent / "manifest.json").write_text(
        json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    )
    return next(check for check in verify(file.parent).checks if check.name == NAME)


@pytest.mark.parametrize("form", ["parquet", "feather", "arrows", "csv"])
def test_a_release_has_the_form(form: str, tmp_path: Path) -> None:
    """Whatever the format."""
    assert _verified(_bundle(tmp_path / "out", form)).passed


def _dictionary(table: pa.Table) -> pa.Table:
    return table.set_column(1, "c", table["c"].dictionary_encode())


def _unused(table: pa.Table) -> pa.Table:
    coded = table["c"].combine_chunks().dictionary_encode()
    labels = pa.array([*coded.dictionary.to_pylist(), "Ann Smith"])
    return table.set_column(1, "c", pa.DictionaryArray.from_arrays(coded.indices, labels))


def _metadata(table: pa.Table) -> pa.Table:
    return table.replace_schema_metadata({"pandas": "{}"})


def _narrow(table: pa.Table) -> pa.Table:
    return table.set_column(0, "x", table["x"].cast(pa.int32()))


WRONG: list[tuple[str, Callable[[pa.Table], pa.Table], str]] = [
    ("parquet", _dictionary, EARLIER),
    ("parquet", _metadata, EARLIER),
    ("parquet", _narrow, "'x' is of the type int32"),
    ("feather", _dictionary, EARLIER),
    ("feather", _unused, EARLIER),
    ("feather", _metadata, EARLIER),
    ("feather", _narrow, "'x' is of the type int32"),
    ("arrows", _dictionary, EARLIER),
]


@pytest.mark.parametrize(("form", "spoil", "said"), WRONG)
def test_what_is_more_than_cells_is_found(
    form: str, spoil: Callable[[pa.Table], pa.Table], said: str, tmp_path: Path
) -> None:
    """Dictionaries, metadata and types of the original."""
    file = _bundle(tmp_path / "out", form)
    table = sherd.Release.load(file.parent).tables["data"]
    spoilt = spoil(table)
    if form == "parquet":
        # Narrow types and metadata are stored by Parquet itself; dictionaries with Arrow's schema.
        pq.write_table(spoilt, file, store_schema=spoil is not _narrow)
    else:
        opened = pa.ipc.new_file if form == "feather" else pa.ipc.new_stream
        with opened(str(file), spoilt.schema) as writer:
            writer.write_table(spoilt)
    found = _verified(file)
    assert found.passed is False
    assert said in found.detail


def test_a_parquet_dictionary_with_more_than_the_cells_is_found(tmp_path: Path) -> None:
    """A label that no cell has, in a dictionary page, without any metadata that tells of it."""
    file = _bundle(tmp_path / "out", "parquet")
    pq.write_table(_unused(sherd.Release.load(file.parent).tables["data"]), file,
                   store_schema=False)  # fmt: skip
    found = _verified(file)
    assert found.passed is False
    assert "dictionary of 'c'" in found.detail


def test_memory_under_a_missing_cell_is_found(tmp_path: Path) -> None:
    """Arrow keeps whatever stood there, though nobody sees it."""
    file = _bundle(tmp_path / "out", "feather")
    table = sherd.Release.load(file.parent).tables["data"]
    cells = table["x"].combine_chunks()
    below = np.where(np.asarray(cells.is_null()), 7, np.asarray(cells.fill_null(0)))
    bits = cells.buffers()[0]
    held = pa.Array.from_buffers(pa.int64(), len(cells), [bits, pa.py_buffer(below)])
    assert held.equals(cells)
    with pa.ipc.new_file(str(file), table.schema) as writer:
        writer.write_table(table.set_column(0, "x", held))
    found = _verified(file)
    assert found.passed is False
    assert "where cells are missing" in found.detail
