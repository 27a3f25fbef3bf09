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
from sherd.guarantees import Adversary, Guarantee, KAnonymity, LDiversity, Proposition
from sherd.methods.slicing.sensitive_values import quasi_identifiers, sensitive_names, stated_bins
from sherd.methods.slicing.slicing_promise import (
    ARRANGED,
    BINS,
    MOST_SUPPRESSED,
    SENSITIVE,
    SUPPRESS,
    UNIT,
    assumptions,
    check_attributes,
    left_aside,
    range_ends_words,
    suppression,
)
from sherd.release.method import Described, Finding, Outcome, Parameter
from sherd.release.traits import Traits

if TYPE_CHECKING:
    import pyarrow as pa

    from sherd.release.method import Run
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema


TRAITS = Traits(
    family="slicing",
    verifier="sherd.verifying.sliced_tables:verify_classes",
    facts="sherd.verifying.stated_facts:classes",
    drawing="sherd.auditing.case.record_drawing:classes",
    needs=("slicing",),
)


@dataclass(frozen=True, kw_only=True)
class Mondrian:
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
            help="least number of records in a class",
        ),
        Parameter(
            name="l",
            kind=int,
            default=1,
            least=1,
            short="-l",
            help="no sensitive value fills more than 1/l of a class; 1 asks for nothing",
        ),
        SENSITIVE,
        Parameter(
            name="boxes",
            kind=str,
            default="cells",
            choices=("cells", "tight"),
            help="ranges that end on cells which the schema decides, or around the values in a "
            "class (tight), whose ends are then values of people",
        ),
        SUPPRESS,
        MOST_SUPPRESSED,
        BINS,
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
        check_attributes(plan, schema, needs_sensitive=plan["l"] > 1)

    def guarantee(self, plan: Plan, schema: Schema) -> Guarantee:
        """What a release will promise; computed without seeing the table."""
        k, l = plan["k"], plan["l"]
        words = list(left_aside(plan, schema))
        if l == 1 and sensitive_names(plan, schema):
            words.insert(
                0,
                "sensitive values: a class in which all records share one gives it away "
                "(homogeneity); set l above 1",
            )
        words.append("whether somebody is in the table, where a range is narrow")
        words += range_ends_words(plan, schema, tight=plan["boxes"] == "tight")
        return Guarantee(
            notion=KAnonymity(k=k) if l == 1 else LDiversity(l=l, k=k),
            unit=UNIT,
            covers="the link between a person's quasi-identifiers and a released row"
            if l == 1
            else "the link between a person's quasi-identifiers and a released row, and "
            + ", ".join(sensitive_names(plan, schema)),
            adversary=Adversary.KNOWS_QUASI_IDENTIFIERS,
            assumes=assumptions(plan, schema),
            source=Proposition(work="lefevre2006", place="section 3; arul2019, section 2"),
            not_covered=tuple(words),
        )

    def run(self, table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Generalise a prepared table."""
        return _run(table, schema, plan, run)


METHOD = Mondrian()


def _run(table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
    import numpy as np
    import pyarrow as pa

    from sherd.methods.slicing.attribute_codes import encode
    from sherd.methods.slicing.clamping import within
    from sherd.methods.slicing.generalise import described, into_cells
    from sherd.methods.slicing.public_cells import encode_on_cells
    from sherd.methods.slicing.sensitive_values import Sensitive, feasible_rows

    n, k, l = table.num_rows, plan["k"], plan["l"]
    kept: Any = np.arange(n)
    sensitive: Sensitive | None = None
    if l > 1:
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
    quasi = quasi_identifiers(plan, schema)
    tight = plan["boxes"] == "tight"
    code = encode if tight else encode_on_cells
    coded = [code(table[name], schema[name], schema.missing_values) for name in quasi]
    m = table.num_rows
    pairs: list[Any] = []
    n_pairs = 0
    if sensitive is not None:
        pairs, n_pairs = sensitive.pairs(np.zeros(m, dtype=np.int32), 1)
    cells = into_cells(
        coded,
        k=k,
        l=l,
        tight=tight,
        order=run.randomness.permutation(m),
        pairs=pairs,
        n_pairs=n_pairs,
    )
    run.progress("labelling", 1, 2)
    labels, books = described(coded, cells)
    rows = run.randomness.permutation(m) if run.shuffle else np.arange(m)
    place = pa.array(rows)
    fields = {name: labels.get(name, table[name]).take(place) for name in table.column_names}
    run.progress("done", 2, 2)
    return Outcome(
        tables={"data": pa.table(fields)},
        facts={
            "quasi_identifiers": list(quasi),
            "sensitive": list(sensitive_names(plan, schema)),
            "labels": books,
            "bins": stated_bins(plan, schema) if l > 1 else {},
        },
        findings=(*_findings(n, m, cells.count, l), *_ends_of_ranges(tight)),
        order_of=lambda: kept[rows],
    )


def _ends_of_ranges(tight: bool) -> tuple[Finding, ...]:
    if not tight:
        return ()
    meaning = (
        "WARNING: every end of a range is the value of somebody in its class; leave out boxes for "
        "ends on cells that the schema decides"
    )
    return (Finding(name="ends of ranges", value="tight", meaning=meaning),)


def _findings(n: int, kept: int, n_classes: int, l: int) -> tuple[Finding, ...]:
    found = [
        Finding(name="classes", value=n_classes, meaning="groups of records with equal labels"),
        Finding(
            name="mean class size",
            value=kept / n_classes,
            meaning="records in a class; the nearer to k, the finer the release",
        ),
    ]
    return (*found, *suppression(n, kept, l))
