"""The owner's line to the aggregator: HTTPS, outgoing only.

A request that gets no answer, or one that no aggregator gives (a redirect, a page of a proxy,
a plea to come back later), raises ConnectionFailedError and may be repeated; an answer that
refuses raises PeerError with its code. Answers are taken as they are, never decompressed, and
bounded in size and in time.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import ssl
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import httpx

from sherd.errors import ConnectionFailedError, PeerError, UsageError
from sherd.federation.protocol.messages import CHUNK
from sherd.federation.protocol.reasons import Reason, reason_of
from sherd.federation.wire.exchange import Call, Exchanged, read_response, request_parts
from sherd.federation.wire.line import IDLE_SECONDS, DirectLine, HttpRequest, Line, TransportLine
from sherd.values import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from sherd.federation.wire.line import Reply
    from sherd.signing_keys import SigningKey

TIMEOUT = 30.0
"""Seconds without a byte after which a call has failed."""

BYTES, JSON = "application/octet-stream", "application/json"
MOST_ANSWER = 64 << 20
LEAST_RATE = 64 << 10
"""Bytes a second below which an answer that lasts longer than ``TIMEOUT`` is given up."""


_NOTHING: Mapping[str, str] = MappingProxyType({})


def session_text(aggregator: str, name: str, nonce: str) -> bytes:
    """What an owner signs to open a session: the aggregator's own fresh number."""
    return f"sherd-session-1\0{aggregator}\0{name}\0{nonce}".encode()


