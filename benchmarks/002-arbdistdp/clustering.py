"""Cluster analysis on generalised records: what `spread` is worth beside k-means on the original.

wang2020 leaves cluster analysis to future work. Records are generalised without a class; a leaf
stands at the middle of its intervals (of labels: all of them alike) and weighs its consistent
count. k-means on leaves gives centres, k-means on the original gives others, and both are judged
on the original: how far records are from their nearest centre, how far they are from the mean of
the records that share it (which says how good the clusters are, wherever their centres were put),
and whether records that are in one cluster by the one are in one by the other (adjusted Rand
index). Beside it: the same cuts with exact counts, the original from other starting points, and
one centre for everything.

    python benchmarks/002-arbdistdp/clustering.py [--runs 5] [--clusters 5]
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import sherd
from sherd.methods.specialising import diffgen
from sherd.methods.specialising.partition import Partition, consistent
from sherd.methods.specialising.plain_oracle import leaf_counts
from sherd.randomness import Randomness
from sherd.release.method import Run
from sherd.tables.schema import Missing

EPSILONS = (0.1, 0.5, 1.0, 3.0)
CLASSES = {"adult": "income", "nursery": "class"}
"""What is left out: clusters are looked for without it."""
H = 10


@cache
def prepared(name: str) -> tuple[Any, Any, list[np.ndarray], np.ndarray]:
    """A table without missing cells and class, its schema, its codes, and where records stand."""
    table = sherd.datasets.load(name, complete=True).drop_columns([CLASSES[name]])
    whole = sherd.datasets.schema(name)
    kept = {one.name: one for one in whole if one.name != CLASSES[name]}
    schema = replace(whole, attributes=kept, missing=Missing.REFUSE)
    chosen = diffgen.settings(sherd.Plan(method="diffgen", epsilon=1.0, h=H), schema)
    codes, _ = diffgen.encode(table, schema, chosen)
    each = zip(chosen.hierarchies, codes, strict=True)
    places = [_records(one.numeric, one.size, column) for one, column in each]
    return table, schema, codes, np.hstack(places)


def _records(numeric: bool, size: int, codes: np.ndarray) -> np.ndarray:
    """Numbers as their place in the domain, labels as indicators; both at most 1 apart."""
    if numeric:
        return (codes / max(size - 1, 1))[:, None]
    return np.eye(size)[codes] / np.sqrt(2)


def leaves(partition: Partition) -> np.ndarray:
    """Where every leaf stands, from its intervals alone."""
    every = np.arange(partition.leaves)
    found = []
    for a, (one, cut) in enumerate(
        zip(partition.hierarchies, partition.specialised.cuts, strict=True)
    ):
        spans = list(itertools.pairwise(cut))
        middle = [_records(one.numeric, one.size, np.arange(*span)).mean(axis=0) for span in spans]
        found.append(np.array(middle)[partition.parts(a, every)])
    return np.hstack(found)


def centres(places: np.ndarray, weights: np.ndarray, clusters: int, seed: int) -> KMeans:
    """k-means of weighted places."""
    heavy = weights > 0
    return KMeans(clusters, n_init=4, random_state=seed).fit(
        places[heavy], sample_weight=weights[heavy]
    )


Judged = tuple[float, float, float]


def judged(model: KMeans, original: KMeans, records: np.ndarray) -> Judged:
    """Distances from centres and within clusters, as multiples of the original's; agreement."""
    own, best = model.predict(records), original.predict(records)
    whole = _within(best, records)
    from_centres = float((model.transform(records).min(axis=1) ** 2).sum())
    agreement = float(adjusted_rand_score(best, own))
    return from_centres / whole, _within(own, records) / whole, agreement


def _within(clusters: np.ndarray, records: np.ndarray) -> float:
    """The squared distances of records from the mean of their cluster, added up."""
    total = 0.0
    for cluster in np.unique(clusters):
        here = records[clusters == cluster]
        total += float(((here - here.mean(axis=0)) ** 2).sum())
    return total


def measure(name: str, epsilon: float, original: KMeans, seed: int) -> list[Judged]:
    """One release, judged with its noisy counts and with exact ones."""
    table, schema, codes, records = prepared(name)
    plan = sherd.Plan(method="diffgen", epsilon=epsilon, h=H, utility="spread")
    found = diffgen.partition_of(table, schema, plan, Run(randomness=Randomness.seeded(seed)))
    noisy = consistent(found.counts.ravel(), len(records))
    exact = leaf_counts(codes, found.specialised.cuts, np.zeros(len(records), np.int64), 1).ravel()
    places, clusters = leaves(found), original.n_clusters
    return [
        judged(centres(places, weights.astype(float), clusters, seed), original, records)
        for weights in (noisy, exact)
    ]


def main() -> None:
    """Print a line for each table, epsilon and way to count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--clusters", type=int, default=5)
    parser.add_argument("--tables", nargs="+", default=["adult", "nursery"])
    given = parser.parse_args()
    for name in given.tables:
        records = prepared(name)[3]
        alike = np.ones(len(records))
        original = centres(records, alike, given.clusters, 0)
        print(f"{name}: {len(records)} records, {given.clusters} clusters")
        say("original, other starting points",
            judged(centres(records, alike, given.clusters, 1), original, records))  # fmt: skip
        say("one centre", judged(centres(records, alike, 1, 0), original, records))
        for epsilon in EPSILONS:
            runs = [measure(name, epsilon, original, seed) for seed in range(given.runs)]
            for place, what in enumerate(("spread", "its cuts, exact counts")):
                mean = np.mean([run[place] for run in runs], axis=0)
                say(f"epsilon {epsilon:g}, {what}", (mean[0], mean[1], mean[2]))


def say(what: str, found: Judged) -> None:
    """One line."""
    centres_, within, agreement = found
    print(f"  {what:36} from centres {centres_:.2f}  within clusters {within:.3f}  "
          f"agreement {agreement:.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
