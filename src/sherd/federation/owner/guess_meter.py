"""How many identifiers others may try on our people: metered by the journal, by plan.

Raising a batch tells its owner which of the identifiers in it are ours. A plan counts from when it
passed our check, before any other round is looked at, and goes on counting where the aggregator
sent everybody's signatures, whether it then asked or not. A round that repeats another one links
by the same keys: it brings nothing new as long as each batch is the one that was raised before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sherd.federation.protocol.joint_plan import Linkage
from sherd.federation.protocol.messages import MessageType
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OWNER_ENDS, OwnerState

if TYPE_CHECKING:
    from sherd.federation.owner.owner_journal import OwnerJournal
    from sherd.federation.owner.policy import Policy
    from sherd.federation.protocol.joint_plan import JointPlan
    from sherd.federation.protocol.knowledge import OwnerData
    from sherd.federation.protocol.messages import Attachment
    from sherd.federation.protocol.owner_machine import Owner

YEAR = 365 * 24 * 3600


def guessing_objection(
    journal: OwnerJournal, policy: Policy, machine: Owner, *, now: int
) -> tuple[Reason, str] | None:
    """Why a plan would let others try more identifiers in a year than the policy allows."""
    data = machine.data
    if data.agreed.terms.linkage is Linkage.NONE:
        return None
    made: dict[str, int] = {}
    for other in journal.rounds(all=True):
        if other.round != data.round and _counts(other) and _deadline(other) >= now - YEAR:
            made[other.agreed.tag] = _others(other.agreed, data.owner)
    if data.agreed.tag in made:  # a repetition of one that counts
        return None
    return policy.objection_to_guesses(sum(made.values()), _others(data.agreed, data.owner))


def _counts(data: OwnerData) -> bool:
    if data.plan is None or data.plan.terms.linkage is Linkage.NONE:
        return False
    return data.signed or data.state not in (OwnerState.INVITED, *OWNER_ENDS)


def _deadline(data: OwnerData) -> int:
    return data.agreed.terms.deadline


def _others(plan: JointPlan, owner: str) -> int:
    return sum(share.rows for share in plan.shares if share.owner != owner)


def check_raised(
    journal: OwnerJournal, machine: Owner, origin: str, attachment: Attachment
) -> None:
    """Refuse to send on a batch that is not the one we raised before, in a round that repeats.

    Raised by one key, equal batches are equal bytes.
    """
    data = machine.data
    if data.agreed.terms.repeats is None:
        return
    for other in journal.rounds(all=True):
        same = other.plan is not None and other.plan.tag == data.agreed.tag
        if not same or other.round == data.round or origin not in other.raised:
            continue
        if _raised(journal, other.round, origin) != attachment.sha256:
            what = f"the batch of {origin} is not the one of the round that this repeats"
            raise Reason.TOO_MANY_GUESSES.error(what)


def _raised(journal: OwnerJournal, round_id: str, origin: str) -> str | None:
    """The hash of what a round sent on of somebody's batch."""
    for sent in journal.outgoing(round_id):
        envelope = json.loads(sent.raw)
        body = envelope["body"]
        if envelope["header"]["type"] == MessageType.BATCH.value and body["origin"] == origin:
            return str(body["attachment"]["sha256"])
    return None
