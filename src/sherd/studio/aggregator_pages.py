"""An aggregator's home: members, rounds as they go, a new round step by step, releases.

It shows what the aggregator's operator may see: names, states, terms, reasons. No page shows a
cell that was not released.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.routing import Route

from sherd.errors import UsageError
from sherd.federation.aggregator.aggregator_home import (
    certified_until,
    keep_enrolment,
    renew_owner,
)
from sherd.federation.aggregator.announced import announced_policies
from sherd.federation.aggregator.round_view import awaited, round_report
from sherd.federation.aggregator.storage import audit_log
from sherd.federation.protocol import audit_chain
from sherd.federation.protocol.collusion import collusion_table
from sherd.federation.protocol.states import ROUND_ENDS
from sherd.federation.wire.certificates import RENEW_DAYS
from sherd.signing_keys import fingerprint
from sherd.studio.access_guard import MOST_FORM
from sherd.studio.aggregator_new_round import NewRoundPages
from sherd.studio.page_rendering import (
    application,
    check_code,
    download,
    form_of,
    form_route,
    fragment,
    go,
    moment,
    page,
)

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.federation.aggregator.round_work import Aggregator
    from sherd.federation.protocol.audit_chain import AuditLine
    from sherd.federation.wire.browser_login import PersonSession


_ENDS = {state.value for state in ROUND_ENDS}


class StillOperator:
    """Lets requests through while the login that the studio was opened by still counts."""

    def __init__(self, app: ASGIApp, *, aggregator: Aggregator, person: PersonSession) -> None:
        self._app, self._aggregator, self._person = app, aggregator, person

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, unless the login has ended."""
        if scope["type"] == "http":
            token, now = self._person.token, self._aggregator.now()
            member = await run_in_threadpool(self._aggregator.store.member_of_token, token, now)
            if member is None or member.role != "operator":
                ended = "Your login has ended; start the studio again to log in."
                await PlainTextResponse(ended, 403)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class AggregatorPages:
    """The pages of one aggregator's operator; where people log in, of the ``person`` who did."""

    def __init__(self, home: AggregatorHome, person: PersonSession | None = None) -> None:
        self._home = home
        self._aggregator = home.aggregator()
        self._person = person
        if person is not None:
            self._aggregator.store.actor = person.name
        self._members = MemberPages(home, self._aggregator)

    def close(self) -> list[str]:
        """Close the database."""
        self._aggregator.store.close()
        return []

    def app(self) -> Starlette:
        """The application with all pages."""
        routes = [
            Route("/", self._rounds),
            Route("/part", self._part),
            Route("/round/{round}", self._round),
            Route("/round/{round}/part", self._round_part),
            form_route("/round/{round}/abort", self._abort),
            form_route("/round/{round}/verify", self._verify),
            Route("/log.json", self._log),
            Route("/audit-log.jsonl", self._audit_log),
            *NewRoundPages(self._home.settings.name, self._aggregator).routes(),
            *self._members.routes(),
        ]
        app = application(routes)
        if self._person is not None:
            app.add_middleware(StillOperator, aggregator=self._aggregator, person=self._person)
        return app

    @staticmethod
    def most(path: str) -> int:
        """How large the body of a request may be."""
        del path
        return MOST_FORM

    def _given(self, here: str) -> dict[str, Any]:
        return {"name": self._home.settings.name, "here": here}

    def _summaries(self) -> list[dict[str, Any]]:
        """Every round, the newest first, with who has not answered and since when."""
        summaries, store = [], self._aggregator.store
        seen = {who: moment(time) for who, time in store.seen().items()}
        for each in store.rounds():
            data = store.round(each.id)
            assert data is not None
            asked = store.last_sent(each.id)
            silent = {who: {"since": moment(asked.get(who, each.opened)), "seen": seen.get(who)}
                      for who in awaited(data)}  # fmt: skip
            summaries.append({**round_report(data), "opened": moment(each.opened),
                          "ends": moment(each.deadline), "silent": silent,
                          "ended": each.state in _ENDS, "at": each.opened})  # fmt: skip
        return sorted(summaries, key=lambda one: one["at"], reverse=True)

    async def _rounds(self, request: Request) -> Response:
        summaries = await run_in_threadpool(self._summaries)
        return await page(
            request, "aggregator_rounds.html", rounds=summaries, **self._given("rounds")
        )

    async def _part(self, request: Request) -> Response:
        summaries = await run_in_threadpool(self._summaries)
        return HTMLResponse(fragment(request, "rounds_part.html", rounds=summaries))

    def _detail(self, request: Request) -> dict[str, Any]:
        name = request.path_params["round"]
        for each in self._summaries():
            if each["round"] == name:
                data = self._aggregator.store.round(name)
                assert data is not None
                folder = self._home.releases / name
                return {
                    "r": each,
                    "saw": collusion_table(data.terms),
                    "folder": str(folder) if (folder / "manifest.json").is_file() else None,
                }
        raise UsageError("there is no such round")

    async def _round(self, request: Request) -> Response:
        detail = await run_in_threadpool(self._detail, request)
        return await page(
            request, "aggregator_round.html", checks=None, **detail, **self._given("rounds")
        )

    async def _round_part(self, request: Request) -> Response:
        detail = await run_in_threadpool(self._detail, request)
        return HTMLResponse(fragment(request, "round_part.html", **detail))

    async def _abort(self, request: Request) -> Response:
        await form_of(request)
        name = request.path_params["round"]
        await run_in_threadpool(self._detail, request)
        actor = self._aggregator.store.actor
        await run_in_threadpool(self._aggregator.abort, name, actor=actor)
        return go(request, f"/round/{name}")

    async def _verify(self, request: Request) -> Response:
        """Every check of a release, from what was released alone."""
        from sherd import verify

        await form_of(request)
        detail = await run_in_threadpool(self._detail, request)
        if detail["folder"] is None:
            raise UsageError("the round has no release")
        checks = (await run_in_threadpool(verify, detail["folder"])).as_data()["checks"]
        return await page(
            request, "aggregator_round.html", checks=checks, **detail, **self._given("rounds")
        )

    def _lines(self) -> list[AuditLine]:
        """The audit log, after checking that no line was changed, added or taken out."""
        lines = list(audit_log.lines(self._aggregator.store.engine))
        audit_chain.verify_lines(lines)
        return lines

    async def _audit_log(self, request: Request) -> Response:
        """The lines as `sherd aggregator audit --check` reads them, each with its hash."""
        del request
        lines = await run_in_threadpool(self._lines)
        text = "".join(f"{each}\n" for each in audit_chain.export(lines))
        return download(text, "audit-log.jsonl", "application/json")

    async def _log(self, request: Request) -> Response:
        """Members and rounds as they are, and the audit log with its last hash."""
        del request
        lines = await run_in_threadpool(self._lines)
        log = {
            "aggregator": self._home.settings.name,
            "members": await run_in_threadpool(self._members.every),
            "rounds": await run_in_threadpool(self._summaries),
            "audit": [asdict(line) for line in lines],
            "head": audit_chain.verify_lines(lines)[1],
        }
        text = json.dumps(log, indent=2, ensure_ascii=False) + "\n"
        return download(text, "aggregator-log.json", "application/json")


