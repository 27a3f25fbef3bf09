"""OpenDP's MST or AIM on coded records; started by ``graph_peers.py`` in its own environment.

Arguments: a folder with ``table.csv`` and ``domain.json``, ``mst`` or ``aim``, ε, δ. Writes
``drawn.csv`` and prints seconds of processor and the peak of memory in bytes as JSON. OpenDP has no
bins of its own: numbers of more than 16 values are cut into 16 of equal width. Its neighbours add
or remove a record, which is half as much as the substitution that Sherd protects against; so it
is given a unit of two contributions.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import opendp.prelude as dp
import polars as pl

BINS = 16


def main() -> None:
    """Fit and draw as many records."""
    dp.enable_features("contrib")
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    epsilon, delta = float(sys.argv[3]), float(sys.argv[4])
    domain = json.loads((folder / "domain.json").read_text())
    table = pl.read_csv(folder / "table.csv")
    widths = {
        name: -(-one["size"] // BINS) if one["ordered"] and one["size"] > BINS else 1
        for name, one in domain.items()
    }
    table = table.with_columns((pl.col(name) // width) for name, width in widths.items())
    keys = {name: list(range(-(-one["size"] // widths[name]))) for name, one in domain.items()}
    before = used()
    context = dp.Context.compositor(
        data=table.lazy(),
        privacy_unit=dp.unit_of(contributions=2),
        privacy_loss=dp.loss_of(rho=_rho(epsilon, delta / 2), delta=delta / 2),
    )
    algorithm = {"mst": dp.mbi.MST, "aim": dp.mbi.AIM}[kind]()
    released = (
        context.query(rho=_rho(epsilon, delta / 2), delta=delta / 2)
        .select(list(domain))
        .contingency_table(keys=keys, algorithm=algorithm)
        .release()
    )
    drawn = released.synthesize(rows=len(table))
    seconds = used() - before
    columns = []
    for name, one in domain.items():
        middle = pl.col(name).cast(pl.Int64).fill_null(0) * widths[name] + widths[name] // 2
        columns.append(middle.clip(0, one["size"] - 1).alias(name))
    drawn.select(columns).write_csv(folder / "drawn.csv")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak": peak}))


def _rho(epsilon: float, delta: float) -> float:
    """A ρ of zCDP that (ε, δ) allows, a little on the safe side."""
    from math import log, sqrt

    return (sqrt(log(1 / delta) + epsilon) - sqrt(log(1 / delta))) ** 2


def used() -> float:
    """Seconds of processor of this process and those it started."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


if __name__ == "__main__":
    main()
