"""How long audit and verification of a large table take, and how much memory they hold.

Run: ``python benchmarks/audit.py [ROWS]``. Prints seconds (elapsed, and of processor time) and
the peak of memory, of the audit as a multiple of the table's; each runs in a process of its own.
Of 1,000,000 rows × 10 attributes the audit may take 60 seconds of processor and 6 tables, the
interpreter and its libraries included; verification of a release of any size 0.5 GB.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ATTRIBUTES = 10
SECONDS, TABLES = 60.0, 6.0
"""Limits of an audit of a million rows."""

HELD = 0.5e9
"""Bytes that a verification may hold."""


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
    start = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "sherd", *args], stdout=said, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(process.pid, 0)  # of this child alone
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if process.returncode:
            words = said.read().decode()
            raise SystemExit(f"sherd {args[0]} ended with {process.returncode}:\n{words}")
    seconds = used.ru_utime + used.ru_stime
    return time.perf_counter() - start, seconds, used.ru_maxrss * 1024.0


def main() -> int:
    """Make, protect, verify and audit the table; 1 where a limit was missed."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = make(rows, folder)
        source, out = str(folder / "table.parquet"), str(folder / "out")
        protect = run(
            "protect", source, "--schema", str(folder / "table.yaml"), "-m", "idp-ls",
            "--guarantee", "paper", "-e", "1", "-k", "100", "--ledger", "none",
            "--row-map", str(folder / "map.csv"), "-o", out,
        )  # fmt: skip
        verify = run("verify", out)
        audit = run(
            "audit", source, out, "--row-map", str(folder / "map.csv"),
            "--target", "a0", "-o", str(folder / "report.html"),
        )  # fmt: skip
    print(f"table: {rows:,} × {ATTRIBUTES}, {size / 1e6:.0f} MB")
    print(f"protect: {protect[0]:.1f} s elapsed, {protect[1]:.1f} s of processor")
    print(f"verify: {verify[1]:.1f} s of processor, {verify[2] / 1e6:.0f} MB held (limit 500)")
    print(f"audit: {audit[0]:.1f} s elapsed, {audit[1]:.1f} s of processor (limit {SECONDS:.0f})")
    print(f"audit: {audit[2] / 1e6:.0f} MB = {audit[2] / size:.1f} × table (limit {TABLES:.0f})")
    kept = verify[2] <= HELD and audit[1] <= SECONDS and audit[2] <= TABLES * size
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
