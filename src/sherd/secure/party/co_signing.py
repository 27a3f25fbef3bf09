"""What parties sign together: their keys, and one exchange of signatures for each result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.errors import UsageError, VerificationError
from sherd.secure.party import message_frames

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sherd.secure.party.channel import Channel
    from sherd.secure.party.party_settings import PartySettings


def public_key(certificate: Path) -> str:
    """The key of a party's certificate, in hexadecimal."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    except (OSError, ValueError):
        raise UsageError(
            "a certificate cannot be read",
            must="as made by `sherd party init`",
            got=str(certificate),
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(
            "a certificate's key cannot sign results",
            must="an Ed25519 key",
            got=str(certificate),
            do="make a new key with `sherd party init`, and give its certificate to the others",
        )
    return key.public_bytes_raw().hex()


def public_keys(settings: PartySettings) -> list[str]:
    """All parties' keys, in the order of their places."""
    return [public_key(peer.certificate) for peer in settings.peers]


class CoSigner:
    """Has results signed by all parties that are connected."""

    def __init__(self, settings: PartySettings, channel: Channel, keys: Sequence[str]) -> None:
        from sherd.signing_keys import SigningKey

        self._key, self._names = SigningKey.load(settings.key), settings.names
        self._channel, self._keys = channel, keys
        # Those that do not compute are told first, so that they know what to sign.
        guests = range(settings.hosts, len(settings.peers))
        self._guests = guests if settings.computes else range(0)

    def __call__(self, what: str, values: tuple[int, ...], text: bytes) -> tuple[str, ...]:
        """Every party's signature of a result; raises where one does not hold."""
        for guest in self._guests:
            self._channel.send_opened(guest, what, values)
        told = self._channel.exchange({"signature": self._key.sign(text)})
        return tuple(
            self._checked(place, told.get(place), text) for place in range(len(self._keys))
        )

    def _checked(self, place: int, told: Any, text: bytes) -> str:
        if not isinstance(told, dict) or not isinstance(told.get("signature"), str):
            raise message_frames.malformed("a signature of what was opened")
        from sherd.signing_keys import verify

        signature = str(told["signature"])
        if not verify(self._keys[place], text, signature):
            raise VerificationError(
                f"the party '{self._names[place]}' signed another result",
                must="the same opened result at all parties, signed with the agreed key",
                do="the run cannot go on; find out which of the parties differs",
            )
        return signature
