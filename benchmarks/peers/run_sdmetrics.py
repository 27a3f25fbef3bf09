"""SDMetrics' quality and diagnostic reports; started by ``compare.py`` in its own environment.

Arguments: a folder with ``original.csv``, ``released.csv`` and ``metadata.json``. Prints seconds
and the peak of memory in bytes as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from pathlib import Path

import pandas as pd
from sdmetrics.reports.single_table import DiagnosticReport, QualityReport

warnings.filterwarnings("ignore")


def main() -> None:
    """Both reports once."""
    folder = Path(sys.argv[1])
    original, released = (
        pd.read_csv(folder / f"{name}.csv", keep_default_na=False)
        for name in ("original", "released")
    )
    metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    seconds = {}
    for name, report in (("quality", QualityReport()), ("diagnostic", DiagnosticReport())):
        start = time.process_time()
        report.generate(original, released, metadata, verbose=False)
        seconds[name] = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "base": base, "peak": peak}))


if __name__ == "__main__":
    main()
