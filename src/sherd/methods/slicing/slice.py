"""``slice``: the table cut into columns and buckets, the columns of a bucket permuted.

Implements fragmentation of arul2019 (paper 003), that is slicing of li2012: attribute
grouping by φ² and k-medoids, tuple partitioning by Mondrian's splits with a diversity check,
column generalisation to a least frequency, and the paper's tuple grouping.

Notation: C_1 … C_c the columns, the last with the sensitive attributes S and α − 1
quasi-identifiers q; B a bucket; p(t, s) the probability that a person with the
quasi-identifiers t has the sensitive value s (see ``incremental_diversity``).

Departs from the paper: the whole table is checked before it is split (the paper never
does); the check holds for every tuple the release could match, not the records' own only
(``scope``), and weighs buckets by their size, β = 1 (with the paper's β = 0 equal
quasi-identifiers in a small and a large bucket hide a share of ½ behind ⅓); a split that
fails is tried along further dimensions; generalisation comes before the check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import PlanError
from sherd.guarantees import Adversary, Guarantee, LDiversity, NoGuarantee, Notion, Proposition
from sherd.methods.slicing.attribute_grouping import check_numbers
from sherd.methods.slicing.column_layout import given_layout
from sherd.methods.slicing.group_conditions import Conditions
from sherd.methods.slicing.sensitive_values import quasi_identifiers, sensitive_names
from sherd.methods.slicing.signature_record import KeepsSignatures, needs_record
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
    range_ends_words,
)
from sherd.release.method import Described, Outcome, Parameter
from sherd.release.traits import Traits

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sherd.release.method import Lineage, PrivateRecord, Run
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema


TRAITS = Traits(
    family="slicing",
    verifier="sherd.verifying.sliced_tables:verify_slices",
    verified_in_pieces=True,
    facts="sherd.verifying.stated_facts:sliced",
    drawing="sherd.auditing.case.record_drawing:slices",
    following=("after",),
    needs=("slicing",),
)


@dataclass(frozen=True, kw_only=True)
class Slice(KeepsSignatures):
    """The method behind ``sherd slice``."""

    name: str = "slice"
    title: str = "Slicing with l-diversity"
    summary: str = (
        "Cuts the table into columns of dependent attributes and buckets of similar records, "
        "and permutes every column inside its bucket. Values stay as they are; which belong "
        "together is hidden."
    )
    parameters: tuple[Parameter, ...] = (
        L,
        SENSITIVE,
        Parameter(
            name="columns",
            kind=int,
            least=2,
            short="-c",
            help="make this many columns (5 if not given)",
        ),
        Parameter(
            name="alpha",
            kind=int,
            least=1,
            default=1,
            help="put this many attributes into the sensitive column, counting the sensitive ones "
            "as one",
        ),
        Parameter(
            name="groups",
            kind=list,
            items=list,
            repeat=True,
            option="--group",
            metavar="A,B,…",
            help="make a column of these attributes",
        ),
        Parameter(
            name="min_frequency",
            kind=int,
            least=2,
            help="generalise until every value of a column occurs at least this often; needed "
            "against membership disclosure",
        ),
        Parameter(
            name="regroup",
            kind=bool,
            help="regroup the records of a bucket into groups of about l (unless scope is "
            "'records')",
        ),
        SUPPRESS,
        MOST_SUPPRESSED,
        BINS,
        CONDITIONS,
        SETS,
        AFTER,
        Parameter(
            name="scope",
            kind=str,
            default="any",
            choices=("any", "records"),
            help="make the bound hold for any tuple, or only for tuples that are records",
        ),
        Parameter(
            name="beta",
            kind=int,
            default=1,
            choices=None,
            least=0,
            help="weight buckets by their size (1), or as in the paper, for comparison (0)",
        ),
        Parameter(
            name="discretise",
            kind=str,
            default="width",
            choices=("width", "frequency"),
            help="bin measured attributes by width or by frequency when measuring correlations",
        ),
        Parameter(
            name="clustering",
            kind=str,
            default="auto",
            choices=("auto", "pam", "clara"),
            help="cluster attributes by this algorithm; auto is CLARA above 100 attributes, PAM "
            "below",
        ),
        Parameter(
            name="tries", kind=int, default=50, least=1, help="try this many dimensions for a split"
        ),
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
                    ARRANGED,
                    "whether somebody is in the table: values of columns are released whole",
                ),
                source="arul2019, section 4; li2012, section 3",
            ),
        )

    def explain(self, plan: Plan, schema: Schema) -> dict[str, Any]:
        """Nothing more than the guarantee says: columns and buckets follow from the data."""
        del plan, schema
        return {}

    def told(self, facts: Mapping[str, Any]) -> list[str]:
        """Which columns there are."""
        columns = facts.get("columns", ())
        return [f"column {place}: {', '.join(names)}" for place, names in enumerate(columns, 1)]

    def check(self, plan: Plan, schema: Schema) -> None:
        """Raise PlanError or SchemaError where plan and schema do not fit the method."""
        check_attributes(plan, schema)
        quasi, sensitive = quasi_identifiers(plan, schema), sensitive_names(plan, schema)
        if plan["beta"] not in (0, 1):
            raise PlanError("the 'beta' parameter is not valid", must="0 or 1", got=plan["beta"])
        if plan["beta"] == 0 and plan["scope"] == "any":
            raise PlanError(
                "the bound for any tuple holds whatever the buckets weigh",
                do="leave 'beta' out, or set scope to 'records'",
            )
        if plan["regroup"] and plan["scope"] == "records":
            raise PlanError(
                "regrouping needs buckets that are diverse by themselves",
                must="scope 'any'",
                got="scope 'records'",
            )
        if plan["scope"] == "records" and (plan["conditions"] or plan["sets"]):
            raise PlanError(
                "conditions and sets are checked in every bucket by itself",
                must="scope 'any'",
                got="scope 'records'",
            )
        if plan["sets"] and plan["regroup"] is False:
            raise PlanError("buckets of sets are made by regrouping", must="'regroup' left out")
        if plan["groups"] is None:
            check_numbers(plan["columns"] or 2, plan["alpha"], len(quasi))
            return
        layout = given_layout(plan["groups"], quasi, sensitive)
        if layout.duplicated and plan["min_frequency"] is not None:
            raise PlanError(
                "an attribute in several columns cannot be generalised in each by itself",
                must="every attribute in one column where 'min_frequency' is given",
                got=", ".join(layout.duplicated),
            )

    def guarantee(self, plan: Plan, schema: Schema) -> Guarantee:
        """What a release will promise; computed without seeing the table."""
        words = [*left_aside(plan, schema)]
        if plan["min_frequency"] is None:
            words.append("whether somebody is in the table: values of columns are released whole")
        else:
            words.append("whether somebody is in the table, beyond what min_frequency hinders")
            words += range_ends_words(plan, schema, tight=False)
        if plan["scope"] == "records":
            words.append("tuples of column values that no record has; the bound skips them")
        reason = "buckets weigh equally (beta = 0), which can hide a larger probability"
        notion: Notion = NoGuarantee(reason=reason)
        if plan["beta"] == 1:
            notion = Conditions.of(plan).notion(plan["l"])
        names = ", ".join(sensitive_names(plan, schema))
        return Guarantee(
            notion=notion,
            unit=UNIT,
            covers=f"the link between a person's quasi-identifiers and {names}"
            + following_words(plan),
            adversary=Adversary.KNOWS_QUASI_IDENTIFIERS,
            assumes=assumptions(plan, schema, groups_labels=plan["min_frequency"] is not None),
            source=Proposition(work="arul2019", place="section 4; li2012, section 3"),
            not_covered=tuple(words),
        )

    def run(self, table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Slice a prepared table."""
        from sherd.methods.slicing.slice_run import run_slicing

        needs_record(plan)
        return run_slicing(table, schema, plan, run)

    def run_keeping_record(
        self, table: pa.Table, schema: Schema, plan: Plan, run: Run, lineage: Lineage
    ) -> tuple[Outcome, PrivateRecord]:
        """Slice a prepared table so that every record keeps its signature."""
        from sherd.methods.slicing.slice_run import run_keeping_record

        return run_keeping_record(table, schema, plan, run, lineage)


METHOD = Slice()
