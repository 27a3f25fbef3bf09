"""A large CSV file is read without a second copy of it in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pyarrow as pa
import pytest

from sherd.tables.write import write

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 5_000_000

# Measured in a process of its own, against the peak after a small file has loaded all code.
# Arrow's pool counts what Arrow asked for; the high-water mark is what the system gave, the
# allocator's slack included.
MEASURE = """
import json, re, sys
from pathlib import Path
import pyarrow as pa
from sherd.tables.read import read
from sherd.tables.schema import Schema

def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

small, large, schema = sys.argv[1:]
schema = Schema.from_data(json.loads(schema))
read(small, schema=schema)
before = peak()
table = read(large, schema=schema)
print(json.dumps({
    "rows": table.num_rows,
    "pool": pa.default_memory_pool().max_memory() / table.nbytes,
    "system": (peak() - before) / table.nbytes,
}))
"""


@pytest.mark.slow
def test_a_large_csv_takes_little_more_than_its_table(
    tmp_path: Path, require_or_skip: Callable[[str], NoReturn]
) -> None:
    """Five million rows of ten columns take at most a quarter more than their table."""
    if not Path("/proc/self/status").exists():
        require_or_skip("the system does not tell a process its peak of memory")
    draw = np.random.default_rng(1)
    labels = pa.array([f"label number {i}" for i in range(20)])
    codes = [pa.array(draw.integers(0, 20, ROWS), pa.int32()) for _ in range(3)]
    table = pa.table(
        {
            **{f"i{k}": draw.integers(0, 10**6, ROWS) for k in range(3)},
            **{f"f{k}": draw.normal(size=ROWS) for k in range(3)},
            **{f"c{k}": pa.DictionaryArray.from_arrays(codes[k], labels) for k in range(3)},
            "t": pa.array(draw.integers(0, 2**60, ROWS)).cast(pa.string()),
        }
    )
    kinds = {"i": "integer", "f": "number", "c": "category", "t": "text"}
    schema = {"attributes": {name: {"type": kinds[name[0]]} for name in table.column_names}}
    small, large = tmp_path / "small.csv", tmp_path / "large.csv"
    write(table.slice(0, 20_000), small)
    write(table, large)
    command = [sys.executable, "-c", MEASURE, str(small), str(large), json.dumps(schema)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    large.unlink()
    found = json.loads(ran.stdout)
    assert found["rows"] == ROWS
    assert found["pool"] <= 1.10, found
    assert found["system"] <= 1.30, found
