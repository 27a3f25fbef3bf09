"""The aggregator's service: HTTP endpoints over ``Aggregator``, by role.

Owners prove who they are by signing a fresh number with the key they are enrolled with;
operators and analysts have tokens. Where the channel shows certificates, an owner's must be
its own. Errors carry a code and a public sentence and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.exceptions import HTTPException

from sherd import __version__
from sherd.errors import OutsideError, PeerError, RefusedError, SherdError
from sherd.federation.aggregator.announced import take_announcement
from sherd.federation.aggregator.exchanging import Direct, exchange
from sherd.federation.aggregator.fresh_numbers import MOST_NUMBER, fresh_number, is_fresh
from sherd.federation.aggregator.login_routes import logins
from sherd.federation.aggregator.release_routes import releases
from sherd.federation.aggregator.service import (
    ANALYST,
    OWNER,
    AnOperator,
    AnOwner,
    Anybody,
    Bounded,
    Hash,
    Name,
    Observed,
    Served,
    Service,
    Strict,
    limited,
    log,
)
from sherd.federation.aggregator.storage.statements import received_from, use_once
from sherd.federation.protocol.joint_plan import Terms
from sherd.federation.protocol.messages import CHUNK
from sherd.federation.protocol.reasons import Reason, reason_of
from sherd.federation.protocol.states import RoundState
from sherd.federation.wire.client import session_text
from sherd.federation.wire.envelope import MOST_ANNOUNCEMENT, parse
from sherd.signing_keys import fingerprint, verify
from sherd.values import from_data

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sherd.federation.aggregator.round_work import Aggregator
    from sherd.federation.aggregator.storage import Member

CHALLENGE_SECONDS = 60
SESSION_SECONDS = 3600
MOST_JSON = 1 << 20
PLAIN = r"^[^\x00]*$"
"""What PostgreSQL can look up: a stranger's NUL must not look like trouble with the database."""

_STATUS = {
    Reason.MALFORMED: 400,
    Reason.SIGNATURE: 403,
    Reason.UNKNOWN_SENDER: 403,
    Reason.WRONG_RECIPIENT: 403,
    Reason.WRONG_ROUND: 404,
    Reason.UNKNOWN_CHUNK: 404,
    Reason.TOO_LARGE: 413,
}

router = APIRouter(prefix="/v1")


class SessionRequest(Strict):
    """Who wants to open a session."""

    name: str = Field(max_length=63, pattern=PLAIN)


class Answered(Strict):
    """The signed answer to a challenge."""

    name: str = Field(max_length=63, pattern=PLAIN)
    nonce: str = Field(max_length=MOST_NUMBER, pattern=PLAIN)
    signature: str = Field(max_length=128)


watch = APIRouter()


@watch.get("/healthz")
@router.get("/health")
async def health() -> dict[str, str]:
    """Whether the service runs."""
    return {"status": "ok"}


@watch.get("/readyz")
async def ready(service: Served) -> JSONResponse:
    """Whether the service can work: its database, disk, clock and worker, each looked at now."""
    readiness = await run_in_threadpool(service.readiness)
    good = all(words == "ok" for words in readiness.values())
    return JSONResponse(readiness, status_code=200 if good else 503)


@router.get("/about")
async def about(service: Served) -> dict[str, str]:
    """Who this aggregator is."""
    key = service.aggregator.key.public
    return {
        "name": service.aggregator.name,
        "version": __version__,
        "key": key,
        "fingerprint": fingerprint(key),
    }


@router.post("/challenge")
async def challenge(_asked: SessionRequest, service: Served) -> dict[str, str]:
    """A fresh number to sign; the same for anybody, so that names cannot be probed."""
    nonce = fresh_number(service.aggregator, "challenge", seconds=CHALLENGE_SECONDS)
    return {"nonce": nonce}


@router.post("/session")
async def session(answered: Answered, request: Request, service: Served) -> dict[str, Any]:
    """A session for an owner that signed its challenge, and what was seen from it last."""
    aggregator, store = service.aggregator, service.aggregator.store
    now = aggregator.now()
    fresh = is_fresh(aggregator, "challenge", answered.nonce)
    member = await run_in_threadpool(store.member, answered.name)
    text = session_text(aggregator.name, answered.name, answered.nonce)
    # Of somebody who has no key, the signature is looked at all the same, by one that never fits.
    key = (None if member is None else member.key) or aggregator.key.public
    signed = verify(key, text, answered.signature)
    if not fresh or member is None or member.key is None or not signed:
        raise Reason.SIGNATURE.error()
    until = now + CHALLENGE_SECONDS
    if not await run_in_threadpool(use_once, store, answered.nonce, now=now, expires=until):
        raise Reason.SIGNATURE.error()
    service.check_channel(request, member.name)
    token, expires = secrets.token_urlsafe(32), now + SESSION_SECONDS
    await run_in_threadpool(store.add_session, token, member.name, expires=expires)
    head = await run_in_threadpool(store.head, member.name)
    received = await run_in_threadpool(received_from, store, member.name)
    told = {"token": token, "expires": expires, "head": head, "received": received}
    return {**told, "takes_coded": True}  # which earlier owners do not look for


# Owners call it all the time: ``Direct`` leads there without the router.
router.add_api_route("/exchange", exchange, methods=["POST"], response_class=Response)


@router.put("/policy")
async def announce(request: Request, member: AnOwner, service: Served) -> dict[str, str]:
    """What an owner announces of its policy, signed."""
    raw = await limited(request, MOST_ANNOUNCEMENT)
    await run_in_threadpool(take_announcement, service.aggregator, member, raw)
    return {"status": "ok"}


