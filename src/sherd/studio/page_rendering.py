"""Pages out of templates, forms into plain text: what every home of the studio shares."""

from __future__ import annotations

import asyncio
import hmac
import importlib.resources
import math
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from sherd.errors import SherdError
from sherd.studio.access_guard import FRAMED
from sherd.studio.job_worker import problem_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request

    from sherd.studio.studio_jobs import Job, Jobs

_HERE = Path(__file__).parent
STATIC = {
    "style.css": "text/css",
    "studio.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "sse.min.js": "text/javascript",
}
"""The files that pages load; nothing else is served from the folder."""

_POLL = 0.25

_STAGES = {
    "attributes": "waiting for offers",
    "plan-proposed": "waiting for signatures",
    "plan-signed": "signed by all",
    "linking": "matching people",
    "collecting": "waiting for deliveries",
    "awaiting-approval": "waiting for your decision",
}
"""States of rounds in words, where their names say too little."""


@cache
def _environment() -> Any:
    from sherd.report.page import template_environment
    from sherd.report.words import LIGHTS
    from sherd.studio import drawings

    environment = template_environment(
        _HERE / "templates",
        thousands=lambda number: f"{number:,}",
        sentence=_sentence,
        stage=lambda state: _STAGES.get(state, state.replace("-", " ")),
        slider_log=lambda number: f"{math.log10(max(number, 0.001)):.2f}",
    )
    environment.globals |= {"draw": drawings, "light_words": LIGHTS}
    return environment


def _sentence(text: str) -> str:
    """A text as it begins a sentence; a Greek letter stays as it is."""
    return text[:1].upper() + text[1:] if text[:1].isascii() else text


def fragment(request: Request, template: str, **values: Any) -> str:
    """A part of a page as HTML."""
    given = request.scope["studio"]
    rendered = _environment().get_template(template).render
    return str(rendered(root=given["root"], code=given["code"], **values))


async def page(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """A whole page, made in a thread: it may read files."""
    text = await run_in_threadpool(fragment, request, template, **values)
    return HTMLResponse(text, status)


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form that one of our own pages sent; files are left out."""
    async with request.form(max_files=1, max_fields=200, max_part_size=1 << 20) as form:
        given = {str(k): v for k, v in form.items() if isinstance(v, str)}
    check_code(request, given.pop("code", ""))
    return given


def check_code(request: Request, given: str) -> None:
    """Refuse a form that does not carry the code of its session."""
    if not hmac.compare_digest(given.encode(), request.scope["studio"]["code"].encode()):
        raise HTTPException(403, "this form is not ours")


def moment(seconds: int) -> str:
    """A second since 1970 as people read it.

    >>> moment(0)
    '1970-01-01 00:00 UTC'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def go(request: Request, path: str) -> Response:
    """Send the browser on after a form."""
    there = request.scope["studio"]["root"] + path
    if in_place(request):
        return Response(status_code=204, headers={"HX-Redirect": there})
    return RedirectResponse(there, status_code=303)


def in_place(request: Request) -> bool:
    """Whether the answer replaces a part of the page that is open."""
    return request.headers.get("hx-request") == "true"


def inside(path: Path) -> Response:
    """A report with a style of its own, to be shown inside a page, where nothing of it can act."""
    if not path.is_file():
        raise HTTPException(404, "not made yet")
    return HTMLResponse(path.read_text(encoding="utf-8"), headers={FRAMED: "1"})


def download(text: str | bytes, name: str, kind: str) -> Response:
    """Answer with a file that the browser saves."""
    header = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type=kind, headers=header)


async def static(request: Request) -> Response:
    """One of the files that pages load."""
    name = request.path_params["name"]
    if name not in STATIC:
        raise HTTPException(404, "not found")
    data = (importlib.resources.files("sherd.studio") / "static" / name).read_bytes()
    return Response(data, media_type=STATIC[name])


async def problem(request: Request, error: Exception) -> Response:
    """What went wrong: in place, or as a page of its own."""
    description = problem_of(error)
    template = "problem_part.html" if in_place(request) else "problem.html"
    return await page(request, template, status=400, problem=description, back=_page_of(request))


def _page_of(request: Request) -> tuple[str, str]:
    """The page that a request came from, by its path: where to go back to, and what it is."""
    parts = request.url.path.removeprefix(request.scope["studio"]["root"]).strip("/").split("/")
    if parts[0] == "p" and len(parts) > 2:
        step = parts[2] if parts[2] in ("schema", "promise", "explore", "release") else "open"
        there = "/".join(parts[:2])
        # A page that shows a problem itself is not one to go back to.
        step = "open" if request.method == "GET" else step
        return f"/{there}/{step}", f"Back to the step “{step.capitalize()}”"
    if parts[0] in ("members", "new", "rounds"):
        return f"/{parts[0]}", "Back"
    return "/", "To the start"


async def bug(request: Request, error: Exception) -> Response:
    """An error nobody foresaw: its text could quote a cell, so only kind and place are told."""
    del request
    return PlainTextResponse(problem_of(error)["what"], 500)


async def refusal(request: Request, error: Exception) -> Response:
    """A request that makes no sense."""
    assert isinstance(error, HTTPException)
    del request
    return PlainTextResponse(error.detail, error.status_code)


def form_route(path: str, endpoint: Callable[[Request], Awaitable[Response]]) -> Route:
    """Where a form is sent to."""
    return Route(path, endpoint, methods=["POST"])


class JobPages:
    """Watching and stopping jobs; ``panel`` draws what one of them shows now."""

    def __init__(self, jobs: Jobs, panel: Callable[[Request, Job], str]) -> None:
        self._jobs = jobs
        self._panel = panel

    def routes(self) -> list[Route]:
        """Where jobs are watched and stopped."""
        return [
            Route("/j/{job}", self._show),
            Route("/j/{job}/events", self._events),
            form_route("/j/{job}/stop", self._stop),
        ]

    async def _show(self, request: Request) -> Response:
        job = await run_in_threadpool(self._jobs.get, request.path_params["job"])
        return HTMLResponse(await run_in_threadpool(self._panel, request, job))

    async def _stop(self, request: Request) -> Response:
        form = await form_of(request)
        await run_in_threadpool(self._jobs.stop, request.path_params["job"])
        back = form.get("back", "/")
        return go(request, back if back.startswith("/") else "/")

    async def _events(self, request: Request) -> Response:
        name = request.path_params["job"]
        self._jobs.get(name)
        return StreamingResponse(self._stream(request, name), media_type="text/event-stream")

    async def _stream(self, request: Request, name: str) -> AsyncIterator[str]:
        """The job's panel whenever it changes, until the job has ended."""
        last = ""
        while not await request.is_disconnected():
            job = await run_in_threadpool(self._jobs.get, name)
            text = await run_in_threadpool(self._panel, request, job)
            if text != last:
                last = text
                lines = "".join(f"data: {line}\n" for line in text.splitlines())
                yield f"event: progress\n{lines}\n"
            if job.ended:
                yield "event: end\ndata: end\n\n"
                return
            await asyncio.sleep(_POLL)


def application(routes: list[Route]) -> Starlette:
    """An application of these routes, with the files that pages load and what errors lead to."""
    handlers: Any = {SherdError: problem, HTTPException: refusal, Exception: bug}
    app = Starlette(routes=[Route("/static/{name}", static), *routes], exception_handlers=handlers)
    app.router.redirect_slashes = False
    return app
