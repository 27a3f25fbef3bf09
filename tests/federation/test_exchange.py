"""One exchange with the aggregator: its form, small and large attachments, refusals in it."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import httpx
import pytest
from driving import fetch, inbox, step
from people import SCHEMA, people

from sherd.errors import PeerError
from sherd.federation.owner import sending
from sherd.federation.protocol import messages
from sherd.federation.protocol.messages import CHUNK
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OwnerState, RoundState
from sherd.federation.wire import chunks
from sherd.federation.wire.exchange import (
    Call,
    Exchanged,
    Parcel,
    ParcelAnswer,
    read_request,
    read_response,
    write_request,
    write_response,
)

if TYPE_CHECKING:
    from consortium import Consortium

CALL = Call(
    parcels=(
        Parcel(round="r1", raw=b"{}", chunks=(b"abc", b"d")),
        Parcel(round="r2", raw=b"[]"),
    ),
    seen={"r1": 3},
    wait=2.5,
)


def test_requests_and_answers_come_back_as_they_went() -> None:
    """What is read is what was written, with the parts as they were."""
    assert read_request(write_request(CALL)) == CALL
    nothing = Call(parcels=(), seen=None, wait=0.0)
    assert read_request(write_request(nothing)) == nothing
    found = Exchanged(
        answers=(ParcelAnswer(reason=Reason.LATE), ParcelAnswer(wanted=("a" * 64,))),
        messages=(b"one", b""),
    )
    assert read_response(write_response(found), 2) == found


def _framed(header: bytes, rest: bytes = b"") -> bytes:
    return struct.pack(">I", len(header)) + header + rest


def test_malformed_exchanges_are_refused() -> None:
    """Whatever is cut off, too long, too patient or not of its sizes is not read."""
    good = write_request(CALL)
    for raw in (
        b"",
        good[:3],
        good[:20],
        good[:-1],
        good + b"x",
        _framed(b'{"messages":[],"seen":{"r1":-1},"milliseconds":0}'),
        _framed(b'{"messages":[],"milliseconds":0,"seen":{"r1":-1}}'),
        _framed(b'{"messages":[],"milliseconds":60000,"seen":null}'),
        _framed(b'{"messages":[],"milliseconds":-1,"seen":null}'),
        _framed(b'{"messages":[{"chunks":[],"round":"r","size":-1}],"milliseconds":0,"seen":null}'),
    ):
        with pytest.raises(PeerError):
            read_request(raw)
    for call in (
        Call(parcels=tuple(Parcel(round="r", raw=b"") for _ in range(17)), seen=None, wait=0.0),
        Call(parcels=(Parcel(round="r", raw=b"", chunks=(b"x" * (CHUNK + 1),)),), seen={}, wait=0),
    ):
        with pytest.raises(PeerError):
            read_request(write_request(call))
    with pytest.raises(PeerError):
        read_response(write_response(Exchanged(answers=(), messages=())), 1)
    with pytest.raises(PeerError):
        read_response(_framed(b'{"answers":[{"reason":null,"wanted":["zz"]}],"sizes":[]}'), 1)


class Counting(httpx.BaseTransport):
    """Notes the path of each request, and the chunks that an exchange brings."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self.inner = inner
        self.paths: list[str] = []
        self.chunks: list[int] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        self.paths.append(request.url.path)
        if request.url.path == "/v1/exchange":
            parcels = read_request(request.read()).parcels
            self.chunks += [len(p.chunks) for p in parcels if b'"type":"delivery"' in p.raw]
        return self.inner.handle_request(request)


def _run(consortium: Consortium, rows: int = 12) -> Counting:
    """What one owner calls in a round, from the invitation to the end."""
    for number, name in enumerate(("north", "south")):
        table = people(rows, seed=number, first=number * 1000 * rows)
        consortium.add_owner(name, table, SCHEMA)
    counting = Counting(consortium.transport)
    north = consortium.start("north", counting)
    inbox(north.client, {})
    counting.paths.clear()
    consortium.aggregator.open_round(consortium.terms())
    for _ in range(60):
        north.turn()
        step(consortium.agents["south"])
        consortium.aggregator.work()
        if consortium.ended():
            break
    data = north.journal.round("r1")
    assert data is not None
    assert data.state is OwnerState.CLOSED
    return counting


