"""The promises of the ranking methods, completed by what plan and schema add to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sherd.guarantees import (
    Adversary,
    Assumption,
    DifferentialPrivacy,
    Guarantee,
    Notion,
    Proposition,
    Unit,
)
from sherd.tables.schema import Missing, Outside, Schema, Type

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.release.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Promise:
    """One promise a method can make, before plan and schema are known.

    ``rows`` says whether records are released (and not only ordered centroids).
    """

    help: str
    notion: Callable[[float], Notion]
    covers: str
    source: Proposition
    assumes: tuple[Assumption, ...] = ()
    not_covered: tuple[str, ...] = ()
    rows: bool = True


def promise(base: Promise, plan: Plan, schema: Schema) -> Guarantee:
    """The guarantee of a plan: the method's promise under this schema's assumptions."""
    notion = base.notion(float(plan["epsilon"]))
    unit = Unit.RECORD
    not_covered = base.not_covered
    assumes = [*base.assumes, Assumption.PUBLIC_SIZE, Assumption.PARAMETERS_PUBLIC]
    assumes += _about_domains(plan, schema)
    if base.rows:
        assumes += _about_rows(schema)
    if schema.unit is None:
        assumes.append(Assumption.ONE_ROW_PER_PERSON)
    elif isinstance(notion, DifferentialPrivacy):
        # Group privacy: m substitutions in a row cost m times epsilon. It does not carry over
        # to individual differential privacy, which speaks of the actual table only.
        unit = Unit.PERSON
        notion = base.notion(float(plan["epsilon"]) * schema.rows_per_unit)
    elif schema.rows_per_unit == 1:
        unit = Unit.PERSON
    else:
        not_covered += (
            f"a person as a whole: one may have up to {schema.rows_per_unit} rows, each of them is "
            "covered by itself, and this notion does not add up over rows",
        )
    return Guarantee(
        notion=notion,
        unit=unit,
        covers=base.covers,
        adversary=Adversary.SEES_RELEASE,
        assumes=tuple(dict.fromkeys(assumes)),
        source=base.source,
        not_covered=not_covered,
    )


def _about_domains(plan: Plan, schema: Schema) -> list[Assumption]:
    assumptions = []
    for name in schema.protected:
        attribute = schema[name]
        if attribute.type.measured:
            declared = attribute.domain is not None
            assumptions.append(
                Assumption.PUBLIC_BOUNDS if declared else Assumption.BOUNDS_FROM_DATA
            )
        elif attribute.type.labelled:
            by_data = attribute.values_from_data or (
                plan["category_order"] == "frequency" and attribute.type is Type.CATEGORY
            )
            assumptions.append(
                Assumption.ORDER_FROM_DATA if by_data else Assumption.PUBLIC_CATEGORIES
            )
    return assumptions


def _about_rows(schema: Schema) -> list[Assumption]:
    assumptions = [Assumption.REFUSALS_SEEN]
    policies = {schema.missing_policy(name) for name in schema.protected}
    if Missing.KEEP in policies:
        assumptions.append(Assumption.MISSINGNESS_PUBLIC)
    dropped = any(schema.outside_policy(name) is Outside.DROP for name in schema.protected)
    if Missing.DROP in policies or dropped:
        assumptions.append(Assumption.RECORDS_DROPPED)
    if schema.untouched:
        assumptions.append(Assumption.INSENSITIVE_RELEASED)
    return assumptions
