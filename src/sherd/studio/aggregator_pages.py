"""An aggregator's home: members, rounds as they go, a new round step by step, releases.

It shows what the aggregator's operator may see: names, states, terms, reasons. No page shows a
cell that was not released.
"""

from __future__ import annotations

import json
import re
import secrets
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.responses import HTMLResponse
from starlette.routing import Route

from sherd.errors import UsageError
from sherd.federation.aggregator.round_view import round_report
from sherd.federation.protocol.collusion import collusion_table
from sherd.federation.protocol.joint_plan import Dropout, Kind, Linkage, Sharing, Terms
from sherd.federation.protocol.states import ROUND_ENDS
from sherd.release.method import find, names
from sherd.signing_keys import fingerprint
from sherd.studio import plan_form
from sherd.studio.access_guard import MOST_FORM
from sherd.studio.page_rendering import (
    application,
    check_code,
    download,
    form_of,
    fragment,
    go,
    page,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from sherd.federation.aggregator.aggregator_home import AggregatorHome

_ENDS = {state.value for state in ROUND_ENDS}
_SPAN = re.compile(r"(\d{1,5})([mhd])")


class AggregatorPages:
    """The pages of one aggregator's operator."""

    def __init__(self, premises: AggregatorHome) -> None:
        self._premises = premises
        self._aggregator = premises.aggregator()

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
            Route("/new", self._new),
            Route("/new", self._look, methods=post),
            Route("/open", self._open, methods=post),
            Route("/members", self._members),
            Route("/members/enrol", self._enrol, methods=post),
            Route("/members/revoke", self._revoke, methods=post),
            Route("/log.json", self._log),
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
        """Every round, the newest first, with who has not answered."""
        found = []
        for each in self._aggregator.store.rounds():
            data = self._aggregator.store.round(each.id)
            assert data is not None
            report = round_report(data)
            silent = [who for who, how in report["progress"].items() if how == "invited"]
            found.append({**report, "opened": _moment(each.opened), "ends": _moment(each.deadline),
                          "silent": silent, "ended": each.state in _ENDS,
                          "at": each.opened})  # fmt: skip
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

    def _owners(self) -> list[str]:
        return [each.name for each in self._aggregator.store.members() if each.role == "owner"]

    async def _new(self, request: Request) -> Response:
        given = dict(request.query_params)
        method = find(given.get("method", "dp-um"))
        fields = [f for f in plan_form.fields(method, {}, None) if f.name != "epsilon"]
        return await page(
            request, "aggregator_new.html", owners=await run_in_threadpool(self._owners),
            method=method, methods=joint_methods(), fields=fields, look=None, form=given,
            needs_epsilon=any(p.name == "epsilon" for p in method.parameters),
            **self._given("new"),
        )  # fmt: skip

    async def _form(self, request: Request) -> tuple[dict[str, str], list[str]]:
        async with request.form(max_files=0, max_fields=200, max_part_size=1 << 16) as form:
            check_code(request, str(form.get("code", "")))
            owners = [str(each) for each in form.getlist("owner")]
            return {str(k): str(v) for k, v in form.items() if k not in ("code", "owner")}, owners

    async def _look(self, request: Request) -> Response:
        """What owners would be asked, before anybody is."""
        form, owners = await self._form(request)
        terms = self._terms(form, owners)
        known = await run_in_threadpool(self._owners)
        if strangers := [name for name in owners if name not in known]:
            raise UsageError("somebody who is not enrolled cannot take part", got=strangers[0])
        look = {
            "terms": terms,
            "epsilon": _shares(terms),
            "saw": collusion_table(terms),
            "ends": _moment(terms.deadline),
        }
        return await page(
            request, "aggregator_look.html", look=look, form={**form, "name": terms.round},
            owners=owners, **self._given("new"),
        )  # fmt: skip

    def _terms(self, form: Mapping[str, str], owners: list[str]) -> Terms:
        method = form.get("method", "")
        plan = plan_form.plan_of(
            method, {**form, "epsilon": form.get("epsilon", "").strip() or "1"}
        )
        parameters = {
            name: value
            for name, value in plan.as_data().items()
            if name not in ("method", "epsilon") and form.get(name, "").strip()
        }
        kind = Kind(_choice(form, "kind", [each.value for each in Kind]))
        shares = {
            name: form[f"share-{name}"].strip()
            for name in owners
            if form.get(f"share-{name}", "").strip()
        }
        span = _SPAN.fullmatch(form.get("deadline", "24h"))
        if span is None:
            raise UsageError("the deadline cannot be read", must="30m, 24h or 7d")
        seconds = int(span[1]) * {"m": 60, "h": 3600, "d": 86400}[span[2]]
        linked = "oprf" if kind is Kind.VERTICAL else "none"
        return Terms(
            round=form.get("name", "").strip() or f"round-{secrets.token_hex(4)}",
            aggregator=self._premises.settings.name,
            kind=kind,
            owners=tuple(owners),
            method=method,
            parameters=parameters,
            epsilon=form.get("epsilon", "").strip() or None,
            sharing=Sharing.GIVEN if shares else Sharing.ATTRIBUTES,
            given=shares,
            linkage=Linkage(form.get("linkage") or linked),
            dropout=Dropout(_choice(form, "dropout", [each.value for each in Dropout])),
            deadline=int(time.time()) + seconds,
            purpose=form.get("purpose", "").strip()[:500],
        )

    async def _open(self, request: Request) -> Response:
        form, owners = await self._form(request)
        terms = self._terms(form, owners)
        await run_in_threadpool(self._aggregator.open_round, terms)
        return go(request, f"/round/{terms.round}")

    async def _members(self, request: Request) -> Response:
        members = await run_in_threadpool(self._aggregator.store.members)
        return await page(
            request, "aggregator_members.html",
            members=[(m.name, m.role, fingerprint(m.key) if m.key else "") for m in members],
            own=fingerprint(self._premises.key.public), **self._given("members"),
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
        if name not in await run_in_threadpool(self._owners):
            raise UsageError("no owner of that name is enrolled")
        await run_in_threadpool(self._aggregator.store.remove_member, name)
        return go(request, "/members")

    async def _log(self, request: Request) -> Response:
        del request
        found = await run_in_threadpool(self._summaries)
        text = json.dumps({"rounds": found}, indent=2, ensure_ascii=False) + "\n"
        return download(text, "rounds.json", "application/json")


def joint_methods() -> list[str]:
    """The methods whose releases are made of records, which several owners' can be united."""
    declared = {name: find(name).traits for name in names()}
    return [n for n, one in declared.items() if one.rows_are_records or one.rows_are_drawn]


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _choice(form: Mapping[str, str], key: str, known: list[str]) -> str:
    given = form.get(key) or known[0]
    if given not in known:
        raise UsageError(f"the {key} is not valid", must="one of " + ", ".join(known))
    return given


def _shares(terms: Terms) -> dict[str, str]:
    """What each owner would spend, as far as it is known before they answer."""
    if terms.epsilon is None:
        return dict.fromkeys(terms.owners, "nothing")
    if terms.kind is Kind.HORIZONTAL:
        return dict.fromkeys(terms.owners, f"ε {terms.epsilon}")
    if terms.given:
        return {name: f"ε {share}" for name, share in terms.given.items()}
    return dict.fromkeys(terms.owners, f"a part of ε {terms.epsilon}, by its attributes")
