"""What ``dp-graph`` keeps of Adult, how long it takes, and the limits it must stay within.

    python benchmarks/dp-graph/graph_utility.py [--runs 3] [--million]

Two thirds of the complete records are released, the rest is the real hold-out. TVD is the mean
distance of all pairs of attributes (numbers in ten classes of equal frequency); GBDT the accuracy
of gradient-boosted trees trained on the release and tested on the hold-out. Ends with 1 where a
limit is missed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import sherd
from sherd.tables.axis import Axis
from sherd.tables.coding import positions

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLASS = "income"
LEFT_OUT = "fnlwgt"
CLASSES = 10
DELTA = 1e-9
LIMITS: dict[tuple[float, float | None], tuple[float, float]] = {
    (0.1, DELTA): (0.13, 0.795),
    (0.3, DELTA): (0.068, 0.823),
    (1.0, DELTA): (0.036, 0.838),
    (3.0, DELTA): (0.026, 0.847),
    (1.0, None): (0.062, 0.826),
}
"""ε and δ: the largest mean TVD, the smallest accuracy."""
SECONDS, MEGABYTES, MILLION_SECONDS = 15.0, 600.0, 30.0


class Adult:
    """The training part, the hold-out, and how both are measured."""

    def __init__(self, seed: int = 0) -> None:
        table = sherd.datasets.load("adult", complete=True).drop_columns([LEFT_OUT])
        data = sherd.datasets.schema("adult").as_data()
        kept = {n: a for n, a in data["attributes"].items() if n != LEFT_OUT}
        self.schema = sherd.Schema.from_data({**data, "attributes": kept, "missing": "refuse"})
        order = np.random.default_rng(seed).permutation(table.num_rows)
        cut = table.num_rows * 2 // 3
        self.train = table.take(pa.array(order[:cut]))
        self.names = table.column_names
        self.columns = self.coded(self.train)
        self.holdout = self.coded(table.take(pa.array(order[cut:])))
        self.edges = {
            name: np.unique(np.quantile(values, np.arange(1, CLASSES) / CLASSES))
            for name, values in self.columns.items()
            if self.schema[name].type.measured
        }

    def coded(self, table: pa.Table) -> dict[str, NDArray[np.int64]]:
        """Every column as positions on its axis."""
        return {n: positions(table.column(n), Axis.of(self.schema[n]))[0] for n in self.names}

    def distance(self, released: dict[str, NDArray[np.int64]]) -> float:
        """The mean total variation distance of all pairs."""
        real, drawn = ({n: self._classes(n, c[n]) for n in c} for c in (self.columns, released))
        found = []
        for one, other in itertools.combinations(self.names, 2):
            width = int(max(real[other].max(), drawn[other].max())) + 1
            joint = [c[one] * width + c[other] for c in (real, drawn)]
            cells = int(max(j.max() for j in joint)) + 1
            shares = [np.bincount(j, minlength=cells) / len(j) for j in joint]
            found.append(float(np.abs(shares[0] - shares[1]).sum() / 2))
        return float(np.mean(found))

    def _classes(self, name: str, values: NDArray[np.int64]) -> NDArray[np.int64]:
        if name not in self.edges:
            return values
        return np.searchsorted(self.edges[name], values, side="left")

    def accuracy(self, released: dict[str, NDArray[np.int64]]) -> float:
        """The accuracy on the hold-out of boosted trees trained on a release."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        features = [name for name in self.names if name != CLASS]
        x, y = np.column_stack([released[n] for n in features]), released[CLASS]
        model = HistGradientBoostingClassifier(random_state=0).fit(x, y)
        guessed = model.predict(np.column_stack([self.holdout[n] for n in features]))
        return float((guessed == self.holdout[CLASS]).mean())


def measure(adult: Adult, runs: int, **plan: Any) -> tuple[float, float, float]:
    """Mean distance, mean accuracy and mean seconds of processor of several releases."""
    distances, accuracies, seconds = [], [], []
    for _ in range(runs):
        start = time.process_time()
        chosen = sherd.Plan(method="dp-graph", class_attribute=CLASS, **plan)
        table = sherd.protect(adult.train, adult.schema, chosen).table
        seconds.append(time.process_time() - start)
        released = adult.coded(table)
        distances.append(adult.distance(released))
        accuracies.append(adult.accuracy(released))
    return float(np.mean(distances)), float(np.mean(accuracies)), float(np.mean(seconds))


def million() -> float:
    """Seconds of processor for a million records of all fifteen attributes."""
    table = sherd.datasets.load("adult")
    rows = np.random.default_rng(1).integers(0, table.num_rows, 10**6)
    large = table.take(pa.array(rows))
    plan = sherd.Plan(method="dp-graph", epsilon=1.0, delta=DELTA, class_attribute=CLASS)
    start = time.process_time()
    sherd.protect(large, sherd.datasets.schema("adult"), plan)
    return time.process_time() - start


def main() -> int:
    """Print a table and say which limits are missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--million", action="store_true")
    given = parser.parse_args()
    adult = Adult()
    missed = []
    print("| ε | δ | TVD | limit | GBDT | limit | seconds |\n|---|---|---|---|---|---|---|")
    for (epsilon, delta), (most, least) in LIMITS.items():
        distance, accuracy, seconds = measure(adult, given.runs, epsilon=epsilon, delta=delta)
        print(
            f"| {epsilon:g} | {delta or 0:g} | {distance:.4f} | {most} | {accuracy:.4f} | {least} "
            f"| {seconds:.1f} |",
            flush=True,
        )
        if distance > most or accuracy < least or seconds > SECONDS:
            missed.append(f"ε = {epsilon:g}")
    print(f"\nTrained on the originals: {adult.accuracy(adult.columns):.4f}.")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"Most memory, training included: {peak:.0f} MB (limit {MEGABYTES:.0f}).")
    missed += ["memory"] * (peak > MEGABYTES)
    if given.million:
        taken = million()
        print(f"A million records: {taken:.1f} s of processor (limit {MILLION_SECONDS:.0f}).")
        missed += ["a million records"] * (taken > MILLION_SECONDS)
    print(f"Missed: {', '.join(missed) or 'nothing'}.")
    return 1 if missed or math.isnan(peak) else 0


if __name__ == "__main__":
    sys.exit(main())
