"""OpenDP's MST or AIM on coded records; started by ``graph_peers.py`` in its own environment.

Arguments: a folder with ``table.csv`` and ``domain.json``, ``mst`` or ``aim``, ε, δ. Writes
``drawn.csv`` and prints seconds of processor and the peak of memory in bytes as JSON. OpenDP has no
bins of its own: numbers of more than 16 values are cut into 16, the lowest value by itself and the
rest of equal width, and drawn uniformly from a bin. So all keys are given, and it spends ρ alone,
with no δ of its own. Its neighbours add or remove a record, as dpmm's do, where Sherd's exchange
one: at the same ε it promises less, and may add less noise.

OpenDP's MST divides what it spends on choosing by the number of choices and adds the parts up
again, rounding each sum up; for most values of ρ that is more than it divided, and it refuses its
own split ("insufficient budget"). ``_budget`` takes the largest ρ, in steps of a millionth, whose
parts add up. Where OpenDP refuses nevertheless, it is started again with a thousandth less.
"""

from __future__ import annotations

import json
import resource
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
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
        name: -(-(one["size"] - 1) // (BINS - 1))
        for name, one in domain.items()
        if one["ordered"] and one["size"] > BINS
    }
    table = table.with_columns((pl.col(n) + width - 1) // width for n, width in widths.items())
    keys = {name: list(range(BINS if name in widths else domain[name]["size"])) for name in domain}
    rho = _rho(epsilon, delta)
    budget = _budget(rho, len(keys) - 1) if kind == "mst" else rho
    for less in range(20):
        before = used()
        try:
            drawn = _drawn(table, keys, kind, budget * (1 - less / 1000))
            break
        except dp.OpenDPException as error:
            if "insufficient budget" not in str(error):
                raise
    else:
        raise SystemExit("refuses its own split of the budget, twenty times")
    seconds = used() - before
    rng = np.random.default_rng()
    columns = {}
    for name, one in domain.items():
        values = drawn[name].cast(pl.Int64).fill_null(0).to_numpy()
        if name in widths:
            inside = values * widths[name] - rng.integers(0, widths[name], len(values))
            values = np.where(values == 0, 0, inside)
        columns[name] = values.clip(0, one["size"] - 1)
    pl.DataFrame(columns).write_csv(folder / "drawn.csv")
    print(json.dumps({"seconds": seconds, "peak": most_held()}))


def _drawn(table: pl.DataFrame, keys: dict[str, list[int]], kind: str, rho: float) -> pl.DataFrame:
    """As many records as the table has, drawn from a model that costs ρ."""
    context = dp.Context.compositor(
        data=table.lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho, delta=0.0),
    )
    algorithm = {"mst": dp.mbi.MST, "aim": dp.mbi.AIM}[kind]()
    released = (
        context.query(rho=rho, delta=0.0)
        .select(list(keys))
        .contingency_table(keys=keys, algorithm=algorithm)
        .release()
    )
    return released.synthesize(rows=len(table))


def _rho(epsilon: float, delta: float) -> float:
    """A ρ of zCDP that (ε, δ) allows, a little on the safe side."""
    from math import log, sqrt

    return (sqrt(log(1 / delta) + epsilon) - sqrt(log(1 / delta))) ** 2


def _budget(rho: float, choices: int) -> float:
    """The largest budget up to ρ, in steps of a millionth, that MST splits without rounding up."""
    for step in range(10_000):
        budget = rho * (1 - step / 10**6)
        below = np.nextafter(np.nextafter(budget - budget * 0.5, 0), 0)
        choosing = np.nextafter(np.nextafter(below - below * 0.9, 0), 0)
        part = np.nextafter(choosing / choices, 0)
        total = 0.0
        for _ in range(choices):
            exact = Fraction(total) + Fraction(part)
            total = float(exact)
            if Fraction(total) < exact:
                total = np.nextafter(total, np.inf)
        if total <= choosing:
            return float(budget)
    raise SystemExit("no budget within a hundredth of rho adds up")


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
