"""Who takes part with an aggregator: enrolled, renewed and revoked by its operator."""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.routing import Route

from sherd.errors import UsageError
from sherd.federation.aggregator.announced import announced_policies
from sherd.federation.aggregator.owner_certificates import (
    certified_until,
    keep_enrolment,
    renew_owner,
)
from sherd.signing_keys import fingerprint
from sherd.studio.page_rendering import check_code, download, form_of, go, moment, page

if TYPE_CHECKING:
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.federation.aggregator.round_work import Aggregator

WARN_DAYS = 30
"""How long before a certificate ends the page says so."""


class MemberPages:
    """The pages of an aggregator's members."""

    def __init__(self, premises: AggregatorHome, aggregator: Aggregator) -> None:
        self._premises = premises
        self._aggregator = aggregator

    def routes(self) -> list[Route]:
        """Where these pages are."""
        return [
            Route("/members", self._members),
            Route("/members/enrol", self._enrol, methods=["POST"]),
            Route("/members/renew", self._renew, methods=["POST"]),
            Route("/members/revoke", self._revoke, methods=["POST"]),
        ]

    def every(self) -> list[dict[str, Any]]:
        """Every member with what is known of it."""
        members, seen = self._aggregator.store.members(), self._aggregator.store.seen()
        told = announced_policies(self._aggregator, [m.name for m in members])
        return [
            {
                "name": m.name,
                "role": m.role,
                "fingerprint": fingerprint(m.key) if m.key else "",
                "seen": moment(seen[m.name]) if m.name in seen else None,
                "until": self._until(m.name) if m.role == "owner" else "",
                "announced": told[m.name].told if m.name in told else {},
            }
            for m in members
        ]

    async def _members(self, request: Request) -> Response:
        return await page(
            request, "aggregator_members.html", members=await run_in_threadpool(self.every),
            own=fingerprint(self._premises.key.public),
            name=self._premises.settings.name, here="members",
        )  # fmt: skip

    async def _enrol(self, request: Request) -> Response:
        """Enrol an owner by its request; the answer goes back to it as a file."""
        async with request.form(max_files=1, max_fields=5) as form:
            check_code(request, str(form.get("code", "")))
            given, told = form.get("request"), str(form.get("fingerprint", "")).strip()
            if not isinstance(given, UploadFile):
                raise UsageError("no file was chosen", must="the owner's request.json")
            data = await given.read()
        name, answer = await run_in_threadpool(self._answer, data, told)
        return download(answer, f"{name}.enrolment.json", "application/json")

    def _answer(self, data: bytes, told: str) -> tuple[str, bytes]:
        from sherd.federation.wire.enrolment import compare, read_request

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "request.json"
            path.write_bytes(data)
            asked = read_request(path)
        compare(told or None, asked.key, "owner")
        known = self._aggregator.store.member(asked.name)
        if known is not None and known.key == asked.key:
            return asked.name, renew_owner(self._premises, asked.name, asked)
        answer = self._premises.enrol(asked, now=int(time.time()))
        keep_enrolment(self._premises, asked, answer)
        return asked.name, answer

    async def _renew(self, request: Request) -> Response:
        """Give an owner a new certificate; the answer goes back to it as a file."""
        name = (await form_of(request)).get("name", "")
        answer = await run_in_threadpool(renew_owner, self._premises, name)
        return download(answer, f"{name}.enrolment.json", "application/json")

    def _until(self, name: str) -> str:
        ends = certified_until(self._premises, name)
        if ends is None:
            return "not known"
        days = (ends - datetime.now(UTC)).days
        soon = " (has ended)" if days < 0 else f" ({days} days left)" if days < WARN_DAYS else ""
        return f"{ends:%Y-%m-%d}{soon}"

    async def _revoke(self, request: Request) -> Response:
        form = await form_of(request)
        name = form.get("name", "")
        owner = await run_in_threadpool(self._aggregator.store.member, name)
        if owner is None or owner.role != "owner":
            raise UsageError("no owner of that name is enrolled")
        await run_in_threadpool(self._aggregator.revoke, name)
        return go(request, "/members")
