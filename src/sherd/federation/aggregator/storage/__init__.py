"""What the aggregator keeps: members, rounds, messages, chunks, sessions and heads."""

from sherd.federation.aggregator.storage.statements import Member
from sherd.federation.aggregator.storage.store import Store
from sherd.federation.aggregator.storage.work import RoundWork, Sent

__all__ = ["Member", "RoundWork", "Sent", "Store"]
