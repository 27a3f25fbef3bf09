"""What every endpoint needs: the aggregator, who asks, and the bell for those who wait."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import re
import secrets
import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

from fastapi import Depends, Path, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse

from sherd.errors import SherdError
from sherd.federation.aggregator.bell import Bell
from sherd.federation.aggregator.metrics import Metrics
from sherd.federation.aggregator.storage import Member
from sherd.federation.protocol.reasons import Reason
from sherd.federation.wire.exchange import MOST_REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    from sherd.federation.aggregator.round_work import Aggregator

OWNER, OPERATOR, ANALYST = "owner", "operator", "analyst"

LEAST_FREE = 64 << 20
CLOCK_SECONDS = 300
WORKER_SECONDS = 900
"""How long the worker may be busy with one look at all rounds before that is said."""
SEEN_SECONDS = 15
"""How exactly it is known when an owner called last."""
LOOK_SECONDS = 2.0
"""How often those who wait are looked after whose messages another process of ours wrote."""
THREADS = 40
"""How many exchanges are looked after at the same time; those that wait are not counted."""
KEPT_SECONDS = 7 * 24 * 3600
"""How long after its deadline a round's messages can still be fetched."""

log = logging.getLogger("sherd.aggregator")

P = ParamSpec("P")
T = TypeVar("T")


Name = Annotated[str, Path(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
Hash = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
FileName = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,120}$")]


class Strict(BaseModel):
    """A body that holds exactly what it must."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Service:
    """The aggregator behind the endpoints, and the thread that links and assembles.

    With ``certificates``, an owner's channel must show its own certificate.
    """

    def __init__(self, aggregator: Aggregator, *, certificates: bool) -> None:
        self.aggregator = aggregator
        self.certificates = certificates
        self.bell = Bell()
        self.metrics = Metrics(aggregator)
        self.known: dict[str, frozenset[str]] = {}
        """The rounds of which each owner said since our start how much it has seen."""
        self.names: dict[str, str] = {}
        """Whose tokens are, as last seen: only to know under which name to listen."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sherd-exchange")
        self.worker: threading.Thread | None = None
        self._seen: dict[str, int] = {}
        self._seen_kept: dict[str, int] = {}
        self._stopping = threading.Event()
        self._beat = time.monotonic()
        self._ahead = time.time() - time.monotonic()
        aggregator.listener = self.bell.ring

    def saw(self, owner: str) -> bool:
        """Note that an owner has called; whether it is time to keep that."""
        self._seen[owner] = now = self.aggregator.now()
        return now - self._seen_kept.get(owner, 0) >= SEEN_SECONDS

    def keep_seen(self) -> None:
        """Keep when owners called, all of them at once, since each time is a write."""
        seen, self._seen = self._seen, {}
        self._seen_kept |= seen
        self.aggregator.store.see(seen)

    async def in_thread(self, do: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Do what needs the database in a thread of our own."""
        job = functools.partial(do, *args, **options)
        return await asyncio.get_running_loop().run_in_executor(self._threads, job)

    async def look_out(self) -> None:
        """Wake owners whose messages another process of ours wrote; one look for all of them."""
        store = self.aggregator.store
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self.bell.is_heard:
                continue
            since = self.aggregator.now() - KEPT_SECONDS
            with contextlib.suppress(SherdError):
                self.bell.look(await run_in_threadpool(store.newest, since=since))

    def work(self) -> None:
        """Do the aggregator's own work until told to stop."""
        load_parts()
        with contextlib.suppress(SherdError):
            self.aggregator.store.sweep()
        while not self._stopping.is_set():
            self._beat = time.monotonic()
            self.bell.work.wait(1.0)
            self.bell.work.clear()
            try:
                self.aggregator.work()
            except SherdError as error:
                log.error("work failed", extra={"code": error.code})
            except Exception as error:
                log.error("work failed", extra={"code": type(error).__name__})

    def readiness(self) -> dict[str, str]:
        """What the service needs to take part in rounds, each "ok" or what is wrong with it."""
        return {
            name: _looked_at(look)
            for name, look in (
                ("database", self.aggregator.store.check),
                ("disk", self._check_disk),
                ("clock", self._check_clock),
                ("worker", self._check_worker),
            )
        }

    def _check_disk(self) -> None:
        folder = self.aggregator.releases
        folder.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(folder).free < LEAST_FREE:
            raise OSError("less than 64 MiB of disk space is free")
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".ready-") as file:
            file.write(b"x")
            file.flush()

    def _check_clock(self) -> None:
        latest = 0
        with contextlib.suppress(SherdError):  # a database that does not answer is said by itself
            latest = self.aggregator.store.latest()
        if latest > self.aggregator.now() + CLOCK_SECONDS:
            raise OSError("the clock is behind the last message")
        if abs(time.time() - time.monotonic() - self._ahead) > CLOCK_SECONDS:
            raise OSError("the clock was changed while the service ran")

    def _check_worker(self) -> None:
        if self.worker is None:
            return
        if not self.worker.is_alive():
            raise OSError("the worker has stopped")
        if time.monotonic() - self._beat > WORKER_SECONDS:
            raise OSError("the worker is stuck in a round")

    def stop(self) -> None:
        """Tell the worker to stop."""
        self._threads.shutdown(wait=False)
        self._stopping.set()
        self.bell.work.set()

    def check_channel(self, request: Request, name: str) -> None:
        """Refuse an owner whose channel shows no certificate, or another's."""
        if self.certificates and request.scope.get("sherd.peer") != name:
            raise refused(403, "the certificate is not this owner's")


