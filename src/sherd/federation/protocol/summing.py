"""Rounds of sums: what of a horizontal round is different where its method asks for sums alone.

After the plan is signed, the aggregator puts questions to all owners at once, as the method says
(``sherd.release.summed_rows``); each owner answers under pairwise masks, and the sum leads to the
next question. All owners of the plan answer every question, or nothing is released.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sherd.errors import PlanError
from sherd.federation.protocol.joint_plan import HASH, Kind
from sherd.federation.protocol.messages import Masked
from sherd.federation.protocol.pairwise_masks import WORD
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OwnerState, RoundState
from sherd.release.summed_rows import RowOwners, SumsRows

if TYPE_CHECKING:
    from sherd.federation.protocol.joint_plan import JointPlan, Terms
    from sherd.federation.protocol.knowledge import OwnerData, RoundData
    from sherd.federation.protocol.messages import Ask

MOST_QUESTION = 1 << 24
"""The most bytes of a question."""


def sums_rows(terms: Terms) -> bool:
    """Whether a round of these terms is one of sums."""
    from sherd.release.method import find

    return terms.kind is Kind.HORIZONTAL and isinstance(find(terms.method), SumsRows)


def method_of(plan: JointPlan) -> SumsRows:
    """The method of a round of sums."""
    from sherd.release.method import find

    method = find(plan.terms.method)
    assert isinstance(method, SumsRows)
    return method


def among(plan: JointPlan) -> RowOwners:
    """Who has the rows: all owners of the plan; all but one may collude where none are named."""
    owners = len(plan.shares)
    named = plan.terms.colluders
    return RowOwners(
        owners=owners,
        colluders=owners - 1 if named is None else min(named, owners - 1),
        rows=sum(share.rows for share in plan.shares),
    )


def mask_keys(plan: JointPlan) -> dict[str, str]:
    """The public keys of all owners' masks."""
    return {share.owner: share.mask_key or "" for share in plan.shares}


def unsound_sums(plan: JointPlan) -> str | None:
    """What is wrong with a plan as one of a round of sums, or as one that is none."""
    given = [share.mask_key for share in plan.shares]
    if not sums_rows(plan.terms):
        return "the plan has keys of masks for nothing" if any(given) else None
    if not all(key and HASH.fullmatch(key) for key in given) or len(set(given)) < len(given):
        return "the plan lacks an owner's own key of its masks"
    owner = plan.owners[0]
    method_of(plan).check_rows(plan.local(owner), plan.schema(owner))
    return None


def read_question(raw: bytes) -> dict[str, Any]:
    """The question in bytes that the aggregator sent."""
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise PlanError("a question cannot be read", must="JSON")
    return data


def about(plan: JointPlan, exchange: int, question: str) -> bytes:
    """What the masks of one answer belong to: this plan, this exchange, this very question."""
    return f"{plan.hash}\n{exchange}\n{question}".encode()


def check_ask(data: OwnerData, body: Ask) -> None:
    """Refuse a question that is not the next one of a round of sums."""
    assert data.plan is not None
    before = data.answered or 0
    first = data.state is OwnerState.APPROVED and data.signed and before == 0
    first = first and (data.cleared or not data.plan.terms.linked)
    later = data.state is OwnerState.PROTECTED and before > 0
    if not sums_rows(data.plan.terms) or not (first or later) or body.exchange != before + 1:
        raise Reason.UNEXPECTED.error()
    if not 0 < body.attachment.size <= MOST_QUESTION:
        raise Reason.TOO_LARGE.error()


def check_masked(data: RoundData, sender: str, body: Masked) -> None:
    """Refuse an answer that is not to the question that waits, or not as long as it must be."""
    waiting = any(
        key.split("/")[0] == sender and isinstance(each.body, Masked)
        for key, each in data.waiting.items()
    )
    asked = len(data.asked or ())
    fits = data.state is RoundState.COLLECTING and body.exchange == asked > 0
    if not fits or waiting or sender in (data.masked or {}):
        raise Reason.UNEXPECTED.error()
    if body.attachment.size != WORD * (data.numbers or 0):
        raise Reason.MALFORMED.error()
