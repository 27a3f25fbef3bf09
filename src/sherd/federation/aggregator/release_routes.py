"""The routes of releases: their files for those who may have them, and owners' signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from pydantic import Field

from sherd.federation.aggregator.service import (
    OWNER,
    AnOwner,
    Anybody,
    FileName,
    Name,
    Served,
    Strict,
    refused,
)
from sherd.federation.protocol.messages import countersigned_text
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import RoundState
from sherd.release.bundle import MANIFEST, read_manifest
from sherd.release.signature import COUNTERSIGNATURES, SIGNATURE, add_countersignature
from sherd.signing_keys import verify

if TYPE_CHECKING:
    from sherd.federation.aggregator.round_work import Aggregator

releases = APIRouter(prefix="/v1")


class Countersigned(Strict):
    """An owner's signature of a release in which it found its part."""

    signature: str = Field(max_length=128)


@releases.get("/rounds/{round_id}/release/{name}")
async def release_file(
    round_id: Name, name: FileName, member: Anybody, service: Served
) -> Response:
    """A file of a release: for analysts, operators, and the owners that took part."""
    data = await run_in_threadpool(service.aggregator.store.round, round_id)
    stranger = data is None or (member.role == OWNER and member.name not in data.keys)
    if data is None or stranger or data.state is not RoundState.RELEASED:
        raise refused(404, "there is no such release for you")
    path = await run_in_threadpool(_released_file, service.aggregator, round_id, name)
    if path is None:
        raise refused(404, "the release has no such file")
    if name == MANIFEST:  # once for each time that somebody fetches the release
        await run_in_threadpool(
            service.aggregator.store.log,
            now=service.aggregator.now(),
            actor=member.name,
            event="release fetched",
            subject=round_id,
        )
    return FileResponse(path, media_type="application/octet-stream")


@releases.post("/rounds/{round_id}/countersignature")
async def countersign(
    round_id: Name, given: Countersigned, member: AnOwner, service: Served
) -> dict[str, str]:
    """An owner's signature of a release that holds its part."""
    await run_in_threadpool(
        take_countersignature, service.aggregator, member.name, round_id, given.signature
    )
    return {"status": "ok"}


def take_countersignature(
    aggregator: Aggregator, owner: str, round_id: str, signature: str
) -> None:
    """Keep an owner's signature beside the release, where it is one of this release."""
    with aggregator.store.working(round_id) as work:  # one at a time writes the file
        if work is None or owner not in work.data.keys:
            raise Reason.WRONG_ROUND.error("there is no such round for you")
        work.unchanged = True
        data = work.data
        part = owner in data.deliveries or owner in (data.masked or {})
        if data.state is not RoundState.RELEASED or not part:
            raise Reason.UNEXPECTED.error()
        assert data.manifest is not None
        text = countersigned_text(plan_hash=data.agreed.hash, owner=owner, manifest=data.manifest)
        if not verify(data.agreed.share(owner).key, text, signature):
            raise Reason.SIGNATURE.error()
        add_countersignature(aggregator.folder(round_id), owner, signature)
        work.log("release countersigned", data.manifest, now=aggregator.now(), actor=owner)


def _released_file(aggregator: Aggregator, round_id: str, name: str) -> str | None:
    """The path of a file that the release's manifest lists, of the manifest or a signature."""
    folder = aggregator.folder(round_id)
    beside = (MANIFEST, SIGNATURE, COUNTERSIGNATURES)
    if name not in beside and name not in read_manifest(folder)["files"]:
        return None
    path = folder / name
    return str(path) if path.is_file() else None
