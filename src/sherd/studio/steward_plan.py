"""A steward's third and fourth step: choose a promise, explore what it costs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse
from starlette.routing import Route

from sherd.errors import PlanError, SherdError, UsageError
from sherd.release.method import find
from sherd.release.plan import Plan, suggested
from sherd.studio import plan_form
from sherd.studio.job_worker import problem_of
from sherd.studio.page_rendering import form_of, form_route, fragment, go, inside, page
from sherd.studio.steward_table import described

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from sherd.studio.steward import Steward
    from sherd.studio.studio_jobs import Job
    from sherd.studio.workspace import Project
    from sherd.tables.schema import Schema

_AXES = {
    "epsilon": "0.1, 0.5, 1, 2, 5",
    "k": "5, 25, 100, 250, 500",
    "l": "2, 3, 5",
    "looseness": "2, 5, 10, 20",
}
"""Where the axes of a map begin."""

_MOST_CELLS = 64


class PlanPages:
    """Promises and what they cost."""

    def __init__(self, steward: Steward) -> None:
        self._steward = steward

    def routes(self) -> list[Route]:
        """Where a promise is chosen and its cost explored."""
        return [
            Route("/p/{project}/promise", self._promise),
            form_route("/p/{project}/promise", self._save),
            form_route("/p/{project}/promise/words", self._words),
            Route("/p/{project}/explore", self._explore),
            form_route("/p/{project}/explore/map", self._map),
            form_route("/p/{project}/explore/candidate", self._candidate),
            form_route("/p/{project}/explore/take", self._take),
            form_route("/p/{project}/explore/compare", self._compare),
            Route("/p/{project}/explore/{job}/{name}.html", self._report),
        ]

    def _opened(self, request: Request) -> tuple[Project, Schema]:
        project = self._steward.workspace.project(request.path_params["project"])
        return project, described(project)

    async def _promise(self, request: Request) -> Response:
        project, schema = await run_in_threadpool(self._opened, request)
        plan = project.plan
        chosen = request.query_params.get("method") or (plan.method if plan else None)
        method = None if chosen is None else find(chosen)
        kept = dict(plan.parameters) if plan and method and plan.method == method.name else {}
        kept = {name: value for name, value in kept.items() if value is not None}
        rows = (project.profile or {}).get("rows")
        advice = await run_in_threadpool(suggested, schema, rows)
        if "suggested" in request.query_params:
            kept = next((dict(one.settings) for each, one in advice if each is method), kept)
        fields = [] if method is None else plan_form.fields(method, kept, rows)
        start = {field.name: field.value for field in fields}
        return await page(
            request,
            "promise.html",
            project=project,
            step="promise",
            cards=await run_in_threadpool(plan_form.cards, schema),
            method=method,
            fields=fields,
            advice=[(each.name, one.gives) for each, one in advice[:2]],
            words=await run_in_threadpool(self._told, method.name, start, project, schema)
            if method
            else None,
        )

    def _told(
        self, method: str, form: Mapping[str, str], project: Project, schema: Schema
    ) -> dict[str, Any]:
        """What a filled-in form would promise and cost, or what is wrong with it."""
        rows = (project.profile or {}).get("rows")
        answer: dict[str, Any] = {"problem": None, "promise": [], "budget": None, "meanings": []}
        try:
            plan = plan_form.plan_of(method, form)
            guarantee = plan.guarantee(schema)
            answer["promise"] = plan_form.promise_lines(guarantee)
            answer["budget"] = plan_form.budget_of(plan, schema, self._steward.ledger)
            meanings = {n: plan_form.meaning(n, v, rows) for n, v in plan.parameters.items()}
            answer["meanings"] = [(name, text) for name, text in meanings.items() if text]
        except SherdError as error:
            answer["problem"] = problem_of(error)
        return answer

    async def _words(self, request: Request) -> Response:
        form = await form_of(request)
        project, schema = await run_in_threadpool(self._opened, request)
        words = await run_in_threadpool(self._told, form.get("method", ""), form, project, schema)
        return HTMLResponse(fragment(request, "promise_words.html", words=words))

    async def _save(self, request: Request) -> Response:
        form = await form_of(request)
        project, schema = await run_in_threadpool(self._opened, request)
        plan = plan_form.plan_of(form.get("method", ""), form)
        plan.check(schema)
        await run_in_threadpool(plan.save, project.file("plan.yaml"))
        there = "release" if form.get("next") == "release" else "explore"
        return go(request, f"/p/{project.id}/{there}")

    async def _explore(self, request: Request) -> Response:
        project, _ = await run_in_threadpool(self._opened, request)
        plan = project.plan
        if plan is None:
            return go(request, f"/p/{project.id}/promise")
        candidates = await run_in_threadpool(self._steward.jobs.of, project.id, "candidate")
        comparison = self._steward.latest(project, "compare")
        drawn = self._steward.latest(project, "map")
        return await page(
            request,
            "explore.html",
            project=project,
            step="explore",
            plan=plan,
            axes=_axes(plan, drawn),
            map=drawn,
            candidates=candidates[::-1],
            comparison=comparison,
            panel=lambda job: self._steward.panel(request, job),
            panels=[(job, self._steward.panel(request, job)) for job in candidates[::-1]],
        )

    async def _map(self, request: Request) -> Response:
        form = await form_of(request)
        project, schema = await run_in_threadpool(self._opened, request)
        plan = _chosen(project)
        plans = _grid(plan, form)
        for each in plans:
            each.check(schema)
        before = self._steward.latest(project, "map")
        if before is not None and not before.ended:
            self._steward.jobs.stop(before.id)
        self._steward.start(
            project,
            "map",
            f"Map of {plan.method}",
            plans=[each.as_data() for each in plans],
            runs=2,
            table=_table(form),
        )
        return go(request, f"/p/{project.id}/explore#map")

    async def _candidate(self, request: Request) -> Response:
        form = await form_of(request)
        project, schema = await run_in_threadpool(self._opened, request)
        plan = _chosen(project)
        plan.check(schema)
        count = len(self._steward.jobs.of(project.id, "candidate")) + 1
        title = f"{count}: {_title(plan)}"
        self._steward.start(project, "candidate", title, plan=plan.as_data(), table=_table(form))
        return go(request, f"/p/{project.id}/explore#candidates")

    async def _take(self, request: Request) -> Response:
        """Make the plan of a candidate, or of a cell of the map, the project's own."""
        form = await form_of(request)
        project, _ = await run_in_threadpool(self._opened, request)
        job = self._job(project, form.get("job", ""))
        data = job.arguments.get("plan")
        if data is None:
            plans = job.arguments.get("plans", ())
            place = int(form["place"]) if form.get("place", "").isdecimal() else len(plans)
            if place >= len(plans):
                raise UsageError("there is no such plan", do="look at the map again")
            data = plans[place]
        await run_in_threadpool(Plan.from_data(data).save, project.file("plan.yaml"))
        return go(request, f"/p/{project.id}/explore#plan")

    async def _compare(self, request: Request) -> Response:
        await form_of(request)
        project, _ = await run_in_threadpool(self._opened, request)
        ready = [j for j in self._steward.jobs.of(project.id, "candidate") if j.state == "done"]
        if len(ready) < 2:
            raise UsageError("there is nothing to compare", must="two candidates that are ready")
        of = [{"id": j.id, "name": j.title, "table": j.arguments["table"]} for j in ready[::-1]]
        self._steward.start(project, "compare", "Comparison of the candidates", of=of)
        return go(request, f"/p/{project.id}/explore#comparison")

    def _job(self, project: Project, name: str) -> Job:
        job = self._steward.jobs.get(name)
        if job.project != project.id:
            raise UsageError("there is no such job", do="go back and start it again")
        return job

    async def _report(self, request: Request) -> Response:
        project, _ = await run_in_threadpool(self._opened, request)
        job = self._job(project, request.path_params["job"])
        name = request.path_params["name"]
        if name not in ("audit", "compare"):
            raise UsageError("there is no such report")
        return inside(job.folder / f"{name}.html")


