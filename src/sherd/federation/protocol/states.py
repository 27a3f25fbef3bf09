"""The states of a round and of an owner in it, and every legal transition, in one place.

The machines (``round_machine``, ``owner_machine``) move by ``step`` and by nothing
else, and the diagrams in the documentation are drawn from these tables.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from sherd.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Mapping


class RoundState(StrEnum):
    """Where a round stands, as the aggregator sees it."""

    DRAFT = "draft"
    ATTRIBUTES = "attributes"
    SCHEMA_AGREED = "schema-agreed"
    PLAN_PROPOSED = "plan-proposed"
    PLAN_SIGNED = "plan-signed"
    LINKING = "linking"
    COLLECTING = "collecting"
    ASSEMBLING = "assembling"
    RELEASED = "released"
    ABORTED = "aborted"
    EXPIRED = "expired"


class RoundEvent(StrEnum):
    """What moves a round on."""

    OPENED = "opened"
    OFFERS_COMPLETE = "every owner offered, and the offers agree"
    PLAN_MADE = "plan made"
    SIGNATURES_COMPLETE = "every owner signed"
    LINKAGE_BEGINS = "people are to be linked"
    NO_LINKAGE = "nothing to link"
    LINKED = "people linked"
    DELIVERIES_COMPLETE = "deliveries complete"
    ASSEMBLED = "assembled, verified and written"
    FAILED = "refused or failed"
    DEADLINE = "deadline passed"


class OwnerState(StrEnum):
    """Where a round stands, as one owner sees it."""

    INVITED = "invited"
    POLICY_CHECKED = "policy-checked"
    AWAITING_APPROVAL = "awaiting-approval"
    APPROVED = "approved"
    PROTECTED = "protected"
    DELIVERED = "delivered"
    CLOSED = "closed"
    REFUSED = "refused"
    ABORTED = "aborted"
    EXPIRED = "expired"


class OwnerEvent(StrEnum):
    """What moves an owner on."""

    PLAN_PASSED = "the plan passed policy, ledger and recomputation"
    ASKED = "approval asked for"
    APPROVED = "approved and signed"
    CHARGED = "protected and charged"
    RECEIPT = "receipt of the aggregator"
    ENDED = "round released or ended"
    REFUSED = "refused by policy, ledger or a person"
    ABORTED = "aborted by the aggregator"
    DEADLINE = "deadline passed"


State = TypeVar("State", RoundState, OwnerState)
Event = TypeVar("Event", RoundEvent, OwnerEvent)

_R, _E = RoundState, RoundEvent
_RUNNING = (
    _R.ATTRIBUTES,
    _R.SCHEMA_AGREED,
    _R.PLAN_PROPOSED,
    _R.PLAN_SIGNED,
    _R.LINKING,
    _R.COLLECTING,
)

ROUND: Mapping[tuple[RoundState, RoundEvent], RoundState] = MappingProxyType(
    {
        (_R.DRAFT, _E.OPENED): _R.ATTRIBUTES,
        (_R.ATTRIBUTES, _E.OFFERS_COMPLETE): _R.SCHEMA_AGREED,
        (_R.SCHEMA_AGREED, _E.PLAN_MADE): _R.PLAN_PROPOSED,
        (_R.PLAN_PROPOSED, _E.SIGNATURES_COMPLETE): _R.PLAN_SIGNED,
        (_R.PLAN_SIGNED, _E.LINKAGE_BEGINS): _R.LINKING,
        (_R.PLAN_SIGNED, _E.NO_LINKAGE): _R.COLLECTING,
        (_R.LINKING, _E.LINKED): _R.COLLECTING,
        (_R.COLLECTING, _E.DELIVERIES_COMPLETE): _R.ASSEMBLING,
        (_R.ASSEMBLING, _E.ASSEMBLED): _R.RELEASED,
        **{(state, _E.FAILED): _R.ABORTED for state in (_R.DRAFT, *_RUNNING, _R.ASSEMBLING)},
        **{(state, _E.DEADLINE): _R.EXPIRED for state in _RUNNING},
    }
)
"""Every legal transition of a round."""

_O, _F = OwnerState, OwnerEvent
_BEFORE_DELIVERY = (
    _O.INVITED,
    _O.POLICY_CHECKED,
    _O.AWAITING_APPROVAL,
    _O.APPROVED,
    _O.PROTECTED,
)

OWNER: Mapping[tuple[OwnerState, OwnerEvent], OwnerState] = MappingProxyType(
    {
        (_O.INVITED, _F.PLAN_PASSED): _O.POLICY_CHECKED,
        (_O.POLICY_CHECKED, _F.ASKED): _O.AWAITING_APPROVAL,
        (_O.AWAITING_APPROVAL, _F.APPROVED): _O.APPROVED,
        (_O.APPROVED, _F.CHARGED): _O.PROTECTED,
        (_O.PROTECTED, _F.RECEIPT): _O.DELIVERED,
        (_O.DELIVERED, _F.ENDED): _O.CLOSED,
        **{(state, _F.REFUSED): _O.REFUSED for state in _BEFORE_DELIVERY[:-1]},
        **{(state, _F.ABORTED): _O.ABORTED for state in _BEFORE_DELIVERY},
        **{(state, _F.DEADLINE): _O.EXPIRED for state in _BEFORE_DELIVERY},
    }
)
"""Every legal transition of an owner. What was charged cannot be refused any more."""

ROUND_ENDS = frozenset({_R.RELEASED, _R.ABORTED, _R.EXPIRED})
ROUND_TASKS = frozenset({_R.LINKING, _R.COLLECTING, _R.ASSEMBLING})
"""The states of a round in which something can wait for the aggregator to compute it."""
OWNER_ENDS = frozenset({_O.CLOSED, _O.REFUSED, _O.ABORTED, _O.EXPIRED})


def step(table: Mapping[tuple[State, Event], State], state: State, event: Event) -> State:
    """The state after an event.

    >>> step(ROUND, RoundState.DRAFT, RoundEvent.OPENED).value
    'attributes'
    """
    if (state, event) not in table:
        raise InternalError(
            "the protocol has no such transition", got=f"'{event.value}' in state '{state.value}'"
        )
    return table[state, event]


def mermaid(table: Mapping[tuple[State, Event], State], start: State) -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {_node(start)}"]
    for (before, event), after in table.items():
        lines.append(f"    {_node(before)} --> {_node(after)}: {event.value}")
    left = {before for before, _ in table}
    ends = sorted({after for after in table.values() if after not in left})
    lines += [f"    {_node(end)} --> [*]" for end in ends]
    return "\n".join(lines) + "\n"


def _node(state: RoundState | OwnerState) -> str:
    return state.name
