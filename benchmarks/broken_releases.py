"""Releases broken on purpose, by code that shares nothing with the methods.

Noise is floating-point Laplace or normal noise of numpy, clusters are made by a plain loop, leaves
are counted row by row. Each release claims a sound plan and manifest, and is sound itself where its
kind says "as planned".
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import sherd
from sherd.tables.axis import Axis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS, EPSILON, K = 800, 2.0, 10
CUTS = 10
"""Over 100 counts; of the 36 of six cuts, no test finds halved noise in over 78 %."""
RANKING = ("dp", "idp", "dp-um", "idp-ls", "idp-cbls")
MORE: dict[str, dict[str, Any]] = {
    "dp-um": {"k": K},
    "idp-ls": {"k": K, "guarantee": "paper"},
    "idp-cbls": {"k": K, "guarantee": "paper"},
}


def masked(steps: Any, high: float, method: str, factor: float, rng: Any) -> Any:
    """A column in steps of its grid, masked by a loop over clusters with so much of the noise."""
    epsilon = EPSILON
    if method in ("dp", "idp"):
        reach = np.full(len(steps), high) if method == "dp" else np.maximum(high - steps, steps)
        return np.rint(steps + rng.laplace(size=len(steps)) * reach / epsilon * factor)
    order, found = np.argsort(steps, kind="stable"), np.empty(len(steps))
    count = len(steps) // K
    for j in range(count):
        rows = order[j * K : (j + 1) * K] if j < count - 1 else order[j * K :]
        v = np.sort(steps[rows])
        total, reach = v.sum(), high
        if method == "idp-ls":
            reach = max(high - v[0], v[-1])
        if method == "idp-cbls":
            total += v[1] - v[0] + v[-2] - v[-1]
            up = (v[-1] - v[1]) + (v[2] - v[1]) + (v[-1] - v[-2])
            reach = max(up, (v[-2] - v[0]) + (v[-2] - v[-3]) + (v[1] - v[0]))
        found[rows] = np.rint((total + np.rint(rng.laplace() * reach / epsilon * factor)) / len(v))
    return found


NAMES = ("a", "b", "c", "d")
GRID = sherd.Schema.from_data(
    {
        "attributes": {
            n: {"type": "integer", "domain": ["0", str(high)]}
            for n, high in zip(NAMES, (100, 2000, 40, 1000), strict=True)
        }
    }
)
KINDS = ("as planned", "halved", "a tenth", "none", "original", "one column", "not shuffled")


def correlated(rng: Any) -> dict[str, Any]:
    """Columns in steps of their grids that go together, sorted by what they share."""
    shared = np.sort(rng.normal(size=2 * ROWS))
    columns = {}
    for name in NAMES:
        high = float(Axis.of(GRID[name]).steps)
        spread = 0.15 * high * (shared + rng.normal(size=2 * ROWS))
        columns[name] = np.rint(np.clip(high / 2 + spread, 0, high))
    return columns


def broken(method: str, kind: str, rng: Any) -> tuple[pa.Table, Any]:
    """A table and a release of it that is broken in one way, with a sound one's manifest."""
    columns = correlated(rng)
    original = pa.table({n: c.astype(np.int64) for n, c in columns.items()})
    settings = sherd.Settings(keep_order=kind == "not shuffled")
    plan = sherd.Plan(method=method, epsilon=EPSILON * len(NAMES), **MORE.get(method, {}))
    made = sherd.protect(original, GRID, plan, settings=settings, ledger=None)
    factor = {"halved": 0.5, "a tenth": 0.1, "none": 0.0}.get(kind, 1.0)
    shown = {}
    for name, column in columns.items():
        bare = kind == "original" or (kind == "one column" and name == "b")
        high = float(Axis.of(GRID[name]).steps)
        steps = column if bare else np.clip(masked(column, high, method, factor, rng), 0, high)
        shown[name] = steps.astype(np.int64)[np.asarray(made.order)]
    table = pa.table(shown)
    return original, replace(made, tables={"data": table}, manifest={**made.manifest, "stamps": []})


