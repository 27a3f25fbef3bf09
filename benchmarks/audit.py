"""How long an audit of a large table takes, and how much memory: 1,000,000 rows × 10 attributes.

Run: ``python benchmarks/audit.py [ROWS]``. Prints seconds (elapsed, and of processor time) and
the peak of memory as a multiple of the table's; each audit runs in a process of its own.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ATTRIBUTES = 10


def make(rows: int, folder: Path) -> float:
    """A table of correlated numbers and its schema; the table's size in bytes."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=rows)
    columns, lines = {}, ["attributes:"]
    for i in range(ATTRIBUTES):
        values = np.rint(np.clip(500 + 80 * (shared * 0.6 + rng.normal(size=rows)), 0, 1000))
        columns[f"a{i}"] = values if i % 2 else values.astype(np.int64)
        kind = "number" if i % 2 else "integer"
        lines.append(f"  a{i}: {{type: {kind}, domain: [0, 1000]}}")
    table = pa.table(columns)
    pq.write_table(table, folder / "table.parquet")
    (folder / "table.yaml").write_text("\n".join(lines) + "\n")
    return float(table.nbytes)


def run(*args: str) -> tuple[float, float, float]:
    """Seconds elapsed, of processor time, and the peak of memory in bytes, of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [sys.executable, "-m", "sherd", *args]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"sherd {args[0]} ended with {done.returncode}:\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, used, after.ru_maxrss * 1024.0


def main() -> None:
    """Make, protect and audit the table."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = make(rows, folder)
        source = str(folder / "table.parquet")
        protect = run(
            "protect", source, "--schema", str(folder / "table.yaml"), "-m", "idp-ls",
            "--guarantee", "paper", "-e", "1", "-k", "100", "--ledger", "none",
            "--row-map", str(folder / "map.csv"), "-o", str(folder / "out"),
        )  # fmt: skip
        audit = run(
            "audit", source, str(folder / "out"), "--row-map", str(folder / "map.csv"),
            "--target", "a0", "-o", str(folder / "report.html"),
        )  # fmt: skip
        print(f"table: {rows:,} × {ATTRIBUTES}, {size / 1e6:.0f} MB")
        print(f"protect: {protect[0]:.1f} s elapsed, {protect[1]:.1f} s of processor")
        print(f"audit: {audit[0]:.1f} s elapsed, {audit[1]:.1f} s of processor")
        # The peak is the largest of all children so far; the audit's is the larger by far.
        print(f"peak: {audit[2] / 1e6:.0f} MB = {audit[2] / size:.1f} × table")


if __name__ == "__main__":
    main()
