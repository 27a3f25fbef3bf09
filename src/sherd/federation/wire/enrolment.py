"""Enrolment: an owner asks with a file, the operator answers with one, people compare fingerprints.

The request holds the owner's name, its public key and a request for a certificate, signed by
the key. The answer holds the aggregator's name, address and key, and the certificates, signed
by the aggregator's key. Neither is secret. What makes them trustworthy is that both sides
compare fingerprints over another channel (a telephone call, a meeting).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from sherd.errors import FormatError, PeerError, UsageError, VerificationError
from sherd.federation.protocol.joint_plan import check_name
from sherd.signing_keys import SigningKey, fingerprint, same_fingerprint, verify
from sherd.values import canonical, from_data, to_data

if TYPE_CHECKING:
    from pathlib import Path

_MOST = 1 << 16


@dataclass(frozen=True, kw_only=True)
class EnrolmentRequest:
    """What an owner asks to be enrolled with."""

    format: str = "sherd-enrolment-request-1"
    name: str
    key: str
    csr: str
    signature: str = ""


@dataclass(frozen=True, kw_only=True)
class EnrolmentAnswer:
    """What an owner gets back."""

    format: str = "sherd-enrolment-1"
    owner: str
    owner_key: str
    aggregator: str
    key: str
    url: str
    authority: str
    certificate: str
    signature: str = ""


File = TypeVar("File", EnrolmentRequest, EnrolmentAnswer)


def _text(value: EnrolmentRequest | EnrolmentAnswer) -> bytes:
    data = to_data(value)
    return b"sherd-enrolment-1\0" + canonical({**data, "signature": ""})


def make_request(name: str, key: SigningKey, csr: bytes) -> bytes:
    """A request as the bytes of its file."""
    check_name(name, "owner")
    blank = EnrolmentRequest(name=name, key=key.public, csr=csr.decode())
    return _file({**to_data(blank), "signature": key.sign(_text(blank))})


def make_answer(
    request: EnrolmentRequest,
    key: SigningKey,
    *,
    aggregator: str,
    url: str,
    authority: bytes,
    certificate: bytes,
) -> bytes:
    """An answer as the bytes of its file."""
    blank = EnrolmentAnswer(
        owner=request.name,
        owner_key=request.key,
        aggregator=aggregator,
        key=key.public,
        url=url,
        authority=authority.decode(),
        certificate=certificate.decode(),
    )
    return _file({**to_data(blank), "signature": key.sign(_text(blank))})


def _file(data: object) -> bytes:
    return (json.dumps(data, indent=2) + "\n").encode()


def read_request(path: Path) -> EnrolmentRequest:
    """The request in a file, its signature checked."""
    request = _read(path, EnrolmentRequest)
    check_name(request.name, "owner")
    return request


def read_answer(path: Path) -> EnrolmentAnswer:
    """The answer in a file, its signature checked."""
    answer = _read(path, EnrolmentAnswer)
    check_name(answer.aggregator, "aggregator")
    return answer


def _read(path: Path, kind: type[File]) -> File:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError("the file cannot be read", got=f"{path}: {error.strerror}") from None
    return _parsed(raw, kind, str(path))


def parse_answer(raw: bytes) -> EnrolmentAnswer:
    """The answer that came over the wire, its signature checked."""
    return _parsed(raw, EnrolmentAnswer, "the aggregator's answer")


def _parsed(raw: bytes, kind: type[File], shown: str) -> File:
    try:
        if len(raw) > _MOST:
            raise ValueError
        content = from_data(kind, json.loads(raw))
        if content.format != kind.__dataclass_fields__["format"].default:
            raise ValueError
    except (ValueError, RecursionError, PeerError):
        raise FormatError(
            "the file is not an enrolment file",
            must="as `sherd owner init` or `enrol` wrote it",
            got=shown,
        ) from None
    if not verify(content.key, _text(content), content.signature):
        raise VerificationError("the enrolment file was changed", got=shown, do="ask for it again")
    return content


def compare(given: str | None, public: str, whose: str) -> None:
    """Refuse a key whose fingerprint is not the one that a person compared."""
    if given is None:
        raise UsageError(
            f"the fingerprint of the {whose}'s key was not compared",
            must="given with --fingerprint",
            got=f"the file says {fingerprint(public)}",
            do="ask for it over another channel, not the one the file came by",
        )
    if not same_fingerprint(given, public):
        raise VerificationError(
            f"the key is not the {whose}'s",
            must="of the fingerprint that was given",
            got=fingerprint(public),
            do="somebody may have changed the file on its way",
        )
