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

from sherd.guarantees import Adversary, Guarantee, LDiversity, Proposition
from sherd.methods.slicing.column_layout import BUCKET
from sherd.methods.slicing.diversity_feasibility import feasible_rows
from sherd.methods.slicing.group_conditions import Conditions
from sherd.methods.slicing.sensitive_values import sensitive_names, stated_bins
from sherd.methods.slicing.signature_record import (
    KeepsSignatures,
    followed,
    needs_record,
    plain_type,
)
from sherd.methods.slicing.slicing_promise import (
    AFTER,
    ARRANGED,
    BINS,
    CONDITIONS,
    MOST_SUPPRESSED,
    SENSITIVE,
    SETS,
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
    import pyarrow as pa

    from sherd.methods.slicing.signature_record import SignatureRecord
    from sherd.release.method import Lineage, PrivateRecord, Run
    from sherd.release.plan import Plan
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
    verifier="sherd.verifying.bucketised_tables:verify_buckets",
    verified_in_pieces=True,
    facts="sherd.verifying.stated_facts:bucketised",
    drawing="sherd.auditing.case.record_drawing:buckets",
    following=("after",),
    needs=("slicing",),
)


@dataclass(frozen=True, kw_only=True)
class Anatomy(KeepsSignatures):
    """Bucketisation for l-diversity."""

    name: str = "anatomy"
    title: str = "Bucketisation with l-diversity"
    summary: str = (
        "Releases quasi-identifiers as they are and sensitive values in a table of their own; "
        "records and values are linked by buckets of about l records only."
    )
    parameters: tuple[Parameter, ...] = (
        L,
        SENSITIVE,
        SUPPRESS,
        MOST_SUPPRESSED,
        BINS,
        AFTER,
        CONDITIONS,
        SETS,
    )
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
            notion=Conditions.of(plan).notion(plan["l"]),
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
        needs_record(plan)
        return _run(table, schema, plan, run)

    def run_keeping_record(
        self, table: pa.Table, schema: Schema, plan: Plan, run: Run, lineage: Lineage
    ) -> tuple[Outcome, PrivateRecord]:
        """Bucketise a prepared table so that every record keeps its signature."""
        return _run_keeping_record(table, schema, plan, run, lineage)


METHOD = Anatomy()


def _run(table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
    import numpy as np
    import pyarrow as pa

    from sherd.methods.slicing.anatomy_buckets import bucketised
    from sherd.methods.slicing.bucket_pipeline import check_buckets
    from sherd.methods.slicing.permutation import renamed

    n, l = table.num_rows, plan["l"]
    table, sensitive, kept = feasible_rows(table, schema, plan, run.randomness)
    m = len(kept)
    run.progress("grouping", 0, 1)
    wanted = Conditions.of(plan)
    buckets = bucketised(sensitive, l, wanted, run.randomness.permutation(m))
    check_buckets(buckets, np.zeros(m, dtype=np.int32), 1, sensitive, wanted.with_l(l))
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
    table: pa.Table, schema: Schema, plan: Plan, run: Run, lineage: Lineage
) -> tuple[Outcome, SignatureRecord]:
    import numpy as np
    import pyarrow as pa

    from sherd.methods.slicing.invariant_buckets import kept_buckets, shown
    from sherd.tables.clamping import within

    table = within(table, schema)
    shuffled = run.randomness.permutation(table.num_rows)
    made = kept_buckets(table, schema, plan, run, lineage, order=shuffled)
    name = made.record.sensitive
    order = run.randomness.permutation(len(made.rows)) + 1
    bucket = np.repeat(order, [len(rows) for rows in made.rows])
    rows = np.array([row for rows in made.rows for row in rows], dtype=np.int64)
    turn = run.randomness.permutation(len(rows)) if run.shuffle else np.argsort(rows)
    place = pa.array(rows[turn])
    quasi = {n: table[n].take(place) for n in table.column_names if n != name}
    listed = [(int(b), v) for b, vs in zip(order, made.values, strict=True) for v in vs]
    listed = [listed[at] for at in run.randomness.permutation(len(listed))]
    tables = {
        QUASI: pa.table({BUCKET: pa.array(bucket[turn]), **quasi}),
        SENSITIVE_TABLE: pa.table(
            {
                BUCKET: pa.array([b for b, _ in listed]),
                name: shown([v for _, v in listed], plain_type(table, name)),
                COUNT: pa.array(np.ones(len(listed), dtype=np.int64)),
            }
        ),
    }
    facts = {"sensitive": [name], "bucket": BUCKET, "count": COUNT, "bins": {}, **followed(plan)}
    return Outcome(tables=tables, facts=facts, findings=made.findings()), made.record


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
    finding = Finding(name="buckets", value=n_buckets, meaning="groups of records and their values")
    return (finding, *suppression(n, kept, l))
