"""Rounds that are over: their releases are fetched, looked at and countersigned, or they are ended.

A round that is not charged is given up at its deadline. One that is charged waits for word of its
end; an aggregator that was restored from a backup may have forgotten the round, or may have sent
that word under a number that we have seen already. So the owner asks, and ends what is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.errors import ConnectionFailedError, PeerError, SherdError, VerificationError
from sherd.federation.owner.countersigning import countersign
from sherd.federation.owner.owner_journal import FETCHED
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import RoundState
from sherd.federation.wire.fetching import fetch_release

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.federation.owner.agent import Agent


def take_releases(agent: Agent) -> None:
    """Fetch the releases of closed rounds; what is not as announced is left."""
    for round_id in sorted(agent.released):
        data = agent.journal.round(round_id)
        if data is None or data.manifest is None:
            agent.released.discard(round_id)
            continue
        try:
            _take(agent, round_id, data.manifest)
        except ConnectionFailedError as error:
            agent.say("could not fetch the release", error.what)
            raise
        except Exception as error:
            # It is published all the same, and can be had from the aggregator later.
            what = error.what if isinstance(error, SherdError) else type(error).__name__
            agent.journal.note(round_id, "could not fetch the release", what)
        agent.released.discard(round_id)


def _take(agent: Agent, round_id: str, manifest: str) -> None:
    """Fetch a release, look for our part in it, and sign it where that is there."""
    folder, whole = agent.home.releases / round_id, agent.home.settings.keeps == "data"
    if not folder.exists():
        fetch_release(agent.client, round_id, folder, manifest_sha256=manifest, data=whole)
    if whole:
        _countersign(agent, round_id, folder)
    agent.journal.note(round_id, FETCHED, manifest)


def _countersign(agent: Agent, round_id: str, folder: Path) -> None:
    try:
        signature = countersign(agent.journal, round_id, folder, agent.key)
        if signature is not None:
            agent.client.countersign(round_id, signature)
            agent.journal.note(round_id, "countersigned the release", "our part is in it")
    except (VerificationError, PeerError) as error:
        agent.journal.note(round_id, "did not countersign the release", error.what)


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
