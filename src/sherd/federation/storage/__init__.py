"""What the aggregator keeps: members, rounds, messages, chunks, sessions and heads."""

from sherd.federation.storage.store import Member, Store
from sherd.federation.storage.work import RoundWork, Sent

__all__ = ["Member", "RoundWork", "Sent", "Store"]
