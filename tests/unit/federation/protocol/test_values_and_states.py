"""Plain data in and out, transition tables, attachments, linkage lists."""

from __future__ import annotations

import dataclasses
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from sherd.errors import InternalError, PeerError, PlanError
from sherd.federation.protocol import linkage
from sherd.federation.protocol.joint_plan import Offer
from sherd.federation.protocol.messages import BODIES, CHUNK, Attachment, Batch, Delivery
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import (
    OWNER,
    OWNER_ENDS,
    ROUND,
    ROUND_ENDS,
    OwnerEvent,
    OwnerState,
    RoundEvent,
    RoundState,
    mermaid,
    step,
)
from sherd.values import canonical, from_data, to_data

HASH = "0" * 64


def test_every_state_is_reached_and_ends_have_no_way_out() -> None:
    """The tables are complete: all states reachable, ends final, all events used."""
    for table, start, ends, states, events in (
        (ROUND, RoundState.DRAFT, ROUND_ENDS, RoundState, RoundEvent),
        (OWNER, OwnerState.INVITED, OWNER_ENDS, OwnerState, OwnerEvent),
    ):
        reached = {start}
        for _ in states:
            reached |= {after for (before, _), after in table.items() if before in reached}
        assert reached == set(states)
        assert not {before for before, _ in table} & set(ends)
        assert {event for _, event in table} == set(events)


def test_illegal_transition_is_a_bug_of_ours() -> None:
    """The machines cannot leave the table."""
    with pytest.raises(InternalError, match="no such transition"):
        step(ROUND, RoundState.RELEASED, RoundEvent.FAILED)


def test_charged_cannot_be_refused() -> None:
    """No transition leads from protected or delivered to refused."""
    assert (OwnerState.PROTECTED, OwnerEvent.REFUSED) not in OWNER
    assert (OwnerState.DELIVERED, OwnerEvent.ABORTED) not in OWNER


def test_pages_drawn_from_the_code_are_up_to_date() -> None:
    """The state diagrams and the collusion tables in the documentation are the code's."""
    folder = Path(__file__).parents[4] / "docs" / "federation"
    drawn = runpy.run_path(str(folder / "render.py"))
    assert mermaid(ROUND, RoundState.DRAFT) in drawn["states"]()
    for name, page in drawn["PAGES"].items():
        assert (folder / name).read_text(encoding="utf-8") == page(), (
            "run docs/federation/render.py"
        )


def test_values_come_back_as_they_went() -> None:
    """Writing and reading is the identity, and any other data is refused without quoting it."""
    batch = Batch(
        origin="north",
        hop=1,
        count=2,
        attachment=Attachment(sha256=HASH, size=1, chunks=(HASH,)),
    )
    data = to_data(batch)
    assert from_data(Batch, data) == batch
    wrong: list[Any] = [
        {**data, "more": 1},
        {k: v for k, v in data.items() if k != "hop"},
        {**data, "hop": "SECRET"},
        {**data, "hop": True},
        {**data, "origin": 5},
        {**data, "attachment": "SECRET"},
        {**data, "attachment": {**data["attachment"], "chunks": "SECRET"}},
        {**data, "attachment": {**data["attachment"], "sha256": "SECRET"}},
        "SECRET",
        None,
    ]
    for each in wrong:
        with pytest.raises(PeerError) as caught:
            from_data(Batch, each)
        assert "SECRET" not in str(caught.value)


def test_enumerations_mappings_and_nothing() -> None:
    """Codes, mappings and optional fields are read strictly, too."""

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Sample:
        reason: Reason
        named: dict[str, int]
        maybe: str | None

    # the annotations of a local class are found through the module
    globals().update(Reason=Reason)
    sample = Sample(reason=Reason.LATE, named={"a": 1}, maybe=None)
    assert from_data(Sample, to_data(sample)) == sample
    changes: list[dict[str, Any]] = [
        {"reason": "no-such"},
        {"named": []},
        {"named": {1: 1}},
        {"maybe": 3},
    ]
    for change in changes:
        with pytest.raises(PeerError):
            from_data(Sample, {**to_data(sample), **change})


