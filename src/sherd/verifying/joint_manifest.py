"""Re-checking a joint release from its manifest alone: the plan, its numbers, its signatures.

Everything the manifest says of how the release came about follows from the plan that the
owners signed, or is one of the few things that came later (who dropped out, what each owner
delivered). The first is worked out again and compared; of the second only the form is checked.

The aggregator vouches for the release as it is, and so does every owner that has looked at it. The
plan names the aggregator's key and says that the release is signed, and every owner signed the
plan. So a missing signature of the aggregator is a failed check, not an unsigned release. Owners
sign later, each when it has found its part in the release; until then the check says which are
missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.errors import SherdError
from sherd.federation.protocol.composition import unsound
from sherd.federation.protocol.joint_plan import JointPlan, Kind, Linkage
from sherd.federation.protocol.joint_release import (
    followed,
    joint_guarantee,
    linkage,
    pooled_plan,
    pooled_schema,
)
from sherd.federation.protocol.messages import countersigned_text, part_text
from sherd.federation.protocol.reasons import Reason
from sherd.release.bundle import MANIFEST, digest
from sherd.release.method import traits_of
from sherd.release.signature import SIGNATURE, countersignatures, is_key, signed_by
from sherd.signing_keys import fingerprint, verify, verify_plan
from sherd.values import from_data
from sherd.verifying.check import UNREADABLE, Check
from sherd.verifying.manifest_form import are_versions, is_hash

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sherd.guarantees import Guarantee


_LATER = ("owners", "dropped_out", "linkage")
"""What is not of the plan alone."""


def read_plan(manifest: Mapping[str, Any]) -> JointPlan:
    """The joint plan in a manifest; SherdError where there is none."""
    return from_data(JointPlan, manifest["joint"].get("plan"))


def guarantee_of(manifest: Mapping[str, Any]) -> Guarantee:
    """The promise that a manifest's joint plan leads to."""
    plan = read_plan(manifest)
    return joint_guarantee(plan, plan.terms.linkage is not Linkage.NONE)


def check_joint(manifest: Mapping[str, Any]) -> list[Check]:
    """What can be checked of how a joint release came about."""
    try:
        plan = read_plan(manifest)
        wrong = unsound(plan)
        pooled = pooled_plan(plan).hash, pooled_schema(plan).hash
    except SherdError as error:
        return [Check.failed("joint plan", f"cannot be read: {error.what}")]
    except UNREADABLE:
        return [Check.failed("joint plan", "cannot be read")]
    stated = tuple(manifest.get(part) for part in ("plan_hash", "schema_hash"))
    same = (manifest["joint"].get("plan_hash"), *stated) == (plan.hash, *pooled)
    detail = (wrong[1] if wrong else "adds up when recomputed") if same else "is not as stated"
    checks = [Check(name="joint plan", passed=same and wrong is None, detail=detail)]
    parts = (_parts,) if plan.terms.signed_release else ()
    for check in (_followed, _owners, _signatures, *parts, _dropped):
        try:
            checks.append(check(plan, manifest))
        except UNREADABLE:
            name = check.__name__.strip("_").replace("_", " ")
            checks.append(Check.failed(f"joint: {name}", "cannot be read"))
    return [*checks, *_beyond_reach(plan, manifest)]


def _followed(plan: JointPlan, manifest: Mapping[str, Any]) -> Check:
    """Every part of the manifest that follows from the plan alone."""
    joint, budget = manifest["joint"], manifest["budget"]
    expected = followed(plan)
    wrong = sorted({*expected, *_LATER} ^ set(joint))
    wrong += [name for name, value in expected.items() if joint.get(name, value) != value]
    if budget != {"recorded": plan.composed is not None, "spent": plan.composed}:
        wrong.append("budget")
    if not _is_linkage(plan, manifest):
        wrong.append("linkage")
    return Check.of(
        "joint: round, epsilon, linkage",
        not wrong,
        "what the plan leads to",
        "not as planned: " + ", ".join(wrong),
    )


def _is_linkage(plan: JointPlan, manifest: Mapping[str, Any]) -> bool:
    """How people were matched; how many all owners have is how many rows there are."""
    given = manifest["joint"]["linkage"]
    joins = plan.terms.kind.joins
    return bool(given == linkage(plan, manifest["facts"]["rows"] if joins else None))


def _owners(plan: JointPlan, manifest: Mapping[str, Any]) -> Check:
    """Keys, fingerprints and shares, as the signed plan has them."""
    owners = manifest["joint"]["owners"]
    wrong = []
    for owner, entry in owners.items():
        share = plan.share(owner)
        expected = {
            "key": share.key,
            "fingerprint": fingerprint(share.key),
            "epsilon": share.epsilon,
            "rows": share.rows,
        }
        later = {"signature", "artefact", "ledger_head", "versions"}
        later |= {"part_signature"} if plan.terms.signed_release else set()
        fits = set(entry) == {*expected, *later}
        fits &= {name: entry.get(name) for name in expected} == expected
        fits &= is_hash(entry.get("artefact")) and is_hash(entry.get("ledger_head"))
        if not fits or not (entry["versions"] == {} or are_versions(entry["versions"])):
            wrong.append(owner)
    rows = sum(plan.share(owner).rows for owner in owners)
    if plan.terms.kind is Kind.HORIZONTAL and _of_records(manifest):
        wrong += [] if rows == manifest["facts"]["rows"] else ["rows in all"]
    detail = "key, fingerprint, epsilon and rows as in the plan"
    if wrong or not owners:
        detail = "not as in the plan: " + (", ".join(wrong) or "no owner")
    return Check(name="owners", passed=not wrong and bool(owners), detail=detail)


