"""A chunk that came damaged is asked for again; one that never comes whole is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from sherd.errors import PeerError
from sherd.federation.owner.owner_linking import CHUNK_TRIES, fetch
from sherd.federation.wire.chunks import describe

if TYPE_CHECKING:
    from sherd.federation.wire.client import Client


class Line:
    """A line on which the first answers are damaged."""

    def __init__(self, damaged: int) -> None:
        self.damaged, self.asked = damaged, 0

    def chunk(self, _round_id: str, _sha256: str) -> bytes:
        """One answer."""
        self.asked += 1
        return b"bulk" if self.asked > self.damaged else b"bul\xff"


def test_damage_on_the_way_ends_no_round() -> None:
    """One proxy that garbles an answer costs a call, not the round."""
    for damaged in range(CHUNK_TRIES):
        line = Line(damaged)
        assert fetch(cast("Client", line), "r1", describe(b"bulk")) == b"bulk"
        assert line.asked == damaged + 1


def test_an_aggregator_that_means_it_is_refused() -> None:
    """Asked a bounded number of times."""
    line = Line(99)
    with pytest.raises(PeerError):
        fetch(cast("Client", line), "r1", describe(b"bulk"))
    assert line.asked == CHUNK_TRIES
