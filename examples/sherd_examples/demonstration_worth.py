"""What the demonstration's joint releases are worth: against pooled data, against each alone.

A release's rows are shuffled, so that the mean SSE, which compares record with record, is
measured on a repetition of the same plans with known order. What needs no order (marginal
distributions, correlations) is measured on the release itself. Everything here looks at raw
data and is internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.federation.aggregator.round_work import Aggregator
    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema
    from sherd_examples.demonstration_owners import Cut, Fragment


_ROWS = (
    "Each owner has different people. With the paper's method every owner masks its own rows. With "
    "dp-graph every owner sends noisy counts under a mask; the aggregator learns only their sum."
)
_COLUMNS = (
    "Each owner knows different properties of the same samples. With the paper's method every "
    "owner masks its own columns. With dp-graph the owners count on shares, none of which tells "
    "anything by itself, and nobody sees more than noisy counts."
)


def measure(name: str, aggregator: Aggregator, cut: Cut) -> dict[str, Any]:
    """What the paper's round is worth beside pooled data and each owner alone."""
    from sherd.release.bundle import Release

    data = aggregator.store.round(name)
    assert data is not None
    assert data.plan is not None
    table = Release.load(aggregator.folder(name)).tables["data"]
    fragments = cut.fragments
    plans = {each.owner: data.plan.local(each.owner) for each in fragments}
    vertical = fragments[0].key is not None
    pooled = _pooled_plan(plans, data.plan.composed)
    lost = _vertical_loss if vertical else _horizontal_loss
    seen = _seen_together if vertical else _marginals
    return {
        "title": f"Wine Quality by columns over {len(fragments)} owners"
        if vertical
        else f"Adult by rows over {len(fragments)} owners",
        "how": _COLUMNS if vertical else _ROWS,
        "composition": data.plan.composition,
        "loss": lost(cut.table, cut.schema, fragments, plans, pooled),
        "worth": seen(cut.table, table, cut.schema, fragments),
    }


def described(method: str, folder: Path, homes: dict[str, OwnerHome]) -> dict[str, Any]:
    """A release's place and size, and what each owner's ledger was charged for its method."""
    from sherd.budget.amount import Amount
    from sherd.budget.ledger import Ledger
    from sherd.release.bundle import Release

    release = Release.load(folder)
    table = release.tables["data"]
    spent = {}
    for owner, home in homes.items():
        entries = [one for one in Ledger(home.ledger).entries() if one.kind == "charge"]
        # Answers after the first of a round of sums are noted with an amount of 0.
        (mine,) = {one.amount for one in entries if one.method == method} - {Amount("0")}
        spent[owner] = str(mine)
    return {
        "folder": str(folder),
        "rows": table.num_rows,
        "columns": table.num_columns,
        "epsilon": release.manifest["guarantee"]["epsilon"],
        "spent": spent,
    }


def _pooled_plan(plans: dict[str, Plan], epsilon: str | None) -> Plan:
    from sherd.release.plan import Plan

    chosen = next(iter(plans.values())).as_data()
    assert epsilon is not None
    return Plan(**{**chosen, "epsilon": float(epsilon)})


def _repeat(table: pa.Table, schema: Schema, plan: Plan) -> tuple[pa.Table, pa.Table]:
    """A table and its mask by the plan, row by row."""
    from sherd.release.protect import Settings, protect

    release = protect(table, schema, plan, settings=Settings(keep_order=True))
    return table, release.tables["data"]


def _plain(table: pa.Table) -> pa.Table:
    import pyarrow as pa

    return pa.table(
        {
            name: column.cast(column.type.value_type)
            if pa.types.is_dictionary(column.type)
            else column
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    )


def _horizontal_loss(
    whole: pa.Table,
    schema: Schema,
    fragments: list[Fragment],
    plans: dict[str, Plan],
    pooled: Plan,
) -> dict[str, float]:
    import pyarrow as pa

    from sherd.release.information_loss import mean_sse

    found = {"pooled data": mean_sse(*_repeat(whole, schema, pooled), schema)}
    befores, afters, alone = [], [], {}
    for each in fragments:
        before, after = _repeat(each.table, schema, plans[each.owner])
        befores.append(_plain(before))
        afters.append(_plain(after))
        alone[f"{each.owner} alone"] = mean_sse(before, after, schema)
    joined = [pa.concat_tables(part, promote_options="permissive") for part in (befores, afters)]
    return {**found, "joint release": mean_sse(joined[0], joined[1], schema), **alone}


def _vertical_loss(
    whole: pa.Table,
    schema: Schema,
    fragments: list[Fragment],
    plans: dict[str, Plan],
    pooled: Plan,
) -> dict[str, float]:
    from dataclasses import replace

    import pyarrow as pa

    from sherd.release.information_loss import mean_sse

    found = {"pooled data": mean_sse(*_repeat(whole, schema, pooled), schema)}
    columns: dict[str, Any] = {}
    alone = {}
    for each in fragments:
        own = {n: a for n, a in each.schema.attributes.items() if n != each.key}
        part = replace(each.schema, attributes=own)
        before, after = _repeat(whole.select(list(own)), part, plans[each.owner])
        columns |= {name: after.column(name) for name in own}
        alone[f"{each.owner} alone ({len(own)} attributes)"] = mean_sse(before, after, part)
    masked = pa.table({name: columns[name] for name in schema.attributes})
    return {**found, "joint release": mean_sse(whole, masked, schema), **alone}


def _numbers(table: pa.Table, schema: Schema) -> dict[str, NDArray[np.float64]]:
    from sherd.tables.number_scale import scale_of

    found = {}
    for name in schema.protected:
        scale = scale_of(schema[name], table.column(name), schema, by_frequency=False)
        found[name] = scale.numbers(table.column(name), schema)
    return found


def _distance(truth: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """The largest gap between two distribution functions (Kolmogorov's distance)."""
    import numpy as np

    points = np.unique(np.concatenate([truth, other]))
    first = np.searchsorted(np.sort(truth), points, side="right") / len(truth)
    second = np.searchsorted(np.sort(other), points, side="right") / len(other)
    return float(np.abs(first - second).max())


def _marginals(
    whole: pa.Table, released: pa.Table, schema: Schema, fragments: list[Fragment]
) -> str:
    """How far the release's marginals are from everybody's, and one owner's own raw ones."""
    import numpy as np

    truth, masked = _numbers(whole, schema), _numbers(released, schema)
    joint = np.mean([_distance(truth[name], masked[name]) for name in truth])
    largest = max(fragments, key=lambda each: each.table.num_rows)
    return (
        f"the release's distributions are within {joint:.3f} of everybody's (Kolmogorov, mean over "
        f"{len(truth)} attributes), over {released.num_rows} people; the largest owner alone has "
        f"{largest.table.num_rows}"
    )


def _seen_together(
    whole: pa.Table, released: pa.Table, schema: Schema, fragments: list[Fragment]
) -> str:
    """Which correlations can be seen at all, and how far the release's are from the truth."""
    import numpy as np

    truth, masked = _numbers(whole, schema), _numbers(released, schema)
    names = list(truth)
    true = np.corrcoef([truth[name] for name in names])
    seen = np.corrcoef([masked[name] for name in names])
    above = np.triu_indices(len(names), 1)
    gap = float(np.nanmean(np.abs(true - seen)[above]))
    alone = [
        len(each.schema.protected) * (len(each.schema.protected) - 1) // 2 for each in fragments
    ]
    return (
        f"{len(above[0])} correlations can be seen in the release ({gap:.3f} from the truth in the "
        f"mean); the owners alone see {', '.join(str(count) for count in alone)}"
    )
