"""Anonymeter's three attacks on a release; started by ``compare.py`` in its own environment.

Arguments: a folder with ``original.csv``, ``released.csv`` and ``control.csv``, and the number of
attacks. Prints seconds and the peak of memory in bytes as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from pathlib import Path

import pandas as pd
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

warnings.filterwarnings("ignore")


def main() -> None:
    """Every attack once, after a few that let it compile."""
    folder, attacks = Path(sys.argv[1]), int(sys.argv[2])
    tables = {
        name: pd.read_csv(folder / f"{name}.csv", keep_default_na=False)
        for name in ("original", "released", "control")
    }
    given = {"ori": tables["original"], "syn": tables["released"], "control": tables["control"]}
    columns = list(given["ori"].columns)
    half = len(columns) // 2
    few = {name: table.head(200) for name, table in given.items()}
    LinkabilityEvaluator(  # compiles its kernels, as ours are compiled before they are timed
        **few, n_attacks=5, aux_cols=(columns[:half], columns[half:]), n_neighbors=1
    ).evaluate(n_jobs=1)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    seconds = {}

    start = time.process_time()
    SinglingOutEvaluator(**given, n_attacks=attacks).evaluate(mode="univariate")
    seconds["singling out"] = time.process_time() - start

    start = time.process_time()
    LinkabilityEvaluator(
        **given, n_attacks=attacks, aux_cols=(columns[:half], columns[half:]), n_neighbors=1
    ).evaluate(n_jobs=1)
    seconds["linkability"] = time.process_time() - start

    start = time.process_time()
    for secret in columns:
        known = [column for column in columns if column != secret]
        InferenceEvaluator(**given, n_attacks=attacks, aux_cols=known, secret=secret).evaluate(
            n_jobs=1
        )
    seconds["inference, every attribute"] = time.process_time() - start

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "base": base, "peak": peak}))


if __name__ == "__main__":
    main()
