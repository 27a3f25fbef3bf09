"""The route by which an owner that is logged in gets its next certificate."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from sherd.federation.aggregator.service import AnOwner, Served, Strict, refused

renewals = APIRouter(prefix="/v1")


class RenewalRequest(Strict):
    """A request for a certificate, by a key that is new."""

    csr: str = Field(max_length=4096)


@renewals.post("/certificate", response_class=Response)
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
