"""An OpenID provider on this machine, as providers are: it knows people and signs who they are."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import secrets
import threading
import time
import urllib.parse
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature


def encoded(data: bytes | dict[str, Any]) -> str:
    """Base64 as tokens have it."""
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _number(value: int) -> str:
    return encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class LocalProvider:
    """Whoever comes is ``person``; every answer can be changed by a test."""

    def __init__(self) -> None:
        self.client = "sherd-aggregator"
        self.person: dict[str, Any] = {"sub": "u-1"}
        self.changes: dict[str, Any] = {}
        self.asked: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}
        self.rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.curve = ec.generate_private_key(ec.SECP256R1())
        self.names = {"rsa": "rsa-1", "ec": "ec-1"}
        provider = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.get(self)

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                provider.post(self, dict(urllib.parse.parse_qsl(self.rfile.read(size).decode())))

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()

    def keys(self) -> list[dict[str, str]]:
        """What it publishes."""
        public, point = self.rsa.public_key().public_numbers(), self.curve.public_key()
        numbers = point.public_numbers()
        return [
            {"kty": "RSA", "use": "sig", "kid": self.names["rsa"], "n": _number(public.n),
             "e": _number(public.e)},
            {"kty": "EC", "crv": "P-256", "kid": self.names["ec"], "x": _number(numbers.x),
             "y": _number(numbers.y)},
            {"kty": "oct", "kid": "shared", "k": "AAAA"},
        ]  # fmt: skip

    def signed(
        self, claims: dict[str, Any], algorithm: str = "RS256", kid: str | None = None
    ) -> str:
        """A token."""
        name = kid or self.names["ec" if algorithm == "ES256" else "rsa"]
        text = f"{encoded({'alg': algorithm, 'kid': name})}.{encoded(claims)}"
        data = text.encode()
        if algorithm == "RS256":
            signature = self.rsa.sign(data, padding.PKCS1v15(), hashes.SHA256())
        elif algorithm == "ES256":
            r, s = decode_dss_signature(self.curve.sign(data, ec.ECDSA(hashes.SHA256())))
            signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
        elif algorithm == "HS256":  # the public key as a secret: an old trick
            secret = _number(self.rsa.public_key().public_numbers().n).encode()
            signature = hmac.digest(secret, data, "sha256")
        else:
            signature = b"\0"
        return f"{text}.{encoded(signature)}"

    def claims(self, nonce: str) -> dict[str, Any]:
        """What it says of whoever is there."""
        now = int(time.time())
        return {
            "iss": self.issuer, "aud": self.client, "iat": now, "exp": now + 300, "nonce": nonce,
            **self.person, **self.changes,
        }  # fmt: skip

    def get(self, to: Any) -> None:
        """Its pages: who it is, its keys, and logging in."""
        parts = urllib.parse.urlsplit(to.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        self.asked.append(parts.path)
        if parts.path == "/.well-known/openid-configuration":
            places = {"authorization_endpoint": "/in", "token_endpoint": "/token",
                      "jwks_uri": "/keys"}  # fmt: skip
            told = {name: self.issuer + place for name, place in places.items()}
            _say(to, {"issuer": self.issuer, **told})
        elif parts.path == "/keys":
            _say(to, {"keys": self.keys()})
        elif parts.path == "/in":
            code = secrets.token_hex(8)
            self._codes[code] = query
            back = {"code": code, "state": query["state"], "iss": self.issuer}
            to.send_response(302)
            to.send_header("Location", f"{query['redirect_uri']}?{urllib.parse.urlencode(back)}")
            to.send_header("Content-Length", "0")
            to.end_headers()
        else:
            to.send_error(404)

    def post(self, to: Any, form: dict[str, str]) -> None:
        """A token for a code, once, for whoever began the login."""
        begun = self._codes.pop(form.get("code", ""), None)
        proof = encoded(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        good = begun is not None and begun["code_challenge"] == proof
        if begun is None or not good or begun["redirect_uri"] != form["redirect_uri"]:
            to.send_error(400)
            return
        _say(to, {"token_type": "Bearer", "id_token": self.signed(self.claims(begun["nonce"]))})


def _say(to: Any, what: dict[str, Any]) -> None:
    raw = json.dumps(what).encode()
    to.send_response(200)
    to.send_header("Content-Type", "application/json")
    to.send_header("Content-Length", str(len(raw)))
    to.end_headers()
    to.wfile.write(raw)
