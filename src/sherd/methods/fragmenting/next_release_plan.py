"""A release that follows another one: its plan, and its groups from the owner's record.

The plan is the old release's with its fragments and sizes written out and ``after``, which
names the old release by the hash of its manifest. What such a release promises is known from
the plan alone: looseness of all releases in the row together, under one more assumption where
any of them withdrew whole groups only (see ``rerelease``).

How many tuples were deleted, changed, held back or withdrawn is told to the owner and is not
in the manifest: somebody who holds both releases sees which groups went, and the number of
deletions would say how many of their members really left.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.errors import FormatError, InfeasibleError, PlanError, UsageError
from sherd.guarantees import Assumption
from sherd.methods.fragmenting.next_release import MOST_WITHDRAWN, WITHDRAWALS, Change, rerelease
from sherd.methods.fragmenting.private_record import Kept
from sherd.release.method import Finding
from sherd.release.plan import Plan
from sherd.release.preceding import manifest_to_follow, other_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from sherd.methods.fragmenting.next_release import Placing
    from sherd.release.method import Lineage, PrivateRecord, Run
    from sherd.release.preceding import Keys
    from sherd.tables.schema import Schema

FIXED = ("constraints", "looseness", "fragments", "sizes", "projections")
"""Parameters that releases in a row share."""

OF_NEXT = ("after", "withdraw", "most_withdrawn")
"""Parameters that only a release which follows another has."""


def follow(
    old: str | Path, record: PrivateRecord, schema: Schema, chosen: Mapping[str, Any] | None = None
) -> Plan:
    """The plan of the release after the one in the folder ``old``, of which ``record`` is kept.

    ``chosen`` are parameters of your own: ``withdraw``, ``most_withdrawn`` and how new tuples
    are placed. What the releases must share may be among them if it is the same.
    """
    manifest = manifest_to_follow(Path(old), record, schema)
    plan, facts = manifest.get("plan"), manifest.get("facts")
    if not isinstance(plan, dict) or plan.get("method") != "fragment" or not facts:
        raise UsageError("the old release is not made of fragments", got=str(old))
    first = {key: value for key, value in plan.items() if key not in OF_NEXT}
    shared = {**first, "fragments": facts.get("fragments"), "sizes": facts.get("sizes")}
    own = dict(chosen or {})
    for parameter in FIXED:
        if own.get(parameter) is not None and own[parameter] != shared.get(parameter):
            raise PlanError(
                f"the '{parameter}' parameter is not that of the old release",
                must=f"the same: {shared.get(parameter)!r}",
                got=repr(own[parameter]),
                do=f"leave it out: it is taken from {old}",
            )
    before = [*_before(plan), *([plan["withdraw"]] if "after" in plan else [])]
    return Plan.from_data(
        {
            **shared,
            "withdraw": WITHDRAWALS[0],
            **{key: value for key, value in own.items() if value is not None},
            "after": {"release": record.release, "withdrew": sorted(set(before))},
        }
    )


def _before(plan: Mapping[str, Any] | Plan) -> list[str]:
    """How the releases before the last one withdrew."""
    after = plan["after"] if isinstance(plan, Plan) else plan.get("after")
    return [] if after is None else list(after["withdrew"])


def check_following(plan: Plan) -> None:
    """Raise PlanError where the parameters of a following release do not fit together."""
    after = plan["after"]
    if after is None:
        for name in ("withdraw", "most_withdrawn"):
            if plan[name] is not None:
                raise PlanError(
                    f"the '{name}' parameter is for a release that follows another",
                    do="name that one with --after",
                )
        return
    names = after.get("release"), after.get("withdrew")
    if (
        set(after) != {"release", "withdrew"}
        or not isinstance(names[0], str)
        or not isinstance(names[1], tuple)
        or not set(names[1]) <= set(WITHDRAWALS)
        or plan["withdraw"] is None
        or plan["fragments"] is None
        or plan["sizes"] is None
    ):
        raise PlanError(
            "the 'after' parameter is not valid",
            must="made from the old release, with its fragments and sizes",
            do="use --after (in Python: sherd.fragment(..., after=...))",
        )


def assumptions(plan: Plan) -> tuple[Assumption, ...]:
    """What a release takes for granted about others of the same tuples."""
    if plan["after"] is None:
        return (Assumption.NO_OTHER_RELEASE,)
    if "groups" in (plan["withdraw"], *_before(plan)):
        return (Assumption.ONLY_EARLIER_RELEASES, Assumption.DELETIONS_UNKNOWN)
    return (Assumption.ONLY_EARLIER_RELEASES,)


def check_past(plan: Plan, schema: Schema, run: Run, lineage: Lineage | None) -> Kept | None:
    """The record of the release that a run follows, checked; None for a first release."""
    past = None if lineage is None else lineage.past
    if lineage is not None and plan["projections"]:
        raise PlanError(
            "no record is kept of a release with projections of its association",
            do="leave out 'projections', or the key and the record",
        )
    if (past is None) != (plan["after"] is None):
        raise PlanError(
            "a release that follows another needs three things",
            must="a plan made from the old release, the owner's record of it, and the key",
            do="use --after with --old-record (in Python: sherd.fragment(..., after=...))",
        )
    if lineage is None or past is None:
        return None
    if not isinstance(past, Kept) or past.release != plan["after"]["release"]:
        raise UsageError("the record is not that of the release which the plan follows")
    # Earlier records hold the hash of the whole schema; a release publishes part of it.
    if past.schema not in (schema.published().hash, schema.hash):
        raise other_schema()
    if past.key != lineage.keys.attribute:
        raise PlanError(
            "the key is not the one that the old release's record is kept by",
            must=repr(past.key),
            got=repr(lineage.keys.attribute),
        )
    if past.seeded and not run.randomness.is_seeded:
        raise PlanError(
            "the groups of the old release are reproducible, and this one would keep them",
            must="made with a seed too, so that it is stamped as carrying no guarantee",
            do="pass --seed, or make a first release without one",
        )
    return past


def signed(kept: Kept, schema: Schema, run: Run, keys: Keys) -> Kept:
    """A record that knows what it belongs to, but for the hash of its release."""
    told = schema.published().hash  # all that can be known of it from the release
    return replace(kept, key=keys.attribute, schema=told, seeded=run.randomness.is_seeded)


def next_groups(
    past: Kept,
    table: pa.Table,
    plan: Plan,
    run: Run,
    *,
    keys: Keys,
    fragments: Sequence[Sequence[str]],
    place: Placing,
) -> Change:
    """The record of the release that follows ``past``; refused where nothing would be left."""
    if len(past.groups) != len(fragments):
        raise FormatError(
            "the record has another number of fragments than the release",
            must=str(len(fragments)),
            got=str(len(past.groups)),
        )
    share = plan["most_withdrawn"]
    change = rerelease(
        past,
        table,
        keys.values,
        fragments,
        place=place,
        withdraw=plan["withdraw"],
        most_withdrawn=MOST_WITHDRAWN if share is None else share,
        randomness=run.randomness,
    )
    if not (change.kept.groups >= 0).any(axis=1).all():
        raise InfeasibleError(
            "nothing would be left of a fragment",
            do="wait for more tuples, or start over with a first release of other people",
        )
    return change


def findings(change: Change) -> tuple[Finding, ...]:
    """What a change of the data cost, for the owner's eyes only."""
    told = (
        ("kept", change.stay, "tuples of the old release that stay in their groups"),
        ("appended", change.appended, "tuples that are new, in groups of their own"),
        ("held back", change.held_back, "new tuples that found no place; they may come later"),
        ("returned", change.returned, "tuples withdrawn before that are back as they were"),
        ("deleted", change.deleted, "tuples of the old release that the table no longer has"),
        ("changed", change.changed, "tuples whose released values changed: as if deleted"),
        (
            "withdrawn",
            change.withdrawn,
            f"further tuples that lost a part so that those are hidden, {change.parts} parts "
            "in all; they stay out of all later releases",
        ),
    )
    return tuple(Finding(name=name, value=value, meaning=text) for name, value, text in told)
