"""Envelopes: every field is bound, every other form is refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from sherd.errors import PeerError
from sherd.federation.protocol.messages import MOST_BYTES, Message, Signature
from sherd.federation.protocol.reasons import Reason
from sherd.federation.wire.envelope import GRACE, open_envelope, parse, seal
from sherd.signing_keys import SigningKey
from sherd.values import canonical, read_json

KEY, OTHER = SigningKey.generate(), SigningKey.generate()
MESSAGE = Message(
    round="r1",
    plan="ab" * 32,
    sender="north",
    recipient="registry",
    sequence=3,
    body=Signature(signature="00"),
)
RAW = seal(MESSAGE, KEY, expires=1000)


def opened(raw: bytes, *, recipient: str = "registry", now: int = 0) -> Message:
    """The message, as the aggregator opens it."""
    keys = {"north": KEY.public, "south": OTHER.public}
    return open_envelope(raw, key_of=keys.get, recipient=recipient, now=now)


def reason(raw: bytes, **options: Any) -> str:
    """Why an envelope is refused."""
    with pytest.raises(PeerError) as caught:
        opened(raw, **options)
    return caught.value.reason


def test_round_trip_and_same_bytes() -> None:
    """A message comes back as it went, and sealing it again gives the same bytes."""
    found = opened(RAW)
    assert (found.round, found.plan, found.sender, found.recipient, found.sequence, found.body) == (
        MESSAGE.round,
        MESSAGE.plan,
        MESSAGE.sender,
        MESSAGE.recipient,
        MESSAGE.sequence,
        MESSAGE.body,
    )
    assert seal(MESSAGE, KEY, expires=1000) == RAW


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 2),
        ("round", "r2"),
        ("plan", "cd" * 32),
        ("sender", "south"),
        ("recipient", "other"),
        ("sequence", 4),
        ("type", "refusal"),
        ("body_sha256", "00" * 32),
        ("expires", 10**9),
    ],
)
def test_tampering_with_a_header_field(field: str, value: Any) -> None:
    """No field of the header can be changed without the signature failing."""
    data = json.loads(RAW)
    data["header"][field] = value
    assert reason(canonical(data)) is Reason.SIGNATURE


def test_tampering_with_body_and_signature() -> None:
    """A changed body, a changed, missing or foreign signature are refused."""
    data = json.loads(RAW)
    assert reason(canonical({**data, "body": {"signature": "01"}})) is Reason.SIGNATURE
    assert reason(canonical({**data, "signature": "00" * 64})) is Reason.SIGNATURE
    assert reason(canonical({**data, "signature": 5})) is Reason.SIGNATURE
    assert reason(canonical({k: v for k, v in data.items() if k != "body"})) is Reason.MALFORMED
    assert reason(seal(MESSAGE, OTHER, expires=1000)) is Reason.SIGNATURE


def test_stranger_recipient_and_expiry() -> None:
    """Strangers, other recipients and stale envelopes are refused."""
    stranger = Message(**{**vars(MESSAGE), "sender": "east"})
    assert reason(seal(stranger, KEY, expires=1000)) is Reason.UNKNOWN_SENDER
    assert reason(RAW, recipient="north") is Reason.WRONG_RECIPIENT
    assert opened(RAW, now=1000 + GRACE)
    assert reason(RAW, now=1001 + GRACE) is Reason.STALE


def test_signed_but_of_another_version_or_body() -> None:
    """Even a good signature does not help a header of another version or a wrong body hash."""
    from sherd.federation.wire import envelope

    for field, value, expected in (
        ("version", 9, Reason.MALFORMED),
        ("body_sha256", "00" * 32, Reason.SIGNATURE),
    ):
        data = json.loads(RAW)
        data["header"][field] = value
        data["signature"] = KEY.sign(envelope._TAG + canonical(data["header"]))
        assert reason(canonical(data)) is expected


def test_only_the_canonical_form() -> None:
    """Spaces, other orders, doubled keys, NaN, huge and deep values are refused."""
    data = json.loads(RAW)
    for raw in (
        json.dumps(data).encode(),
        RAW + b" ",
        RAW[:-1],
        b"",
        b"[]",
        b'{"a":1,"a":1}',
        b'{"a":NaN}',
        b'{"a":1e999}',
        b"\xff\xfe",
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' + b"9" * 5000 + b"}",
    ):
        assert reason(raw) is Reason.MALFORMED
    assert reason(b" " * (MOST_BYTES + 1)) is Reason.TOO_LARGE


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_changed_bytes_never_pass(data: st.DataObject) -> None:
    """Any change of any bytes of an envelope is refused, with an error of ours."""
    raw = bytearray(RAW)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        what = data.draw(st.sampled_from(["set", "cut", "add"]))
        if what == "set":
            raw[place] = data.draw(st.integers(0, 255))
        elif what == "cut":
            del raw[place]
        else:
            raw.insert(place, data.draw(st.integers(0, 255)))
    if bytes(raw) != RAW:
        with pytest.raises(PeerError):
            opened(bytes(raw))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_parsed_or_refused(raw: bytes) -> None:
    """Whatever comes, the parser answers with data or with a PeerError."""
    with contextlib.suppress(PeerError):
        assert canonical(parse(raw)) == raw


@pytest.mark.parametrize("piece", [b"{}", b"[]"])
def test_data_takes_no_many_times_its_bytes(piece: bytes) -> None:
    """A message full of empty lists would take twenty times its bytes: it is refused unread."""
    import tracemalloc

    raw = b"[" + b",".join([piece] * 500_000) + b"]"
    tracemalloc.start()
    with pytest.raises(PeerError):
        parse(raw)
    assert tracemalloc.get_traced_memory()[1] < 2 * len(raw)
    tracemalloc.stop()
    assert len(parse(b"[" + b",".join([piece] * 4000) + b"]")) == 4000
    words = canonical(["x" * 60] * 10_000)
    assert len(parse(words)) == 10_000


def test_half_a_letter_is_no_text() -> None:
    """It could be signed and read, and neither be written into a journal nor shown to a person."""
    for wrong in (rb'["\ud800"]', rb'["\udc00\ud800"]', rb'{"a\udfff":1}'):
        assert json.loads(wrong)
        with pytest.raises(PeerError):
            parse(wrong)
    for text in ("\U0001f600", "\\ud800", "\x00\x1b"):
        assert parse(canonical([text])) == [text]
    with pytest.raises(ValueError, match="surrogates"):
        read_json(b'["\xed\xa0\x80"]')