def tls_context(authority: Path | None, certificate: tuple[Path, Path] | None) -> ssl.SSLContext:
    """A context that trusts one authority and shows our certificate."""
    try:
        context = ssl.create_default_context(cafile=None if authority is None else str(authority))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if certificate is not None:
            context.load_cert_chain(*(str(path) for path in certificate))
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            "the certificates cannot be used", got=str(error.strerror or error)
        ) from None
    return context


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for an address, if it names one."""
    parts = urllib.parse.urlsplit(url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    named = urllib.request.getproxies()
    proxy = named.get(parts.scheme) or named.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def _line(url: str, context: ssl.SSLContext | None) -> Line:
    proxy = proxy_for(url)
    if proxy is None:
        return DirectLine(url, context)
    transport = httpx.HTTPTransport(
        verify=True if context is None else context,
        proxy=proxy,
        limits=httpx.Limits(max_keepalive_connections=4, keepalive_expiry=IDLE_SECONDS),
    )
    return TransportLine(url, transport)


@dataclass(frozen=True, kw_only=True)
class ServiceAnswer:
    """An answer that was read to its end."""

    status: int
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether what was asked for was done."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


class Client:
    """A line to one aggregator: for an owner with its key, for an analyst with a token."""

    def __init__(
        self,
        *,
        url: str,
        name: str,
        aggregator: str,
        key: SigningKey | None = None,
        token: str | None = None,
        context: ssl.SSLContext | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._name = name
        self._aggregator = aggregator
        self._key = key
        self._token = token
        self.answered, self.answered_at = 0, time.monotonic()
        """How many calls were answered and not refused, and when the last one was."""
        self.head: str | None = None
        """The last head of this owner's ledger that the aggregator has seen, told at login."""
        self.received: dict[str, int] = {}
        """The number of our last message in each open round, as told at login, until it is used."""
        self.takes_coded = False
        """Whether the aggregator takes coded columns, told at login; earlier versions do not."""
        self.request_id = ""
        """The number of the last request, which is in the aggregator's log, too."""
        self._url = url.rstrip("/")
        self._line = (
            _line(self._url, context) if transport is None else TransportLine(self._url, transport)
        )

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def forget_session(self) -> None:
        """Log in again at the next call."""
        if self._key is not None:
            self._token = None

    def _request(
        self,
        method: str,
        path: str,
        timeout: float,
        *,
        headers: Mapping[str, str] = _NOTHING,
        body: Sequence[bytes | memoryview] = (),
    ) -> Reply:
        """One request whose answer has begun; the caller reads and closes it."""
        self.request_id = secrets.token_hex(8)
        given = {"Accept-Encoding": "identity", "X-Request-Id": self.request_id, **headers}
        return self._line.send(
            HttpRequest(method=method, path=path, headers=given, body=body, timeout=timeout)
        )

    def _call(
        self,
        method: str,
        path: str,
        *body: bytes | memoryview,
        timeout: float = TIMEOUT,
        kind: str = BYTES,
    ) -> ServiceAnswer:
        """One request with a session; a new one is opened where the old one has run out."""
        for last in (False, True):
            if self._token is None:
                self._token = self._log_in()
            headers = {"Authorization": f"Bearer {self._token}"}
            if body:
                headers["Content-Type"] = kind
            answer = self._raw(method, path, timeout=timeout, headers=headers, body=body)
            if answer.status == HTTPStatus.UNAUTHORIZED and not last:
                self._token = None
                continue
            if answer.is_success:
                self.answered, self.answered_at = self.answered + 1, time.monotonic()
            return _checked(answer)
        raise AssertionError

    def _raw(
        self,
        method: str,
        path: str,
        *,
        timeout: float = TIMEOUT,
        headers: Mapping[str, str] = _NOTHING,
        body: Sequence[bytes | memoryview] = (),
    ) -> ServiceAnswer:
        with contextlib.closing(
            self._request(method, path, timeout, headers=headers, body=body)
        ) as answer:
            content = b"".join(_pieces(answer, MOST_ANSWER))
            return ServiceAnswer(status=answer.status, content=content)

    def _send_json(self, path: str, data: dict[str, Any]) -> ServiceAnswer:
        """One request without a session."""
        headers = {"Content-Type": JSON}
        return _checked(self._raw("POST", path, headers=headers, body=(_written(data),)))

    def _log_in(self) -> str:
        if self._key is None:
            raise PeerError(
                "the aggregator does not know the token", do="ask its operator for another"
            )
        call = self._send_json("/v1/challenge", {"name": self._name})
        nonce = _field(call, "nonce")
        signature = self._key.sign(session_text(self._aggregator, self._name, nonce))
        body = {"name": self._name, "nonce": nonce, "signature": signature}
        try:
            answer = self._send_json("/v1/session", body)
        except PeerError as error:
            raise ConnectionFailedError(
                "the aggregator refuses this owner",
                got=error.what,
                do="it will be tried again; ask the operator whether the owner is enrolled with "
                "this key and certificate",
            ) from None
        head = _json(answer).get("head")
        self.head = head if isinstance(head, str) else None
        self.takes_coded = _json(answer).get("takes_coded") is True
        received = _json(answer).get("received")
        if isinstance(received, dict):
            self.received = {n: last for n, last in received.items() if type(last) is int}
        return _field(answer, "token")

    def exchange(self, call: Call) -> Exchanged:
        """Send messages and take those that came, waiting for the first as long as call."""
        parts = request_parts(call)
        answer = self._call("POST", "/v1/exchange", *parts, timeout=TIMEOUT + call.wait)
        return read_response(answer.content, len(call.parcels))

    def login_terms(self) -> dict[str, Any]:
        """Where people log in, and a number for it."""
        return _json(_checked(self._raw("GET", "/v1/login")))

    def log_in_person(self, *, id_token: str, nonce: str) -> dict[str, Any]:
        """A session for somebody whom the provider knows."""
        body = {"id_token": id_token, "nonce": nonce}
        return _json(self._send_json("/v1/login", body))

    def about(self) -> dict[str, Any]:
        """Who the aggregator says it is."""
        return _json(_checked(self._raw("GET", "/v1/about")))

    def open_round(self, terms: bytes) -> None:
        """Open a round, as an operator."""
        self._call("POST", "/v1/rounds", terms)

    def abort_round(self, round_id: str) -> None:
        """End a round, as an operator."""
        self._call("POST", f"/v1/rounds/{round_id}/abort")

    def announce(self, raw: bytes) -> None:
        """Tell the aggregator what this owner's policy allows, signed."""
        self._call("PUT", "/v1/policy", raw)

    def put_chunk(self, round_id: str, sha256: str, data: bytes) -> None:
        """Send a chunk."""
        self._call("PUT", f"/v1/rounds/{round_id}/chunks/{sha256}", data)

    def chunk(self, round_id: str, sha256: str) -> bytes:
        """Fetch a chunk; the caller checks its hash."""
        answer = self._call("GET", f"/v1/rounds/{round_id}/chunks/{sha256}")
        if len(answer.content) > CHUNK:
            raise Reason.TOO_LARGE.error()
        return answer.content

    def commitments(self) -> tuple[str | None, list[bytes]]:
        """The last ledger head the aggregator saw, and the envelopes that bind this owner."""
        data = _json(self._call("GET", "/v1/commitments"))
        head, raws = data.get("head"), data.get("envelopes")
        if not isinstance(raws, list) or not all(isinstance(raw, str) for raw in raws):
            raise PeerError("the aggregator's answer cannot be understood")
        return (head if isinstance(head, str) else None), [raw.encode() for raw in raws]

    def next_certificate(self, csr: bytes) -> bytes:
        """Our next certificate, in the signed form of an enrolment; the caller checks it."""
        asked = _written({"csr": csr.decode()})
        return self._call("POST", "/v1/certificate", asked, kind=JSON).content

    def reconnect(self, context: ssl.SSLContext) -> None:
        """Show another certificate from now on."""
        self._line.close()
        self._line = _line(self._url, context)

    def rounds(self) -> dict[str, str]:
        """The states of our rounds, as the aggregator knows them."""
        listed = _json(self._call("GET", "/v1/rounds")).get("rounds")
        try:
            return {str(each["round"]): str(each["state"]) for each in listed or ()}
        except (TypeError, LookupError):
            raise PeerError("the aggregator's answer cannot be understood") from None

    def release_manifest(self, round_id: str) -> bytes:
        """The manifest of a release, as bytes."""
        return self._call("GET", f"/v1/rounds/{round_id}/release/manifest.json").content

    def release_signature(self, round_id: str, name: str) -> bytes | None:
        """A file of signatures beside a release, as bytes; None where there is none."""
        try:
            return self._call("GET", f"/v1/rounds/{round_id}/release/{name}").content
        except PeerError:
            return None

    def countersign(self, round_id: str, signature: str) -> None:
        """Send our signature of a release that holds our part."""
        place = f"/v1/rounds/{round_id}/countersignature"
        self._call("POST", place, _written({"signature": signature}), kind=JSON)

    def download(self, round_id: str, name: str, path: Path, *, size: int) -> None:
        """A file of a release, written a piece at a time and no longer than announced."""
        if self._token is None:
            self._token = self._log_in()
        headers = {"Authorization": f"Bearer {self._token}"}
        place = f"/v1/rounds/{round_id}/release/{name}"
        with (
            contextlib.closing(self._request("GET", place, TIMEOUT, headers=headers)) as answer,
            path.open("wb") as file,
        ):
            if not ServiceAnswer(status=answer.status, content=b"").is_success:
                content = b"".join(_pieces(answer, MOST_ANSWER))
                _checked(ServiceAnswer(status=answer.status, content=content))
            for piece in _pieces(answer, size):
                file.write(piece)


