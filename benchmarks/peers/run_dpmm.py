"""dpmm's MST or AIM on coded records; started by ``graph_peers.py`` in its own environment.

Arguments: a folder with ``table.csv`` and ``domain.json``, ``mst`` or ``aim``, ε, δ. Writes
``drawn.csv`` and prints seconds of processor and the peak of memory in bytes as JSON. A tenth of ε
goes to dpmm's own bins of numbers, as its default does.
"""

from __future__ import annotations

import json
import resource
import sys
import warnings
from pathlib import Path

import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline


def main() -> None:
    """Fit and draw as many records."""
    warnings.simplefilter("ignore")
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    epsilon, delta = float(sys.argv[3]), float(sys.argv[4])
    table = pd.read_csv(folder / "table.csv")
    domain = json.loads((folder / "domain.json").read_text())
    bounds = {}
    for name, one in domain.items():
        if one["ordered"]:
            table[name] = table[name].astype(float)
            bounds[name] = {"lower": 0.0, "upper": float(one["size"] - 1)}
        else:
            categories = list(range(one["size"]))
            table[name] = pd.Categorical(table[name], categories=categories)
            bounds[name] = {"categories": categories}
    pipeline = {"mst": MSTPipeline, "aim": AIMPipeline}[kind](
        epsilon=0.9 * epsilon, proc_epsilon=0.1 * epsilon, delta=delta, n_jobs=1
    )
    before = used()
    pipeline.fit(table, bounds)
    drawn = pipeline.generate(n_records=len(table))
    seconds = used() - before
    for name, one in domain.items():
        drawn[name] = pd.to_numeric(drawn[name]).round().clip(0, one["size"] - 1).astype(int)
    drawn[list(domain)].to_csv(folder / "drawn.csv", index=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak": peak}))


def used() -> float:
    """Seconds of processor of this process and those it started."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


if __name__ == "__main__":
    main()
