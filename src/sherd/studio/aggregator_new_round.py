"""A new round, step by step: filled in, held against what owners announced, then opened."""

from __future__ import annotations

import re
import secrets
import time
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from sherd.errors import UsageError
from sherd.federation.aggregator.announced import announced_policies
from sherd.federation.protocol.announced_policy import announced_objections
from sherd.federation.protocol.collusion import collusion_table
from sherd.federation.protocol.joint_plan import Dropout, Kind, Linkage, Sharing, Terms
from sherd.release.method import find, usable
from sherd.studio import plan_form
from sherd.studio.page_rendering import check_code, form_route, go, moment, page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from sherd.federation.aggregator.round_work import Aggregator
    from sherd.federation.protocol.announced_policy import AnnouncedPolicy

_BLANK = {"kind": "", "dropout": "", "epsilon": "1", "name": "", "purpose": "", "deadline": "24h"}
_SPAN = re.compile(r"(\d{1,5})([mhd])")


class NewRoundPages:
    """The pages on which an operator opens a round."""

    def __init__(self, name: str, aggregator: Aggregator) -> None:
        self._name = name
        self._aggregator = aggregator

    def routes(self) -> list[Route]:
        """The routes of these pages."""
        return [
            Route("/new", self._new),
            form_route("/new", self._look),
            form_route("/open", self._open),
        ]

    def _owners(self) -> list[str]:
        return [each.name for each in self._aggregator.store.members() if each.role == "owner"]

    def _announced(self) -> dict[str, dict[str, str]]:
        """What each owner has announced, in words."""
        policies = announced_policies(self._aggregator, self._owners())
        return {name: policy.in_words for name, policy in policies.items()}

    async def _new(self, request: Request) -> Response:
        """The form; what the address gives is filled in already."""
        given = dict(request.query_params)
        method = find(given.get("method") or "dp-um")
        filled = {p.name: given[p.name] for p in method.parameters if given.get(p.name)}
        fields = [f for f in plan_form.fields(method, filled, None) if f.name != "epsilon"]
        chosen = request.query_params.getlist("owner")
        owners = await run_in_threadpool(self._owners)
        return await page(
            request, "aggregator_new.html", owners={o: o in chosen or not chosen for o in owners},
            method=method, methods=joint_methods(), fields=fields, form={**_BLANK, **given},
            announced=await run_in_threadpool(self._announced),
            needs_epsilon=any(p.name == "epsilon" for p in method.parameters),
            name=self._name, here="new",
        )  # fmt: skip

    async def _form(self, request: Request) -> tuple[dict[str, str], list[str]]:
        async with request.form(max_files=0, max_fields=200, max_part_size=1 << 16) as form:
            check_code(request, str(form.get("code", "")))
            owners = [str(each) for each in form.getlist("owner")]
            return {str(k): str(v) for k, v in form.items() if k not in ("code", "owner")}, owners

    async def _look(self, request: Request) -> Response:
        """What owners would be asked, before anybody is, and what their announcements forbid."""
        form, owners = await self._form(request)
        terms = self._terms(form, owners)
        known = await run_in_threadpool(self._owners)
        if strangers := [name for name in owners if name not in known]:
            raise UsageError("somebody who is not enrolled cannot take part", got=strangers[0])
        policies = await run_in_threadpool(announced_policies, self._aggregator, owners)
        look = {
            "terms": terms,
            "epsilon": _shares(terms),
            "attributes": agreed_attributes(terms, policies),
            "objections": announced_objections(terms, policies),
            "saw": collusion_table(terms),
            "ends": moment(terms.deadline),
        }
        given = {**form, "name": terms.round}
        change = urlencode([*given.items(), *(("owner", each) for each in owners)])
        return await page(
            request, "aggregator_look.html", look=look, form=given, change=change,
            owners=owners, name=self._name, here="new",
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
        linked = "oprf" if kind.joins else "none"
        return Terms(
            round=form.get("name", "").strip() or f"round-{secrets.token_hex(4)}",
            aggregator=self._name,
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


def joint_methods() -> list[str]:
    """The methods whose releases are made of records, which several owners' can be united."""
    declared = {method.name: method.traits for method in usable()}
    return [n for n, one in declared.items() if one.rows_are_records or one.rows_are_drawn]


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


def agreed_attributes(terms: Terms, announced: Mapping[str, AnnouncedPolicy]) -> dict[str, str]:
    """The attributes that each owner would offer, as far as it announced them."""
    agreed = {}
    for name in terms.owners:
        attributes = announced[name].attributes if name in announced else None
        agreed[name] = "not announced" if attributes is None else ", ".join(attributes)
    return agreed
