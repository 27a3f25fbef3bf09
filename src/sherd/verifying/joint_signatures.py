"""Who vouches for a joint release as it lies there: its aggregator, and the owners that looked.

The plan names the aggregator's key and says that the release is signed, and every owner signed the
plan: a signature that is missing is so a failed check, not an unsigned release. Owners sign later,
each when it has found its part in the release; until then theirs are missing, which is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.errors import SherdError
from sherd.federation.protocol.signed_parts import countersigned_text
from sherd.release.bundle import MANIFEST, digest
from sherd.release.signature import SIGNATURE, countersignatures, is_key, signed_by
from sherd.signing_keys import fingerprint, verify
from sherd.verifying.check import UNREADABLE, Check
from sherd.verifying.joint_manifest import read_plan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sherd.federation.protocol.joint_plan import JointPlan


def check_signatures(folder: Path, manifest: Mapping[str, Any], key: str | None) -> list[Check]:
    """The aggregator's signature, and those of owners; as for any release before both were asked.

    ``key`` is whose the aggregator's key must be.
    """
    from sherd.verifying.verification import check_signature

    try:
        plan = read_plan(manifest)
    except (SherdError, *UNREADABLE):
        plan = None  # said by the check of the plan
    if plan is None or not plan.terms.signed_release:
        return [check_signature(folder, key)]
    return [_aggregators(folder, plan, key), _owners(folder, plan, manifest)]


def _aggregators(folder: Path, plan: JointPlan, key: str | None) -> Check:
    name, public = "signature", None
    if not (folder / SIGNATURE).is_file():
        detail = "the plan says that the aggregator signs the release, and it is not signed"
        return Check(name=name, passed=False, detail=detail)
    try:
        public = signed_by(folder)
    except UNREADABLE:
        public = None
    if public != plan.aggregator_key:
        detail = "is not the aggregator's signature of this manifest"
        return Check(name=name, passed=False, detail=detail)
    same = key is None or is_key(public, key)
    whose = "the aggregator's key in the plan" if same else "the aggregator's key, not the given"
    return Check(name=name, passed=same, detail=f"by {whose}: {fingerprint(public)}")


def _owners(folder: Path, plan: JointPlan, manifest: Mapping[str, Any]) -> Check:
    """Which owners found their part in the release and signed it."""
    name = "countersignatures"
    owners = manifest["joint"].get("owners")
    wanted = [owner for owner in plan.owners if isinstance(owners, dict) and owner in owners]
    try:
        given = countersignatures(folder)
    except (SherdError, *UNREADABLE):
        return Check(name=name, passed=False, detail="cannot be read")
    sha256 = digest(folder / MANIFEST)
    wrong = [
        owner
        for owner, signature in given.items()
        if owner not in wanted
        or not verify(
            plan.share(owner).key,
            countersigned_text(plan_hash=plan.hash, owner=owner, manifest=sha256),
            signature,
        )
    ]
    if wrong:
        detail = "of another release, or of nobody in it: " + ", ".join(sorted(wrong))
        return Check(name=name, passed=False, detail=detail)
    missing = [owner for owner in wanted if owner not in given]
    if missing:
        detail = "not signed yet by owners that found their part in it: " + ", ".join(missing)
        return Check(name=name, passed=None, detail=detail)
    return Check(name=name, passed=True, detail=f"all {len(wanted)} owners found their parts in it")
