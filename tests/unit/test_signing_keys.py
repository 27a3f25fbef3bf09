"""Keys that sign nothing: points of small order, and signatures in other spellings."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sherd.signing_keys import SigningKey, verify

ONE = "01" + "00" * 31


@pytest.mark.parametrize("sign", [0, 0x80])
@pytest.mark.parametrize(
    "key",
    [
        "00" * 32,
        ONE,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    ],
)
def test_a_key_that_anybody_signs_for_is_none(key: str, sign: int) -> None:
    """One signature would be good for any text, so that its owner had agreed to everything."""
    raw = bytes.fromhex(key)
    public = (raw[:31] + bytes([raw[31] | sign])).hex()
    for number in range(40):
        for point in (ONE, key, "00" * 32, "ec" + "ff" * 30 + "7f"):
            assert not verify(public, b"%d" % number, point + "00" * 32)


def test_the_library_takes_such_a_key() -> None:
    """Which is why we look; if it refuses it one day, the list can go."""
    whole = bytes.fromhex(ONE)
    Ed25519PublicKey.from_public_bytes(whole).verify(whole + bytes(32), b"any text")


def test_a_signature_has_one_spelling() -> None:
    """Neither capitals nor the group's order added to it make another one of it."""
    key = SigningKey.generate()
    signed = key.sign(b"text")
    assert verify(key.public, b"text", signed)
    order = 2**252 + 27742317777372353535851937790883648493
    number = int.from_bytes(bytes.fromhex(signed[64:]), "little") + order
    added = signed[:64] + number.to_bytes(32, "little").hex()
    for other in (added, signed.upper(), signed + "\n", " " + signed):
        assert not verify(key.public, b"text", other)
    assert not verify(key.public.upper(), b"text", signed) or key.public.isdigit()