class MemberPages:
    """The pages of an aggregator's members."""

    def __init__(self, home: AggregatorHome, aggregator: Aggregator) -> None:
        self._home = home
        self._aggregator = aggregator

    def routes(self) -> list[Route]:
        """The routes of these pages."""
        return [
            Route("/members", self._members),
            form_route("/members/enrol", self._enrol),
            form_route("/members/renew", self._renew),
            form_route("/members/revoke", self._revoke),
        ]

    def every(self) -> list[dict[str, Any]]:
        """Every member with what is known of it."""
        members, seen = self._aggregator.store.members(), self._aggregator.store.seen()
        policies = announced_policies(self._aggregator, [m.name for m in members])
        return [
            {
                "name": m.name,
                "role": m.role,
                "fingerprint": fingerprint(m.key) if m.key else "",
                "seen": moment(seen[m.name]) if m.name in seen else None,
                "until": self._until(m.name) if m.role == "owner" else "",
                "announced": policies[m.name].in_words if m.name in policies else {},
            }
            for m in members
        ]

    async def _members(self, request: Request) -> Response:
        return await page(
            request, "aggregator_members.html", members=await run_in_threadpool(self.every),
            own=fingerprint(self._home.key.public),
            name=self._home.settings.name, here="members",
        )  # fmt: skip

    async def _enrol(self, request: Request) -> Response:
        """Enrol an owner by its request; the answer goes back to it as a file."""
        async with request.form(max_files=1, max_fields=5) as form:
            check_code(request, str(form.get("code", "")))
            given, expected = form.get("request"), str(form.get("fingerprint", "")).strip()
            if not isinstance(given, UploadFile):
                raise UsageError("no file was chosen", must="the owner's request.json")
            data = await given.read()
        name, answer = await run_in_threadpool(self._answer, data, expected)
        return download(answer, f"{name}.enrolment.json", "application/json")

    def _answer(self, data: bytes, expected: str) -> tuple[str, bytes]:
        from sherd.federation.wire.enrolment import compare, read_request

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "request.json"
            path.write_bytes(data)
            asked = read_request(path)
        compare(expected or None, asked.key, "owner")
        known = self._aggregator.store.member(asked.name)
        if known is not None and known.key == asked.key:
            return asked.name, renew_owner(self._home, asked.name, asked)
        answer = self._home.enrol(asked, now=int(time.time()))
        keep_enrolment(self._home, asked, answer)
        return asked.name, answer

    async def _renew(self, request: Request) -> Response:
        """Give an owner a new certificate; the answer goes back to it as a file."""
        name = (await form_of(request)).get("name", "")
        answer = await run_in_threadpool(renew_owner, self._home, name)
        return download(answer, f"{name}.enrolment.json", "application/json")

    def _until(self, name: str) -> str:
        ends = certified_until(self._home, name)
        if ends is None:
            return "not known"
        days = (ends - datetime.now(UTC)).days
        soon = " (has ended)" if days < 0 else f" ({days} days left)" if days < RENEW_DAYS else ""
        return f"{ends:%Y-%m-%d}{soon}"

    async def _revoke(self, request: Request) -> Response:
        form = await form_of(request)
        name = form.get("name", "")
        owner = await run_in_threadpool(self._aggregator.store.member, name)
        if owner is None or owner.role != "owner":
            raise UsageError("no owner with that name is enrolled")
        await run_in_threadpool(self._aggregator.revoke, name)
        return go(request, "/members")
