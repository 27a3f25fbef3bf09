"""What the demonstration's joint releases are worth: against pooled data, against each alone.

A release's rows are shuffled, so that the mean SSE, which compares record with record, is
measured on a repetition of the same plans with known order. What needs no order (marginal
distributions, correlations) is measured on the release itself. Everything here looks at raw
data and is internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.federation.aggregator.round_work import Aggregator
    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema
    from sherd_examples.rounds_demonstration import Fragment


def measure(
    name: str,
    aggregator: Aggregator,
    homes: dict[str, OwnerHome],
    whole: pa.Table,
    schema: Schema,
    fragments: list[Fragment],
) -> dict[str, Any]:
    """Everything the demonstration shows of one round."""
    from sherd.budget.ledger import Ledger
    from sherd.release.bundle import Release

    data = aggregator.store.round(name)
    assert data is not None
    assert data.plan is not None
    folder = aggregator.folder(name)
    released = Release.load(folder)
    table = released.tables["data"]
    spent = {
        owner: str(Ledger(home.ledger).account(home.settings.population).spent)
        for owner, home in homes.items()
    }
    plans = {each.owner: data.plan.local(each.owner) for each in fragments}
    vertical = fragments[0].key is not None
    pooled = _pooled_plan(plans, data.plan.composed)
    loss = (
        _vertical_loss(whole, schema, fragments, plans, pooled)
        if vertical
        else _horizontal_loss(whole, schema, fragments, plans, pooled)
    )
    title = (
        "Wine Quality by columns over three owners"
        if vertical
        else "Adult by rows over four owners"
    )
    return {
        "title": title,
        "folder": str(folder),
        "rows": table.num_rows,
        "columns": table.num_columns,
        "epsilon": data.plan.composed,
        "composition": data.plan.composition,
        "spent": spent,
        "loss": loss,
        "worth": _seen_together(whole, table, schema, fragments)
        if vertical
        else _marginals(whole, table, schema, fragments),
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
