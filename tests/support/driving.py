"""Driving an owner's agent and its line by hand, one small move at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.errors import PeerError
from sherd.federation.owner.sending import batches
from sherd.federation.wire.exchange import Call, Parcel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sherd.federation.owner.agent import Agent
    from sherd.federation.wire.client import Client


def step(agent: Agent) -> bool:
    """One turn of the agent, and what it sends; whether anything happened."""
    happened = agent.turn()
    flush(agent)
    return happened


def flush(agent: Agent) -> None:
    """Send what was not received yet, and take nothing."""
    for _announced_and_sent in range(2):
        for waiting in batches(agent.journal):
            sent, found = agent.sender.send(agent.client, waiting)
            for message, answer in zip(sent, found.answers, strict=True):
                agent.sender.settle(agent.client, message, answer)


def fetch(agent: Agent) -> bool:
    """Take what the aggregator sent, and do nothing about it; whether there was any."""
    return agent.take(agent._exchange([], 0.0), work=False)[0]


def receive(agent: Agent, raw: bytes) -> bool:
    """Take one message, and do nothing about it; whether it was new."""
    return agent.take([raw], work=False)[0]


def inbox(client: Client, seen: Mapping[str, int], *, wait: float = 0.0) -> list[bytes]:
    """The envelopes for an owner that it has not seen."""
    return list(client.exchange(Call(parcels=(), seen=seen, wait=wait)).messages)


def send(client: Client, round_id: str, raw: bytes) -> list[str]:
    """Send an envelope; the chunks that are still missing, or PeerError where it is refused."""
    parcel = Parcel(round=round_id, raw=raw)
    (answer,) = client.exchange(Call(parcels=(parcel,), seen=None, wait=0.0)).answers
    if answer.reason is not None:
        raise PeerError(answer.reason.words, reason=answer.reason)
    return list(answer.wanted)
