"""Protecting tables that do not fit into memory, as ratios to the work in memory, in one run.

    python benchmarks/larger_than_memory.py [--rows N] [--long N]

``columns``: Parquet of N × 10 in, a Parquet release out, by a process of its own whose memory is
watched; beside the same work in memory on as many rows as fit (2 million), both per cell and in
processor time of one thread. ``duckdb``: one column of N values under 1 GB in all. Memory is what
the process holds of its own (``RssAnon``): pages of mapped files belong to the system. The limit is
enforced: the system gives the process no more private memory than that (``RLIMIT_DATA``), so that a
run which needs more ends in an error. Each release is then verified within 0.5 GB, and so is one of
many columns: what verification takes must not grow with them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = 10
IN_MEMORY = 2_000_000
LIMITS = {"columns": (2.0, 2.5e9), "duckdb": (4.0, 1.0e9)}
"""Times the processor time per cell in memory, and bytes held."""

WIDE = (3_000_000, 100)
"""Rows and columns of a wide table whose release is verified too."""

VERIFIED = 0.5e9
"""Bytes that the verification of a release may hold."""


def write_parquet(path: Path, rows: int, columns: int) -> None:
    """A table of normal columns, written a million rows at a time."""
    rng = np.random.default_rng(0)
    schema = pa.schema([(f"c{i}", pa.float64()) for i in range(columns)])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, rows, 1 << 20):
            count = min(1 << 20, rows - start)
            writer.write_table(
                pa.table([np.round(rng.normal(50, 10, count), 2)] * columns, schema=schema)
            )


PLAIN_MEMORY = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "OPENBLAS_NUM_THREADS": "1",
}
"""Allocators that take what they need: some reserve memory that is never touched."""


def protect(path: Path, engine: str, memory: str, columns: int, most: int) -> None:
    """One release in this process, which gets no more memory than its limit; prints its cost."""
    import sherd
    from sherd.engines import choose, parse_size
    from sherd.release.protect import Settings, protect_to
    from sherd.tables.read import read_blocks

    names = [f"c{i}" for i in range(columns)]
    schema = sherd.Schema.from_data(
        {"attributes": {n: {"type": "number", "domain": ["-50", "150"]} for n in names}}
    )
    plan = sherd.Plan(method="idp-ls", epsilon=1.0, k=100, guarantee="paper")
    if most:
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    peak = _Peak()
    begin = time.process_time()
    chosen = choose(engine, memory=parse_size(memory)).make(path.parent)
    settings = Settings(threads=1, engine=chosen)
    try:
        protect_to(
            path.parent / f"out-{engine}-{path.stem}",
            lambda: read_blocks(path, schema),
            schema,
            plan,
            ledger=None,
            settings=settings,
        )
    finally:
        chosen.close()
    print(json.dumps({"seconds": time.process_time() - begin, "peak": peak.stop()}))


def verify(release: Path, most: int) -> None:
    """Verify a release in this process, which gets no more memory than this; prints its cost."""
    import sherd

    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    peak = _Peak()
    begin = time.process_time()
    seen = sherd.verify(release)
    if not seen.passed or len(seen.checks) < COLUMNS:
        raise SystemExit(f"the release was not verified: {seen.failed}")
    print(json.dumps({"seconds": time.process_time() - begin, "peak": peak.stop()}))


class _Peak:
    """The most memory this process held of its own, looked at every 20 ms."""

    def __init__(self) -> None:
        self.most, self._on = 0, True
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while self._on:
            with Path("/proc/self/status").open(encoding="ascii") as file:
                for line in file:
                    if line.startswith("RssAnon:"):
                        self.most = max(self.most, int(line.split()[1]) << 10)
            time.sleep(0.02)

    def stop(self) -> int:
        """What was seen."""
        self._on = False
        self._thread.join()
        return self.most


def measured(
    path: Path, engine: str, memory: str, columns: int, most: float = 0
) -> dict[str, float] | None:
    """The same in a process of its own; None where the memory it was given did not do."""
    return _alone("--one", str(path), engine, memory, str(columns), f"{most:.0f}")


def _alone(*arguments: str) -> dict[str, float] | None:
    ran = subprocess.run(
        [sys.executable, __file__, *arguments],
        capture_output=True, text=True, check=False, env=os.environ | PLAIN_MEMORY,
    )  # fmt: skip
    if ran.returncode and "MemoryError" not in ran.stderr:
        raise SystemExit(ran.stderr)
    return None if ran.returncode else dict(json.loads(ran.stdout.splitlines()[-1]))


def main() -> int:
    """Print every ratio beside its limit; 1 where one is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--long", type=int, default=100_000_000)
    parser.add_argument("--wide", type=int, default=WIDE[1])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--one", nargs=5)
    parser.add_argument("--verify", nargs=2)
    given = parser.parse_args()
    if given.verify is not None:
        verify(Path(given.verify[0]), int(given.verify[1]))
        return 0
    if given.one is not None:
        path, engine, memory, columns, most = given.one
        protect(Path(path), engine, memory, int(columns), int(most))
        return 0
    missed = 0
    cases = (("columns", given.rows, COLUMNS, "2.5GB"), ("duckdb", given.long, 1, "1GB"))
    for engine, rows, columns, memory in cases:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            small, large = Path(folder) / "small.parquet", Path(folder) / "large.parquet"
            write_parquet(small, IN_MEMORY, columns)
            write_parquet(large, rows, columns)
            most_ratio, most_bytes = LIMITS[engine]
            plain = measured(small, "memory", memory, columns)
            out = measured(large, engine, memory, columns, most_bytes)
            control = measured(large, "memory", memory, columns, most_bytes)
            checked = _alone("--verify", f"{folder}/out-{engine}-large", f"{VERIFIED:.0f}")
        if plain is None or out is None:
            print(f"{engine}: {rows:,} x {columns}: the memory did not do  MISSED", flush=True)
            missed += 1
            continue
        ratio = (out["seconds"] / rows) / (plain["seconds"] / IN_MEMORY)
        kept = ratio <= most_ratio and out["peak"] <= most_bytes
        missed += not kept
        print(
            f"{engine}: {rows:,} x {columns}: {out['seconds']:.1f} s of processor, "
            f"{ratio:.2f} x the time a cell in memory (limit {most_ratio:g}), "
            f"{out['peak'] / 1e9:.2f} GB held (limit {most_bytes / 1e9:g}, enforced; the engine "
            f"memory {'ends for want of memory' if control is None else 'makes do with it'})"
            + ("" if kept else "  MISSED"),
            flush=True,
        )
        missed += _told_of(checked)
    return min(missed + _wide(given.wide, given.folder), 1)


def _wide(columns: int, parent: Path | None) -> bool:
    """Protect a table of very many columns and verify its release; whether a limit was missed."""
    rows, _ = WIDE
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        wide = Path(folder) / "wide.parquet"
        write_parquet(wide, rows, columns)
        made = measured(wide, "columns", "2.5GB", columns)
        checked = _alone("--verify", f"{folder}/out-columns-wide", f"{VERIFIED:.0f}")
    assert made is not None, "there was no limit"
    return _told_of(checked, f"columns: {rows:,} x {columns}: its release")


def _told_of(checked: dict[str, float] | None, what: str = " ") -> bool:
    """Print what the verification of a release took; whether it missed its limit."""
    if checked is None:
        print(f"{what} the memory did not do to verify it  MISSED", flush=True)
        return True
    kept = checked["peak"] <= VERIFIED
    print(
        f"{what} verified in {checked['seconds']:.1f} s of processor, "
        f"{checked['peak'] / 1e9:.2f} GB held (limit {VERIFIED / 1e9:g}, enforced)"
        + ("" if kept else "  MISSED"),
        flush=True,
    )
    return not kept


if __name__ == "__main__":
    sys.exit(main())
