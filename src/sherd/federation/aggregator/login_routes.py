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

from sherd.federation.aggregator.fresh_numbers import MOST_NUMBER, fresh_number, is_fresh
from sherd.federation.aggregator.service import AnOwner, Served, Strict, refused
from sherd.federation.aggregator.storage.statements import member_of_person, use_once
from sherd.federation.protocol.reasons import Reason
from sherd.federation.wire.openid_provider import MOST_TOKEN

if TYPE_CHECKING:
    from sherd.federation.aggregator.round_work import Aggregator


LOGIN_SECONDS = 600
PERSON_SECONDS = 3600
"""How long somebody who logged in stays so."""

logins = APIRouter(prefix="/v1")


class PersonLogin(Strict):
    """A provider's word about somebody, for a number of ours."""

    id_token: str = Field(max_length=MOST_TOKEN)
    nonce: str = Field(max_length=MOST_NUMBER)


@logins.get("/login")
async def login_terms(service: Served) -> dict[str, str]:
    """Where people log in, and a fresh number for it."""
    aggregator = service.aggregator
    if aggregator.provider is None:
        raise refused(404, "people do not log in here")
    return {
        "issuer": aggregator.provider.issuer,
        "client_id": aggregator.provider.client,
        "nonce": fresh_number(aggregator, "login", seconds=LOGIN_SECONDS),
    }


@logins.post("/login")
async def log_in(given: PersonLogin, service: Served) -> dict[str, Any]:
    """A session for somebody who is enrolled and whom the provider knows."""
    if service.aggregator.provider is None:
        raise refused(404, "people do not log in here")
    return await run_in_threadpool(_session, service.aggregator, given)


def _session(aggregator: Aggregator, given: PersonLogin) -> dict[str, Any]:
    assert aggregator.provider is not None
    wrong = Reason.SIGNATURE.error()
    if not is_fresh(aggregator, "login", given.nonce):
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