def _of_records(manifest: Mapping[str, Any]) -> bool:
    """Whether the release is one table with a row for every record."""
    traits = traits_of(manifest)
    return traits is not None and (traits.rows_are_drawn or traits.of_records(manifest["plan"]))


def _signatures(plan: JointPlan, manifest: Mapping[str, Any]) -> Check:
    owners, dropped = manifest["joint"]["owners"], manifest["joint"]["dropped_out"]
    signed = [
        owner
        for owner, entry in owners.items()
        if owner in plan.owners
        and verify_plan(plan.share(owner).key, plan.hash, str(entry.get("signature")))
    ]
    complete = bool(owners) and set(signed) == set(owners)
    complete &= set(plan.owners) <= {*owners, *dropped}
    detail = f"{len(signed)} of {len(plan.owners)} owners' signatures of the plan are good"
    return Check(name="signatures", passed=complete, detail=detail)


def _parts(plan: JointPlan, manifest: Mapping[str, Any]) -> Check:
    """Whether each owner signed what the manifest says that it delivered."""
    owners = manifest["joint"]["owners"]
    unsigned = []
    for owner, entry in owners.items():
        text = part_text(
            plan_hash=plan.hash,
            owner=owner,
            artefact=entry["artefact"],
            head=entry["ledger_head"],
            versions=entry["versions"],
        )
        if not verify(plan.share(owner).key, text, str(entry.get("part_signature"))):
            unsigned.append(owner)
    detail = f"what each of {len(owners)} owners delivered is signed by it"
    if unsigned:
        detail = "not signed by the owner it is said to be of: " + ", ".join(unsigned)
    return Check(name="owners' parts", passed=not unsigned, detail=detail)


def _dropped(plan: JointPlan, manifest: Mapping[str, Any]) -> Check:
    owners, dropped = manifest["joint"]["owners"], manifest["joint"]["dropped_out"]
    known = {reason.words for reason in Reason}
    fits = set(dropped) == set(plan.terms.owners) - set(owners)
    fits &= all(isinstance(words, str) and words in known for words in dropped.values())
    detail = ", ".join(dropped) or "nobody"
    if not fits:
        detail = "not who was invited and is not in the release, each with a known reason"
    return Check(name="dropped out", passed=fits, detail=detail)


def _beyond_reach(plan: JointPlan, manifest: Mapping[str, Any]) -> list[Check]:
    owners = manifest["joint"].get("owners")
    named = [owner for owner in plan.owners if isinstance(owners, dict) and owner in owners]
    prints = "; ".join(f"{owner} {_print(plan, owner)}" for owner in named)
    return [
        Check.unmade(
            "owners' keys",
            "that the keys are those owners' is known by comparing fingerprints over "
            f"another channel: {prints}",
        ),
        Check.unmade(
            "deliveries",
            "artefacts, heads of ledgers, versions and reasons for dropping out are what "
            "each owner said; ask it",
        ),
    ]


def _print(plan: JointPlan, owner: str) -> str:
    try:
        return fingerprint(plan.share(owner).key)
    except ValueError:
        return "(no key)"


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
    return [_aggregators(folder, plan, key), _countersigned(folder, plan, manifest)]


def _aggregators(folder: Path, plan: JointPlan, key: str | None) -> Check:
    name, public = "signature", None
    if not (folder / SIGNATURE).is_file():
        detail = "the plan says that the aggregator signs the release, and it is not signed"
        return Check.failed(name, detail)
    try:
        public = signed_by(folder)
    except UNREADABLE:
        public = None
    if public != plan.aggregator_key:
        return Check.failed(name, "is not the aggregator's signature of this manifest")
    same = key is None or is_key(public, key)
    whose = "the aggregator's key in the plan" if same else "the aggregator's key, not the given"
    return Check(name=name, passed=same, detail=f"by {whose}: {fingerprint(public)}")


def _countersigned(folder: Path, plan: JointPlan, manifest: Mapping[str, Any]) -> Check:
    """Which owners found their part in the release and signed it."""
    name = "countersignatures"
    owners = manifest["joint"].get("owners")
    wanted = [owner for owner in plan.owners if isinstance(owners, dict) and owner in owners]
    try:
        given = countersignatures(folder)
    except (SherdError, *UNREADABLE):
        return Check.failed(name, "cannot be read")
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
        return Check.failed(name, detail)
    missing = [owner for owner in wanted if owner not in given]
    if missing:
        detail = "not signed yet by owners that found their part in it: " + ", ".join(missing)
        return Check.unmade(name, detail)
    return Check(name=name, passed=True, detail=f"all {len(wanted)} owners found their parts in it")
