"""Named places where a test can make a process die, to show that nothing is lost by it.

``SHERD_FAILPOINT=owner.charged`` kills the process (as ``kill -9`` does) the first time it
comes to that place; ``owner.charged:3`` the third time. Unset, as always outside tests, a
place costs one look into the environment.
"""

from __future__ import annotations

import os
import signal

PLACES = (
    "owner.received",
    "owner.stored",
    "owner.bulk",
    "owner.protecting",
    "owner.staged",
    "owner.charged",
    "owner.outbox",
    "owner.sent",
    "owner.uploaded",
    "owner.fetched",
    "aggregator.received",
    "aggregator.stored",
    "aggregator.chunk",
    "aggregator.linking",
    "aggregator.linked",
    "aggregator.staged",
    "aggregator.published",
    "aggregator.released",
)
"""Every place; a test goes through all of them."""

_counts: dict[str, int] = {}


def reach(place: str) -> None:
    """Die here if the environment says so."""
    wanted = os.environ.get("SHERD_FAILPOINT")
    if not wanted:
        return
    assert place in PLACES
    name, _, count = wanted.partition(":")
    if name != place:
        return
    _counts[place] = _counts.get(place, 0) + 1
    if _counts[place] == int(count or 1):
        os.kill(os.getpid(), signal.SIGKILL)
