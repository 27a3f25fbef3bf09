"""What waits for a person's approval at an owner, in words, what it costs, and the decision.

The command line and the studio show and do the same by these functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sherd.budget.amount import Amount
from sherd.errors import UsageError
from sherd.federation.protocol.joint_plan import Kind, Linkage
from sherd.federation.protocol.states import OwnerState
from sherd.signing_keys import fingerprint

if TYPE_CHECKING:
    import pyarrow as pa

    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.owner.owner_journal import OwnerJournal
    from sherd.federation.protocol.knowledge import OwnerData
    from sherd.tables.schema import Attribute

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
    if plan_hash is not None and plan_hash != data.agreed.hash:
        raise UsageError("the round's plan is not the one that was shown", do="look at it again")
    journal.decide(name, decision)


def plan_words(data: OwnerData) -> list[str]:
    """A plan in sentences for the person who approves it."""
    plan = data.agreed
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
    plan = data.agreed
    return plan.local(data.owner).guarantee(plan.schema(data.owner)).words().splitlines()


def cost(home: OwnerHome, data: OwnerData) -> Cost:
    """What the round would spend, and what is left to spend."""
    from sherd.budget.ledger import Ledger

    plan = data.agreed
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


LABEL = "internal: not for publication"


def preview(home: OwnerHome, data: OwnerData) -> dict[str, Any]:
    """Each attribute's distance from the truth, and what the method says of the table.

    The preview is made with noise of its own, not the release's, and is not kept. That a person
    approved after seeing it is itself a fact about the data that no epsilon covers; the
    documentation says so. Where columns are joined the common people are not known yet, so all of
    the owner's rows are used.
    """
    from sherd.release.protect import protect
    from sherd.tables.coding import arrow_array

    plan = data.agreed
    schema = plan.schema(data.owner)
    linked = plan.terms.linkage is not Linkage.NONE
    table = home.source().load(schema, linked=linked).table
    release = protect(table, schema, plan.local(data.owner), ledger=None)
    shown: dict[str, Any] = {
        "label": LABEL,
        "guarantee": release.manifest["guarantee"]["words"],
        "findings": [
            {"name": f.name, "value": f.value, "meaning": f.meaning}
            for f in release.findings
            if f.attribute is None
        ],
    }
    if release.order is not None:
        order = arrow_array(release.order)
        masked = release.tables["data"]
        shown["distance"] = {
            name: _distance(table.column(name).take(order), masked.column(name), schema[name])
            for name in schema.protected
        }
    return shown


def _distance(
    truth: pa.ChunkedArray, masked: pa.ChunkedArray, attribute: Attribute
) -> dict[str, float]:
    """How far masked cells are from the true ones: in shares of the domain, or of cells."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if attribute.type.labelled or not pa.types.is_primitive(truth.type):
        same = pc.equal(truth.cast(pa.string()), masked.cast(pa.string()))
        return {"share_of_cells_changed": 1.0 - float(pc.mean(same.cast(pa.float64())).as_py())}
    gap = pc.abs(pc.subtract(_number(truth), _number(masked)))
    mean = float(pc.mean(gap).as_py() or 0.0)
    if attribute.domain is not None and isinstance(attribute.domain[0], Decimal):
        width = float(attribute.domain[1]) - float(attribute.domain[0])  # type: ignore[arg-type]
    else:
        bounds = pc.min_max(_number(truth)).as_py()
        width = (bounds["max"] - bounds["min"]) or 1.0
    return {"mean_distance": mean, "share_of_the_domain": mean / width}


def _number(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    if pa.types.is_temporal(column.type):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    return column.cast(pa.float64(), safe=False)
