"""The exchange with owners: by far the most frequent request, answered with the fewest steps.

A thread does all that needs the database in one go: who asks, what waits for them, what they
brought. An owner that then waits is handed what is sent meanwhile by the bell. The request goes
past the framework's router straight to its endpoint, between the same bounds and counts as every
other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from sherd.errors import PeerError
from sherd.federation.aggregator.bell import Ear
from sherd.federation.aggregator.service import (
    KEPT_SECONDS,
    OWNER,
    bearer,
    limited,
    note_caller,
    refused,
    service_of,
)
from sherd.federation.protocol.reasons import Reason, reason_of
from sherd.federation.wire.exchange import (
    MOST_REQUEST,
    Exchanged,
    ParcelAnswer,
    read_request,
    write_response,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from sherd.federation.aggregator.round_work import Aggregator
    from sherd.federation.aggregator.service import Service
    from sherd.federation.aggregator.storage import Member
    from sherd.federation.wire.exchange import Call

SMALL = 64 << 10
"""The bytes of a body that are read before it is known whose it is; the server holds as many."""

MOST_NAMES = 10_000
MOST_LOGGED = 20
"""The rounds of one exchange that are named in the log."""


@dataclass(kw_only=True)
class _Visit:
    """One exchange of somebody whose token is shown, and under which name they listen."""

    service: Service
    request: Request
    token: str
    ear: Ear
    name: str | None = None

    def greet(self, call: Call | None) -> tuple[Member, list[bytes]]:
        """Who asks, and what waits for them; from here on they listen."""
        service = self.service
        store, now = service.aggregator.store, service.aggregator.now()
        seen, since = None if call is None else call.seen, now - KEPT_SECONDS
        self.listen(service.names.get(self.token))
        member, messages = store.greet(self.token, now=now, seen=seen, since=since)
        if member is None:
            raise refused(401, "log in first")
        if member.role != OWNER:
            raise refused(403, "this is not for your role")
        service.check_channel(self.request, member.name)
        note_caller(self.request, member)
        if member.name != self.name:
            if len(service.names) >= MOST_NAMES:
                service.names.clear()
            service.names[self.token] = member.name
            self.listen(member.name)
            if seen is not None:  # what came since we looked and did not listen yet
                messages = store.inbox(member.name, seen, since=since)
        if service.saw(member.name):
            service.keep_seen()
        return member, messages

    def listen(self, name: str | None) -> None:
        """Listen under a name, and no longer under another."""
        self.forget()
        if name is not None:
            self.service.bell.listen(name, self.ear)
        self.name = name

    def forget(self) -> None:
        """Stop listening."""
        if self.name is not None:
            self.service.bell.forget(self.name, self.ear)

    def take(self, member: Member, call: Call) -> tuple[ParcelAnswer, ...]:
        """What became of what was brought."""
        service, answers = self.service, tuple[ParcelAnswer, ...]()
        if call.parcels:
            answers = _take_parcels(service.aggregator, member, call)
            service.metrics.received(sum(answer.reason is None for answer in answers))
            self._note_parcels(call, answers)
        if call.seen is not None and call.seen.keys() - service.known.get(member.name, ()):
            service.aggregator.notice(member.name, call.seen)
            service.known[member.name] = frozenset(call.seen)
        return answers

    def _note_parcels(self, call: Call, answers: tuple[ParcelAnswer, ...]) -> None:
        """Note for the log of which rounds messages came, and why any was refused."""
        said = self.request.scope["sherd.log"]
        said["rounds"] = sorted({parcel.round[:63] for parcel in call.parcels})[:MOST_LOGGED]
        if why := sorted({answer.reason.value for answer in answers if answer.reason}):
            said["refused"] = why

    def whole(self, call: Call) -> tuple[tuple[ParcelAnswer, ...], list[bytes]]:
        """Greet and take in one go."""
        member, messages = self.greet(call)
        return self.take(member, call), messages

    def rest(self, member: Member, call: Call) -> tuple[tuple[ParcelAnswer, ...], list[bytes]]:
        """Take from somebody who was greeted before the body was read."""
        service, messages = self.service, list[bytes]()
        if call.seen is not None:
            since = service.aggregator.now() - KEPT_SECONDS
            messages = service.aggregator.store.inbox(member.name, call.seen, since=since)
        return self.take(member, call), messages


async def exchange(request: Request) -> Response:
    """An owner's envelopes with what they announce, and the messages that came for it."""
    service = service_of(request)
    token = bearer(request)
    if token is None:
        raise refused(401, "log in first")
    size = request.headers.get("content-length", "")
    visit = _Visit(service=service, request=request, token=token, ear=Ear())
    try:
        if size.isdigit() and int(size) <= SMALL:
            call = read_request(await limited(request, SMALL))
            answers, messages = await service.in_thread(visit.whole, call)
        else:
            member, _ = await service.in_thread(visit.greet, None)
            call = read_request(await limited(request, MOST_REQUEST))
            answers, messages = await service.in_thread(visit.rest, member, call)
        if call.seen is not None and not messages:
            unfinished = any(answer.reason or answer.wanted for answer in answers)
            messages = await _await_messages(visit, call, 0.0 if unfinished else call.wait)
    finally:
        visit.forget()
    service.metrics.sent(len(messages))
    body = write_response(Exchanged(answers=answers, messages=tuple(messages)))
    return Response(body, media_type="application/octet-stream")


async def _await_messages(visit: _Visit, call: Call, wait: float) -> list[bytes]:
    """What is sent to somebody while they wait."""
    service, ear, seen = visit.service, visit.ear, call.seen or {}
    until = time.monotonic() + wait
    while True:
        left = 0.0 if service.bell.is_closed else until - time.monotonic()
        if left > 0:
            await ear.hear(left)
        handed = ear.in_order(seen)
        if not handed and (handed is None or left > 0):  # a gap, or by another process
            since = service.aggregator.now() - KEPT_SECONDS
            inbox, name = service.aggregator.store.inbox, visit.name or ""
            handed = await service.in_thread(inbox, name, seen, since=since)
        if handed or left <= 0:
            return handed or []


def _take_parcels(aggregator: Aggregator, owner: Member, call: Call) -> tuple[ParcelAnswer, ...]:
    answers = []
    for parcel in call.parcels:
        try:
            wanted = aggregator.receive(
                owner.name, parcel.round, parcel.raw, parcel.chunks, member=owner
            )
            answers.append(ParcelAnswer(wanted=tuple(wanted)))
        except PeerError as error:
            answers.append(ParcelAnswer(reason=reason_of(error.reason) or Reason.UNEXPECTED))
    return tuple(answers)


class Direct:
    """Leads exchanges to their endpoint without a search for it, and all others on."""

    def __init__(self, app: ASGIApp, *, answer: Callable[[Request, Exception], Response]) -> None:
        self.app = app
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        scope["route"] = _ROUTE
        request = Request(scope, receive)
        try:
            response = await exchange(request)
        except Exception as error:
            response = self._answer(request, error)
        await response(scope, receive, send)


PATH = "/v1/exchange"


@dataclass(frozen=True)
class _Route:
    path: str


_ROUTE = _Route(PATH)
