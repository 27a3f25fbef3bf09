"""What a joint release says that follows from the plan its owners signed, and from it alone.

The aggregator writes it into the manifest, and verification works it out again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sherd.federation.protocol.collusion import collusion_table
from sherd.federation.protocol.joint_plan import JointPlan, Kind, Linkage, local_plan
from sherd.federation.protocol.summing import among, sums_rows
from sherd.values import to_data

if TYPE_CHECKING:
    from sherd.guarantees import Guarantee
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema


def pooled_schema(plan: JointPlan) -> Schema:
    """The schema of the joint release."""
    from sherd.tables.schema import Schema

    schemas = [plan.schema(owner) for owner in plan.owners]
    if plan.terms.kind is Kind.HORIZONTAL:
        return schemas[0]
    attributes = {}
    for schema in schemas:
        for attribute in schema:
            # Table-wide policies may differ between owners, so each attribute carries its own.
            attributes[attribute.name] = replace(
                attribute,
                missing=schema.missing_policy(attribute.name),
                outside=schema.outside_policy(attribute.name),
            )
    return Schema(attributes=attributes)


def pooled_plan(plan: JointPlan) -> Plan:
    """The plan as if one owner had everything: the method with the composed epsilon."""
    return local_plan(plan.terms, plan.composed, pooled_schema(plan))


def joint_guarantee(plan: JointPlan, overlap_tested: bool) -> Guarantee:
    """What the joint release promises, and what the federation adds to what is not covered."""
    base = pooled_plan(plan).guarantee(pooled_schema(plan))
    not_covered = list(base.not_covered)
    if sums_rows(plan.terms):
        not_covered.append("how many records each owner has")
        if untold := _untold(plan):
            not_covered.append(f"{untold}: such a person counts as so many records")
        if not overlap_tested and len(plan.shares) > 1:
            not_covered.append(
                "a person at several owners, which is assumed not to happen and was not tested: "
                "such a person counts as so many records"
            )
    elif plan.terms.kind is Kind.HORIZONTAL:
        not_covered.append("how many records each owner has, and who is at which owner")
        total = "" if plan.bound is None else f", up to {plan.bound} in all"
        several = f"such a person is protected by the sum of what each owner spends{total}"
        if untold := _untold(plan):
            not_covered.append(f"{untold}: {several}")
        if not overlap_tested and len(plan.shares) > 1:
            not_covered.append(
                "a person at several owners, which is assumed not to happen and was not tested: "
                + several
            )
    elif plan.terms.kind is Kind.VERTICAL:
        not_covered.append("which people are known to every owner: who is in the release")
    else:
        not_covered.append(
            "which people are known to an owner of every attribute: who is in the release"
        )
        not_covered.append("how many of the released people each owner has")
        if untold := _untold(plan):
            not_covered.append(f"{untold}, and who are left out of the release")
    if plan.terms.linkage is Linkage.HMAC:
        not_covered.append(
            "the linkage is of low assurance: every owner holds the key of the pseudonyms"
        )
    return replace(base, not_covered=tuple(not_covered))


def _untold(plan: JointPlan) -> str | None:
    """Whom a test of disjointness lets pass, so that it tells nobody about a single person."""
    limit = plan.terms.overlap_told or 1
    if limit == 1 or plan.terms.linkage is Linkage.NONE or len(plan.shares) < 2:
        return None
    where = "several owners"
    if plan.terms.kind is Kind.BLOCKS:
        where += " of the same attributes"
    return f"up to {limit - 1} people at {where}, whom the test for that lets pass"


def followed(plan: JointPlan) -> dict[str, Any]:
    """What a joint manifest says that follows from the plan alone."""
    sums = {"noise": _noise(plan)} if sums_rows(plan.terms) else {}
    return {
        **sums,
        "round": plan.terms.round,
        "kind": plan.terms.kind.value,
        "plan": to_data(plan),
        "plan_hash": plan.hash,
        "composition": plan.composition,
        "epsilon": plan.composed,
        "epsilon_of_a_person_at_every_owner": plan.bound,
        "disjointness": _disjointness(plan),
        "learns_beyond_the_release": collusion_table(plan.terms),
    }


def _noise(plan: JointPlan) -> dict[str, Any]:
    """Who drew the noise of a round of sums, and whom it protects from."""
    owners = among(plan)
    return {
        "owners": owners.owners,
        "colluders": owners.colluders,
        "words": f"each of {owners.owners} owners drew its part; the promise holds against whoever "
        f"sees the release and against the aggregator together with up to {owners.colluders} of "
        "the owners",
    }


def _disjointness(plan: JointPlan) -> str:
    if plan.terms.kind is Kind.VERTICAL:
        return "attributes are disjoint, as the plan shows"
    if plan.terms.linkage is Linkage.NONE:
        return "assumed: nobody is at two owners"
    limit = plan.terms.overlap_told or 1
    if plan.terms.kind is Kind.BLOCKS:
        return (
            "attributes are the same or disjoint, as the plan shows; tested by pseudonyms: every "
            "cell has one owner, and whoever is at two of the same attributes is left out"
        )
    who = "nobody is" if limit == 1 else f"fewer than {limit} people are"
    return f"tested by pseudonyms: {who} at two owners"


def linkage(plan: JointPlan, common: int | None) -> dict[str, Any]:
    """What a joint manifest says of how people were matched."""
    assurance = {
        Linkage.NONE: "none",
        Linkage.OPRF: "chained OPRF on ristretto255",
        Linkage.HMAC: "low: one key shared by all owners",
    }[plan.terms.linkage]
    described: dict[str, Any] = {"mode": plan.terms.linkage.value, "assurance": assurance}
    if common is not None:
        described["common_people"] = common
        by = "every owner" if plan.terms.kind is Kind.VERTICAL else "an owner of every attribute"
        described["note"] = f"that these people are known to {by} is not covered by epsilon"
    return described