def test_a_delivery_is_announced_before_its_first_byte_leaves(consortium: Consortium) -> None:
    """Whatever its size: the announcement is accepted by one call, the bytes leave by the next.

    An aggregator that refuses the announcement never gets a byte of what it refused.
    """
    called = _run(consortium)
    assert called.chunks == [0, 1]
    assert not [path for path in called.paths if "/chunks/" in path]
    north = consortium.agents["north"]
    body = next(m for m in north.journal.outgoing("r1") if b'"type":"delivery"' in m.raw)
    assert len(body.raw) < 10_000  # hashes, no table


def test_chunks_travel_several_at_a_time(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as fit into an exchange; the last ones with the call that waits for the release."""
    for module in (chunks, messages, sending):
        monkeypatch.setattr(module, "CHUNK", 64)
    monkeypatch.setattr(sending, "MOST_PARTS", 160 * 64)
    called = _run(consortium, rows=200)
    alone, *rest = called.chunks
    assert alone == 0
    assert len(rest) > 1
    assert min(rest) > 1
    assert not [path for path in called.paths if "/chunks/" in path]


def test_a_long_announcement_is_not_repeated(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is announced by an envelope that is itself large goes a chunk at a time, alone."""
    monkeypatch.setattr(sending, "LONG_ENVELOPE", 100)
    called = _run(consortium)
    assert called.chunks == [0]
    assert len([path for path in called.paths if path.startswith("/v1/rounds/r1/chunks/")]) == 1


class Greedy(httpx.BaseTransport):
    """An aggregator that says of every delivery that it lacks something of it."""

    def __init__(self, inner: httpx.BaseTransport, lacks: str | None) -> None:
        self.inner = inner
        self.lacks = lacks
        self.sent = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        answer = self.inner.handle_request(request)
        if request.url.path != "/v1/exchange":
            return answer
        parcels = read_request(request.read()).parcels
        found = read_response(answer.read(), len(parcels))
        answers = list(found.answers)
        for place, parcel in enumerate(parcels):
            if b'"type":"delivery"' not in parcel.raw:
                continue
            self.sent += len(parcel.chunks)
            (first,) = json.loads(parcel.raw)["body"]["files"].values()
            answers[place] = ParcelAnswer(wanted=(self.lacks or first["chunks"][0],))
        body = write_response(Exchanged(answers=tuple(answers), messages=found.messages))
        return httpx.Response(200, content=body)


@pytest.mark.parametrize("lacks", [None, "0" * 64])
def test_an_aggregator_that_wants_more_and_more(consortium: Consortium, lacks: str | None) -> None:
    """Nobody gets what was not announced; who asks again for what came waits longer each time."""
    for number, name in enumerate(("north", "south")):
        consortium.add_owner(name, people(12, seed=number, first=number * 100), SCHEMA)
    greedy = Greedy(consortium.transport, lacks)
    north = consortium.start("north", greedy)
    consortium.aggregator.open_round(consortium.terms())
    trouble = []
    for _ in range(12):
        trouble.append(north._try_turn(0.0))
        step(consortium.agents["south"])
        consortium.aggregator.work()
    again = ("trouble", "the aggregator asks again for what it was sent")
    assert (again in trouble) == (lacks is None)
    assert (0 < greedy.sent <= 6) == (lacks is None)
    assert all(each is None or each[0] == "trouble" for each in trouble)


def test_one_refused_message_does_not_stop_the_others(consortium: Consortium) -> None:
    """Of two rounds' messages in one exchange, the one of an ended round is refused alone."""
    for number, name in enumerate(("north", "south")):
        consortium.add_owner(name, people(12, seed=number, first=number * 100), SCHEMA)
    for round_id in ("r1", "r2"):
        consortium.aggregator.open_round(consortium.terms(round_id))
    north = consortium.agents["north"]
    fetch(north)
    north.work()
    consortium.aggregator.abort("r1")
    consortium.settle()
    states = {}
    for round_id in ("r1", "r2"):
        data = consortium.store.round(round_id)
        assert data is not None
        states[round_id] = data.state
    assert states == {"r1": RoundState.ABORTED, "r2": RoundState.RELEASED}
    events = [event for _, _, event, _ in north.journal.audit()]
    assert events.count("the aggregator refused a message") == 1
