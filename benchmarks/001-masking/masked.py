"""Census and white wine as paper 001 uses them: masking, losses and random forests over its grids.

Domains [0, α·max] with α in {1.5, 3}; ε in {0.01, 0.1, 1}; k from 3 to 100 (Census) and to 400
(wine); the mean of 10 runs. The forests are trained on the first 66 % of the records (masked or
original) and tested on the other original ones. What they learn is the original class or, for
α = 1.5, the class of an attribute that was masked with the others.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).parents[1]))

from losses import Original, mean_losses
from reproduction import DataMissingError

import sherd
from sherd.release.method import Run

if TYPE_CHECKING:
    from reproduction import Rows, Setting

    from sherd.randomness import Randomness

CENSUS = [
    "AFNLWGT", "AGI", "EMCONTRB", "FEDTAX", "STATETAX", "TAXINC", "POTHVAL", "INTVAL", "FICA",
]  # fmt: skip
ALPHAS = (1.5, 3.0)
EPSILONS = (0.01, 0.1, 1.0)
KS = {
    "census": (3, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100),
    "wine": (3, 5, 10, 15, 25, 50, 100, 150, 200, 250, 300, 350, 400),
}
SHORT_KS = {"census": (3, 5, 15, 50, 100), "wine": (3, 5, 15, 100, 400)}
METHODS = ("dp", "dp-um", "idp-ls", "idp-cbls")
NAMES = {"dp": "DP", "dp-um": "DP-UM", "idp-ls": "iDP-LS", "idp-cbls": "iDP-CBLS"}
TARGETS = {"census": ("ERNVAL", 30_000), "wine": ("quality", 6)}
"""The attribute that is put into classes, and the largest value of the lower one."""
CLASSES = {"census": ("≤30K", ">30K"), "wine": ("Not Excellent", "Excellent")}
KEPT, MASKED = "not masked", "masked"


def data(name: str) -> tuple[pa.Table, sherd.Schema, pa.ChunkedArray]:
    """Attributes and schema of a dataset, and the attribute that makes its classes."""
    target = TARGETS[name][0]
    if name == "wine":
        whole = sherd.datasets.load("wine")
        white = whole.filter(pc.equal(whole.column("color").cast(pa.string()), "white"))
        table = white.drop_columns(["color", target])
        made_of = white.column(target)
    else:
        folder = os.environ.get("SHERD_DATA")
        if not folder or not (Path(folder) / "census.csv").exists():
            raise DataMissingError(
                "Census is looked for as census.csv in the folder SHERD_DATA names"
            )
        whole = sherd.read(Path(folder) / "census.csv")
        table = whole.select(CENSUS)
        made_of = whole.column(target)
    kind = "number" if name == "wine" else "integer"
    schema = sherd.Schema.from_data({"attributes": {n: {"type": kind} for n in table.column_names}})
    return table, schema, made_of


def with_target(
    name: str, table: pa.Table, schema: sherd.Schema, made_of: pa.ChunkedArray
) -> tuple[pa.Table, sherd.Schema]:
    """The same with the attribute that makes the classes as one more to be masked."""
    target = TARGETS[name][0]
    attributes = {**schema.as_data()["attributes"], target: {"type": "integer"}}
    return table.append_column(target, made_of), sherd.Schema.from_data({"attributes": attributes})


def mask(
    table: pa.Table,
    schema: sherd.Schema,
    method: str,
    epsilon: float,
    k: int,
    alpha: float,
    source: Randomness,
) -> pa.Table:
    """One run, rows in their order, with the paper's scales."""
    more: dict[str, Any] = {} if method in ("dp", "idp") else {"k": k, "guarantee": "paper"}
    plan = sherd.Plan(method=method, epsilon=epsilon, domain_from_data=alpha, **more)
    run = Run(randomness=source, threads=1, shuffle=False)
    return plan.spec.run(table, schema, plan, run).tables["data"]


