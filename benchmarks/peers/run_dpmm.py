"""dpmm's MST or AIM on coded records; started by ``graph_peers.py`` in its own environment.

Arguments: a folder with ``table.csv`` and ``domain.json``, ``mst``, ``aim`` or ``aim-bounded``, ε,
δ. Writes ``drawn.csv`` and prints seconds of processor and the peak of memory in bytes as JSON. A
tenth of ε goes to dpmm's own bins of numbers, as its default does. ``aim`` is dpmm's default, of
16 rounds for each attribute at most and no bound on the model; ``aim-bounded`` gives its settings
``rounds`` and ``max_model_size`` the values below. How far a fit has come is kept in ``progress``,
for whoever ends it before its time.
"""

from __future__ import annotations

import json
import resource
import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
from dpmm.models.base.mbi import FactoredInference
from dpmm.pipelines import AIMPipeline, MSTPipeline

BOUNDED: dict[str, Any] = {"max_model_size": 1.0, "gen_kwargs": {"rounds": 48}}
"""Megabytes of a model (those of ``dp-graph`` have half of that at most), and rounds."""


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
    bounds_of_fit = BOUNDED if kind == "aim-bounded" else {}
    pipeline = {"mst": MSTPipeline, "aim": AIMPipeline}[kind.removesuffix("-bounded")](
        epsilon=0.9 * epsilon, proc_epsilon=0.1 * epsilon, delta=delta, n_jobs=1, **bounds_of_fit
    )
    note_progress(folder / "progress")
    before = used()
    pipeline.fit(table, bounds)
    drawn = pipeline.generate(n_records=len(table))
    seconds = used() - before
    for name, one in domain.items():
        drawn[name] = pd.to_numeric(drawn[name]).round().clip(0, one["size"] - 1).astype(int)
    drawn[list(domain)].to_csv(folder / "drawn.csv", index=False)
    print(json.dumps({"seconds": seconds, "peak": most_held()}))


def note_progress(path: Path) -> None:
    """Let every fit of a model write down how many there were, and how large the model is."""
    fitted, number = FactoredInference.estimate, 0

    def noted(self: Any, *given: Any, **named: Any) -> Any:
        nonlocal number
        model = fitted(self, *given, **named)
        number += 1
        path.write_text(f"{number} models fitted, the last of {model.size * 8 / 2**20:.1f} MB")
        return model

    FactoredInference.estimate = noted


def most_held() -> int:
    """The peak of this process in bytes; the usage it could ask for counts its parent's, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) * 1024


def used() -> float:
    """Seconds of processor of this process and those it started."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


if __name__ == "__main__":
    main()
