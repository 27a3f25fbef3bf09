"""What the aggregator keeps: members, rounds, messages, chunks, sessions and heads."""

from sherd.federation.aggregator.storage.store import Member, Store
from sherd.federation.aggregator.storage.work import RoundWork, Sent

__all__ = ["Member", "RoundWork", "Sent", "Store"]
