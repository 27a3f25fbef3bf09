"""Who takes part with an aggregator: enrolled, renewed and revoked by its operator."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.routing import Route

from sherd.errors import UsageError
from sherd.federation.aggregator.announced import announced_policies
from sherd.signing_keys import fingerprint
from sherd.studio.page_rendering import check_code, download, form_of, go, moment, page

if TYPE_CHECKING:
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.federation.aggregator.round_work import Aggregator


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
            Route("/members/revoke", self._revoke, methods=["POST"]),
        ]

    def _every(self) -> list[dict[str, Any]]:
        """Every member with what is known of it."""
        members, seen = self._aggregator.store.members(), self._aggregator.store.seen()
        told = announced_policies(self._aggregator, [m.name for m in members])
        return [
            {
                "name": m.name,
                "role": m.role,
                "fingerprint": fingerprint(m.key) if m.key else "",
                "seen": moment(seen[m.name]) if m.name in seen else None,
                "announced": told[m.name].told if m.name in told else {},
            }
            for m in members
        ]

    async def _members(self, request: Request) -> Response:
        return await page(
            request, "aggregator_members.html", members=await run_in_threadpool(self._every),
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
        return asked.name, self._premises.enrol(asked, now=int(time.time()))

    async def _revoke(self, request: Request) -> Response:
        form = await form_of(request)
        name = form.get("name", "")
        owner = await run_in_threadpool(self._aggregator.store.member, name)
        if owner is None or owner.role != "owner":
            raise UsageError("no owner of that name is enrolled")
        await run_in_threadpool(self._aggregator.revoke, name)
        return go(request, "/members")
