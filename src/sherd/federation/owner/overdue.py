"""Rounds that were paid for and of which nothing is heard after their deadline.

A round that is not charged is given up at its deadline. One that is charged waits for word of its
end; an aggregator that was restored from a backup may have forgotten the round, or may have sent
that word under a number that we have seen already. So the owner asks, and ends what is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import RoundState

if TYPE_CHECKING:
    from sherd.federation.owner.agent import Agent

PATIENCE = 600
"""Seconds after a round's deadline, and between two questions."""

_OVER = {
    None: Reason.RESTORED,
    RoundState.ABORTED.value: Reason.RESTORED,
    RoundState.EXPIRED.value: Reason.LATE,
}
"""What is said of a paid round that the aggregator does not know, or knows as ended."""


def end_overdue(agent: Agent) -> None:
    """Ask after paid rounds that are long overdue, and end those that are over."""
    if agent.now() < agent.ask_again:
        return
    waiting = [
        data.round
        for data in agent.journal.rounds()
        if data.artefact is not None
        and data.terms is not None
        and data.terms.deadline + PATIENCE < agent.now()
    ]
    if not waiting:
        return
    agent.ask_again = agent.now() + PATIENCE
    states = agent.client.rounds()
    for round_id in waiting:
        reason = _OVER.get(states.get(round_id))
        if reason is not None:
            agent.end_round(round_id, reason)
