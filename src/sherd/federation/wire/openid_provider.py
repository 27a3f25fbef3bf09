"""An OpenID provider: where people log in, and the keys by which it signs who they are."""

from __future__ import annotations

import json
import time
import urllib.parse
from typing import TYPE_CHECKING, Any

import httpx

from sherd.errors import ConnectionFailedError, PeerError, UsageError
from sherd.federation.wire.client import proxy_for
from sherd.federation.wire.id_tokens import Identity, PublicKey, key_name, read_id_token, read_keys

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BYTES = 256 << 10
TIMEOUT = 10.0
KEPT_SECONDS = 3600.0
PAUSE = 30.0
"""Seconds before an unknown key makes us ask the provider again."""


def check_address(url: str, what: str) -> str:
    """Refuse an address over which a token could be read or changed."""
    parts = urllib.parse.urlsplit(url)
    near = parts.hostname in ("127.0.0.1", "::1", "localhost")
    good = parts.scheme == "https" or (parts.scheme == "http" and near)
    if not good or not parts.hostname or parts.fragment or parts.username:
        raise UsageError(f"the address of {what} is not valid", must="https://…", got=repr(url))
    return url


class Provider:
    """One provider, and what we are to it: a public client."""

    def __init__(self, issuer: str, client: str, *, clock: Callable[[], float] = time.time) -> None:
        self.issuer, self.client = check_address(issuer, "the provider"), client
        self._clock = clock
        self._about: dict[str, Any] = {}
        self._keys: dict[str, PublicKey] = {}
        self._asked = 0.0

    def endpoint(self, name: str) -> str:
        """One of the provider's addresses, by its name in the provider's own description."""
        if not self._about:
            place = self.issuer.rstrip("/") + "/.well-known/openid-configuration"
            about = self.ask("GET", place)
            if about.get("issuer") != self.issuer:
                raise PeerError("the provider says that it is another one")
            self._about = about
        found = self._about.get(name)
        if not isinstance(found, str):
            raise PeerError(f"the provider does not tell its {name}")
        return check_address(found, "the provider")

    def identify(self, token: str, *, nonce: str) -> Identity:
        """Who a token is about; asks for the provider's keys where they are old or lack one."""
        now, name = self._clock(), key_name(token)
        age = now - self._asked
        if age > KEPT_SECONDS or age < 0 or (name not in self._keys and age > PAUSE):
            self._asked = now
            self._keys = read_keys(self.ask("GET", self.endpoint("jwks_uri")).get("keys"))
        return read_id_token(
            token, self._keys, issuer=self.issuer, client=self.client, nonce=nonce, now=now
        )

    def ask(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        """What the provider says, bounded in size and time; it is not followed elsewhere."""
        began, raw = time.monotonic(), bytearray()
        try:
            with (
                httpx.Client(timeout=TIMEOUT, trust_env=False, proxy=proxy_for(url)) as line,
                line.stream(method, url, headers={"Accept-Encoding": "identity"}, **options) as got,
            ):
                for piece in got.iter_raw():
                    raw += piece
                    if len(raw) > MOST_BYTES or time.monotonic() - began > 3 * TIMEOUT:
                        raise PeerError("the provider's answer is too long or too slow")
                status = got.status_code
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ConnectionFailedError(
                "the provider cannot be reached", got=type(error).__name__, do="try again later"
            ) from None
        try:
            found = json.loads(bytes(raw))
        except (ValueError, RecursionError):
            found = None
        if status != httpx.codes.OK or not isinstance(found, dict):
            raise PeerError("the provider refuses, or answers nonsense", got=f"status {status}")
        return found
