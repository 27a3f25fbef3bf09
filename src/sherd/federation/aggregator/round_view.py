"""What people are shown of a round, at the aggregator and at an owner: no data."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sherd.federation.protocol.states import RoundState
from sherd.signing_keys import fingerprint

if TYPE_CHECKING:
    from collections.abc import Collection

    from sherd.federation.protocol.joint_plan import Terms
    from sherd.federation.protocol.knowledge import OwnerData, RoundData


def _terms(terms: Terms) -> dict[str, Any]:
    return {
        "kind": terms.kind.value,
        "method": terms.method,
        "parameters": terms.parameters,
        "epsilon": terms.epsilon,
        "linkage": terms.linkage.value,
        "dropout": terms.dropout.value,
        "owners": list(terms.owners),
        "deadline": datetime.fromtimestamp(terms.deadline, UTC).isoformat(),
        "purpose": terms.purpose,
    }


def round_report(data: RoundData) -> dict[str, Any]:
    """A round as its operator sees it."""
    owners = {}
    for owner in data.terms.owners:
        if owner in data.dropped:
            owners[owner] = f"dropped out: {data.dropped[owner].words}"
        elif owner in data.deliveries:
            owners[owner] = "delivered"
        elif owner in data.signatures:
            owners[owner] = "signed"
        elif owner in data.offers:
            owners[owner] = "offered"
        else:
            owners[owner] = "invited"
    return {
        "round": data.terms.round,
        "state": data.state.value,
        **_terms(data.terms),
        "progress": owners,
        "plan_hash": None if data.plan is None else data.plan.hash,
        "shares": {}
        if data.plan is None
        else {share.owner: share.epsilon for share in data.plan.shares},
        "reason": None if data.reason is None else data.reason.words,
        "details": list(data.details),
        "manifest": data.manifest,
    }


def awaited(data: RoundData) -> list[str]:
    """The owners that a round cannot go on without hearing from."""
    have: Collection[str]
    if data.state is RoundState.ATTRIBUTES:
        have = data.offers
    elif data.state is RoundState.PLAN_PROPOSED:
        have = data.signatures
    elif data.state is RoundState.LINKING:
        have = data.pseudonyms
    elif data.state is RoundState.COLLECTING:
        have = data.deliveries
    else:
        return []
    owners = data.terms.owners if data.plan is None else data.plan.owners
    return [owner for owner in owners if owner not in have and owner not in data.dropped]


def owner_report(data: OwnerData) -> dict[str, Any]:
    """A round as an owner sees it."""
    report: dict[str, Any] = {
        "round": data.round,
        "state": data.state.value,
        "aggregator": data.aggregator,
        "fingerprint": fingerprint(data.aggregator_key),
    }
    if data.terms is not None:
        report |= _terms(data.terms)
    if data.plan is not None and data.owner in data.plan.owners:
        share = data.plan.share(data.owner)
        report |= {
            "plan_hash": data.plan.hash,
            "own_epsilon": share.epsilon,
            "composed_epsilon": data.plan.composed,
            "rows": share.rows,
            "attributes": list(data.plan.schema(data.owner).attributes),
        }
    report |= {
        "reason": None if data.reason is None else data.reason.words,
        "details": list(data.details),
        "manifest": data.manifest,
    }
    return report
