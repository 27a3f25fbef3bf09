"""A run of ``slice``: code, group, generalise, partition, permute, measure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.errors import InfeasibleError, PlanError
from sherd.methods.slicing.attribute_codes import Coded, encode
from sherd.methods.slicing.attribute_grouping import grouped_layout
from sherd.methods.slicing.bucket_pipeline import (
    BucketSettings,
    Coarse,
    bucketed,
    coarse,
    neighbour_order,
    subset,
)
from sherd.methods.slicing.column_layout import BUCKET, ColumnLayout, given_layout
from sherd.methods.slicing.diversity_feasibility import feasible
from sherd.methods.slicing.generalise import described
from sherd.methods.slicing.group_conditions import Conditions
from sherd.methods.slicing.membership_advantage import WORRYING, Membership, measure
from sherd.methods.slicing.permutation import sliced
from sherd.methods.slicing.public_cells import encode_on_cells
from sherd.methods.slicing.sensitive_values import (
    Sensitive,
    quasi_identifiers,
    sensitive_codes,
    stated_bins,
)
from sherd.methods.slicing.slicing_promise import suppression
from sherd.release.method import Finding, Outcome
from sherd.tables.clamping import within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.methods.slicing.signature_record import SignatureRecord
    from sherd.release.method import Lineage, Run
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

COLUMNS = 5
"""Columns made where the plan does not say how many, if there are attributes for them."""

ROUNDS = 20
"""How often records are suppressed and columns generalised again before giving up."""


def settings(plan: Plan) -> BucketSettings:
    """The plan's part that says how tuples are partitioned."""
    return BucketSettings(
        l=plan["l"],
        min_frequency=plan["min_frequency"],
        regroup=plan["scope"] == "any" if plan["regroup"] is None else plan["regroup"],
        scope=plan["scope"],
        beta=float(plan["beta"]),
        tries=plan["tries"],
        conditions=Conditions.of(plan),
    )


