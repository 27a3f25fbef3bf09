"""Logging in as a person: in a browser at the provider, for a session at the aggregator.

The authorization code flow for programs on somebody's own machine (RFC 8252): the browser comes
back to a port of this machine with a code that only we can use (RFC 7636), for an ID token that
holds the aggregator's fresh number, for which the aggregator opens a session.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import secrets
import threading
import urllib.parse
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import ConnectionFailedError, PeerError
from sherd.federation.protocol.reasons import Reason
from sherd.federation.wire.client import Client, tls_context
from sherd.federation.wire.openid_provider import Provider

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WAIT = 300.0
"""Seconds that somebody has for logging in."""

_SAID = b"You can close this page and go back to the terminal.\n"


@dataclass(frozen=True, kw_only=True)
class PersonSession:
    """A session of somebody at an aggregator; the token is as good as a password."""

    name: str
    role: str
    token: str
    expires: int


class _Return:
    """A port of this machine to which the browser comes back, once."""

    def __init__(self) -> None:
        given: dict[str, str] = {}
        came = threading.Event()

        class _Callback(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urllib.parse.urlsplit(self.path)
                query = dict(urllib.parse.parse_qsl(parts.query))
                if parts.path != "/callback" or came.is_set() or "state" not in query:
                    self.send_error(404)
                    return
                given.update(query)
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(_SAID)))
                self.end_headers()
                self.wfile.write(_SAID)
                came.set()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Nothing: the address holds the code."""

        self._given, self._came = given, came
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Callback)
        self.address = f"http://127.0.0.1:{self._server.server_port}/callback"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def wait(self, seconds: float) -> dict[str, str]:
        """What the browser brought."""
        try:
            if not self._came.wait(seconds):
                raise ConnectionFailedError(
                    "nobody logged in at the provider", got=f"waited {seconds:g} s", do="try again"
                )
            return self._given
        finally:
            self._server.shutdown()
            self._server.server_close()


def _entered(client: Client, token: str, nonce: str) -> dict[str, Any]:
    try:
        return client.log_in_person(id_token=token, nonce=nonce)
    except PeerError as error:
        if error.reason is not Reason.SIGNATURE:
            raise
        raise PeerError(
            "the aggregator does not let this person in",
            must="somebody whom its operator has enrolled, within ten minutes",
            do="ask the operator to enrol you by what the provider calls you, or log in again",
            reason=error.reason,
        ) from None


def log_in(
    url: str,
    *,
    authority: Path | None,
    show: Callable[[str], object],
    seconds: float = WAIT,
) -> PersonSession:
    """A session at the aggregator for the person who logs in; ``show`` gets the address to open."""
    context = None if url.startswith("http://") else tls_context(authority, None)
    with closing(Client(url=url, name="", aggregator="", context=context)) as client:
        asked = client.login_terms()
        provider = Provider(_text(asked, "issuer"), _text(asked, "client_id"))
        nonce = _text(asked, "nonce")
        token = _id_token(provider, nonce, show, seconds)
        given = _entered(client, token, nonce)
    expires = given.get("expires")
    return PersonSession(
        name=_text(given, "name"),
        role=_text(given, "role"),
        token=_text(given, "token"),
        expires=expires if type(expires) is int else 0,
    )


def _id_token(provider: Provider, nonce: str, show: Callable[[str], object], seconds: float) -> str:
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
    proof = hashlib.sha256(verifier.encode()).digest()
    place, token_place = (
        provider.endpoint(name) for name in ("authorization_endpoint", "token_endpoint")
    )
    back = _Return()
    query = {
        "response_type": "code",
        "client_id": provider.client,
        "redirect_uri": back.address,
        "scope": "openid email",
        "state": state,
        "nonce": nonce,
        "code_challenge": base64.urlsafe_b64encode(proof).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    show(f"{place}{'&' if '?' in place else '?'}{urllib.parse.urlencode(query)}")
    brought = back.wait(seconds)
    if not hmac.compare_digest(brought["state"].encode(), state.encode()):
        raise PeerError("the browser returned from another login", do="try again")
    if brought.get("iss", provider.issuer) != provider.issuer or "code" not in brought:
        raise PeerError("the provider refused the login", do="try again")
    got = provider.ask(
        "POST",
        token_place,
        data={
            "grant_type": "authorization_code",
            "code": brought["code"],
            "redirect_uri": back.address,
            "client_id": provider.client,
            "code_verifier": verifier,
        },
    )
    return _text(got, "id_token")


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise PeerError("the answer cannot be understood", got=f"no {name}")
    return value
