"""Adult and Wine Quality as paper 000 uses and fragments them, and the loss over its grids.

The settings are the paper's: 45,222 complete records × 10 attributes and 6,497 × 11; owners of
11,100 / 15,000 / 12,000 / 7,122 and of 500 / 1,000 / 4,997 records drawn anew in every run; one
attribute an owner (Adult) and three groups of attributes (wine); 50 runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from losses import Original, mean_losses

import sherd
from sherd.release.method import Run
from sherd.tables.coding import arrow_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from reproduction import Rows, Setting

    from sherd.randomness import Randomness

    Scenario = Callable[[str, pa.Table, sherd.Schema, sherd.Plan, Randomness], pa.Table]

EPSILONS = (0.01, 0.1, 0.25, 0.5, 0.75, 1.0)
KS = {"adult": (1, 50, 100, 250, 500, 1000, 2000), "wine": (1, 50, 100, 150, 200, 250, 300)}
SHORT_EPSILONS = (0.01, 0.1, 0.5, 1.0)
SHORT_KS = {"adult": (1, 50, 250, 1000), "wine": (1, 50, 150, 300)}
SHORT_RUNS = 4
ADULT = [
    "age", "workclass", "education", "marital_status", "occupation", "relationship", "race", "sex",
    "hours_per_week", "native_country",
]  # fmt: skip
WINE = [
    "fixed_acidity", "volatile_acidity", "citric_acid", "residual_sugar", "chlorides",
    "free_sulfur_dioxide", "total_sulfur_dioxide", "density", "ph", "sulphates", "alcohol",
]  # fmt: skip
OWNERS = {"adult": (11_100, 15_000, 12_000, 7_122), "wine": (500, 1_000, 4_997)}
VERTICAL = {"adult": [[name] for name in ADULT], "wine": [WINE[:3], WINE[3:7], WINE[7:]]}


def data(name: str) -> tuple[pa.Table, sherd.Schema]:
    """A dataset as the paper uses it, domains not declared."""
    columns = ADULT if name == "adult" else WINE
    table = sherd.datasets.load(name, complete=True).select(columns)
    whole = sherd.datasets.schema(name)
    attributes = {}
    for column in columns:
        kind = "number" if name == "wine" else whole[column].type.value
        kind = "category" if kind == "ordinal" else kind
        attributes[column] = {"type": kind}
    return table, sherd.Schema.from_data({"attributes": attributes})


def part_of(schema: sherd.Schema, columns: list[str]) -> sherd.Schema:
    """The schema of some attributes."""
    kept = {name: schema.as_data()["attributes"][name] for name in columns}
    return sherd.Schema.from_data({"attributes": kept})


def plan(method: str, epsilon: float, k: int, domain: float = 2.0) -> sherd.Plan:
    """A plan as in the paper; k = 1 is plain iDP (or plain DP)."""
    common = {"epsilon": epsilon, "category_order": "frequency", "domain_from_data": domain}
    if k == 1:
        return sherd.Plan(method={"idp-ls": "idp", "dp-um": "dp"}[method], **common)
    return sherd.Plan(method=method, k=k, guarantee="paper", **common)


def mask(table: pa.Table, schema: sherd.Schema, chosen: sherd.Plan, source: Randomness) -> pa.Table:
    """One run, rows in their order."""
    run = Run(randomness=source, threads=1, shuffle=False)
    return chosen.spec.run(table, schema, chosen, run).tables["data"]


def settled(table: pa.Table, schema: sherd.Schema) -> sherd.Schema:
    """The schema with domains [0, 2·max] and category orders taken from the whole table."""
    from sherd.tables.number_scale import axis_of

    attributes: dict[str, Any] = {}
    for attribute in schema:
        axis = axis_of(
            attribute, table.column(attribute.name), domain_from_data=2.0, by_frequency=True
        )
        if axis.labels is not None:
            attributes[attribute.name] = {"type": "ordinal", "values": list(axis.labels)}
        else:
            low, high = axis.low * axis.step, axis.high * axis.step
            attributes[attribute.name] = {
                "type": attribute.type.value,
                "domain": [
                    str(float(low)) if attribute.type != "integer" else str(int(low)),
                    str(float(high)) if attribute.type != "integer" else str(int(high)),
                ],
            }
    return sherd.Schema.from_data({"attributes": attributes})


def centralised(
    name: str, table: pa.Table, schema: sherd.Schema, chosen: sherd.Plan, source: Randomness
) -> pa.Table:
    """One party holds everything."""
    del name
    return mask(table, schema, chosen, source)


def horizontal(local: bool) -> Scenario:
    """Owners of disjoint people, drawn anew in every run; orders local or agreed."""

    def scenario(
        name: str, table: pa.Table, schema: sherd.Schema, chosen: sherd.Plan, source: Randomness
    ) -> pa.Table:
        order = source.permutation(table.num_rows)
        agreed = settled(table, schema)
        parts, start = [], 0
        for size in OWNERS[name]:
            part = table.take(arrow_array(order[start : start + size]))
            if local:
                # Domains stay those of the whole table; only the order of labels is local.
                own = {
                    a.name: (schema if a.type == "category" else agreed).as_data()["attributes"][
                        a.name
                    ]
                    for a in schema
                }
                parts.append(
                    mask(part, sherd.Schema.from_data({"attributes": own}), chosen, source)
                )
            else:
                parts.append(mask(part, agreed, chosen, source))
            start += size
        back = np.empty(table.num_rows, np.int64)
        back[order] = np.arange(table.num_rows)
        return pa.concat_tables(parts, promote_options="permissive").take(arrow_array(back))

    return scenario


def vertical(by_attributes: bool) -> Scenario:
    """Owners of disjoint attributes of the same people; shares equal an owner or an attribute."""

    def scenario(
        name: str, table: pa.Table, schema: sherd.Schema, chosen: sherd.Plan, source: Randomness
    ) -> pa.Table:
        groups = VERTICAL[name]
        columns = {}
        for group in groups:
            share = len(group) / len(schema.protected) if by_attributes else 1 / len(groups)
            own = {**chosen.as_data(), "epsilon": chosen["epsilon"] * share}
            masked = mask(table.select(group), part_of(schema, group), sherd.Plan(**own), source)
            columns |= {column: masked.column(column) for column in group}
        return pa.table({column: columns[column] for column in table.column_names})

    return scenario


def grid(
    name: str,
    method: str,
    scenario: Scenario,
    setting: Setting,
    label: str,
    domain: float = 2.0,
) -> Rows:
    """The mean loss of a scenario for every (ε, k)."""
    table, schema = data(name)
    original = Original.of(table, schema, by_frequency=True)
    rows: Rows = []
    pairs = [
        (e, k)
        for k in setting.grid(KS[name], SHORT_KS[name])
        for e in setting.grid(EPSILONS, SHORT_EPSILONS)
    ]
    runs = setting.count(50, SHORT_RUNS)
    for done, (epsilon, k) in enumerate(pairs, 1):
        chosen = plan(method, epsilon, k, domain)
        found = [
            original.losses(
                original.squares(scenario(name, table, schema, chosen, setting.source()))
            )
            for _ in range(runs)
        ]
        rows.append(
            {
                "data": name,
                "scenario": label,
                "method": method,
                "domain": f"[0, {domain:g}·max]",
                "epsilon": epsilon,
                "k": k,
                "runs": runs,
                **mean_losses(found),
            }
        )
        setting.progress(f"{name}, {label}, {method}", done, len(pairs))
    return rows