def _written(data: dict[str, Any]) -> bytes:
    return json.dumps(data).encode()


def _pieces(answer: Reply, most: int) -> Iterator[bytes]:
    """An answer's bytes as they come: not decompressed, not too many, not too slowly."""
    if answer.encoding != "identity":
        raise Reason.MALFORMED.error("the aggregator's answer is compressed")
    began, size = time.monotonic(), 0
    for piece in answer.pieces:
        size += len(piece)
        if size > most:
            raise Reason.TOO_LARGE.error("the aggregator's answer is too large")
        if time.monotonic() - began > TIMEOUT + size / LEAST_RATE:
            raise ConnectionFailedError("the aggregator's answer comes too slowly")
        yield piece


def _json(answer: ServiceAnswer) -> dict[str, Any]:
    try:
        data = read_json(answer.content)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise ConnectionFailedError(
            "the answer does not come from an aggregator",
            got=f"status {answer.status}",
            do="check the address; a proxy may be in between",
        )
    return data


def _field(answer: ServiceAnswer, name: str) -> str:
    value = _json(answer).get(name)
    if not isinstance(value, str):
        raise PeerError("the aggregator's answer cannot be understood")
    return value


_LATER = frozenset({408, 425, 429})
"""Statuses that ask to come back later."""


def _checked(answer: ServiceAnswer) -> ServiceAnswer:
    status = answer.status
    if answer.is_success:
        return answer
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _LATER:
        raise ConnectionFailedError(
            "the aggregator has a problem", got=f"status {status}", do="try again later"
        )
    error = _json(answer).get("error")
    reason = error.get("reason") if isinstance(error, dict) else None
    code = reason_of(reason)
    told = error.get("what") if isinstance(error, dict) else None
    words = code.words if code else _shown(told) or f"status {status}"
    raise PeerError(f"the aggregator refuses: {words}", reason=code or Reason.UNEXPECTED)


def _shown(told: object) -> str:
    """What the aggregator says, as far as it can be shown to people."""
    words = told[:300] if isinstance(told, str) else ""
    return "".join(letter if letter.isprintable() else " " for letter in words).strip()