def _chosen(project: Project) -> Plan:
    plan = project.plan
    if plan is None:
        raise UsageError("there is no plan yet", do="choose a promise first")
    return plan


def _table(form: Mapping[str, str]) -> str:
    return "made-up" if form.get("table") == "made-up" else "own"


def _title(plan: Plan) -> str:
    given = [
        f"{n} {plan[n]:g}" for n in ("epsilon", "k", "l", "looseness") if plan.parameters.get(n)
    ]
    return f"{plan.method} {', '.join(given)}"


def _numbers(text: str, what: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.replace(";", ",").split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers:
        raise PlanError(
            f"{what} cannot be read", must="numbers with commas between", got=repr(text)
        )
    return sorted(set(numbers))


def _axes(plan: Plan, drawn: Job | None) -> dict[str, str]:
    """The lists of a map's form: of the last that was drawn, or some to begin with."""
    plans = [] if drawn is None else drawn.arguments["plans"]
    axes = {}
    for name in plan_form.dials(plan.spec):
        values = sorted({each[name] for each in plans if each.get(name) is not None})
        same = bool(values) and plans[0]["method"] == plan.method
        axes[name] = ", ".join(f"{value:g}" for value in values) if same else _AXES[name]
    return axes


def _grid(plan: Plan, form: Mapping[str, str]) -> list[Plan]:
    """The plans of a map: the present one with every pair of the two parameters."""
    names = plan_form.dials(plan.spec)
    if not names:
        raise PlanError(f"the method '{plan.method}' has no parameter to draw a map over")
    base = {n: v for n, v in plan.as_data().items() if n not in names}
    known = {p.name: p for p in plan.spec.parameters}
    lists = []
    for name in names:
        least = known[name].least or 0
        values = _numbers(form.get(f"{name}s", _AXES[name]), f"the list of {name}")
        lists.append([known[name].kind(each) for each in values if each >= least])
    pairs = list(itertools.product(*lists[::-1]))
    if not 0 < len(pairs) <= _MOST_CELLS:
        raise PlanError(
            "the map is too large" if pairs else "the map would be empty",
            must=f"at most {_MOST_CELLS} pairs" if pairs else "values that the method accepts",
        )
    return [Plan.from_data({**base, **dict(zip(names[::-1], pair, strict=True))}) for pair in pairs]
