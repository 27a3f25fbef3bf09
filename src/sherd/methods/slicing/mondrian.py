# ruff: noqa: E741 - l is the field's own name for it
"""``mondrian``: k-anonymity, and l-diversity where asked, by local generalisation.

The baseline of paper 003 (section 2), by Mondrian's greedy multidimensional partition
(lefevre2006): records are split at medians while both halves keep k records (and stay
diverse); in every class of the result an attribute's values are replaced by what covers
them, a node of its taxonomy or a range. Equal values are never parted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import InfeasibleError
from sherd.guarantees import Adversary, Guarantee, KAnonymity, Proposition
from sherd.methods.slicing.group_conditions import Conditions
from sherd.methods.slicing.sensitive_values import quasi_identifiers, sensitive_names, stated_bins
from sherd.methods.slicing.signature_record import KeepsSignatures, needs_record
from sherd.methods.slicing.slicing_promise import (
    AFTER,
    ARRANGED,
    BINS,
    CONDITIONS,
    MOST_SUPPRESSED,
    SENSITIVE,
    SUPPRESS,
    UNIT,
    assumptions,
    check_attributes,
    following_words,
    left_aside,
    range_ends_words,
    suppression,
)
from sherd.release.method import Described, Finding, Outcome, Parameter
from sherd.release.traits import Suggestion, Traits

if TYPE_CHECKING:
    import pyarrow as pa

    from sherd.methods.slicing.attribute_codes import Coded
    from sherd.methods.slicing.generalise import BoxPartition
    from sherd.methods.slicing.signature_record import SignatureRecord
    from sherd.release.method import Lineage, PrivateRecord, Run
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema


TRAITS = Traits(
    family="slicing",
    rows_are_classes=True,
    verifier="sherd.verifying.sliced_tables:verify_classes",
    verified_in_pieces=True,
    facts="sherd.verifying.stated_facts:classes",
    drawing="sherd.auditing.case.record_drawing:classes",
    following=("after",),
    needs=("slicing",),
    suggestion=Suggestion(
        place=3,
        gives="coarser records, each like k others; not differential privacy",
        settings={"k": 10},
    ),
)


@dataclass(frozen=True, kw_only=True)
class Mondrian(KeepsSignatures):
    """Generalisation for k-anonymity."""

    name: str = "mondrian"
    title: str = "k-anonymity by generalisation"
    summary: str = (
        "Replaces quasi-identifiers by ranges or groups until every combination belongs to k "
        "records. Sensitive values stay as they are, beside their record."
    )
    parameters: tuple[Parameter, ...] = (
        Parameter(
            name="k",
            kind=int,
            required=True,
            least=2,
            short="-k",
            help="put at least this many records into every class",
        ),
        Parameter(
            name="l",
            kind=int,
            default=1,
            least=1,
            short="-l",
            help="let no sensitive value fill more than 1/l of a class; 1 asks for nothing",
        ),
        SENSITIVE,
        Parameter(
            name="boxes",
            kind=str,
            default="cells",
            choices=("cells", "tight"),
            help="end ranges on cells that the schema fixes (cells), or close around the values in "
            "a class (tight), so that the ends are values of people",
        ),
        SUPPRESS,
        MOST_SUPPRESSED,
        BINS,
        CONDITIONS,
        AFTER,
    )
    traits: Traits = TRAITS

    def describe(self) -> tuple[Described, ...]:
        """What the method promises in general."""
        return (
            Described(
                name=None,
                promise=KAnonymity.definition(),
                covers="the link between a person's quasi-identifiers and a released row",
                not_covered=(
                    "sensitive values, unless l is above 1",
                    ARRANGED,
                    "whether somebody is in the table, where a range is narrow",
                ),
                source="lefevre2006, section 3; arul2019, section 2",
            ),
        )

    def check(self, plan: Plan, schema: Schema) -> None:
        """Raise PlanError or SchemaError where plan and schema do not fit the method."""
        check_attributes(plan, schema, needs_sensitive=_diverse(plan))

    def guarantee(self, plan: Plan, schema: Schema) -> Guarantee:
        """What a release will promise; computed without seeing the table."""
        diverse = _diverse(plan)
        words = list(left_aside(plan, schema))
        if not diverse and sensitive_names(plan, schema):
            words.insert(
                0,
                "sensitive values: a class in which all records share one gives it away "
                "(homogeneity); set l above 1",
            )
        words.append("whether somebody is in the table, where a range is narrow")
        words += range_ends_words(plan, schema, tight=plan["boxes"] == "tight")
        return Guarantee(
            notion=Conditions.of(plan).notion(plan["l"], plan["k"]),
            unit=UNIT,
            covers="the link between a person's quasi-identifiers and a released row"
            if not diverse
            else "the link between a person's quasi-identifiers and a released row, and "
            + ", ".join(sensitive_names(plan, schema))
            + following_words(plan),
            adversary=Adversary.KNOWS_QUASI_IDENTIFIERS,
            assumes=assumptions(plan, schema, groups_labels=True),
            source=Proposition(work="lefevre2006", place="section 3; arul2019, section 2"),
            not_covered=tuple(words),
        )

    def run(self, table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Generalise a prepared table."""
        needs_record(plan)
        return _run(table, schema, plan, run)

    def run_keeping_record(
        self, table: pa.Table, schema: Schema, plan: Plan, run: Run, lineage: Lineage
    ) -> tuple[Outcome, PrivateRecord]:
        """Generalise a prepared table so that every record keeps its signature."""
        return _run_keeping_record(table, schema, plan, run, lineage)


METHOD = Mondrian()


def _diverse(plan: Plan) -> bool:
    """Whether anything is asked of the sensitive values of a class."""
    return plan["l"] > 1 or bool(plan["conditions"])


