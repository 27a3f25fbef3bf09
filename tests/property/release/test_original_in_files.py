"""What a file says besides its cells is not taken from the original.

The attack: a dictionary in the original's order of first appearance pairs the values of two
columns that a release was to keep apart, and lists those of rows that were left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sherd
from sherd.release.protect import Settings, protect_to
from sherd.tables.read import read
from sherd.tables.write import write

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 300
LOOSENESS = 12


def _labels(path: Path, column: str) -> list[Any]:
    """The dictionary of a column as the file holds it; its cells where it holds none."""
    if path.suffix == ".parquet":
        table = pq.ParquetFile(path, read_dictionary=[column]).read()
    else:
        table = pa.ipc.open_file(path).read_all()
    chunk = table.column(column).chunk(0)
    held: pa.Array = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk
    labels: list[Any] = held.to_pylist()
    return labels


def _people(folder: Path, seed: int) -> tuple[Path, pa.Table]:
    """A CSV file of towns and illnesses, each value once, so that pairs are people."""
    rng = np.random.default_rng(seed)
    table = pa.table(
        {
            "town": [f"town {i}" for i in rng.permutation(ROWS)],
            "ill": [f"ill {i}" for i in rng.permutation(ROWS)],
        }
    )
    path = folder / "people.csv"
    write(table, path)
    return path, table


@pytest.mark.parametrize("format", ["parquet", "feather"])
def test_pairs_cannot_be_read_from_the_order_of_dictionaries(
    format: str,  # noqa: A002 - what everybody calls it
    tmp_path: Path,
) -> None:
    """Loose fragments: the i-th town of the one file is not with the i-th illness of the other."""
    path, table = _people(tmp_path, 3)
    schema = sherd.Schema.from_data(
        {"attributes": {"town": {"type": "category"}, "ill": {"type": "category"}}}
    )
    plan = sherd.Plan(
        method="fragment",
        constraints={"constraints": [["town", "ill"]]},
        fragments=[["town"], ["ill"]],
        looseness=LOOSENESS,
        suppress=0.2,
    )
    out = tmp_path / "out"
    protect_to(out, lambda: read(path, schema=schema), schema, plan, ledger=None, format=format)
    towns = _labels(out / f"fragment-1.{format}", "town")
    ills = _labels(out / f"fragment-2.{format}", "ill")
    guessed = set(zip(towns, ills, strict=False))
    true = set(zip(table["town"].to_pylist(), table["ill"].to_pylist(), strict=True))
    # Promised: 1 in 12. A permutation of its own would pair one of them by chance.
    assert len(guessed & true) <= 2 * ROWS // LOOSENESS


@pytest.mark.parametrize("format", ["parquet", "feather"])
@pytest.mark.parametrize(
    "plan",
    [
        {"method": "anatomy", "l": 2, "suppress": True, "most_suppressed": 1},
        {"method": "slice", "l": 2, "columns": 2, "suppress": True, "most_suppressed": 1},
        {"method": "mondrian", "k": 2, "l": 2, "suppress": True, "most_suppressed": 1},
    ],
    ids=lambda plan: plan["method"],
)
def test_values_of_left_out_people_are_not_in_a_file(
    plan: dict[str, Any],
    format: str,  # noqa: A002 - what everybody calls it
    tmp_path: Path,
) -> None:
    """Who was suppressed is in no dictionary either."""
    # Too many have the same illness: about half of them are left out, each with a town of its own.
    table = pa.table(
        {
            "town": [f"town {i}" for i in range(90)],
            "age": [i % 7 for i in range(90)],
            "ill": ["flu"] * 60 + ["cold"] * 15 + ["burn"] * 15,
            "note": [f"note {i:02d}" for i in range(90)],
        }
    )
    path = tmp_path / "people.csv"
    write(table, path)
    schema = sherd.Schema.from_data(
        {
            "attributes": {
                "town": {"type": "category"},
                "age": {"type": "integer", "domain": [0, 9]},
                "ill": {"type": "category", "role": "sensitive"},
                "note": {"type": "category", "role": "insensitive"},
            }
        }
    )
    out = tmp_path / "out"
    made = protect_to(
        out,
        lambda: read(path, schema=schema),
        schema,
        sherd.Plan(**plan),
        ledger=None,
        settings=Settings(seed=1),
        format=format,
    )
    cells = {
        value
        for one in made.tables.values()
        for column in one.columns
        for value in column.to_pylist()
    }
    gone = {f"note {i:02d}" for i in range(90)} - cells
    assert gone, "somebody must have been left out, or the test shows nothing"
    raw = b"".join(file.read_bytes() for file in out.iterdir())
    for file in out.glob(f"*.{format}"):
        kept = read(file)
        for name, column in zip(kept.column_names, kept.columns, strict=True):
            if name == "note":
                assert len(column) > 0
                assert not gone & set(_labels(file, name))
    assert not any(value.encode() in raw for value in gone)
