"""Certificates of enrolled owners: what was asked and answered, kept so that they can be renewed.

A renewal certifies the key that an owner is enrolled with once more; another key is refused.
Neither a request nor an answer is secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cryptography import x509

from sherd.errors import UsageError
from sherd.federation.protocol.joint_plan import check_name
from sherd.federation.wire import certificates
from sherd.federation.wire.enrolment import make_answer, read_answer, read_request
from sherd.tables.files import write_whole
from sherd.values import canonical, to_data

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.federation.wire.enrolment import EnrolmentRequest


def _request_of(home: AggregatorHome, name: str) -> Path:
    return home.folder / "owners" / f"{check_name(name, 'owner')}.json"


def keep_enrolment(home: AggregatorHome, request: EnrolmentRequest, answer: bytes) -> None:
    """Keep what an owner asked and what it was answered."""
    path = _request_of(home, request.name)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_whole(path, canonical(to_data(request)))
    write_whole(path.with_suffix(".answer"), answer)


def renew_owner(home: AggregatorHome, name: str, request: EnrolmentRequest | None = None) -> bytes:
    """A new certificate for an enrolled owner, by its request or the one it enrolled with.

    The file to send back; the owner takes it in as it took in the first.
    """
    path = _request_of(home, name)
    if request is None and not path.is_file():
        raise UsageError(
            "the owner's request is not kept here", got=repr(name), do="give its request.json"
        )
    request = request or read_request(path)
    store = home.store()
    try:
        member = store.member(name)
    finally:
        store.close()
    if member is None or (request.name, request.key) != (name, member.key):
        raise UsageError(
            "only an enrolled owner with the same key can be renewed",
            got=repr(name),
            do="revoke it and enrol its new request",
        )
    authority = (home.folder / "authority-key.pem").read_bytes(), home.authority.read_bytes()
    answer = make_answer(
        request,
        home.key,
        aggregator=home.settings.name,
        url=home.settings.url,
        authority=authority[1],
        certificate=certificates.issue_client(authority, request.csr.encode(), name),
    )
    keep_enrolment(home, request, answer)
    return answer


def certified_until(home: AggregatorHome, name: str) -> datetime | None:
    """When the certificate that an owner was given here last ends; None where none is kept."""
    path = _request_of(home, name).with_suffix(".answer")
    if not path.exists():
        return None
    found = x509.load_pem_x509_certificate(read_answer(path).certificate.encode())
    return found.not_valid_after_utc
