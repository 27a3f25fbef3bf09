"""What waits for a person's approval at an owner, in words, and the person's decision.

The command line and the studio show and do the same by these functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from sherd.budget.amount import Amount
from sherd.errors import UsageError
from sherd.federation.protocol.joint_plan import Kind, Linkage
from sherd.federation.protocol.states import OwnerState
from sherd.signing_keys import fingerprint

if TYPE_CHECKING:
    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.owner.owner_journal import OwnerJournal
    from sherd.federation.protocol.knowledge import OwnerData

APPROVE, REFUSE = "approve", "refuse"

_KINDS = {
    Kind.HORIZONTAL: "by rows: every owner has the same attributes of different people",
    Kind.VERTICAL: "by columns: every owner has other attributes of the same people",
    Kind.BLOCKS: "by rows and columns: owners of the same attributes have different people, others "
    "have more attributes of the same people",
}
_LINKAGES = {
    Linkage.NONE: "People are not matched between owners.",
    Linkage.OPRF: "People are matched by pseudonyms that nobody can make alone (OPRF); "
    "identifiers do not leave this machine.",
    Linkage.HMAC: "People are matched by pseudonyms of a key that all owners share (low "
    "assurance: every owner can test guesses).",
}


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a round would spend of this owner's budget; amounts in epsilon, as text.

    ``epsilon`` is None for a method that spends nothing.
    """

    population: str
    epsilon: str | None
    spent: str
    limit: str
    left: str
    enough: bool


def waiting(journal: OwnerJournal) -> list[OwnerData]:
    """The rounds that wait for a person, undecided."""
    return [
        data
        for data in journal.rounds()
        if data.state is OwnerState.AWAITING_APPROVAL and journal.decision(data.round) is None
    ]


def decide(
    journal: OwnerJournal, name: str, decision: str, *, plan_hash: str | None = None
) -> None:
    """Note a decision; with ``plan_hash``, only about the plan that the person saw."""
    data = journal.round(name)
    if data is None or data.state is not OwnerState.AWAITING_APPROVAL:
        raise UsageError(
            "the round does not await approval",
            got="no such round" if data is None else f"state {data.state.value}",
            do="see `sherd owner requests`",
        )
    assert data.plan is not None
    if plan_hash is not None and plan_hash != data.plan.hash:
        raise UsageError("the round's plan is not the one that was shown", do="look at it again")
    journal.decide(name, decision)


def plan_words(data: OwnerData) -> list[str]:
    """A plan in sentences for the person who approves it."""
    plan = data.plan
    assert plan is not None
    terms, share = plan.terms, plan.share(data.owner)
    others = [owner for owner in plan.owners if owner != data.owner]
    settings = ", ".join(f"{name} = {value}" for name, value in terms.parameters.items())
    ends = datetime.fromtimestamp(terms.deadline).astimezone()
    attributes = ", ".join(plan.schema(data.owner).attributes)
    return [
        f"The aggregator '{data.aggregator}' (key {fingerprint(data.aggregator_key)}) asks for a "
        f"joint release {_KINDS[terms.kind]}.",
        f"Purpose: {terms.purpose or 'not stated'}.",
        f"Also taking part: {', '.join(others) or 'nobody else'}.",
        f"Your {share.rows} rows would be masked here by '{terms.method}'"
        f"{f' with {settings}' if settings else ''}, and these attributes delivered: {attributes}.",
        _LINKAGES[terms.linkage],
        f"Answer before {ends:%Y-%m-%d %H:%M %Z}.",
    ]


def promise(data: OwnerData) -> list[str]:
    """What the delivery would promise, line by line; known without looking at the table."""
    plan = data.plan
    assert plan is not None
    return plan.local(data.owner).guarantee(plan.schema(data.owner)).words().splitlines()


def cost(home: OwnerHome, data: OwnerData) -> Cost:
    """What the round would spend, and what is left to spend."""
    from sherd.budget.ledger import Ledger

    plan = data.plan
    assert plan is not None
    population = home.settings.population
    account = Ledger(home.ledger).account(population)
    most = Amount(home.policy.lifetime_epsilon)
    limit = most if account.limit is None or most < account.limit else account.limit
    left = limit.less(account.spent + account.reserved)
    epsilon = plan.share(data.owner).epsilon
    return Cost(
        population=population,
        epsilon=epsilon,
        spent=str(account.spent),
        limit=str(limit),
        left=str(left),
        enough=epsilon is None or Amount(epsilon) <= left,
    )
