"""Taking the releases of rounds that are over: fetched, looked at, countersigned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.errors import ConnectionFailedError, PeerError, SherdError, VerificationError
from sherd.federation.owner.countersigning import countersign
from sherd.federation.owner.owner_journal import FETCHED
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
