"""``dp-graph`` over the rows of ten owners: what it keeps beside one owner, and what it costs.

    python benchmarks/dp-graph/graph_rows.py [--runs 12]

The training part of Adult is dealt out to ten owners, who answer every question under pairwise
masks, as in a round; storage and network are left out. One owner with all rows releases by the
same choice (``all``). Noise that withstands t colluding owners has m/(m − t) times the variance,
so what is kept depends on t: the limit is on t = 0, where owners share out one owner's noise. Both
that are compared are means of ``--runs`` releases, the others of three; ± is their standard error.
The protocol's time is what all owners and the aggregator spend on questions, masks and sums;
the histograms' is what the owners spend on counting and noise. Ends with 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent))

from graph_utility import CLASS, DELTA, Adult, Figure, measure

import sherd
from sherd.federation.protocol.summing import masked, public_key, total
from sherd.methods.graphical.dp_graph import METHOD
from sherd.randomness import Randomness
from sherd.release.method import Run
from sherd.release.summed_rows import RowOwners

OWNERS = 10
FURTHER = 0.002
"""How much further from the original, in mean TVD, ten owners' release may be than one's."""
SHOWN = 3
"""Releases of what is shown and has no limit."""
TIMES = 2.0
"""The most that the protocol may take, in times of the histograms."""


class Clock:
    """Seconds of processor, by what they were spent on."""

    def __init__(self) -> None:
        self.spent = {"histograms": 0.0, "protocol": 0.0}
        self._last = time.process_time()

    def lap(self, what: str) -> None:
        """Count the time since the last lap as spent on something."""
        now = time.process_time()
        if what in self.spent:
            self.spent[what] += now - self._last
        self._last = now


def joint_release(adult: Adult, plan: sherd.Plan, colluders: int, clock: Clock) -> dict[str, Any]:
    """A release by ten owners, coded; what it took is added to the clock."""
    order = np.random.default_rng(2).permutation(adult.table.num_rows)
    parts = [adult.table.take(pa.array(some)) for some in np.array_split(order, OWNERS)]
    among = RowOwners(owners=OWNERS, colluders=colluders, rows=adult.table.num_rows)
    names = [f"owner-{number}" for number in range(OWNERS)]
    seeds = {name: name.encode().ljust(32, b"-") for name in names}
    keys = {name: public_key(seed) for name, seed in seeds.items()}
    answered: list[Any] = []
    clock.lap("setting up")
    while (question := METHOD.next_question(plan, adult.schema, among, answered)) is not None:
        clock.lap("protocol")
        handed_in = []
        for name, part in zip(names, parts, strict=True):
            METHOD.price(plan, adult.schema, [*(one for one, _ in answered), question])
            clock.lap("protocol")
            source = Randomness.from_system()
            own = METHOD.own_numbers(part, adult.schema, plan, among, question, source)
            clock.lap("histograms")
            handed_in.append(masked(own, seeds[name], name, keys, b"a question"))
            clock.lap("protocol")
        answered.append((question, total(handed_in)))
        clock.lap("protocol")
    run = Run(randomness=Randomness.from_system(), threads=1)
    outcome = METHOD.release_rows(plan, adult.schema, among, answered, run)
    clock.lap("fitting")
    return adult.coded(outcome.tables["data"])


def main() -> int:
    """Print the table; 1 where a limit is missed."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--runs", type=int, default=12)
    options.add_argument("--epsilon", type=float, default=1.0)
    given = options.parse_args()
    adult, clock = Adult(), Clock()
    parameters: dict[str, Any] = {"epsilon": given.epsilon, "delta": DELTA, "choice": "all"}
    plan = sherd.Plan(method="dp-graph", class_attribute=CLASS, **parameters)
    one, accuracy, _ = measure(adult, given.runs, **parameters)
    print("| owners | may collude | TVD | GBDT |\n|---|---|---|---|")
    print(f"| 1 | – | {one} | {accuracy} |", flush=True)
    apart: dict[int, Figure] = {}
    for colluders in (0, 1, 5, OWNERS - 1):
        runs = min(given.runs, SHOWN) if colluders else given.runs
        made = [joint_release(adult, plan, colluders, clock) for _ in range(runs)]
        apart[colluders] = Figure.of([adult.distance(release) for release in made])
        kept = Figure.of([adult.accuracy(release) for release in made])
        print(f"| {OWNERS} | {colluders} | {apart[colluders]} | {kept} |", flush=True)
    times = clock.spent["protocol"] / clock.spent["histograms"]
    print(f"\nProtocol / histograms: {times:.2f} (limit {TIMES:g}), seconds: {clock.spent}")
    missed = apart[0].mean > one.mean + FURTHER or times > TIMES
    print("A limit is missed." if missed else "All limits are kept.")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