def test_canonical_refuses_what_json_has_no_word_for() -> None:
    """NaN has no canonical form."""
    with pytest.raises(ValueError, match="Out of range"):
        canonical({"a": float("nan")})


def test_attachments_and_deliveries_are_checked() -> None:
    """Chunks must fit the size, hashes be hashes, names be harmless."""
    with pytest.raises(PlanError, match="do not fit"):
        Attachment(sha256=HASH, size=CHUNK + 1, chunks=(HASH,))
    with pytest.raises(PlanError, match="hash"):
        Attachment(sha256="x", size=0, chunks=())
    with pytest.raises(PlanError, match="too large"):
        Attachment(sha256=HASH, size=CHUNK * 70_000, chunks=(HASH,) * 70_000)
    good = Attachment(sha256=HASH, size=1, chunks=(HASH,))
    for files in ({}, {"../data.arrows": good}, {"data.exe": good}):
        with pytest.raises(PlanError):
            Delivery(artefact=HASH, files=files, rows=1, head=HASH)


def test_offers_are_checked() -> None:
    """An offer has rows and no identifiers."""
    schema = {"attributes": {"a": {"type": "integer", "domain": ["0", "9"]}}}
    with pytest.raises(PlanError, match="cannot be read"):
        Offer(schema="{", rows=1)
    with pytest.raises(PlanError, match="no rows"):
        Offer(schema=json.dumps(schema), rows=0)
    with pytest.raises(PlanError, match="not released"):
        Offer(
            schema=json.dumps(
                {"attributes": {"id": {"role": "identifier"}, **schema["attributes"]}}
            ),
            rows=1,
        )


def test_every_type_has_a_body() -> None:
    """The table of messages is complete, and every reason has words."""
    assert len({*BODIES.values()}) == len(BODIES)
    assert all(reason.words for reason in Reason)


def test_linkage_agrees_between_owners_and_hides_between_plans() -> None:
    """Two owners give one person one pseudonym; another plan gives another."""
    plan, other = "ab" * 32, "cd" * 32
    people = {"north": [b"1", b"2", b"3"], "south": [b"3", b"4"]}
    names = {}
    for plan_hash in (plan, other):
        secrets = {o: linkage.Secret(o.encode().ljust(32), plan_hash) for o in people}
        for owner, ids in people.items():
            batch = secrets[owner].blind(ids)
            peer = "south" if owner == "north" else "north"
            names[owner, plan_hash] = secrets[owner].finish(secrets[peer].raise_batch(batch))
            assert batch != secrets[peer].blind(ids)
    assert names["north", plan][2] == names["south", plan][0]
    assert len({*names["north", plan], *names["south", plan]}) == 4
    assert names["north", plan][2] != names["north", other][2]


def test_bad_batches_are_refused() -> None:
    """Bytes that are no group elements, cut batches and unsorted lists are refused."""
    secret = linkage.Secret(b"x" * 32, "ab" * 32)
    for batch in (b"\xff" * 32, b"\x00" * 32, b"\x01" * 31):
        with pytest.raises(PeerError):
            secret.raise_batch(batch)
    a, b = b"a" * 32, b"b" * 32
    linkage.check_pseudonyms(a + b, 2)
    for listed, count in ((b + a, 2), (a + a, 2), (a, 2), (a[:-1], 1)):
        with pytest.raises(PeerError):
            linkage.check_pseudonyms(listed, count)


def test_missing_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the group library the message names the part to install."""
    import sys

    monkeypatch.setitem(sys.modules, "rbcl", None)
    with pytest.raises(OSError, match=r"sherd\[federation\]"):
        linkage.Secret(b"x" * 32, "ab" * 32)
