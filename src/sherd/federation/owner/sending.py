"""What an owner's agent sends: messages that wait, and the bulk that they announce.

Bulk travels in exchanges, beside the envelope that announces it, a few chunks at a time. That of a
delivery leaves only after the announcement was accepted, and with it the hashes of the one
artefact there will ever be. The last chunks go with the exchange that waits for the next message.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.errors import OutsideError, PeerError
from sherd.federation.protocol.messages import CHUNK
from sherd.federation.protocol.reasons import Reason, reason_of
from sherd.federation.wire.chunks import pieces
from sherd.federation.wire.exchange import MOST_AT_ONCE, MOST_PARTS, Call, Exchanged, Parcel
from sherd.federation.wire.failpoints import reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sherd.federation.owner.owner_journal import Outgoing, OwnerJournal
    from sherd.federation.wire.client import Client
    from sherd.federation.wire.exchange import ParcelAnswer

LONG_ENVELOPE = 256 << 10
"""The bytes above which an envelope is not sent again with every few chunks: those go alone."""


def batches(journal: OwnerJournal, *, always: bool = False) -> Iterator[list[Outgoing]]:
    """What is to be sent, a message of each round at a time; once ``always``, even if nothing.

    A round's next message goes only after the one before was received.
    """
    tried: set[tuple[str, int]] = set()
    while True:
        first: dict[str, Outgoing] = {}
        for message in journal.unsent():
            first.setdefault(message.round, message)
        fresh = [each for each in first.values() if (each.round, each.sequence) not in tried]
        if not fresh and not (always and not tried):
            return
        always = False
        fresh = _fitting(fresh)
        tried |= {(each.round, each.sequence) for each in fresh}
        yield fresh


def _fitting(messages: list[Outgoing]) -> list[Outgoing]:
    """The first messages, as many as one exchange can hold with a chunk for each."""
    fitting: list[Outgoing] = []
    size = 0
    for message in messages[:MOST_AT_ONCE]:
        size += len(message.raw) + (CHUNK if message.files else 0)
        if fitting and size > MOST_PARTS:
            break
        fitting.append(message)
    return fitting


class Sender:
    """Sends messages with their chunks, and has the journal know what was received.

    ``refused`` is told of a message that the aggregator refused, ``failed`` of one that cannot be
    sent.
    """

    def __init__(
        self,
        journal: OwnerJournal,
        *,
        refused: Callable[[Outgoing, Reason], None],
        failed: Callable[[Outgoing, Exception], None],
    ) -> None:
        self._journal = journal
        self._refused = refused
        self._failed = failed
        # By round and number: what the aggregator lacks of an announcement that it accepted.
        self._wanted: dict[tuple[str, int], tuple[str, ...]] = {}

    def send(
        self,
        client: Client,
        waiting: list[Outgoing],
        *,
        seen: Mapping[str, int] | None = None,
        wait: float = 0.0,
    ) -> tuple[list[Outgoing], Exchanged]:
        """Send messages, and take what came if ``seen`` is given; what was sent, and the answer."""
        room = MOST_PARTS - sum(len(message.raw) for message in waiting)
        sent, parcels = [], []
        for message in waiting:
            try:
                chunks = self._chunks_beside(message, room)
            except Exception as error:
                self._give_up(message, error)
                continue
            room -= sum(len(chunk) for chunk in chunks)
            sent.append(message)
            parcels.append(Parcel(round=message.round, raw=message.raw, chunks=chunks))
        answer = client.exchange(Call(parcels=tuple(parcels), seen=seen, wait=wait))
        if sent:
            reach("owner.sent")
        if any(parcel.chunks for parcel in parcels):
            reach("owner.uploaded")
        return sent, answer

    def settle(self, client: Client, message: Outgoing, answer: ParcelAnswer) -> None:
        """Do what the answer to a message asks for; what it lacks goes with the next exchange."""
        place = (message.round, message.sequence)
        lacked = self._wanted.pop(place, None)
        if answer.reason is not None:
            self._refused(message, answer.reason)
            return
        wanted = _announced(message, answer.wanted)
        if lacked is not None and not set(wanted) < set(lacked):
            # Not a lost connection: the pauses before it is sent once more grow.
            raise PeerError("the aggregator asks again for what it was sent")
        if wanted and len(message.raw) <= LONG_ENVELOPE:
            self._wanted[place] = wanted
            return
        try:
            for sha256, chunk in zip(wanted, _chunks(message, wanted), strict=True):
                client.put_chunk(message.round, sha256, chunk)
                reach("owner.uploaded")
        except PeerError as error:
            self._refused(message, reason_of(error.reason) or Reason.UNEXPECTED)
            return
        except OutsideError:
            raise
        except Exception as error:
            self._give_up(message, error)
        self._journal.acknowledge(message)

    def _chunks_beside(self, message: Outgoing, room: int) -> tuple[bytes, ...]:
        """The chunks to send with a message: a small attachment whole, or what is wanted and fits.

        A delivery is announced alone.
        """
        lacks = self._wanted.get((message.round, message.sequence))
        if lacks is not None:
            return tuple(_chunks(message, lacks[: room // CHUNK]))
        batch = message.files.get("attachment")
        if batch is None or not Path(batch).exists() or Path(batch).stat().st_size > room:
            return ()
        return tuple(pieces(Path(batch)))

    def _give_up(self, message: Outgoing, error: Exception) -> None:
        self._failed(message, error)
        self._journal.acknowledge(message)


def _announced(message: Outgoing, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """What the aggregator lacks of what a message announced; nothing else is ever sent."""
    known = _places(message) if wanted else {}
    return tuple(sha256 for sha256 in dict.fromkeys(wanted) if sha256 in known)


def _places(message: Outgoing) -> dict[str, tuple[Path, int]]:
    """Where each chunk lies that a message announced."""
    announced: dict[str, Any] = json.loads(message.raw)["body"]
    listed = announced.get("files") or {"attachment": announced.get("attachment")}
    return {
        sha256: (Path(message.files[name]), place * CHUNK)
        for name, attachment in listed.items()
        if attachment is not None
        for place, sha256 in enumerate(attachment["chunks"])
    }


def _chunks(message: Outgoing, wanted: tuple[str, ...]) -> Iterator[bytes]:
    places = _places(message)
    for path, start in (places[sha256] for sha256 in wanted):
        with path.open("rb") as file:
            file.seek(start)
            yield file.read(CHUNK)
