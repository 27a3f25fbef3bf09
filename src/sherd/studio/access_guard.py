"""Who may use the studio: checks on every request, before any page is asked.

The address that the studio prints holds a secret that works once. The browser that opens it gets a
cookie and pages whose paths begin with a second secret. Both are needed: a cookie alone would
be sent to every server on this machine, whatever its port, and a path alone stays in the
browser's history. Requests by another name (DNS rebinding), from another page's origin, with a
body that is too large or without the form's own code end here.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import traceback
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from sherd.errors import kind_and_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_FORM = 1 << 20
"""Bytes of a form without a file."""

FRAMED = "framed"
"""A header by which a page of ours says that it is shown inside another page of ours."""

_COMMON = {
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with it a browser would not say where a form comes from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_PAGE = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; frame-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "X-Frame-Options": "DENY",
}
_INSIDE = {
    # A report brings its own style; it runs nothing, loads nothing, sends nothing.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'self'; base-uri 'none'; sandbox allow-popups",
}

_ENTERED = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="refresh" content="0;url={0}"><link rel="icon" href="data:,">
<title>Sherd studio</title></head>
<body><p><a href="{0}">Open the studio</a></p></body></html>"""

_USED = (
    "This address was used already, or is not the studio's. It works once; the studio prints a "
    "fresh one where it was started."
)


class Access:
    """The secrets of one run of the studio, and who has shown them."""

    def __init__(self, hosts: frozenset[str], *, announce: Callable[[str], None]) -> None:
        self.hosts = hosts
        self._origins = {f"http://{host}" for host in hosts}
        self._announce = announce
        self._key = secrets.token_bytes(32)
        self._sessions: set[bytes] = set()
        self.secret = secrets.token_urlsafe(32)
        self.cookie = "sherd-studio-" + min(hosts).rpartition(":")[2]

    def _derived(self, use: str, session: str) -> str:
        text = f"sherd-studio\0{use}\0{session}".encode()
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()[:43]

    def enter(self, given: str) -> str | None:
        """A session for the browser that shows the address's secret, which is then used up."""
        if not hmac.compare_digest(given.encode(), self.secret.encode()):
            return None
        self.secret = secrets.token_urlsafe(32)
        session = secrets.token_urlsafe(32)
        self._sessions.add(hashlib.sha256(session.encode()).digest())
        self._announce(self.secret)
        return session

    def root(self, session: str) -> str:
        """Where the pages of a session begin."""
        return "/" + self._derived("root", session)

    def form_code(self, session: str) -> str:
        """What every form of a session carries; no other page can know it."""
        return self._derived("form", session)

    def session(self, headers: Headers, path: str) -> str | None:
        """The session a request belongs to: by its cookie and by where its path begins."""
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load(headers.get("cookie", ""))
        except CookieError:
            return None
        given = jar[self.cookie].value if self.cookie in jar else ""
        known = hashlib.sha256(given.encode()).digest() in self._sessions
        begins = path[: len(self.root(given))]
        if not known or not hmac.compare_digest(begins.encode(), self.root(given).encode()):
            return None
        return given

    def from_elsewhere(self, method: str, headers: Headers) -> bool:
        """Whether another page made the browser send this."""
        site = headers.get("sec-fetch-site")
        if site not in (None, "same-origin", "none"):
            return True
        return method != "GET" and (headers.get("origin") not in self._origins or site == "none")


class Guard:
    """The application behind its checks; ``most`` says how large a request's body may be."""

    def __init__(self, app: ASGIApp, access: Access, most: Callable[[str], int]) -> None:
        self._app = app
        self._access = access
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        refused = self._refused(scope, headers)
        if refused is not None:
            await refused(scope, receive, _with_headers(send, {"n": 0}))
            return
        session = self._access.session(headers, scope["path"])
        assert session is not None
        root = self._access.root(session)
        path = scope["path"][len(root) :] or "/"
        inner = {**scope, "path": path, "raw_path": path.encode()}
        inner["studio"] = {"root": root, "code": self._access.form_code(session)}
        await self._answer(inner, self._bounded(receive, self._most(path)), send)

    def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        access = self._access
        if headers.get("host") not in access.hosts:
            return PlainTextResponse("wrong address", 421)
        if scope["method"] not in ("GET", "POST"):
            return PlainTextResponse("not allowed", 405)
        path: str = scope["path"]
        if scope["method"] == "GET" and path.count("/") == 1 and len(path) > 1:
            session = access.enter(path[1:])
            if session is not None:
                return self._welcome(session)
        if access.from_elsewhere(scope["method"], headers):
            return PlainTextResponse("this was sent from elsewhere", 403)
        if access.session(headers, path) is None:
            return PlainTextResponse(_USED, 403)
        length = headers.get("content-length", "0")
        if scope["method"] == "POST" and (
            not length.isdecimal() or int(length) > self._most(path[len(access.root("")) :])
        ):
            return PlainTextResponse("too large", 413)
        return None

    def _welcome(self, session: str) -> Response:
        root = self._access.root(session)
        # Not a redirect: a browser that came from another page would not show the cookie yet.
        answer = HTMLResponse(_ENTERED.format(root + "/"))
        answer.set_cookie(self._access.cookie, session, path=root, httponly=True, samesite="strict")
        return answer

    @staticmethod
    def _bounded(receive: Receive, most: int) -> Receive:
        """The request's body, up to so many bytes whatever its header says."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                raise HTTPException(413, "too large")
            return message

        return counted

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask the application; an error of ours is told by its kind and place, never its text."""
        started = {"n": 0}
        guarded = _with_headers(send, started)
        try:
            await self._app(scope, receive, guarded)
        except Exception as error:
            if os.environ.get("SHERD_DEBUG"):
                traceback.print_exc()
            if not started["n"]:
                text = f"This is a bug in sherd: {kind_and_place(error)}."
                await PlainTextResponse(text, 500)(scope, receive, guarded)


def _with_headers(send: Send, started: dict[str, int]) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            started["n"] += 1
            raw: list[Any] = [(k, v) for k, v in message["headers"] if k != FRAMED.encode()]
            inside = len(raw) != len(message["headers"])
            for name, value in {**_COMMON, **(_INSIDE if inside else _PAGE)}.items():
                raw.append((name.lower().encode(), value.encode()))
            message = {**message, "headers": raw}
        await send(message)

    return wrapped
