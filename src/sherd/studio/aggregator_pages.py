"""An aggregator's home: members, rounds as they go, a new round step by step, releases.

It shows what the aggregator's operator may see: names, states, terms, reasons. No page shows a
cell that was not released.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse
from starlette.routing import Route

from sherd.errors import UsageError
from sherd.federation.aggregator.round_view import awaited, round_report
from sherd.federation.aggregator.storage import audit_log
from sherd.federation.protocol.collusion import collusion_table
from sherd.federation.protocol.states import ROUND_ENDS
from sherd.studio.access_guard import MOST_FORM
from sherd.studio.aggregator_members import MemberPages
from sherd.studio.aggregator_new_round import NewRoundPages
from sherd.studio.page_rendering import (
    application,
    download,
    form_of,
    fragment,
    go,
    moment,
    page,
)

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.federation.aggregator.storage.audit_log import AuditLine

_ENDS = {state.value for state in ROUND_ENDS}


class AggregatorPages:
    """The pages of one aggregator's operator."""

    def __init__(self, premises: AggregatorHome) -> None:
        self._premises = premises
        self._aggregator = premises.aggregator()
        self._members = MemberPages(premises, self._aggregator)

    def close(self) -> list[str]:
        """Let the database go."""
        self._aggregator.store.close()
        return []

    def app(self) -> Starlette:
        """The application."""
        post = ["POST"]
        routes = [
            Route("/", self._rounds),
            Route("/part", self._part),
            Route("/round/{round}", self._round),
            Route("/round/{round}/part", self._round_part),
            Route("/round/{round}/abort", self._abort, methods=post),
            Route("/round/{round}/verify", self._verify, methods=post),
            Route("/log.json", self._log),
            Route("/audit-log.jsonl", self._audit_log),
            *NewRoundPages(self._premises.settings.name, self._aggregator).routes(),
            *self._members.routes(),
        ]
        return application(routes)

    @staticmethod
    def most(path: str) -> int:
        """How large the body of a request may be."""
        del path
        return MOST_FORM

    def _given(self, here: str) -> dict[str, Any]:
        return {"name": self._premises.settings.name, "here": here}

    def _summaries(self) -> list[dict[str, Any]]:
        """Every round, the newest first, with who has not answered and since when."""
        found, store = [], self._aggregator.store
        seen = {who: moment(time) for who, time in store.seen().items()}
        for each in store.rounds():
            data = store.round(each.id)
            assert data is not None
            asked = store.last_sent(each.id)
            silent = {who: {"since": moment(asked.get(who, each.opened)), "seen": seen.get(who)}
                      for who in awaited(data)}  # fmt: skip
            found.append({**round_report(data), "opened": moment(each.opened),
                          "ends": moment(each.deadline), "silent": silent,
                          "ended": each.state in _ENDS, "at": each.opened})  # fmt: skip
        return sorted(found, key=lambda one: one["at"], reverse=True)

    async def _rounds(self, request: Request) -> Response:
        found = await run_in_threadpool(self._summaries)
        return await page(request, "aggregator_rounds.html", rounds=found, **self._given("rounds"))

    async def _part(self, request: Request) -> Response:
        found = await run_in_threadpool(self._summaries)
        return HTMLResponse(fragment(request, "rounds_part.html", rounds=found))

    def _detail(self, request: Request) -> dict[str, Any]:
        name = request.path_params["round"]
        for each in self._summaries():
            if each["round"] == name:
                data = self._aggregator.store.round(name)
                assert data is not None
                folder = self._premises.releases / name
                return {
                    "r": each,
                    "saw": collusion_table(data.terms),
                    "folder": str(folder) if (folder / "manifest.json").is_file() else None,
                }
        raise UsageError("there is no such round")

    async def _round(self, request: Request) -> Response:
        found = await run_in_threadpool(self._detail, request)
        return await page(
            request, "aggregator_round.html", checks=None, **found, **self._given("rounds")
        )

    async def _round_part(self, request: Request) -> Response:
        found = await run_in_threadpool(self._detail, request)
        return HTMLResponse(fragment(request, "round_part.html", **found))

    async def _abort(self, request: Request) -> Response:
        await form_of(request)
        name = request.path_params["round"]
        await run_in_threadpool(self._detail, request)
        await run_in_threadpool(self._aggregator.abort, name)
        return go(request, f"/round/{name}")

    async def _verify(self, request: Request) -> Response:
        """Every check of a release, from what was released alone."""
        from sherd import verify

        await form_of(request)
        found = await run_in_threadpool(self._detail, request)
        if found["folder"] is None:
            raise UsageError("the round has no release")
        checks = (await run_in_threadpool(verify, found["folder"])).as_data()["checks"]
        return await page(
            request, "aggregator_round.html", checks=checks, **found, **self._given("rounds")
        )

    def _lines(self) -> list[AuditLine]:
        """The audit log, after checking that no line was changed, added or taken out."""
        lines = list(audit_log.lines(self._aggregator.store.engine))
        audit_log.verify_lines(lines)
        return lines

    async def _audit_log(self, request: Request) -> Response:
        """The lines as `sherd aggregator audit --check` reads them, each with its hash."""
        del request
        lines = await run_in_threadpool(self._lines)
        text = "".join(f"{each}\n" for each in audit_log.export(lines))
        return download(text, "audit-log.jsonl", "application/json")

    async def _log(self, request: Request) -> Response:
        """Members and rounds as they are, and the audit log with its last hash."""
        del request
        lines = await run_in_threadpool(self._lines)
        log = {
            "aggregator": self._premises.settings.name,
            "members": await run_in_threadpool(self._members.every),
            "rounds": await run_in_threadpool(self._summaries),
            "audit": [asdict(line) for line in lines],
            "head": audit_log.verify_lines(lines)[1],
        }
        text = json.dumps(log, indent=2, ensure_ascii=False) + "\n"
        return download(text, "aggregator-log.json", "application/json")
