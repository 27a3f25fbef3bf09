"""The approval page: what ``sherd owner requests`` shows, in a browser on the owner's machine.

It listens on the loopback address only. Whoever opens it needs the token in the address,
which is new at every start. A page of another site can neither read it (the token, and
a check of the Host header against names that are pointed here) nor post to it (the Origin
header, and a code in every form that is bound to the round and the plan that was shown). The
page loads nothing from anywhere and runs no script.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from sherd.errors import ConnectionFailedError, SherdError, UsageError
from sherd.federation.owner import approvals as approving
from sherd.federation.owner.owner_journal import OwnerJournal
from sherd.federation.owner.preview import LABEL, preview

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import uvicorn
    from starlette.requests import Request

    from sherd.federation.owner.owner_home import OwnerHome

_TEMPLATES = Path(__file__).parent / "templates"
MOST_FORM = 4096

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with it a browser would not say where a form comes from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def check_loopback(host: str) -> str:
    """The address to listen on; refuses one that other machines can reach."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        address = None
    if address is None or not address.is_loopback:
        raise UsageError(
            "the approval page is for this machine only", must="127.0.0.1 or ::1", got=repr(host)
        )
    return str(address)


class ApprovalPage:
    """The page of one owner; ``hosts`` are the Host headers it answers to."""

    def __init__(self, home: OwnerHome, *, token: str, hosts: frozenset[str]) -> None:
        self._home = home
        self._token = token
        self._hosts = hosts
        self._origins = {f"http://{host}" for host in hosts}

    def app(self) -> Starlette:
        """The application."""
        routes = [
            Route("/{token}/", self._guarded(self._show), methods=["GET"]),
            Route("/{token}/style.css", self._guarded(self._style), methods=["GET"]),
            Route("/{token}/decide", self._guarded(self._decide), methods=["POST"]),
        ]
        app = Starlette(routes=routes)
        app.router.redirect_slashes = False
        return app

    def _guarded(
        self, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint for those who came by the right name, with the token."""

        async def checked(request: Request) -> Response:
            given = request.path_params["token"].encode()
            if request.headers.get("host") not in self._hosts:
                response: Response = PlainTextResponse("wrong address", 421)
            elif not hmac.compare_digest(given, self._token.encode()):
                response = PlainTextResponse("not found", 404)
            else:
                response = await endpoint(request)
            response.headers.update(HEADERS)
            return response

        return checked

    def code(self, name: str, plan_hash: str) -> str:
        """What a form about a plan carries; nobody without the token can make it."""
        text = f"sherd-approval-1\0{name}\0{plan_hash}".encode()
        return hmac.new(self._token.encode(), text, hashlib.sha256).hexdigest()

    async def _style(self, _request: Request) -> Response:
        text = (_TEMPLATES / "approval.css").read_text(encoding="utf-8")
        return Response(text, media_type="text/css")

    async def _show(self, request: Request) -> Response:
        query = request.query_params
        html = await run_in_threadpool(self.html, query.get("preview"), query.get("done"))
        return HTMLResponse(html)

    def html(self, previewed: str | None = None, done: str | None = None) -> str:
        """The page, with the preview of one round where it is asked for."""
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        environment = Environment(
            loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined
        )
        journal = OwnerJournal(self._home.journal)
        try:
            requests = [
                self._request(data, data.round == previewed) for data in approving.waiting(journal)
            ]
        finally:
            journal.close()
        return environment.get_template("approval.html").render(
            owner=self._home.settings.name,
            requests=requests,
            done={"approve": "approved", "refuse": "refused"}.get(done or ""),
            label=LABEL,
        )

    def _request(self, data: Any, with_preview: bool) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "round": data.round,
            "plan": data.plan.hash,
            "code": self.code(data.round, data.plan.hash),
            "words": approving.plan_words(data),
            "promise": approving.promise(data),
            "cost": approving.cost(self._home, data),
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
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site")
        if origin not in self._origins or site not in (None, "same-origin"):
            return PlainTextResponse("this form was sent from elsewhere", 403)
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_FORM:
                return PlainTextResponse("too large", 413)
        form = {name: values[0] for name, values in parse_qs(body.decode("latin-1")).items()}
        name, plan, decision = (form.get(key, "") for key in ("round", "plan", "decision"))
        if not hmac.compare_digest(form.get("code", "").encode(), self.code(name, plan).encode()):
            return PlainTextResponse("this form is not ours", 403)
        if decision not in (approving.APPROVE, approving.REFUSE):
            return PlainTextResponse("approve or refuse", 400)
        try:
            await run_in_threadpool(self._write, name, decision, plan)
        except UsageError as error:
            return PlainTextResponse(error.what, 409)
        return RedirectResponse(f"./?done={quote(decision)}", status_code=303)

    def _write(self, name: str, decision: str, plan: str) -> None:
        journal = OwnerJournal(self._home.journal)
        try:
            approving.decide(journal, name, decision, plan_hash=plan)
        finally:
            journal.close()


def open_page(
    home: OwnerHome, *, host: str, port: int
) -> tuple[str, uvicorn.Server, socket.socket]:
    """The page's address, its server, ready to run, and the socket it runs on."""
    import uvicorn

    address = check_loopback(host)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        raise ConnectionFailedError(
            "the page could not listen", got=f"port {port}: {error.strerror}", do="choose another"
        ) from None
    taken = listener.getsockname()[1]
    shown = f"[{address}]" if ":" in address else address
    token = secrets.token_urlsafe(32)
    hosts = frozenset({f"{shown}:{taken}", f"localhost:{taken}"})
    page = ApprovalPage(home, token=token, hosts=hosts)
    # No access log: it would hold the token.
    config = uvicorn.Config(
        page.app(), log_config=None, access_log=False, server_header=False, lifespan="off"
    )
    return f"http://{shown}:{taken}/{token}/", uvicorn.Server(config), listener