def ascending(values: Any, sizes: Any) -> Any:
    """The nearest values that ascend: neighbours that do not are pooled until they do."""
    pools: list[list[float]] = []
    for value, size in zip(values, sizes, strict=True):
        pools.append([value, size, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, m, i), (b, n, j) = pools[-2:]
            pools[-2:] = [[(a * m + b * n) / (m + n), m + n, i + j]]
    return np.concatenate([np.full(int(many), value) for value, _, many in pools])


def strict(kind: str, rng: Any) -> tuple[pa.Table, Any]:
    """Ordered centroids with so much of their noise, or of one column without any."""
    columns = correlated(rng)
    original = pa.table({n: c.astype(np.int64) for n, c in columns.items()})
    schema = sherd.Schema.from_data({**GRID.as_data(), "missing": "refuse"})
    plan = sherd.Plan(method="dp-um", epsilon=EPSILON * len(NAMES), k=K, guarantee="strict")
    made = sherd.protect(original, schema, plan, ledger=None)
    factor = {"halved": 0.5, "a tenth": 0.1, "none": 0.0}.get(kind, 1.0)
    parts = []
    for name, column in columns.items():
        high = float(Axis.of(GRID[name]).steps)
        clusters = np.sort(column).reshape(-1, K)
        noise = rng.laplace(size=len(clusters)) * high / EPSILON * factor
        bare = kind == "one column" and name == "b"
        sums = clusters.sum(axis=1) + (0 if bare else np.rint(noise))
        values = sums / K if kind == "not ascending" else ascending(sums / K, [K] * len(clusters))
        if kind == "first of each cluster":
            values = clusters[:, 0]
        parts.append(np.clip(values, 0, high))
    data = made.tables["data"]
    value = np.concatenate(parts)
    shown = data.set_column(3, "value", pa.array(value))
    shown = shown.set_column(4, "text", pa.array([str(int(v)) for v in np.rint(value)]))
    return original, replace(made, tables={"data": shown})


def leaves(made: Any, original: pa.Table) -> Iterator[int]:
    """The row of the counts that each record lies in, by the ends that its label states."""
    data = made.tables["data"]
    labels = data.column_names[:-1]
    place = {tuple(str(v) for v in row.values()): i
             for i, row in enumerate(data.select(labels).to_pylist())}  # fmt: skip
    ends = {
        n: [(float(t[1:-1].split(", ")[0]), t) for t in sorted(set(data.column(n).to_pylist()))]
        for n in labels if GRID[n].type.measured
    }  # fmt: skip
    for row in original.select(labels).to_pylist():
        yield place[tuple(max(end for end in ends[n] if end[0] <= row[n])[1] for n in labels)]


def counted(kind: str, rng: Any, method: str = "diffgen") -> tuple[pa.Table, Any]:
    """Generalised records whose counts have so much of their noise."""
    columns = correlated(rng)
    original = pa.table({n: c.astype(np.int64) for n, c in columns.items()})
    plan = sherd.Plan(method="diffgen", epsilon=EPSILON / 2, h=CUTS, signal=0)
    made = sherd.protect(original, COUNTED, plan, ledger=None)
    data, n = made.tables["data"], original.num_rows
    times = Counter(leaves(made, original))
    true = np.array([times[i] for i in range(data.num_rows)])
    # Choices: four first cuts, then each cut and, but for the last, its halves.
    left = EPSILON / 2 * (1 - (4 + CUTS + CUTS - 1) / (2 * (4 + 2 * CUTS)))
    factor = {"halved": 0.5, "a tenth": 0.1, "none": 0.0}.get(kind, 1.0)
    noisy = true + np.rint(rng.laplace(size=len(true)) * 2 / left * factor).astype(np.int64)
    bare = data.select(data.column_names[:-1])
    shares = projected(noisy, n)
    if kind == "true records":
        shares = true
    tables = {
        "data": bare.append_column("count", pa.array(noisy)),
        "records": bare.take(pa.array(np.repeat(np.arange(len(true)), shares))),
    }
    if kind == "records not grouped":
        tables["records"] = bare.take(pa.array(list(leaves(made, original))))
    changed = replace(made, tables=tables)
    return original, (as_parties(changed) if method == "arbdistdp" else changed)


def projected(counts: Any, total: int) -> Any:
    """Counts from 0 that add up to the total: all lose the same, found by halving."""
    low, high = -float(total), float(np.max(counts))
    for _ in range(200):
        lost = (low + high) / 2
        low, high = (lost, high) if np.maximum(counts - lost, 0).sum() > total else (low, lost)
    exact = np.maximum(counts - high, 0)
    whole = np.floor(exact + 1e-9).astype(np.int64)
    for i in np.argsort(whole - exact, kind="stable")[: total - int(whole.sum())]:
        whole[i] += 1
    return whole


def as_parties(made: Any) -> Any:
    """The same release as several parties make it who hold its columns."""
    plan = sherd.Plan(method="arbdistdp", epsilon=EPSILON / 2, h=CUTS, signal=0)
    said = {
        "parties": ["clinic", "bank"], "computing": ["clinic", "bank"], "protocol": "SEMI2K",
        "linkage": "ids", "run": "0" * 32, "opened": [{"what": "noisy counts", "numbers": 8}],
    }  # fmt: skip
    facts = {**made.manifest["facts"], **said}
    manifest = {
        **made.manifest, "plan": plan.as_data(), "facts": facts,
        "plan_hash": plan.hash, "guarantee": plan.guarantee(COUNTED).as_data(),
    }  # fmt: skip
    return replace(made, manifest=manifest)


COUNTED = sherd.Schema.from_data({**GRID.as_data(), "missing": "refuse"})


def drawn(kind: str, rng: Any) -> tuple[pa.Table, Any]:
    """Records of a model whose measured counts have so much of their noise, or that are copies."""
    columns = correlated(rng)
    original = pa.table({n: c.astype(np.int64) for n, c in columns.items()})
    plan = sherd.Plan(method="dp-graph", epsilon=EPSILON * len(NAMES), delta=1e-6)
    made = sherd.protect(original, COUNTED, plan, ledger=None)
    data = made.tables["data"]
    if kind == "original":
        return original, replace(made, tables={"data": original.take(rng.permutation(len(data)))})
    if kind == "half of it":
        half = len(data) // 2
        copied = original.take(rng.permutation(len(data))[:half])
        return original, replace(made, tables={"data": pa.concat_tables([data[half:], copied])})
    if kind == "one column":
        bare = original.column("b").take(pa.array(rng.permutation(len(data))))
        return original, replace(made, tables={"data": data.set_column(1, "b", bare)})
    model = json.loads(json.dumps(made.documents["model"]))
    factor = {"halved": 0.5, "a tenth": 0.1, "none": 0.0}.get(kind, 1.0)
    bins = {one["name"]: np.array(one["bins"]) for one in model["attributes"]}
    cells = {
        one["name"]: np.searchsorted(one["edges"], columns[one["name"]], side="right") - 1
        for one in model["attributes"]
    }
    for one in model["fine"] + model["marginals"]:
        single = one in model["fine"]
        if kind == "as planned" or (kind == "one histogram" and one["attributes"] != ["b"]):
            continue
        each = [cells[n] if single else bins[n][cells[n]] for n in one["attributes"]]
        times = Counter(zip(*each, strict=True))
        shape = [len(bins[n]) if single else bins[n].max() + 1 for n in one["attributes"]]
        true = np.array([times[place] for place in np.ndindex(*shape)])
        noise = (np.array(one["counts"]) - true) * (0 if kind == "one histogram" else factor)
        one["counts"] = [int(c) for c in true + np.rint(noise)]
    return original, replace(made, documents={"model": model})


WITHOUT_ROWS: dict[str, tuple[Callable[..., tuple[pa.Table, Any]], tuple[str, ...]]] = {
    "strict": (
        strict,
        ("as planned", "halved", "a tenth", "none", "one column", "first of each cluster",
         "not ascending"),
    ),
    "diffgen": (
        counted,
        ("as planned", "halved", "a tenth", "none", "true records", "records not grouped"),
    ),
    "arbdistdp": (
        lambda kind, rng: counted(kind, rng, "arbdistdp"),
        ("as planned", "halved", "a tenth", "none", "true records", "records not grouped"),
    ),
    "dp-graph": (
        drawn,
        ("as planned", "halved", "a tenth", "none", "one histogram", "original", "half of it",
         "one column"),
    ),
}  # fmt: skip
"""Releases that have no row map, how they are broken, and how that is called."""
