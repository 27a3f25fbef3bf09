# ruff: noqa: E741 - l is the field's own name for it
"""``anatomy``: bucketisation; quasi-identifiers in one table, sensitive values in another.

The baseline of paper 003 (section 3), by the algorithm of xiao2006: groups of l records
with l different sensitive values, taken from the most frequent ones first; one table says
which group a record is in, the other how often each sensitive value occurs in a group.
With several sensitive attributes, the records of a group differ in each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import PlanError
from sherd.guarantees import Adversary, Guarantee, LDiversity, Proposition
from sherd.methods.slicing.column_layout import BUCKET
from sherd.methods.slicing.sensitive_values import feasible_rows, sensitive_names, stated_bins
from sherd.methods.slicing.slicing_promise import (
    AFTER,
    ARRANGED,
    BINS,
    MOST_SUPPRESSED,
    SENSITIVE,
    SUPPRESS,
    UNIT,
    L,
    assumptions,
    check_attributes,
    following_words,
    left_aside,
    suppression,
)
from sherd.release.method import Described, Finding, Outcome, Parameter
from sherd.release.traits import Traits

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from sherd.methods.slicing.invariant_buckets import SignatureRecord
    from sherd.release.method import PrivateRecord, Run
    from sherd.release.plan import Plan
    from sherd.tables.row_keys import Keys
    from sherd.tables.schema import Schema

QUASI = "quasi-identifiers"
"""The released table of quasi-identifiers, a row a record."""

SENSITIVE_TABLE = "sensitive"
"""The released table of sensitive values, a row a bucket and value."""

COUNT = "count"
"""How many records of a bucket have a sensitive value."""


TRAITS = Traits(
    family="slicing",
    tables=("quasi-identifiers", "sensitive"),
    verifier="sherd.verifying.sliced_tables:verify_buckets",
    facts="sherd.verifying.stated_facts:bucketised",
    drawing="sherd.auditing.case.record_drawing:buckets",
    following=("after",),
    needs=("slicing",),
)


@dataclass(frozen=True, kw_only=True)
class Anatomy:
    """Bucketisation for l-diversity."""

    name: str = "anatomy"
    title: str = "Bucketisation with l-diversity"
    summary: str = (
        "Releases quasi-identifiers as they are and sensitive values in a table of their own; "
        "records and values are linked by buckets of about l records only."
    )
    parameters: tuple[Parameter, ...] = (L, SENSITIVE, SUPPRESS, MOST_SUPPRESSED, BINS, AFTER)
    traits: Traits = TRAITS

    def describe(self) -> tuple[Described, ...]:
        """What the method promises in general."""
        return (
            Described(
                name=None,
                promise=LDiversity.definition(),
                covers="the link between a person's quasi-identifiers and the sensitive values",
                not_covered=(
                    "whether somebody is in the table: quasi-identifiers are released as they are, "
                    "record by record",
                    ARRANGED,
                ),
                source="xiao2006, section 3; arul2019, section 3",
            ),
        )

    def check(self, plan: Plan, schema: Schema) -> None:
        """Raise PlanError or SchemaError where plan and schema do not fit the method."""
        check_attributes(plan, schema)
        if COUNT in sensitive_names(plan, schema):
            from sherd.errors import SchemaError

            raise SchemaError(
                f"a sensitive attribute is called '{COUNT}', the name of the released counts",
                do="rename it",
            )

    def guarantee(self, plan: Plan, schema: Schema) -> Guarantee:
        """What a release will promise; computed without seeing the table."""
        names = ", ".join(sensitive_names(plan, schema))
        return Guarantee(
            notion=LDiversity(l=plan["l"]),
            unit=UNIT,
            covers=f"the link between a person's quasi-identifiers and {names}"
            + following_words(plan),
            adversary=Adversary.KNOWS_QUASI_IDENTIFIERS,
            assumes=assumptions(plan, schema),
            source=Proposition(work="xiao2006", place="section 3; arul2019, section 3"),
            not_covered=(
                "whether somebody is in the table: quasi-identifiers are released as they are, "
                "record by record",
                *left_aside(plan, schema),
            ),
        )

    def run(self, table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Bucketise a prepared table."""
        if plan["after"] is not None:
            raise PlanError(
                "a release that follows another needs the owner's record of it, and the key",
                do="pass Settings(key=…, past=…)",
            )
        return _run(table, schema, plan, run)

    def load_record(self, path: Path) -> SignatureRecord:
        """Read the record that an earlier release left with its owner."""
        from sherd.methods.slicing.invariant_buckets import SignatureRecord

        return SignatureRecord.load(path)

    def plan_after(
        self, old: Path, record: PrivateRecord, schema: Schema, chosen: Mapping[str, Any]
    ) -> Plan:
        """The plan of the release after the one in the folder ``old``."""
        from sherd.methods.slicing.invariant_buckets import follow

        return follow(old, record, schema, chosen)

    def run_keeping_record(
        self,
        table: pa.Table,
        schema: Schema,
        plan: Plan,
        run: Run,
        *,
        keys: Keys,
        past: PrivateRecord | None,
    ) -> tuple[Outcome, PrivateRecord]:
        """Bucketise a prepared table so that every record keeps its signature."""
        return _run_keeping_record(table, schema, plan, run, keys, past)


METHOD = Anatomy()


