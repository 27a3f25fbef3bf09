"""``slice``: the table cut into columns and buckets, the columns of a bucket permuted.

Implements fragmentation of arul2019 (paper 003), that is slicing of li2012: attribute
grouping by φ² and k-medoids, tuple partitioning by Mondrian's splits with a diversity check,
column generalisation to a least frequency, and the paper's tuple grouping.

Notation: C_1 … C_c the columns, the last with the sensitive attributes S and α − 1
quasi-identifiers q; B a bucket; p(t, s) the probability that a person with the
quasi-identifiers t has the sensitive value s (see ``slicing.incremental``).

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
from sherd.guarantees import Adversary, Guarantee, LDiversity, NoGuarantee, Proposition
from sherd.method import Finding, Outcome, Parameter
from sherd.methods.slicing.grouping import check_numbers
from sherd.methods.slicing.layout import BUCKET, Layout, given_layout
from sherd.methods.slicing.promise import (
    BINS,
    SENSITIVE,
    SUPPRESS,
    UNIT,
    L,
    assumptions,
    check_attributes,
    left_aside,
)
from sherd.methods.slicing.sensitive import edges, quasi_identifiers, sensitive_names

if TYPE_CHECKING:
    import pyarrow as pa

    from sherd.method import Run
    from sherd.methods.slicing.coding import Coded
    from sherd.methods.slicing.membership import Membership
    from sherd.methods.slicing.pipeline import Settings
    from sherd.methods.slicing.sensitive import Sensitive
    from sherd.plan import Plan
    from sherd.tables.schema import Schema

COLUMNS = 5
"""Columns made where the plan does not say how many, if there are attributes for them."""


@dataclass(frozen=True, kw_only=True)
class Slice:
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
        Parameter(name="columns", kind=int, least=2, help="how many columns to make (5)"),
        Parameter(
            name="alpha",
            kind=int,
            least=1,
            default=1,
            help="attributes in the sensitive column, counting the sensitive ones as one",
        ),
        Parameter(name="groups", kind=list, help="the columns, as lists of attribute names"),
        Parameter(
            name="min_frequency",
            kind=int,
            least=2,
            help="generalise until every value of a column occurs so often; needed against "
            "membership disclosure",
        ),
        Parameter(
            name="regroup",
            kind=bool,
            default=False,
            help="regroup the records of a bucket into groups of about l",
        ),
        SUPPRESS,
        BINS,
        Parameter(
            name="scope",
            kind=str,
            default="any",
            choices=("any", "records"),
            help="whether the bound holds for any tuple, or for the records' own only",
        ),
        Parameter(
            name="beta",
            kind=int,
            default=1,
            choices=None,
            least=0,
            help="1: buckets weigh by their size; 0: as in the paper, for comparison",
        ),
        Parameter(
            name="discretise",
            kind=str,
            default="width",
            choices=("width", "frequency"),
            help="bins of measured attributes when correlations are measured",
        ),
        Parameter(
            name="clustering",
            kind=str,
            default="auto",
            choices=("auto", "pam", "clara"),
            help="how attributes are clustered; auto is CLARA above 100 attributes",
        ),
        Parameter(
            name="tries", kind=int, default=6, least=1, help="dimensions tried for a split"
        ),
    )

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
        if plan["scope"] == "records":
            words.append("tuples of column values that no record has; the bound skips them")
        reason = "buckets weigh equally (beta = 0), which can hide a larger probability"
        notion = LDiversity(l=plan["l"]) if plan["beta"] == 1 else NoGuarantee(reason=reason)
        names = ", ".join(sensitive_names(plan, schema))
        return Guarantee(
            notion=notion,
            unit=UNIT,
            covers=f"the link between a person's quasi-identifiers and {names}",
            adversary=Adversary.KNOWS_QUASI_IDENTIFIERS,
            assumes=assumptions(plan, schema),
            source=Proposition(work="arul2019", place="section 4; li2012, section 3"),
            not_covered=tuple(words),
        )

    def run(self, table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Slice a prepared table."""
        return _run(table, schema, plan, run)


METHOD = Slice()


def settings(plan: Plan) -> Settings:
    """The plan's part that says how tuples are partitioned."""
    from sherd.methods.slicing.pipeline import Settings

    return Settings(
        l=plan["l"],
        min_frequency=plan["min_frequency"],
        regroup=plan["regroup"],
        scope=plan["scope"],
        beta=float(plan["beta"]),
        tries=plan["tries"],
    )


