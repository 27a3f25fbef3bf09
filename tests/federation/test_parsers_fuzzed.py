"""Whatever bytes come, a parser of foreign bytes gives a value or a refusal, in bounded time.

The corpus is made of real messages, changed; the long run is `make fuzz`.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from foreign_bytes import ENVELOPE, REQUEST, TARGETS, TERMS, opened, try_one
from fuzzing import SHARES
from hypothesis import HealthCheck, given, settings

from sherd.errors import PeerError
from sherd.federation.protocol.joint_plan import Offer, Terms
from sherd.federation.protocol.messages import BODIES, Invite
from sherd.federation.wire.exchange import read_request
from sherd.values import from_data, to_data

CORPUS = Path(__file__).parents[1] / "fuzz_corpus"

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


BOUNDED = settings(
    max_examples=150, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def kept(name: str) -> list[bytes]:
    """The corpus of a parser."""
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


def test_the_corpus_is_for_every_parser() -> None:
    """The fuzzer, the corpus and the parsers have the same names."""
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS) == set(SHARES)
    assert sum(SHARES.values()) == 100


@pytest.mark.parametrize("name", TARGETS)
def test_bytes(name: str) -> None:
    """What is in the corpus, changed, and random bytes."""
    corpus = kept(name)
    for raw in corpus:
        try_one(name, raw)
    slow = name in ("http", "answers", "enrolment", "bundle", "plan", "upload", "certificate")

    @settings(BOUNDED, max_examples=15 if slow else 100)
    @given(st.sampled_from(corpus).flatmap(changed))
    def check(data: bytes) -> None:
        try_one(name, data)

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


def test_the_corpus_is_good() -> None:
    """Unchanged, every message of the corpus that is one is read."""
    assert opened(ENVELOPE).body.terms == TERMS
    assert read_request(REQUEST).parcels[0].raw == ENVELOPE
    assert json.loads(ENVELOPE)["header"]["round"] == "r1"