@router.put("/rounds/{round_id}/chunks/{sha256}")
async def put_chunk(
    round_id: Name, sha256: Hash, request: Request, member: AnOwner, service: Served
) -> dict[str, str]:
    """A chunk that the owner announced."""
    data = await limited(request, CHUNK)
    await run_in_threadpool(service.aggregator.put_chunk, member.name, round_id, sha256, data)
    return {"status": "ok"}


@router.get("/rounds/{round_id}/chunks/{sha256}")
async def get_chunk(round_id: Name, sha256: Hash, member: AnOwner, service: Served) -> Response:
    """A chunk of a message to this owner."""
    store = service.aggregator.store
    data = await run_in_threadpool(store.granted_chunk, round_id, member.name, sha256)
    if data is None:
        raise Reason.UNKNOWN_CHUNK.error()
    return Response(data, media_type="application/octet-stream")


@router.get("/commitments")
async def commitments(member: AnOwner, service: Served) -> dict[str, Any]:
    """What an owner has signed: plans with its signatures and deliveries, for a restored home."""
    store = service.aggregator.store
    envelopes = await run_in_threadpool(store.commitments, member.name)
    head = await run_in_threadpool(store.head, member.name)
    return {"head": head, "envelopes": [raw.decode("ascii") for raw in envelopes]}


@router.get("/rounds")
async def rounds(member: Anybody, service: Served) -> dict[str, list[dict[str, Any]]]:
    """Rounds: all for an operator, its own for an owner, released ones for an analyst."""
    return {"rounds": await run_in_threadpool(_rounds_for, service.aggregator, member)}


@router.post("/rounds", status_code=201)
async def open_round(request: Request, member: AnOperator, service: Served) -> dict[str, str]:
    """Open a round by its terms."""
    terms = from_data(Terms, parse(await limited(request, MOST_JSON)))
    await run_in_threadpool(service.aggregator.open_round, terms, actor=member.name)
    return {"round": terms.round}


@router.post("/rounds/{round_id}/abort")
async def abort(round_id: Name, member: AnOperator, service: Served) -> dict[str, str]:
    """End a round without a release."""
    await run_in_threadpool(service.aggregator.abort, round_id, actor=member.name)
    return {"status": "aborted"}


@router.get("/metrics")
async def show_metrics(_member: AnOperator, service: Served) -> Response:
    """Counts and times, in the text format of Prometheus; no data, no rounds."""
    text = await run_in_threadpool(service.metrics.text)
    return Response(text, media_type="text/plain; version=0.0.4")


def _rounds_for(aggregator: Aggregator, member: Member) -> list[dict[str, Any]]:
    listed = []
    for each in aggregator.store.rounds():
        if member.role == ANALYST and each.state != RoundState.RELEASED.value:
            continue
        if member.role == OWNER:
            data = aggregator.store.round(each.id)
            if data is None or member.name not in data.keys:
                continue
        listed.append({"round": each.id, "state": each.state, "deadline": each.deadline})
    return listed


def _error(status: int, code: str, what: str, reason: Reason | None = None) -> JSONResponse:
    body = {"code": code, "what": what, "reason": None if reason is None else reason.value}
    return JSONResponse({"error": body}, status_code=status)


def _peer_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, PeerError)
    reason = reason_of(error.reason) or Reason.UNEXPECTED
    return _error(_STATUS.get(reason, 409), error.code, reason.words, reason)


def _our_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SherdError)
    if isinstance(error, OutsideError):
        log.error("request failed", extra={"code": error.code})
        return _error(503, error.code, "the aggregator has a problem; try again later")
    return _error(403 if isinstance(error, RefusedError) else 400, error.code, error.what)


def _invalid(_request: Request, _problem: Exception) -> JSONResponse:
    return _error(400, "malformed", Reason.MALFORMED.words, Reason.MALFORMED)


def _http_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, "http", str(error.detail))


def _answered(request: Request, error: Exception) -> JSONResponse:
    """The answer to a request that went past the router and failed."""
    for kind, handler in (
        (PeerError, _peer_error),
        (SherdError, _our_error),
        (HTTPException, _http_error),
    ):
        if isinstance(error, kind):
            return handler(request, error)
    raise error


def make_app(aggregator: Aggregator, *, certificates: bool = False, worker: bool = True) -> FastAPI:
    """The service; with ``certificates``, an owner's channel must show its own certificate."""
    service = Service(aggregator, certificates=certificates)

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.bell.start()
        looking = asyncio.create_task(service.look_out())
        thread = threading.Thread(target=service.work, name="sherd-work", daemon=True)
        if worker:
            service.worker = thread
            thread.start()
        yield
        looking.cancel()
        service.stop()
        if worker:
            await run_in_threadpool(thread.join, 10.0)

    app = FastAPI(
        title="Sherd aggregator",
        version=__version__,
        description="Joint releases by several owners and one aggregator.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # a route of no role; the reference lists them all
        redirect_slashes=False,  # to whatever host the caller named
    )
    app.state.service = service
    app.add_middleware(Direct, answer=_answered)
    app.add_middleware(Bounded)
    app.add_middleware(Observed)
    app.add_exception_handler(PeerError, _peer_error)
    app.add_exception_handler(SherdError, _our_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.include_router(watch)
    app.include_router(router)
    app.include_router(releases)
    app.include_router(logins)
    return app
