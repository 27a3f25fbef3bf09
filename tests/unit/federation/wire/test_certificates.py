"""Certificates and requests of others: what is not one of ours is refused in words."""

from __future__ import annotations

import base64

import pytest

from sherd.errors import PeerError
from sherd.federation.wire.certificates import (
    check_issued,
    issue_client,
    make_authority,
    new_key,
    request,
)

KEY_KIND = bytes.fromhex("2a8648ce3d0201")
CURVE = bytes.fromhex("2a8648ce3d030107")
SIGNATURE = bytes.fromhex("2a8648ce3d040302")
VERSION = bytes.fromhex("a003020102")


def changed(pem: bytes, old: bytes) -> bytes:
    """The same with another, unknown number in place of an algorithm's."""
    head, *lines, foot, _ = pem.split(b"\n")
    der = base64.b64decode(b"".join(lines))
    assert old in der
    new = base64.b64encode(der.replace(old, old[:-1] + b"\x63"))
    return b"\n".join([head, *(new[i : i + 64] for i in range(0, len(new), 64)), foot, b""])


@pytest.mark.parametrize("place", [KEY_KIND, CURVE, SIGNATURE], ids=["key", "curve", "signature"])
def test_unknown_algorithms_are_refused(place: bytes) -> None:
    """An owner's request at the aggregator, and the aggregator's certificate at the owner."""
    authority, own = make_authority("registry"), new_key()
    asked = request("north", own)
    given = issue_client(authority, asked, "north")
    check_issued(given, own, authority[1])
    with pytest.raises(PeerError, match="request is not valid"):
        issue_client(authority, changed(asked, place), "north")
    with pytest.raises(PeerError, match="not for our key"):
        check_issued(changed(given, place), own, authority[1])


def test_an_unknown_version_is_refused() -> None:
    """A certificate that says it is of a later version than there is."""
    authority, own = make_authority("registry"), new_key()
    given = issue_client(authority, request("north", own), "north")
    with pytest.raises(PeerError, match="not for our key"):
        check_issued(changed(given, VERSION), own, authority[1])
