"""pycanon's k and l of a generalised table; started by ``compare.py`` in its own environment.

Arguments: a folder with ``released.csv``, and the sensitive attribute. Prints k, l, seconds and the
peak of memory in bytes as JSON.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from pathlib import Path

import pandas as pd
from pycanon import anonymity


def main() -> None:
    """Both measures, the least time of three calls each."""
    table = pd.read_csv(Path(sys.argv[1]) / "released.csv", dtype=str, keep_default_na=False)
    sensitive = sys.argv[2]
    known = [name for name in table.columns if name != sensitive]
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    seconds = {"k-anonymity": math.inf, "l-diversity": math.inf}
    for _ in range(3):
        start = time.process_time()
        k = anonymity.k_anonymity(table, known)
        middle = time.process_time()
        l_value = anonymity.l_diversity(table, known, [sensitive])
        end = time.process_time()
        seconds["k-anonymity"] = min(seconds["k-anonymity"], middle - start)
        seconds["l-diversity"] = min(seconds["l-diversity"], end - middle)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"k": int(k), "l": int(l_value), "seconds": seconds, "base": base,
                      "peak": peak}))  # fmt: skip


if __name__ == "__main__":
    main()