def load_parts() -> None:
    """Import what every round needs, so that the first need not wait for it."""
    import pyarrow.parquet  # noqa: F401

    import sherd.methods.ranking.masking
    import sherd.release.bundle
    import sherd.tables.canonical_form
    import sherd.tables.write  # noqa: F401


def _looked_at(look: Callable[[], object]) -> str:
    """Whether a look at something found nothing wrong, in words without details."""
    try:
        look()
    except Exception as error:
        log.error("not ready", extra={"code": type(error).__name__})
        return "failed"
    return "ok"


def service_of(request: Request) -> Service:
    """The service a request was made to."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


Served = Annotated[Service, Depends(service_of)]


def refused(status: int, what: str) -> HTTPException:
    """The error for somebody who may not do this."""
    return HTTPException(status_code=status, detail=what)


def bearer(request: Request) -> str | None:
    """The token that a request shows."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token if scheme == "Bearer" and 0 < len(token) <= 200 else None


async def who(request: Request, service: Served) -> Member:
    """Whose request this is."""
    token, member = bearer(request), None
    if token is not None:
        store, now = service.aggregator.store, service.aggregator.now()
        member = await run_in_threadpool(store.member_of_token, token, now)
    if member is None:
        raise refused(401, "log in first")
    if member.role == OWNER:
        service.check_channel(request, member.name)
    note_caller(request, member)
    return member


def note_caller(request: Request, member: Member) -> None:
    """Note whose request this is, for the log."""
    kind = "owner" if member.role == OWNER else "member"
    request.scope.setdefault("sherd.log", {})[kind] = member.name


def only(role: str) -> Any:
    """A dependency that lets one role pass."""

    async def check(member: Annotated[Member, Depends(who)]) -> Member:
        if member.role != role:
            raise refused(403, "this is not for your role")
        return member

    return Depends(check)


Anybody = Annotated[Member, Depends(who)]
AnOwner = Annotated[Member, only(OWNER)]
AnOperator = Annotated[Member, only(OPERATOR)]


async def limited(request: Request, most: int) -> bytes:
    """A request's body, refused as soon as it is larger than allowed."""
    parts, size = [], 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > most:
            raise Reason.TOO_LARGE.error()
    return b"".join(parts)


MOST_LOGIN = 4 << 10
"""The most bytes of a body from somebody who is not logged in."""

BODY_SECONDS = 15.0
"""How long a body may take to come, and as much longer as ``LEAST_RATE`` allows."""
LEAST_RATE = 8 << 10
"""Bytes a second that a body must come with."""

LONGER = {"/v1/login": 20 << 10, "/v1/certificate": 8 << 10}
BULKY = re.compile(r"/v1/(exchange|policy|rounds|rounds/[^/]+/chunks/[^/]+)")
"""The routes that look who asks before they read a large body.

Elsewhere the framework reads the body first, as JSON that takes many times its bytes.
"""


def most_bytes(path: str) -> int:
    """The most bytes of a body that is sent to a path."""
    return MOST_REQUEST if BULKY.fullmatch(path) else LONGER.get(path, MOST_LOGIN)


class Bounded:
    """Refuses bodies that are too large before anybody reads them, or who sent them is known."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        most = most_bytes(scope["path"])
        headers = dict(scope["headers"])
        given = headers.get(b"content-length", b"0")
        if b"content-length" in headers and b"transfer-encoding" in headers:
            # A proxy may see another end of it than we do, and another request behind that.
            closing = PlainTextResponse("two lengths", 400, {"connection": "close"})
            await closing(scope, receive, send)
            return
        if not given.isdigit() or len(given) > 15 or int(given) > most:
            body = {"code": "peer", "what": Reason.TOO_LARGE.words, "reason": "too-large"}
            await JSONResponse({"error": body}, status_code=413)(scope, receive, send)
            return
        left, until, whole = most, time.monotonic() + BODY_SECONDS, False

        async def bounded() -> MutableMapping[str, Any]:
            nonlocal left, whole
            if whole:  # what is waited for now is that the caller goes
                return await receive()
            slack = (most - left) / LEAST_RATE
            try:
                async with asyncio.timeout(until + slack - time.monotonic()):
                    message = await receive()
            except TimeoutError:
                raise refused(408, "the body comes too slowly") from None
            left -= len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if left < 0:
                raise Reason.TOO_LARGE.error()
            return message

        await self.app(scope, bounded, send)


_ALWAYS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_REQUEST_ID = re.compile(rb"[A-Za-z0-9-]{8,64}")


def _request_id(scope: Scope) -> str:
    """The number a caller gave its request, where it is one, or one of ours."""
    given = dict(scope["headers"]).get(b"x-request-id", b"")
    return given.decode() if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


class Observed:
    """Counts and logs requests by their route, and forbids keeping the answers.

    A request has a number that the caller may give and always gets back, so that the logs of
    both sides can be laid beside each other.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, number = time.perf_counter(), 500, _request_id(scope)

        async def observed(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    *_ALWAYS,
                    (b"x-request-id", number.encode()),
                ]
            await send(message)

        await self.app(scope, receive, observed)
        path = getattr(scope.get("route"), "path", "other")
        seconds = time.perf_counter() - began
        scope["app"].state.service.metrics.count(path, status, seconds)
        took = round(seconds * 1e3, 1)
        shown = {"path": path, "status": status, "milliseconds": took, "request": number}
        shown |= {key: scope["path_params"][key] for key in ("round_id",) if _has(scope, key)}
        log.info("request", extra=shown | scope.get("sherd.log", {}))


def _has(scope: Scope, name: str) -> bool:
    return name in (scope.get("path_params") or {})
