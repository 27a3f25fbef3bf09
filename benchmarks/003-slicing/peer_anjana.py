"""Runs anjana's k-anonymity on a table; started by ``speed.py`` in an environment of its own.

Arguments: a folder with ``table.csv`` and ``<attribute>.csv`` hierarchies (a line a value, from
the value to the root), k, and the per cent of records that may be suppressed. Writes
``result.csv`` and prints the seconds that the call took.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pandas as pd
from anjana.anonymity import k_anonymity


def main() -> None:
    """One timed call."""
    folder, k, suppressed = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    table = pd.read_csv(folder / "table.csv", dtype=str)
    hierarchies = {
        name: dict(pd.read_csv(folder / f"{name}.csv", header=None, dtype=str))
        for name in table.columns
        if (folder / f"{name}.csv").exists()
    }
    started = time.perf_counter()
    result = k_anonymity(table, [], list(hierarchies), k, suppressed, hierarchies)
    print(time.perf_counter() - started)
    result.to_csv(folder / "result.csv", index=False)


if __name__ == "__main__":
    main()
