"""Whatever bytes come, a parser of foreign bytes gives a value or a refusal, in bounded time.

The corpus is made of real messages, changed; the long run is marked slow.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from people import terms_of

from sherd.errors import PeerError, SherdError
from sherd.federation.protocol.joint_plan import Offer, Terms
from sherd.federation.protocol.messages import BODIES, Invite, Message
from sherd.federation.wire.arrow_stream import read_table
from sherd.federation.wire.envelope import open_envelope, parse, seal
from sherd.federation.wire.exchange import Call, Parcel, read_request, read_response, write_request
from sherd.federation.wire.fetching import _listed_files
from sherd.signing_keys import SigningKey
from sherd.values import canonical, from_data, to_data

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = SigningKey.generate()
TERMS = terms_of(("north", "south"), 1_800_000_000, round="r1")
INVITE = Invite(terms=TERMS, aggregator_key=KEY.public)
ENVELOPE = seal(
    Message(round="r1", plan="", sender="registry", recipient="north", sequence=1, body=INVITE),
    KEY,
    expires=2**36,
)
REQUEST = write_request(Call(parcels=(Parcel(round="r1", raw=ENVELOPE),), seen={"r1": 3}, wait=0.0))

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def changed(raw: bytes) -> st.SearchStrategy[bytes]:
    """A message with some of its bytes overwritten, cut off or doubled."""

    def change(edits: list[tuple[int, bytes]], end: int) -> bytes:
        data = bytearray(raw)
        for place, new in edits:
            data[place % len(data) : place % len(data) + len(new)] = new
        return bytes(data[: len(data) - end])

    edit = st.tuples(st.integers(0, len(raw)), st.binary(min_size=1, max_size=8))
    return st.builds(change, st.lists(edit, max_size=4), st.integers(0, 20)) | st.binary()


def opened(raw: bytes) -> Any:
    """An envelope as an owner opens it."""
    return open_envelope(raw, key_of=lambda _sender: KEY.public, recipient="north", now=0)


PARSERS: dict[str, tuple[Callable[[bytes], Any], bytes]] = {
    "envelope": (opened, ENVELOPE),
    "canonical": (parse, canonical(to_data(TERMS))),
    "request": (read_request, REQUEST),
    "response": (lambda raw: read_response(raw, 1), REQUEST),
    "delivery": (lambda raw: read_table(raw, 1 << 20), ENVELOPE),
    "manifest": (_listed_files, b'{"files": {"data.csv": {"bytes": 1, "sha256": "00"}}}'),
}
BOUNDED = settings(
    max_examples=150, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("name", PARSERS)
def test_bytes(name: str) -> None:
    """Changed and random bytes."""
    parser, raw = PARSERS[name]

    @BOUNDED
    @given(changed(raw))
    def check(data: bytes) -> None:
        with contextlib.suppress(SherdError):
            parser(data)

    check()


@pytest.mark.parametrize("kind", [Terms, Offer, *BODIES.values()], ids=lambda kind: kind.__name__)
def test_bodies(kind: type[Any]) -> None:
    """Any JSON as any body, and real terms with any one field replaced by any JSON."""

    @BOUNDED
    @given(json_values, st.sampled_from(sorted(to_data(TERMS))))
    def check(data: Any, field: str) -> None:
        for given_data in (data, {**to_data(TERMS), field: data}):
            body = {"terms": given_data, "aggregator_key": "x"} if kind is Invite else given_data
            with contextlib.suppress(PeerError):
                from_data(kind, body)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", PARSERS)
def test_many_bytes(name: str) -> None:
    """The same, a hundred thousand times."""
    parser, raw = PARSERS[name]

    @settings(BOUNDED, max_examples=100_000)
    @given(changed(raw))
    def check(data: bytes) -> None:
        with contextlib.suppress(SherdError):
            parser(data)

    check()


def test_the_corpus_is_good() -> None:
    """Unchanged, every message of the corpus that is one is read."""
    assert opened(ENVELOPE).body == INVITE
    assert read_request(REQUEST).parcels[0].raw == ENVELOPE
    assert json.loads(ENVELOPE)["header"]["round"] == "r1"