def _run(table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
    from sherd.methods.slicing.coding import encode
    from sherd.methods.slicing.membership import measure
    from sherd.methods.slicing.pipeline import bucketed, coarse, subset
    from sherd.methods.slicing.sensitive import feasible, sensitive_codes
    from sherd.methods.slicing.within import within

    table = within(table, schema)
    run.progress("coding", 0, 4)
    sensitive = sensitive_codes(table, schema, plan)
    quasi = quasi_identifiers(plan, schema)
    _require_feasible(sensitive, plan, run)
    coded = {name: encode(table[name], schema[name], schema.missing_values) for name in quasi}
    layout = _layout(coded, sensitive, plan, schema, run)
    run.progress("partitioning", 1, 4)
    how = settings(plan)
    n = table.num_rows
    need = how.scope == "records"
    parts = coarse(coded, layout, n, how.min_frequency, run.randomness, need_columns=need)
    kept = feasible(
        sensitive,
        *parts.q,
        how.l,
        suppress=plan["suppress"],
        order=run.randomness.permutation(n),
        beside=layout.beside,
    )
    if len(kept) < n:
        import pyarrow as pa

        table = table.take(pa.array(kept))
        coded, sensitive = subset(coded, kept), sensitive.kept(kept)
        parts = coarse(
            coded, layout, len(kept), how.min_frequency, run.randomness, need_columns=need
        )
        # Fewer records can be generalised differently: what q shares is counted anew.
        feasible(
            sensitive,
            *parts.q,
            how.l,
            suppress=False,
            order=run.randomness.permutation(len(kept)),
            beside=layout.beside,
        )
    buckets = bucketed(coded, layout, parts, sensitive, how, run.randomness)
    run.progress("permuting", 2, 4)
    outcome = _released(table, coded, layout, parts, buckets, schema, plan, run)
    run.progress("measuring", 3, 4)
    membership = measure(coded, layout, sensitive, how, run.randomness)
    findings = _findings(n, table.num_rows, int(buckets.max()) + 1, membership, plan)
    run.progress("done", 4, 4)
    return Outcome(tables=outcome.tables, facts=outcome.facts, findings=findings)


def _require_feasible(sensitive: Sensitive, plan: Plan, run: Run) -> None:
    """Before anything else: can this l be reached at all?"""
    import numpy as np

    from sherd.methods.slicing.sensitive import feasible

    n = len(sensitive.codes)
    feasible(
        sensitive,
        np.zeros(n, dtype=np.int32),
        1,
        plan["l"],
        suppress=plan["suppress"],
        order=run.randomness.permutation(n),
    )


def _layout(
    coded: dict[str, Coded], sensitive: Sensitive, plan: Plan, schema: Schema, run: Run
) -> Layout:
    from sherd.methods.slicing.grouping import grouped_layout

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
    layout: Layout,
    parts: Any,
    buckets: Any,
    schema: Schema,
    plan: Plan,
    run: Run,
) -> Outcome:
    from sherd.methods.slicing.assemble import sliced
    from sherd.methods.slicing.generalise import described

    labels: dict[str, Any] = {}
    books: dict[str, Any] = {}
    for names, cells in zip((*layout.columns[:-1], layout.beside), parts.cells, strict=True):
        if cells is not None:
            arrays, found = described([coded[name] for name in names], cells)
            labels |= arrays
            books |= found
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


def stated_bins(plan: Plan, schema: Schema) -> dict[str, list[float | str]]:
    """The edges that tell measured sensitive values apart, as plain data."""
    found: dict[str, list[float | str]] = {}
    for name in sensitive_names(plan, schema):
        cuts = edges(plan, schema[name])
        if cuts is not None:
            found[name] = [cut if isinstance(cut, float) else cut.isoformat() for cut in cuts]
    return found


def _findings(
    n: int, kept: int, n_buckets: int, membership: Membership | None, plan: Plan
) -> tuple[Finding, ...]:
    from sherd.methods.slicing.membership import WORRYING

    found = [
        Finding(
            name="tuple-partition rate",
            value=n_buckets / kept,
            meaning="buckets per record; the higher, the finer the release",
        )
    ]
    if kept < n:
        found.append(
            Finding(
                name="suppressed records",
                value=n - kept,
                meaning=f"left out of {n} so that l = {plan['l']} is feasible",
            )
        )
    if membership is not None:
        meaning = (
            f"how much better than guessing one can tell {membership.members} records that were "
            "sliced from as many real ones that were not"
        )
        if membership.advantage > WORRYING:
            meaning = (
                "WARNING: whoever knows somebody's quasi-identifiers can tell whether they are in "
                f"the table; {meaning}; raise min_frequency (20 is usual) and use fewer columns"
            )
        found.append(
            Finding(name="membership advantage", value=membership.advantage, meaning=meaning)
        )
    return tuple(found)