def run_slicing(table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
    """Slice a prepared table."""
    table = within(table, schema)
    run.progress("coding", 0, 4)
    sensitive = sensitive_codes(table, schema, plan)
    quasi = quasi_identifiers(plan, schema)
    n = table.num_rows
    # Where this l cannot be reached at all, nothing else is done.
    nothing = np.zeros(n, dtype=np.int32)
    feasible(sensitive, nothing, 1, plan, rows=n, randomness=run.randomness)
    # Only generalised columns publish ranges, whose ends must not be somebody's values.
    code = encode if plan["min_frequency"] is None else encode_on_cells
    coded = {name: code(table[name], schema[name], schema.missing_values) for name in quasi}
    layout = _layout(coded, sensitive, plan, schema, run)
    run.progress("partitioning", 1, 4)
    how = settings(plan)
    need = how.scope == "records"
    for _ in range(ROUNDS):
        parts = coarse(
            coded, layout, table.num_rows, how.min_frequency, run.randomness, need_columns=need
        )
        kept = feasible(
            sensitive,
            *parts.q,
            plan,
            rows=n,
            randomness=run.randomness,
            beside=layout.beside,
        )
        if len(kept) == table.num_rows:
            break
        # Fewer records are generalised differently: what q shares is counted again.
        table = table.take(pa.array(kept))
        coded, sensitive = subset(coded, kept), sensitive.kept(kept)
    else:
        raise InfeasibleError(
            "suppression and generalisation of the sensitive column's quasi-identifiers do not "
            "settle",
            do="lower alpha, or leave min_frequency out",
        )
    buckets = bucketed(coded, layout, parts, sensitive, how, run.randomness)
    run.progress("permuting", 2, 4)
    outcome = _released(table, coded, layout, parts, buckets, schema, plan, run)
    run.progress("measuring", 3, 4)
    membership = measure(coded, layout, sensitive, how, run.randomness)
    findings = _findings(n, table.num_rows, int(buckets.max()) + 1, membership, plan)
    run.progress("done", 4, 4)
    return Outcome(tables=outcome.tables, facts=outcome.facts, findings=findings)


def run_keeping_record(
    table: pa.Table, schema: Schema, plan: Plan, run: Run, lineage: Lineage
) -> tuple[Outcome, SignatureRecord]:
    """Slice a prepared table into buckets in which every record keeps its signature."""
    from sherd.methods.slicing.invariant_buckets import kept_buckets
    from sherd.methods.slicing.signature_record import check_kept, followed

    check_kept(plan, schema)
    table = within(table, schema)
    quasi = quasi_identifiers(plan, schema)
    coded = {name: encode(table[name], schema[name], schema.missing_values) for name in quasi}
    layout = _layout(coded, sensitive_codes(table, schema, plan), plan, schema, run)
    if layout.beside or plan["min_frequency"] is not None or plan["scope"] == "records":
        raise PlanError(
            "a record is kept of buckets whose sensitive column holds nothing else",
            must="no attribute beside the sensitive one, no 'min_frequency', scope 'any'",
            do="leave out alpha and min_frequency",
        )
    order = neighbour_order(list(coded.values()), run.randomness)
    made = kept_buckets(table, schema, plan, run, lineage, order=order, local=True)
    large, buckets = made.expanded(table)
    n = large.num_rows
    parts = coarse(coded, layout, n, None, run.randomness, need_columns=False)
    outcome = _released(large, coded, layout, parts, buckets, schema, plan, run)
    facts = {**outcome.facts, **followed(plan)}
    if plan["after"] is not None:
        facts["empty"] = made.empty
    return Outcome(tables=outcome.tables, facts=facts, findings=made.findings()), made.record


def _layout(
    coded: dict[str, Coded], sensitive: Sensitive, plan: Plan, schema: Schema, run: Run
) -> ColumnLayout:

    quasi = quasi_identifiers(plan, schema)
    if plan["groups"] is not None:
        return given_layout(plan["groups"], quasi, sensitive.names)
    room = len(quasi) - (plan["alpha"] - 1) + 1
    return grouped_layout(
        coded,
        quasi,
        sensitive.names,
        list(zip(sensitive.codes.T, sensitive.sizes, strict=True)),
        n_columns=plan["columns"] or min(COLUMNS, room),
        alpha=plan["alpha"],
        discretise=plan["discretise"],
        clustering=plan["clustering"],
        randomness=run.randomness,
    )


def _released(
    table: pa.Table,
    coded: dict[str, Coded],
    layout: ColumnLayout,
    parts: Coarse,
    buckets: NDArray[np.int64],
    schema: Schema,
    plan: Plan,
    run: Run,
) -> Outcome:

    labels: dict[str, Any] = {}
    books: dict[str, Any] = {}
    for names, cells in zip((*layout.columns[:-1], layout.beside), parts.cells, strict=True):
        if cells is not None:
            arrays, explained = described([coded[name] for name in names], cells)
            labels |= arrays
            books |= explained
    fields = layout.fields()
    columns: list[dict[str, Any]] = [
        {field: labels.get(name, table[name]) for field, name in zip(mine, names, strict=True)}
        for mine, names in zip(fields, layout.columns, strict=True)
    ]
    untouched = [name for name in table.column_names if name in schema.untouched]
    if untouched:
        columns.append({name: table[name] for name in untouched})
    facts = {
        "columns": [list(mine) for mine in fields] + ([untouched] if untouched else []),
        "attributes": {
            field: name
            for mine, names in zip(fields, layout.columns, strict=True)
            for field, name in zip(mine, names, strict=True)
        },
        "sensitive": list(layout.sensitive),
        "bucket": BUCKET,
        "labels": books,
        "bins": stated_bins(plan, schema),
    }
    data = sliced(columns, buckets, run.randomness, shuffle=run.shuffle)
    return Outcome(tables={"data": data}, facts=facts)


def _findings(
    n: int, kept: int, n_buckets: int, membership: Membership | None, plan: Plan
) -> tuple[Finding, ...]:

    findings = [
        Finding(
            name="tuple-partition rate",
            value=n_buckets / kept,
            meaning="buckets per record; the higher, the finer the release",
        )
    ]
    findings += suppression(n, kept, plan["l"])
    if membership is not None:
        meaning = (
            f"how much better than guessing one can tell {membership.members} records that were "
            "sliced from as many real ones that were not"
        )
        if membership.advantage > WORRYING:
            meaning = (
                "WARNING: anybody who knows somebody's quasi-identifiers can tell whether they are "
                f"in the table; {meaning}; raise min_frequency (20 is usual) and use fewer columns"
            )
        findings.append(
            Finding(
                name="membership advantage",
                value=membership.advantage,
                meaning=meaning,
                risk=membership.advantage,
            )
        )
    return tuple(findings)
