"""Re-checking a joint release from its manifest alone: the plan, its numbers, its signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.audit.verify.check import Check
from sherd.errors import SherdError
from sherd.federation.assembly import joint_guarantee, pooled_plan, pooled_schema
from sherd.federation.keys import verify_plan
from sherd.protocols.composition import unsound
from sherd.protocols.terms import JointPlan, Linkage
from sherd.protocols.values import from_data

if TYPE_CHECKING:
    from sherd.guarantees import Guarantee


def read_plan(manifest: dict[str, Any]) -> JointPlan:
    """The joint plan in a manifest; SherdError where there is none."""
    return from_data(JointPlan, manifest["joint"].get("plan"))


def guarantee_of(manifest: dict[str, Any]) -> Guarantee:
    """The promise that a manifest's joint plan leads to."""
    plan = read_plan(manifest)
    return joint_guarantee(plan, plan.terms.linkage is not Linkage.NONE)


def check_joint(manifest: dict[str, Any]) -> list[Check]:
    """What can be checked of how a joint release came about."""
    try:
        plan = read_plan(manifest)
        wrong = unsound(plan)
        pooled = pooled_plan(plan).hash, pooled_schema(plan).hash
    except SherdError as error:
        return [Check(name="joint plan", passed=False, detail=f"cannot be read: {error.what}")]
    joint = manifest["joint"]
    owners = joint.get("owners") if isinstance(joint.get("owners"), dict) else {}
    stated = joint.get("plan_hash"), manifest.get("plan_hash"), manifest.get("schema_hash")
    same = stated == (plan.hash, *pooled)
    signed = [
        owner
        for owner, entry in owners.items()
        if owner in plan.owners
        and isinstance(entry, dict)
        and verify_plan(plan.share(owner).key, plan.hash, str(entry.get("signature")))
    ]
    dropped = joint.get("dropped_out") or {}
    complete = bool(owners) and set(signed) == set(owners)
    complete &= set(plan.owners) <= {*owners, *dropped}
    return [
        Check(
            name="joint plan",
            passed=same and wrong is None,
            detail=(wrong[1] if wrong else "adds up when recomputed")
            if same
            else "is not the plan the manifest states",
        ),
        Check(
            name="signatures",
            passed=complete,
            detail=f"{len(signed)} of {len(plan.owners)} owners' signatures of the plan are good",
        ),
        Check(
            name="owners' keys",
            passed=None,
            detail="that the keys are those owners' is known by comparing fingerprints",
        ),
    ]
