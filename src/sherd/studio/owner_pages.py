"""An owner's home: what is asked of it, what it would cost, its decisions, rounds and budget.

What is shown and done is what ``sherd owner`` shows and does, by the same functions; nothing of
another owner's data is ever here. Reading and deciding need no script.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Route

from sherd.errors import SherdError, UsageError
from sherd.federation.aggregator.round_view import owner_report
from sherd.federation.owner import approvals
from sherd.federation.owner.approvals import LABEL, preview
from sherd.federation.owner.owner_journal import OwnerJournal
from sherd.release.bundle import digest
from sherd.studio.access_guard import MOST_FORM
from sherd.studio.page_rendering import application, form_of, form_route, go, inside, page

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.owner.policy import Policy
    from sherd.federation.protocol.knowledge import OwnerData

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class OwnerPages:
    """The pages of one owner."""

    def __init__(self, home: OwnerHome) -> None:
        self._home = home
        assert home.settings  # says at once where this is no owner's folder

    def app(self) -> Starlette:
        """The application with all pages."""
        routes = [
            Route("/", self._requests),
            form_route("/decide", self._decide),
            Route("/rounds", self._rounds),
            form_route("/rounds/{round}/audit", self._audit),
            Route("/rounds/{round}/audit.html", self._report),
            Route("/budget", self._budget),
        ]
        return application(routes)

    @staticmethod
    def most(path: str) -> int:
        """How large the body of a request may be."""
        del path
        return MOST_FORM

    def _journal(self) -> closing[OwnerJournal]:
        return closing(OwnerJournal(self._home.journal))

    async def _requests(self, request: Request) -> Response:
        given = request.query_params
        shown = await run_in_threadpool(self._waiting, given.get("preview"))
        done = {"approve": "approved", "refuse": "refused"}.get(given.get("done", ""))
        return await page(
            request, "owner_requests.html", owner=self._home.settings.name, requests=shown,
            done=done, label=LABEL, here="requests", policy_file=str(self._home.policy_file),
        )  # fmt: skip

    def _waiting(self, previewed: str | None) -> list[dict[str, Any]]:
        with self._journal() as journal:
            requests = approvals.waiting(journal)
        return [self._request(data, data.round == previewed) for data in requests]

    def _request(self, data: OwnerData, with_preview: bool) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "round": data.round,
            "plan": data.agreed.hash,
            "words": approvals.plan_words(data),
            "promise": approvals.promise(data),
            "cost": approvals.cost(self._home, data),
            "rules": rules(self._home.policy, data),
            "strangers": self._home.policy.strangers(data.agreed, data.owner),
            "preview": None,
            "problem": None,
        }
        if with_preview:
            try:
                shown["preview"] = preview(self._home, data)
            except SherdError as error:
                shown["problem"] = error.what
        return shown

    async def _decide(self, request: Request) -> Response:
        form = await form_of(request)
        decision = form.get("decision", "")
        if decision not in (approvals.APPROVE, approvals.REFUSE):
            raise HTTPException(400, "approve or refuse")
        who, why = form.get("who", "").strip(), form.get("why", "").strip()
        if not 1 <= len(who) <= 80 or not who.isprintable():
            raise UsageError(
                "nobody is named for the decision", must="the name of the person who decides"
            )
        if len(why) > 1000:
            raise UsageError("the comment is too long", must="at most 1,000 characters")
        await run_in_threadpool(self._write, form, decision, who, why)
        return go(request, f"/?done={decision}")

    def _write(self, form: dict[str, str], decision: str, who: str, why: str) -> None:
        """Note the decision about the plan that was shown, and who made it."""
        name = form.get("round", "")
        with self._journal() as journal:
            if all(data.round != name for data in approvals.waiting(journal)):
                raise UsageError("the round no longer awaits a decision")
            approvals.decide(journal, name, decision, plan_hash=form.get("plan", ""))
            said = " ".join("".join(c if c.isprintable() else " " for c in why).split())
            journal.note(name, "decided by", f"{who}: {said}" if said else who)

    async def _rounds(self, request: Request) -> Response:
        history = await run_in_threadpool(self._history)
        return await page(
            request, "owner_rounds.html", owner=self._home.settings.name, rounds=history,
            here="rounds",
        )  # fmt: skip

    def _history(self) -> list[dict[str, Any]]:
        """Every round with its state, what each party saw, and what this owner's log says."""
        from sherd.federation.protocol.collusion import collusion_table

        with self._journal() as journal:
            every, lines = journal.rounds(all=True), journal.audit()
        return [
            {
                **owner_report(data),
                "log": [(when, event, detail) for when, of, event, detail in lines
                        if of == data.round],
                "saw": {} if data.terms is None else collusion_table(data.terms),
                "fetched": self._fetched(data.round),
                "delivered": self._delivery(data) is not None,
                "audited": self._page_of(data.round).is_file(),
            }
            for data in reversed(every)
        ]  # fmt: skip

    def _fetched(self, name: str) -> str:
        folder = self._home.releases / name
        return str(folder) if (folder / "manifest.json").is_file() else ""

    def _page_of(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise UsageError("there is no such round")
        return self._home.folder / "audits" / f"{name}.html"

    def _delivery(self, data: OwnerData) -> Path | None:
        """What this owner delivered in a round, while it is kept."""
        for manifest in self._home.outbox.glob("*/manifest.json"):
            if data.artefact is not None and digest(manifest) == data.artefact:
                return manifest.parent
        return None

    async def _audit(self, request: Request) -> Response:
        """Audit what this owner delivered against its own table, for its own eyes."""
        await form_of(request)
        name = request.path_params["round"]
        await run_in_threadpool(self._make_audit, name)
        return go(request, f"/rounds#r-{name}")

    def _make_audit(self, name: str) -> None:
        from sherd import audit

        target = self._page_of(name)
        with self._journal() as journal:
            data = journal.round(name)
        delivery = None if data is None else self._delivery(data)
        if delivery is None:
            raise UsageError("nothing that was delivered in this round is kept here")
        target.parent.mkdir(mode=0o700, exist_ok=True)
        audit(self._home.source().read(), delivery, alternatives=False).save(target)
        target.chmod(0o600)

    async def _report(self, request: Request) -> Response:
        return inside(self._page_of(request.path_params["round"]))

    async def _budget(self, request: Request) -> Response:
        return await page(
            request, "owner_budget.html", owner=self._home.settings.name, here="budget",
            **await run_in_threadpool(self._spent),
        )  # fmt: skip

    def _spent(self) -> dict[str, Any]:
        from sherd.budget.amount import Amount
        from sherd.budget.ledger import Ledger

        ledger, population = Ledger(self._home.ledger), self._home.settings.population
        account = ledger.account(population)
        charges = [each for each in ledger.entries(population) if each.kind == "charge"]
        total, steps = Amount("0"), []
        for each in charges:
            assert each.amount is not None
            total = total + each.amount
            steps.append((each.time[:16].replace("T", " "), float(total)))
        most = Amount(self._home.policy.lifetime_epsilon)
        limit = most if account.limit is None or most < account.limit else account.limit
        return {
            "population": population,
            "steps": steps,
            "limit": float(limit),
            "charges": charges[::-1],
            "spent": str(account.spent),
            "left": str(limit.less(account.spent + account.reserved)),
        }


def rules(policy: Policy, data: OwnerData) -> list[tuple[str, str, str, bool]]:
    """The policy beside a request: what it is about, what is allowed, what is asked, whether."""
    plan = data.agreed
    terms, share = plan.terms, plan.share(data.owner)
    names = list(plan.schema(data.owner).attributes)
    refused = [name for name in names if not policy.allows(name)]
    k, epsilon, kind = terms.parameters.get("k"), share.epsilon, terms.kind.value
    largest = f"{float(policy.largest_epsilon):g}"
    attributes = "all" if policy.attributes is None else _listed(policy.attributes)
    lines = [
        ("Kind of round", _listed(policy.kinds), kind, kind in policy.kinds),
        ("Method", _listed(policy.methods), terms.method, terms.method in policy.methods),
        ("Attributes", attributes, _listed(refused or names), not refused),
        ("Rows", f"{policy.least_rows} or more", str(share.rows), share.rows >= policy.least_rows),
    ]
    if isinstance(k, int):
        lines.append(("k", f"{policy.least_k} or more", str(k), k >= policy.least_k))
    if epsilon is not None:
        fits = float(epsilon) <= float(policy.largest_epsilon)
        lines.append(("ε in one round", f"up to {largest}", epsilon, fits))
    if terms.linkage.value != "none":
        asked = terms.linkage.value
        lines.append(("Linkage", _listed(policy.linkage), asked, asked in policy.linkage))
    return lines


def _listed(names: Any) -> str:
    return ", ".join(names) or "nothing"