def _run(table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
    import numpy as np

    from sherd.methods.slicing.diversity_feasibility import feasible_rows
    from sherd.methods.slicing.generalise import into_cells
    from sherd.methods.slicing.sensitive_values import Sensitive
    from sherd.tables.clamping import within

    n, k = table.num_rows, plan["k"]
    kept: Any = np.arange(n)
    sensitive: Sensitive | None = None
    if _diverse(plan):
        table, sensitive, kept = feasible_rows(table, schema, plan, run.randomness)
    else:
        table = within(table, schema)
    if k > table.num_rows:
        raise InfeasibleError(
            "there are fewer records than one class must hold",
            got=f"k = {k}",
            do="lower k",
        )
    run.progress("splitting", 0, 2)
    coded = _coded(table, schema, plan)
    m = table.num_rows
    cells = into_cells(
        coded,
        k=k,
        l=plan["l"],
        tight=plan["boxes"] == "tight",
        order=run.randomness.permutation(m),
        sensitive=sensitive,
        conditions=Conditions.of(plan),
    )
    run.progress("labelling", 1, 2)
    rows = run.randomness.permutation(m) if run.shuffle else np.arange(m)
    data, facts = _labelled(table, schema, plan, coded, cells, rows)
    run.progress("done", 2, 2)
    return Outcome(
        tables={"data": data},
        facts=facts,
        findings=(*_findings(n, m, cells.count, plan["l"]), *_ends_of_ranges(plan)),
        order_of=lambda: kept[rows],
    )


def _run_keeping_record(
    table: pa.Table, schema: Schema, plan: Plan, run: Run, lineage: Lineage
) -> tuple[Outcome, SignatureRecord]:
    """Make a class of every bucket of kept signatures, each with at least k places."""
    import numpy as np

    from sherd.methods.slicing.bucket_pipeline import neighbour_order
    from sherd.methods.slicing.invariant_buckets import kept_buckets
    from sherd.methods.slicing.signature_record import check_kept, followed
    from sherd.tables.clamping import within

    check_kept(plan, schema)
    table = within(table, schema)
    coded = _coded(table, schema, plan)
    order = neighbour_order(coded, run.randomness)
    made = kept_buckets(table, schema, plan, run, lineage, order=order, local=True, least=plan["k"])
    large, group = made.expanded(table)
    cells = _around(coded, made.rows, group, tight=plan["boxes"] == "tight")
    n = large.num_rows
    rows = run.randomness.permutation(n) if run.shuffle else np.arange(n)
    data, facts = _labelled(large, schema, plan, coded, cells, rows)
    facts |= followed(plan)
    if plan["after"] is not None:
        facts["empty"] = made.empty
    findings = (
        *_findings(n, n, cells.count, plan["l"]),
        *_ends_of_ranges(plan),
        *made.findings(),
    )
    return Outcome(tables={"data": data}, facts=facts, findings=findings), made.record


def _around(
    coded: list[Coded], classes: list[list[int]], group: Any, *, tight: bool
) -> BoxPartition:
    """The boxes around the records of every class; ``group`` is the class of each released row."""
    import numpy as np

    from sherd.methods.slicing.boxes import tight_boxes
    from sherd.methods.slicing.generalise import BoxPartition

    rows = np.array([row for members in classes for row in members], dtype=np.int64)
    starts = np.cumsum([0, *map(len, classes)])[:-1]
    codes = np.column_stack([one.codes[rows] for one in coded]).astype(np.int32)
    low, high = tight_boxes(np.ascontiguousarray(codes), len(coded), starts.astype(np.int64))
    return BoxPartition(
        names=tuple(one.name for one in coded),
        of_row=group.astype(np.int32),
        low=low,
        high=high,
        tight=tight,
    )


def _coded(table: pa.Table, schema: Schema, plan: Plan) -> list[Coded]:
    from sherd.methods.slicing.attribute_codes import encode
    from sherd.methods.slicing.public_cells import encode_on_cells

    code = encode if plan["boxes"] == "tight" else encode_on_cells
    names = quasi_identifiers(plan, schema)
    return [code(table[name], schema[name], schema.missing_values) for name in names]


def _labelled(
    table: pa.Table, schema: Schema, plan: Plan, coded: list[Coded], cells: BoxPartition, rows: Any
) -> tuple[pa.Table, dict[str, object]]:
    """The released table, its rows in the order of ``rows``, and what the manifest states."""
    import pyarrow as pa

    from sherd.methods.slicing.generalise import described

    labels, books = described(coded, cells)
    place = pa.array(rows)
    fields = {name: labels.get(name, table[name]).take(place) for name in table.column_names}
    facts: dict[str, object] = {
        "quasi_identifiers": list(quasi_identifiers(plan, schema)),
        "sensitive": list(sensitive_names(plan, schema)),
        "labels": books,
        "bins": stated_bins(plan, schema) if _diverse(plan) else {},
    }
    return pa.table(fields), facts


def _ends_of_ranges(plan: Plan) -> tuple[Finding, ...]:
    if plan["boxes"] != "tight":
        return ()
    meaning = (
        "WARNING: every end of a range is the value of somebody in its class; leave out boxes for "
        "ends on cells that the schema decides"
    )
    return (Finding(name="ends of ranges", value="tight", meaning=meaning),)


def _findings(n: int, kept: int, n_classes: int, l: int) -> tuple[Finding, ...]:
    findings = [
        Finding(name="classes", value=n_classes, meaning="groups of records with equal labels"),
        Finding(
            name="mean class size",
            value=kept / n_classes,
            meaning="records in a class; the nearer to k, the finer the release",
        ),
    ]
    return (*findings, *suppression(n, kept, l))
