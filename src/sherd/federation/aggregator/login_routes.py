"""The routes by which people log in: a fresh number for their provider, a session for its word.

The number is signed by the aggregator and says until when it is good, so that nothing is kept
for strangers who ask for one; that it was used is kept until then.

An owner that is logged in gets its next certificate here, too.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from sherd.federation.aggregator.service import AnOwner, Served, Strict, refused
from sherd.federation.aggregator.storage.statements import member_of_person, use_once
from sherd.federation.protocol.reasons import Reason
from sherd.federation.wire.openid_provider import MOST_TOKEN
from sherd.signing_keys import verify

if TYPE_CHECKING:
    from sherd.federation.aggregator.round_work import Aggregator


LOGIN_SECONDS = 600
PERSON_SECONDS = 3600
"""How long somebody who logged in stays so."""

logins = APIRouter(prefix="/v1")


class PersonLogin(Strict):
    """A provider's word about somebody, for a number of ours."""

    id_token: str = Field(max_length=MOST_TOKEN)
    nonce: str = Field(max_length=200)


@logins.get("/login")
async def login_terms(service: Served) -> dict[str, str]:
    """Where people log in, and a fresh number for it."""
    aggregator = service.aggregator
    if aggregator.provider is None:
        raise refused(404, "people do not log in here")
    return {
        "issuer": aggregator.provider.issuer,
        "client_id": aggregator.provider.client,
        "nonce": _fresh(aggregator),
    }


@logins.post("/login")
async def log_in(given: PersonLogin, service: Served) -> dict[str, Any]:
    """A session for somebody who is enrolled and whom the provider knows."""
    if service.aggregator.provider is None:
        raise refused(404, "people do not log in here")
    return await run_in_threadpool(_session, service.aggregator, given)


def _text(expires: str, number: str) -> bytes:
    return f"sherd-login-1\0{expires}\0{number}".encode()


def _fresh(aggregator: Aggregator) -> str:
    expires, number = str(aggregator.now() + LOGIN_SECONDS), secrets.token_hex(16)
    signature = aggregator.key.sign(_text(expires, number))
    return f"{expires}-{number}-{signature}"


def _is_fresh(aggregator: Aggregator, nonce: str) -> bool:
    expires, _, rest = nonce.partition("-")
    number, _, signature = rest.partition("-")
    if not expires.isascii() or not expires.isdigit() or len(expires) > 12:
        return False
    good = verify(aggregator.key.public, _text(expires, number), signature)
    return good and int(expires) >= aggregator.now()


def _session(aggregator: Aggregator, given: PersonLogin) -> dict[str, Any]:
    assert aggregator.provider is not None
    wrong = Reason.SIGNATURE.error()
    if not _is_fresh(aggregator, given.nonce):
        raise wrong
    identity = aggregator.provider.identify(given.id_token, nonce=given.nonce)
    now, store = aggregator.now(), aggregator.store
    member = member_of_person(store, aggregator.provider.issuer, identity.names)
    until = now + LOGIN_SECONDS
    if member is None or not use_once(store, given.nonce, now=now, expires=until):
        raise wrong
    token, expires = secrets.token_urlsafe(32), now + PERSON_SECONDS
    store.add_session(token, member.name, expires=expires)
    store.log(now=now, actor=member.name, event="logged in", subject=member.name)
    return {"token": token, "expires": expires, "name": member.name, "role": member.role}


class RenewalRequest(Strict):
    """A request for a certificate, by a key that is new."""

    csr: str = Field(max_length=4096)


@logins.post("/certificate", response_class=Response)
async def renew_certificate(given: RenewalRequest, member: AnOwner, service: Served) -> Response:
    """The owner's next certificate, in the signed form of an enrolment."""
    aggregator = service.aggregator
    if aggregator.certify is None or member.key is None:
        raise refused(404, "certificates are not issued here")
    answer = await run_in_threadpool(aggregator.certify, member.name, member.key, given.csr)
    await run_in_threadpool(
        aggregator.store.log,
        now=aggregator.now(),
        actor=member.name,
        event="certificate renewed",
        subject=member.name,
    )
    return Response(answer, media_type="application/json")
