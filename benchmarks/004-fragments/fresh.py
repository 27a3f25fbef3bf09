"""The registered comparison of placements: ``fresh.yaml`` says what, and when ours is better.

    SHERD_DATA=… python benchmarks/004-fragments/fresh.py [--register fresh.yaml] [--only CASE]
    … fresh.py --list        # the queries of every case, without running anything

Every run is appended to ``--runs`` (one JSON line a run), so that a run that was broken off goes
on where it stopped and the tables can be made again without running anything.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from registered import Registered, Scorer, registered

from sherd.methods.fragmenting.association import Search, associate
from sherd.randomness import Randomness

FOLDER = Path(__file__).parent
WAYS = {
    "cells, similar": (Search(), "similar"),
    "cells, told": (Search(), "told"),
    "cells, half": (Search(), "half"),
    "nearest, similar": (Search(strategy="nearest", probes=0), "similar"),
    "nearest, told": (Search(strategy="nearest", probes=0), "told"),
}
AGAINST = (
    ("cells, similar", "nearest, similar"),
    ("cells, told", "nearest, similar"),
    ("cells, told", "nearest, told"),
    ("cells, half", "nearest, similar"),
    ("cells, half", "nearest, told"),
)
Runs = dict[tuple[str, int], tuple[float, np.ndarray]]


def measure(given: Registered, scorer: Scorer, way: str, seed: int) -> tuple[float, np.ndarray]:
    """The share of tuples left out, and the utility of every query."""
    search, told = WAYS[way]
    constraints = given.told(told)
    similar = given.similar
    if search.strategy == "nearest":
        similar = constraints.asked_about(similar)
    made = associate(
        given.table, given.schema, constraints, given.fragments, given.sizes,
        similar=similar, search=search, randomness=Randomness.seeded(seed),
    )  # fmt: skip
    return made.suppressed / given.table.num_rows, scorer.utilities(made.place)


def interval(differences: np.ndarray) -> tuple[float, float, float]:
    """The mean of paired differences and its 95 % interval."""
    from scipy.stats import t

    mean = float(differences.mean())
    half = float(t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1))
    half /= len(differences) ** 0.5
    return mean, mean - half, mean + half


def report(name: str, given: Registered, runs: Runs, seeds: list[int]) -> bool:
    """Print a case; whether ours is better in every comparison."""
    forms = np.array([q.form for q in given.queries])
    kinds = np.array([given.kind(q) for q in given.queries])
    untold = np.array([not q.told for q in given.queries])
    print(f"\n{name}: {given.table.num_rows:,} rows, {len(forms)} queries, {len(seeds)} seeds")
    columns = {"all": forms != "", "avg1": forms == "avg1"}
    columns |= {f"avg1 {kind}": (forms == "avg1") & (kinds == kind) for kind in ("os", "as", "ns")}
    columns |= {"count2": forms == "count2", "avg2": forms == "avg2", "not told": untold}
    print(f"{'':18}{'left out':>10}" + "".join(f"{c:>9}" for c in columns))
    ways = [way for way in WAYS if all((way, seed) in runs for seed in seeds)]
    for way in ways:
        left = np.mean([runs[way, seed][0] for seed in seeds])
        mean = np.mean([runs[way, seed][1] for seed in seeds], axis=0)
        print(
            f"{way:18}{left:>10.4%}" + "".join(f"{mean[c].mean():>9.3f}" for c in columns.values())
        )
    won = True
    for ours, theirs in AGAINST:
        if not {ours, theirs} <= {*ways}:
            continue
        scored = untold if ours.endswith("half") else forms != ""
        pairs = [(runs[ours, seed], runs[theirs, seed]) for seed in seeds]
        found = {
            "left out": np.array([b[0] - a[0] for a, b in pairs]),
            "all": np.array([(a[1] - b[1])[scored].mean() for a, b in pairs]),
            "avg1": np.array([(a[1] - b[1])[scored & (forms == "avg1")].mean() for a, b in pairs]),
        }
        intervals = {what: interval(of) for what, of in found.items()}
        better = all(low > 0 for _, low, _ in intervals.values())
        won &= better
        said = "  ".join(
            f"{what} {mean:+.4f} [{low:+.4f}, {high:+.4f}]"
            for what, (mean, low, high) in intervals.items()
        )
        print(f"{'better' if better else 'NOT   '}  {ours} over {theirs}: {said}")
    shown = [way for way in ("cells, told", "nearest, similar") if way in ways]
    means = [np.mean([runs[way, seed][1] for seed in seeds], axis=0) for way in shown]
    print("by query, avg1: " + " / ".join(shown))
    for at in np.flatnonzero(forms == "avg1"):
        q = given.queries[at]
        found = " / ".join(f"{mean[at]:.3f}" for mean in means)
        print(f"  {kinds[at]}  AVG({q.of}) by {q.keys[0]}: {found}")
    mean = means[0]
    for kind in ("os", "as", "ns"):
        of = mean[(kinds == kind) & (forms == "avg1")]
        print(f"avg1 {kind}: {len(of)} queries, lowest {of.min():.3f}, mean {of.mean():.3f}")
    print(f"not positive: {int((mean <= 0).sum())} of {len(mean)} queries")
    return won


def main() -> int:
    """Run what is not yet run, print every case; 1 where ours is not better."""
    options = argparse.ArgumentParser()
    options.add_argument("--register", default="fresh.yaml")
    options.add_argument("--runs", type=Path, default=Path("fresh-runs.jsonl"))
    options.add_argument("--only", action="append")
    options.add_argument("--way", action="append", choices=tuple(WAYS), help="only these")
    options.add_argument("--list", action="store_true")
    options.add_argument("--report", action="store_true", help="of what is in --runs only")
    chosen = options.parse_args()
    rules: dict[str, Any] = yaml.safe_load((FOLDER / chosen.register).read_text())
    done: dict[str, Runs] = {}
    if chosen.runs.exists():
        for line in chosen.runs.read_text().splitlines():
            row = json.loads(line)
            key = row["way"], row["seed"]
            done.setdefault(row["case"], {})[key] = (row["left"], np.array(row["utility"]))
    seeds = range(rules["first_seed"], rules["first_seed"] + rules["seeds"])
    won = True
    for name in chosen.only or rules["cases"]:
        given = registered(name, rules)
        if chosen.list:
            print(f"{name}: {len(given.queries)} queries")
            for q in given.queries:
                what = f"AVG({q.of})" if q.of else "COUNT(*)"
                coin = "told" if q.told else "not told"
                print(f"  {q.form} {given.kind(q)} {what} by {', '.join(q.keys)} ({coin})")
            continue
        scorer = Scorer(given)
        runs = done.setdefault(name, {})
        for seed in () if chosen.report else seeds:
            for way in chosen.way or WAYS:
                if (way, seed) in runs:
                    continue
                left, utility = measure(given, scorer, way, seed)
                runs[way, seed] = (left, utility)
                row = {"case": name, "way": way, "seed": seed, "left": left}
                with chosen.runs.open("a") as out:
                    out.write(json.dumps({**row, "utility": np.round(utility, 6).tolist()}) + "\n")
        whole = [s for s in seeds if all((way, s) in runs for way in chosen.way or WAYS)]
        won &= report(name, given, runs, whole)
    return 0 if won else 1


if __name__ == "__main__":
    sys.exit(main())
