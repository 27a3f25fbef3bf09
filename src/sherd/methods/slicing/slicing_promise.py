"""What the methods of this family share: parameters, and the frame of their promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.errors import PlanError, SchemaError
from sherd.guarantees import Assumption, Unit
from sherd.guarantees.guarantee import WAITING
from sherd.methods.slicing.column_layout import BUCKET
from sherd.methods.slicing.group_conditions import Conditions, check_conditions_fit
from sherd.methods.slicing.sensitive_values import (
    demoted,
    edges,
    quasi_identifiers,
    sensitive_names,
    set_separators,
)
from sherd.release.method import Finding, Parameter
from sherd.tables.prepare import warned
from sherd.tables.schema import Missing, Outside

if TYPE_CHECKING:
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

SENSITIVE = Parameter(
    name="sensitive",
    kind=list,
    repeat=True,
    metavar="ATTRIBUTE",
    help="treat this attribute as sensitive; without it, those with that role in the schema",
)
BINS = Parameter(
    name="bins",
    kind=dict,
    items=list,
    metavar="ATTRIBUTE=EDGES",
    help="bin a measured sensitive attribute at these edges, or into this many equal bins",
)
SUPPRESS = Parameter(
    name="suppress",
    kind=bool,
    default=False,
    help="leave out the fewest records needed to make l feasible",
)
MOST_SUPPRESSED = Parameter(
    name="most_suppressed",
    kind=float,
    default=0.05,
    least=0,
    help="let 'suppress' leave out at most this share of the records",
)
AFTER = Parameter(name="after", kind=dict, option=None, help="follow this release")
L = Parameter(
    name="l",
    kind=int,
    default=1,
    least=1,
    short="-l",
    help="let nobody assign a sensitive value with more confidence than 1/l; 1 asks for nothing",
)
CONDITIONS = Parameter(
    name="conditions",
    kind=dict,
    items=list,
    option="--condition",
    metavar="NAME=LIMIT",
    help="demand this of the sensitive values of every group: share, size, entropy, recursive "
    "(c,l), closeness, ordered_closeness or likeness",
)
SETS = Parameter(
    name="sets",
    kind=dict,
    option=None,
    help="read the cells of these sensitive attributes as sets; each is given with its separator",
)

ARRANGED = (
    "how the method arranged the records follows from the data; somebody who knows it can "
    "learn more than the bound says (a minimality attack)"
)


TIGHT_ENDS = "the ends of ranges: each is the value of somebody in the class (boxes: tight)"
ENDS_BY_DIGITS = (
    "the ends of ranges of attributes without a declared domain: they follow the leading digits of "
    "values"
)


def check_attributes(plan: Plan, schema: Schema, *, needs_sensitive: bool = True) -> None:
    """Raise where the schema lacks a sensitive attribute, a quasi-identifier or bins."""
    sensitive = sensitive_names(plan, schema)
    if needs_sensitive and not sensitive:
        raise SchemaError(
            f"the method '{plan.method}' needs a sensitive attribute",
            must="an attribute of the role 'sensitive'",
            got="none",
            do="name one with the parameter 'sensitive', or give it that role",
        )
    if not quasi_identifiers(plan, schema):
        raise SchemaError(
            f"the method '{plan.method}' needs a quasi-identifier",
            must="a protected attribute that is not sensitive",
        )
    if plan["most_suppressed"] > 1:
        raise PlanError(
            "the 'most_suppressed' parameter is not valid",
            must="a share from 0 to 1",
            got=repr(plan["most_suppressed"]),
        )
    for name in sensitive if needs_sensitive else ():
        edges(plan, schema[name])
    wanted = Conditions.of(plan)
    check_conditions_fit(wanted, plan, schema, sensitive)
    if needs_sensitive and plan["l"] == 1 and not wanted.asked():
        raise PlanError(
            f"the method '{plan.method}' is asked for no diversity",
            must="l from 2, or a condition",
            got="neither",
            do="give -l, or --condition",
        )
    if set_separators(plan, schema) and plan["suppress"]:
        raise PlanError(
            "records with sets of values cannot be suppressed to reach l",
            must="either 'sets' or 'suppress'",
            got="both",
        )
    for name in plan["bins"] or {}:
        if name not in sensitive:
            raise PlanError("bins are given for an attribute that is not sensitive", got=repr(name))
    if BUCKET in schema.attributes:
        raise SchemaError(
            f"an attribute is called '{BUCKET}', the name of the released bucket column",
            do="rename it",
        )


def assumptions(
    plan: Plan, schema: Schema, *, groups_labels: bool = False
) -> tuple[Assumption, ...]:
    """What every guarantee of this family takes for granted.

    A method that ``groups_labels`` publishes the taxonomies, and so all labels in them.
    """
    assumed = [Assumption.NO_OTHER_SENSITIVE_VALUES, Assumption.NO_CORRELATED_KNOWLEDGE]
    follows = plan.parameters.get("after") is not None
    assumed.append(Assumption.ONLY_EARLIER_RELEASES if follows else Assumption.NO_OTHER_RELEASE)
    if schema.unit is None or schema.rows_per_unit > 1:
        assumed.append(Assumption.ONE_ROW_PER_PERSON)
    if schema.untouched:
        assumed.append(Assumption.INSENSITIVE_RELEASED)
    policies = {schema.missing_policy(name) for name in schema.protected}
    dropped = any(schema.outside_policy(name) is Outside.DROP for name in schema.protected)
    if Missing.DROP in policies or dropped:
        assumed.append(Assumption.RECORDS_DROPPED)
    if plan["suppress"]:
        assumed.append(Assumption.RECORDS_SUPPRESSED)
    grouped = (schema[name] for name in schema.protected) if groups_labels else ()
    if any(one.values_from_data and one.taxonomy is not None for one in grouped):
        assumed.append(Assumption.ORDER_FROM_DATA)
    return tuple(assumed)


def range_ends_words(plan: Plan, schema: Schema, *, tight: bool) -> tuple[str, ...]:
    """What the ends of published ranges tell, in words."""
    if tight:
        return (TIGHT_ENDS,)
    quasi = (schema[name] for name in quasi_identifiers(plan, schema))
    undeclared = any(one.type.measured and one.domain is None for one in quasi)
    return (ENDS_BY_DIGITS,) if undeclared else ()


def following_words(plan: Plan) -> str:
    """What a promise covers beside its own release."""
    if plan["after"] is None:
        return ""
    if set(plan["after"]) != {"release"} or not isinstance(plan["after"]["release"], str):
        raise PlanError("the 'after' parameter is not valid", must="made from the old release")
    return (
        "; also for somebody who holds the release it follows "
        f"(sha256 of its manifest: {plan['after']['release']}) and those before that one"
    )


def left_aside(plan: Plan, schema: Schema) -> tuple[str, ...]:
    """What no guarantee of this family covers, in words."""
    said = [ARRANGED] if plan.parameters.get("after") is None else [ARRANGED, WAITING]
    names = demoted(plan, schema)
    if names:
        said.append(
            f"{', '.join(names)}: sensitive in the schema, treated as quasi-identifying here"
        )
    said += [
        f"{name} is told apart by the declared bins, not by its exact values"
        for name in sensitive_names(plan, schema)
        if schema[name].type.measured and (plan["l"] > 1 or plan["conditions"])
    ]
    return tuple(said)


UNIT = Unit.RECORD


def suppression(n: int, kept: int, l: int) -> tuple[Finding, ...]:  # noqa: E741 - the field's name
    """What the owner is told of records that were left out; nothing where none were."""
    if kept == n:
        return ()
    why = f"left out of {n}: their sensitive values are too frequent for l = {l}"
    meaning = warned(why, (n - kept) / n)
    return (Finding(name="suppressed records", value=n - kept, meaning=meaning),)
