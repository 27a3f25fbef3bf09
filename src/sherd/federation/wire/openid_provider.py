"""An OpenID provider: where people log in, and the tokens by which it says who they are.

Only what OpenID Connect Core 1.0 (3.1.3.7) asks for is taken: signed by one of the provider's
published keys with an algorithm of that key's kind, for this client, from this issuer, now, and
for the number that we gave out ourselves. ``none`` and shared secrets are no algorithms here.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import time
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from sherd.errors import ConnectionFailedError, PeerError, UsageError
from sherd.federation.protocol.reasons import Reason
from sherd.federation.wire.client import proxy_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


MOST_BYTES = 256 << 10
TIMEOUT = 10.0
KEPT_SECONDS = 3600.0
PAUSE = 30.0
"""Seconds before an unknown key makes us ask the provider again."""


def check_address(url: str, what: str) -> str:
    """Refuse an address over which a token could be read or changed."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname if parts.port is None or parts.port else None
    except ValueError:
        host = None
    near = host in ("127.0.0.1", "::1", "localhost")
    good = host and (parts.scheme == "https" or (parts.scheme == "http" and near))
    if not good or parts.fragment or parts.username:
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
                raise PeerError("the provider states another issuer")
            self._about = about
        address = self._about.get(name)
        if not isinstance(address, str):
            raise PeerError(f"the provider does not state its {name}")
        return check_address(address, "the provider")

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
            answer = json.loads(bytes(raw))
        except (ValueError, RecursionError):
            answer = None
        if status != httpx.codes.OK or not isinstance(answer, dict):
            raise PeerError(
                "the provider refused or sent an invalid answer", got=f"status {status}"
            )
        return answer


MOST_TOKEN = 16 << 10
LEAST_BITS = 2048
LEEWAY = 60
"""Seconds by which the provider's clock may be off."""

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey
_BASE64 = re.compile(r"[A-Za-z0-9_-]+")
_ES256_BYTES = 64


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Somebody, as a provider knows them."""

    subject: str
    email: str | None
    """An address that the provider has verified."""

    @property
    def names(self) -> tuple[str, ...]:
        """What somebody may be enrolled by."""
        mail = () if self.email is None else (f"email:{self.email.lower()}",)
        return (f"sub:{self.subject}", *mail)


def _refused(what: str) -> PeerError:
    return Reason.SIGNATURE.error(f"the provider's token is not valid: {what}")


def _decoded(text: str) -> bytes:
    if not _BASE64.fullmatch(text):
        raise _refused("it cannot be read")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise _refused("it cannot be read") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise _refused("a name is there twice")
    return content


def _object(raw: bytes) -> dict[str, Any]:
    try:
        content = json.loads(raw, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise _refused("it cannot be read") from None
    if not isinstance(content, dict):
        raise _refused("it cannot be read")
    return content


def read_keys(listed: object) -> dict[str, PublicKey]:
    """The keys in a provider's list by their names; what is no key for signing is left out."""
    keys: dict[str, PublicKey] = {}
    for each in listed if isinstance(listed, list) else ():
        if not isinstance(each, dict) or each.get("use", "sig") != "sig":
            continue
        try:
            key = _key(each)
        except (PeerError, ValueError, TypeError, LookupError):
            continue
        if key is not None:
            keys[str(each.get("kid", ""))] = key
    return keys


def _key(listed: dict[str, Any]) -> PublicKey | None:
    def number(name: str) -> int:
        return int.from_bytes(_decoded(listed[name]), "big")

    kind, curve = listed.get("kty"), listed.get("crv")
    if kind == "RSA":
        public = rsa.RSAPublicNumbers(number("e"), number("n")).public_key()
        return public if public.key_size >= LEAST_BITS else None
    if (kind, curve) == ("EC", "P-256"):
        return ec.EllipticCurvePublicNumbers(number("x"), number("y"), ec.SECP256R1()).public_key()
    if (kind, curve) == ("OKP", "Ed25519"):
        return ed25519.Ed25519PublicKey.from_public_bytes(_decoded(listed["x"]))
    return None


def _is_signed(key: PublicKey, algorithm: object, signature: bytes, text: bytes) -> bool:
    """Whether a key signed a text by an algorithm of its own kind."""
    try:
        if isinstance(key, rsa.RSAPublicKey) and algorithm == "RS256":
            key.verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
        elif isinstance(key, rsa.RSAPublicKey) and algorithm == "PS256":
            salted = padding.PSS(padding.MGF1(hashes.SHA256()), hashes.SHA256.digest_size)
            key.verify(signature, text, salted, hashes.SHA256())
        elif isinstance(key, ec.EllipticCurvePublicKey) and algorithm == "ES256":
            if len(signature) != _ES256_BYTES:
                return False
            r, s = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
            key.verify(encode_dss_signature(r, s), text, ec.ECDSA(hashes.SHA256()))
        elif isinstance(key, ed25519.Ed25519PublicKey) and algorithm in ("EdDSA", "Ed25519"):
            key.verify(signature, text)
        else:
            return False
    except InvalidSignature:
        return False
    return True


def key_name(token: str) -> str:
    """The name of the key that a token says it is signed by."""
    return str(_object(_decoded(token.partition(".")[0])).get("kid", ""))


def read_id_token(
    token: str, keys: dict[str, PublicKey], *, issuer: str, client: str, nonce: str, now: float
) -> Identity:
    """Who a token is about; PeerError where it is not the provider's word to us, now."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > MOST_TOKEN:
        raise _refused("it cannot be read")
    header, claims = _object(_decoded(parts[0])), _object(_decoded(parts[1]))
    key = keys.get(str(header.get("kid", "")))
    text = f"{parts[0]}.{parts[1]}".encode("ascii")
    if key is None or "crit" in header:
        raise _refused("it is not signed by a key of the provider")
    if not _is_signed(key, header.get("alg"), _decoded(parts[2]), text):
        raise _refused("its signature is wrong")
    audience = claims.get("aud")
    audiences = list(audience) if isinstance(audience, list) else [audience]
    several = len(audiences) > 1 or "azp" in claims
    if claims.get("iss") != issuer or client not in audiences:
        raise _refused("it is for somebody else")
    if several and claims.get("azp") != client:
        raise _refused("it is for somebody else")
    if not _in_time(claims.get("iat"), claims.get("exp"), now):
        raise _refused("it has expired, or is not valid yet")
    given = claims.get("nonce")
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), nonce.encode()):
        raise _refused("it answers another question")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= 255 or not subject.isprintable():
        raise _refused("it names nobody")
    return Identity(subject=subject, email=_email(claims))


def _in_time(issued: object, expires: object, now: float) -> bool:
    def numbers(values: Iterable[object]) -> bool:
        return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)

    if not numbers((issued, expires)):
        return False
    assert isinstance(issued, int | float)
    assert isinstance(expires, int | float)
    return issued - LEEWAY <= now < expires + LEEWAY


def _email(claims: dict[str, Any]) -> str | None:
    mail = claims.get("email")
    good = isinstance(mail, str) and mail.isprintable() and 0 < len(mail) <= 255
    return mail if good and claims.get("email_verified") is True else None