def losses(name: str, setting: Setting) -> Rows:
    """Mean SSE of every method, α, ε and k."""
    table, schema, _ = data(name)
    original = Original.of(table, schema, by_frequency=False)
    ks = setting.grid(KS[name], SHORT_KS[name])
    cells = [
        (alpha, epsilon, method, k)
        for alpha in ALPHAS
        for epsilon in EPSILONS
        for method in METHODS
        for k in (ks if method != "dp" else ks[:1])
    ]
    runs = setting.count(10, 4)
    rows: Rows = []
    for done, (alpha, epsilon, method, k) in enumerate(cells, 1):
        each = [
            original.losses(
                original.squares(mask(table, schema, method, epsilon, k, alpha, setting.source()))
            )
            for _ in range(runs)
        ]
        mean = mean_losses(each)
        for shown in ks if method == "dp" else (k,):  # a horizontal line, as in the paper
            rows.append(
                {"data": name, "alpha": alpha, "epsilon": epsilon, "method": method, "k": shown,
                 "line": f"{NAMES[method]}, α = {alpha:g}", "panel": f"ε = {epsilon:g}",
                 "runs": runs, **mean}
            )  # fmt: skip
        setting.progress(f"{name} losses", done, len(cells))
    return rows


def forest_cells(name: str, setting: Setting) -> list[tuple[str, float, float, str, int]]:
    """Whether the class is masked, α, ε, method and k of every forest, the second reading last."""
    methods = ("idp-ls", "idp-cbls")
    ks = setting.grid(KS[name], (5, 50, 100))
    alphas = setting.grid(ALPHAS, ALPHAS[:1])
    kept = itertools.product((KEPT,), alphas, EPSILONS, methods, ks)
    masked = itertools.product(
        (MASKED,), ALPHAS[:1], EPSILONS, methods, setting.grid(KS[name], (50,))
    )
    return [*kept, *masked]


def classification(name: str, setting: Setting) -> Rows:
    """F-measures of both classes for iDP-LS and iDP-CBLS, beside original training data."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.metrics import f1_score

    table, schema, made_of = data(name)
    wide, wide_schema = with_target(name, table, schema, made_of)
    limit = TARGETS[name][1]
    classes = made_of.to_numpy() > limit
    cut = int(0.66 * table.num_rows)
    test = np.column_stack([c.to_numpy() for c in table.columns])[cut:]
    runs = setting.count(10, 2)

    def scores(training: pa.Table, learned: np.ndarray, seed: int) -> tuple[float, float]:
        attributes = training.select(table.column_names)
        matrix = np.column_stack([c.to_numpy() for c in attributes.columns])[:cut]
        forest = RandomForestClassifier(n_estimators=100, random_state=seed, n_jobs=1)
        forest.fit(matrix, learned[:cut])
        guess = forest.predict(test)
        # A class that masking left no record of is never guessed; its F-measure is 0.
        return (
            float(f1_score(classes[cut:], guess, pos_label=False, zero_division=0.0)),
            float(f1_score(classes[cut:], guess, pos_label=True, zero_division=0.0)),
        )

    def one(reading: str, alpha: float, epsilon: float, method: str, k: int, seed: int) -> Any:
        source = setting.source()
        if reading == KEPT:
            return scores(mask(table, schema, method, epsilon, k, alpha, source), classes, seed)
        masked = mask(wide, wide_schema, method, epsilon, k, alpha, source)
        return scores(masked, masked.column(TARGETS[name][0]).to_numpy() > limit, seed)

    rows: Rows = []
    upper = np.array([scores(table, classes, seed) for seed in range(runs)])
    cells = forest_cells(name, setting)
    for done, (reading, alpha, epsilon, method, k) in enumerate(cells, 1):
        each = np.array([one(reading, alpha, epsilon, method, k, seed) for seed in range(runs)])
        for index, label in enumerate(CLASSES[name]):
            rows.append(
                {"data": name, "class": label, "records": int((classes == bool(index)).sum()),
                 "classes": reading, "alpha": alpha, "epsilon": epsilon, "method": method, "k": k,
                 "runs": runs, "F-measure": float(each[:, index].mean()),
                 "standard error": _error(each[:, index]),
                 "original": float(upper[:, index].mean()),
                 "standard error, original": _error(upper[:, index]),
                 "line": f"{NAMES[method]}, ε = {epsilon:g}", "panel": f"{label}, α = {alpha:g}"}
            )  # fmt: skip
        setting.progress(f"{name} forests", done, len(cells))
    return rows


def _error(runs: np.ndarray) -> float:
    """The standard error of the mean; nothing is known of it from one run."""
    return float(runs.std(ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else 0.0