def _run(table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
    import numpy as np
    import pyarrow as pa

    from sherd.methods.slicing.bucket_pipeline import check_buckets
    from sherd.methods.slicing.permutation import renamed

    n, l = table.num_rows, plan["l"]
    table, sensitive, kept = feasible_rows(table, schema, plan, run.randomness)
    m = len(kept)
    run.progress("grouping", 0, 1)
    buckets = _grouped(sensitive, l, run.randomness.permutation(m))
    check_buckets(buckets, np.zeros(m, dtype=np.int32), 1, sensitive, l)
    names = renamed(buckets, run.randomness)
    rows = run.randomness.permutation(m) if run.shuffle else np.arange(m)
    place = pa.array(rows)
    known = {name: table[name].take(place) for name in table.column_names}
    quasi = {name: known[name] for name in known if name not in sensitive.names}
    tables = {
        QUASI: pa.table({BUCKET: pa.array(names[rows]), **quasi}),
        SENSITIVE_TABLE: _counted(table, sensitive.names, names, run),
    }
    run.progress("done", 1, 1)
    return Outcome(
        tables=tables,
        facts={
            "sensitive": list(sensitive.names),
            "bucket": BUCKET,
            "count": COUNT,
            "bins": stated_bins(plan, schema),
        },
        findings=_findings(n, m, int(buckets.max()) + 1, l),
    )


def _run_keeping_record(
    table: pa.Table,
    schema: Schema,
    plan: Plan,
    run: Run,
    keys: Keys,
    past: PrivateRecord | None,
) -> tuple[Outcome, SignatureRecord]:
    import numpy as np
    import pyarrow as pa

    from sherd.methods.slicing.clamping import within
    from sherd.methods.slicing.invariant_buckets import SignatureRecord, bucketed_again, check_past
    from sherd.tables.coding import texts

    (name,) = sensitive_names(plan, schema)[:1]
    if len(sensitive_names(plan, schema)) > 1 or schema[name].type.measured:
        raise PlanError(
            "a record is kept of one sensitive attribute with labels only",
            got=", ".join(sensitive_names(plan, schema)),
            do="name one with 'sensitive', or make its bins an attribute of the table",
        )
    table = within(table, schema)
    seeded = run.randomness.is_seeded
    if past is None:
        old = SignatureRecord(
            signatures=(), members={}, l=plan["l"], sensitive=name, method=plan.method,
            key=keys.attribute, schema=schema.hash, seeded=seeded,
        )  # fmt: skip
        if plan["after"] is not None:
            check_past(past, plan, schema, keys, seeded=seeded)
    else:
        old = check_past(past, plan, schema, keys, seeded=seeded)
    column = table[name].combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    cells = texts(column)
    values = [_MISSING if cell is None else _PRESENT + cell for cell in cells]
    made = bucketed_again(old, keys.values, values, run.randomness)
    if past is None and made.held_back > plan["most_suppressed"] * table.num_rows:
        feasible_rows(table, schema, plan, run.randomness)  # says what would help
    order = run.randomness.permutation(len(made.rows)) + 1
    bucket = np.repeat(order, [len(rows) for rows in made.rows])
    rows = np.array([row for rows in made.rows for row in rows], dtype=np.int64)
    shuffled = run.randomness.permutation(len(rows)) if run.shuffle else np.argsort(rows)
    place = pa.array(rows[shuffled])
    quasi = {n: table[n].take(place) for n in table.column_names if n != name}
    listed = [(int(b), v) for b, vs in zip(order, made.values, strict=True) for v in vs]
    listed = [listed[at] for at in run.randomness.permutation(len(listed))]
    shown = pa.array([None if v == _MISSING else v[1:] for _, v in listed], pa.string())
    tables = {
        QUASI: pa.table({BUCKET: pa.array(bucket[shuffled]), **quasi}),
        SENSITIVE_TABLE: pa.table(
            {
                BUCKET: pa.array([b for b, _ in listed]),
                name: shown.cast(column.type),
                COUNT: pa.array(np.ones(len(listed), dtype=np.int64)),
            }
        ),
    }
    facts = {"sensitive": [name], "bucket": BUCKET, "count": COUNT, "bins": {}}
    if plan["after"] is not None:
        facts["after"] = plan["after"]["release"]
    told = (
        ("kept", made.stay, "records of earlier releases, each with its signature"),
        ("held back", made.held_back, "new records that found no bucket; they may come later"),
        ("stale", made.stale, "records that keep the value they were last released with"),
        ("empty places", made.empty, "listed values that belong to nobody any more"),
    )
    findings = tuple(Finding(name=n, value=v, meaning=text) for n, v, text in told)
    return Outcome(tables=tables, facts=facts, findings=findings), made.record


_MISSING, _PRESENT = "-", "+"


def _grouped(sensitive: Any, l: int, order: Any) -> Any:
    import numpy as np

    from sherd.methods.slicing.regroup import grouped, joint_groups

    codes = np.ascontiguousarray(sensitive.codes[order])
    if codes.shape[1] > 1:
        group = joint_groups(codes, np.array(sensitive.sizes, dtype=np.int64), l)
    else:
        group = grouped(codes[:, 0].copy(), sensitive.sizes[0], l)
    buckets = np.empty(len(order), dtype=np.int64)
    buckets[order] = group
    return buckets


def _counted(table: pa.Table, names: tuple[str, ...], buckets: Any, run: Run) -> pa.Table:
    """Every bucket's sensitive values with their counts, in random order."""
    import pyarrow as pa

    listed = pa.table({BUCKET: pa.array(buckets), **{name: table[name] for name in names}})
    counted = listed.group_by([BUCKET, *names]).aggregate([([], "count_all")])
    counted = counted.rename_columns(
        [COUNT if name == "count_all" else name for name in counted.column_names]
    )
    counted = counted.select([BUCKET, *names, COUNT])
    return counted.take(pa.array(run.randomness.permutation(counted.num_rows)))


def _findings(n: int, kept: int, n_buckets: int, l: int) -> tuple[Finding, ...]:
    found = Finding(name="buckets", value=n_buckets, meaning="groups of records and their values")
    return (found, *suppression(n, kept, l))
