"""The paper's two protocols step by step, and every way a round is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from fakewire import AGGREGATOR, FakeWire, Party, key_of, sign

from sherd.errors import PeerError, PlanError
from sherd.federation.protocol.composition import make_plan, shares, unsound
from sherd.federation.protocol.joint_plan import Dropout, Kind, Linkage, Sharing, Terms
from sherd.federation.protocol.messages import (
    Abort,
    Invite,
    Message,
    Proposal,
    Refusal,
    Signature,
    Signed,
)
from sherd.federation.protocol.owner_machine import OwnerTask
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OwnerState, RoundState
from sherd.values import digest


def schema(*names: str, high: str = "9") -> dict[str, Any]:
    """A schema of whole numbers."""
    return {"attributes": {n: {"type": "integer", "domain": ["0", high]} for n in names}}


def terms(kind: Kind = Kind.HORIZONTAL, **changes: Any) -> Terms:
    """Terms of a round between north and south."""
    base: dict[str, Any] = {
        "round": "r1",
        "aggregator": AGGREGATOR,
        "kind": kind,
        "owners": ("north", "south"),
        "method": "dp-um",
        "parameters": {"k": 3},
        "epsilon": "1",
        "linkage": Linkage.OPRF if kind is Kind.VERTICAL else Linkage.NONE,
        "deadline": 1000,
    }
    return Terms(**{**base, **changes})


def horizontal() -> list[Party]:
    """Two owners of the same attributes."""
    return [
        Party(name=n, schema=schema("a", "b"), people=tuple(f"{n}{i}" for i in range(5)))
        for n in ("north", "south")
    ]


def vertical() -> list[Party]:
    """Two owners of different attributes, of four common people and one of its own each."""
    common = tuple(f"person {i}" for i in range(4))
    return [
        Party(name="north", schema=schema("a", "b", "c"), people=(*common, "n")),
        Party(name="south", schema=schema("d"), people=("s", *reversed(common))),
    ]


def bodies(wire: FakeWire, owner: str) -> list[str]:
    """The kinds of messages an owner was sent."""
    return [message.type.value for message in wire.out[owner]]


def test_horizontal_protocol_step_by_step() -> None:
    """Steps 1 to 8 of section 4.2.1 happen in order, with equal epsilon and k from 3."""
    wire = FakeWire(terms(), horizontal())
    # 1. κ requests the attributes each owner is willing to share
    assert [type(wire.out[n][0].body) for n in ("north", "south")] == [Invite, Invite]
    while wire.packets:
        wire.deliver(0)
    # 2. metadata is sent
    assert wire.owner_works("north")
    wire.deliver(0)
    assert wire.load().state is RoundState.ATTRIBUTES
    assert wire.owner_works("south")
    # 3. κ verifies A_1 = A_2; 4. requests datasets with k >= 3 and equal epsilon
    wire.deliver(0)
    data = wire.load().data
    assert data.state is RoundState.PLAN_PROPOSED
    assert data.plan is not None
    assert [share.epsilon for share in data.plan.shares] == ["1", "1"]
    assert (data.plan.composition, data.plan.composed, data.plan.bound) == ("parallel", "1", "2")
    assert data.plan.local("north")["k"] == 3
    # 5.-6. every owner signs, masks and charges; 7. κ retrieves and aggregates; 8. releases
    wire.run()
    assert wire.load().state is RoundState.RELEASED
    assert bodies(wire, "north") == ["invite", "proposal", "signed", "receipt", "released"]
    assert all(len(party.charges) == 1 for party in wire.parties.values())
    assert all(p.load().state is OwnerState.CLOSED for p in wire.parties.values())


@pytest.mark.parametrize("linkage", [Linkage.OPRF, Linkage.HMAC])
def test_vertical_protocol_step_by_step(linkage: Linkage) -> None:
    """Section 4.2.2: disjoint attributes, epsilon shared out, people matched, joined."""
    wire = FakeWire(terms(Kind.VERTICAL, linkage=linkage), vertical())
    wire.run()
    data = wire.load().data
    assert data.state is RoundState.RELEASED
    assert data.plan is not None
    assert {s.owner: s.epsilon for s in data.plan.shares} == {"north": "0.75", "south": "0.25"}
    assert (data.plan.composition, data.plan.composed) == ("sequential", "1")
    assert data.common_count == 4
    north, south = wire.parties.values()
    assert north.common == south.common
    assert len(north.common) == 4 * 32


def test_equal_sharing_is_the_papers() -> None:
    """The paper's ε/m is there; shares add up to ε exactly where it does not divide."""
    wire = FakeWire(terms(Kind.VERTICAL, sharing=Sharing.EQUAL, epsilon="1.000001"), vertical())
    wire.run()
    plan = wire.load().data.plan
    assert plan is not None
    assert [s.epsilon for s in plan.shares] == ["0.500001", "0.5"]
    assert plan.composed == "1.000001"


def test_share_too_small() -> None:
    """An owner that would get no epsilon at all ends the round."""
    wire = FakeWire(terms(Kind.VERTICAL, epsilon="0.000001"), vertical())
    wire.run()
    assert wire.load().data.reason is Reason.PLAN_UNSOUND


def test_given_shares() -> None:
    """Shares can be given; more than epsilon in all is refused."""
    given = {"north": "0.6", "south": "0.4"}
    wire = FakeWire(terms(Kind.VERTICAL, sharing=Sharing.GIVEN, given=given), vertical())
    wire.run()
    plan = wire.load().data.plan
    assert plan is not None
    assert {s.owner: s.epsilon for s in plan.shares} == given
    over = terms(Kind.VERTICAL, sharing=Sharing.GIVEN, given={"north": "0.6", "south": "0.5"})
    with pytest.raises(PlanError, match="exceed epsilon"):
        shares(over, {p.name: p.offer().parsed() for p in vertical()})


def test_different_attributes_are_refused_with_every_difference() -> None:
    """A horizontal round of different schemas is aborted and says what differs and how."""
    parties = horizontal()
    parties[1].schema = schema("a", "c", high="8")
    wire = FakeWire(terms(), parties)
    wire.run()
    data = wire.load().data
    assert (data.state, data.reason) == (RoundState.ABORTED, Reason.DIFFERENT_ATTRIBUTES)
    text = "\n".join(data.details)
    assert "south lacks the attribute 'b' of north" in text
    assert "north lacks the attribute 'c' of south" in text
    assert "'a': domain is ['0', '9'] at north and ['0', '8'] at south" in text
    assert parties[0].load().state is OwnerState.ABORTED
    assert not parties[0].charges


def test_overlapping_attributes_are_refused() -> None:
    """A vertical round in which an attribute is at two owners is aborted."""
    parties = vertical()
    parties[1].schema = schema("c", "d")
    wire = FakeWire(terms(Kind.VERTICAL), parties)
    wire.run()
    data = wire.load().data
    assert (data.state, data.reason) == (RoundState.ABORTED, Reason.OVERLAPPING_ATTRIBUTES)
    assert data.details == ("the attribute 'c' is offered by north and south",)


def test_too_few_rows_for_one_cluster() -> None:
    """An owner with fewer rows than k cannot take part."""
    parties = horizontal()
    parties[0].people = ("one", "two")
    wire = FakeWire(terms(), parties)
    wire.run()
    assert wire.load().data.reason is Reason.TOO_FEW_ROWS


def test_too_few_common_people() -> None:
    """A vertical round whose common people do not fill a cluster is aborted uncharged."""
    parties = vertical()
    parties[0].people = ("person 0", "x", "y")
    wire = FakeWire(terms(Kind.VERTICAL), parties)
    wire.run()
    assert wire.load().data.reason is Reason.TOO_FEW_COMMON
    assert not any(party.charges for party in parties)


@pytest.mark.parametrize("linkage", [Linkage.OPRF, Linkage.HMAC])
def test_overlapping_people_abort_a_horizontal_round(linkage: Linkage) -> None:
    """With a key, disjointness is tested and an overlap aborts before anything is spent."""
    parties = horizontal()
    parties[0].people = (*parties[0].people, "south3")
    wire = FakeWire(terms(linkage=linkage), parties)
    wire.run()
    assert wire.load().data.reason is Reason.OVERLAPPING_PEOPLE
    assert not any(party.charges for party in parties)


@pytest.mark.parametrize("linkage", [Linkage.OPRF, Linkage.HMAC])
def test_disjoint_people_pass_the_test(linkage: Linkage) -> None:
    """With a key and disjoint people, the round goes through."""
    wire = FakeWire(terms(linkage=linkage), horizontal())
    wire.run()
    assert wire.load().state is RoundState.RELEASED


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameters": {"k": 2}}, "too small for a joint release"),
        ({"parameters": {"k": 5, "k_of": {"a": 2}}}, "too small for a joint release"),
        ({"epsilon": "0"}, "out of range"),
        ({"epsilon": "0.0000001"}, "out of range"),
        ({"epsilon": None}, "needs an epsilon"),
        ({"parameters": {"k": 3, "epsilon": 1}}, "not a parameter"),
        ({"owners": ()}, "owners are not valid"),
        ({"owners": ("north", "north")}, "owners are not valid"),
        ({"owners": ("North",)}, "name of the owner"),
        ({"least_owners": 3}, "least number of owners"),
        ({"kind": Kind.VERTICAL, "linkage": Linkage.NONE}, "links people"),
        (
            {"kind": Kind.VERTICAL, "linkage": Linkage.OPRF, "dropout": Dropout.CONTINUE},
            "cannot go on",
        ),
        ({"sharing": Sharing.GIVEN, "given": {"north": "1", "south": "1"}}, "same epsilon"),
        (
            {"kind": Kind.VERTICAL, "linkage": Linkage.HMAC, "sharing": Sharing.GIVEN},
            "one for each",
        ),
    ],
)
def test_terms_that_cannot_be(changes: dict[str, Any], words: str) -> None:
    """Terms are checked when made: k < 3, a vertical round without linkage, and so on."""
    with pytest.raises(PlanError, match=words):
        terms(**changes)


def _until_proposal(parties: list[Party], **changes: Any) -> FakeWire:
    wire = FakeWire(terms(**changes), parties)
    for name in ("north", "south"):
        while wire.packets:
            wire.deliver(0)
        wire.owner_works(name)
    while wire.packets:
        wire.deliver(0)
    return wire


def test_owner_recomputes_a_changed_plan() -> None:
    """A plan whose numbers were changed is found by recomputation, whatever was changed."""
    wire = _until_proposal(horizontal())
    plan = wire.load().data.plan
    assert plan is not None
    assert unsound(plan) is None
    share = plan.shares[0]
    wrong = [
        dataclasses.replace(plan, composed="0.5"),
        dataclasses.replace(plan, bound="1"),
        dataclasses.replace(plan, composition="sequential"),
        dataclasses.replace(
            plan, shares=(dataclasses.replace(share, epsilon="2"), *plan.shares[1:])
        ),
        dataclasses.replace(plan, shares=(share, share)),
        dataclasses.replace(
            plan, schemas={share.schema_hash: json.dumps(schema("a", "b", high="7"))}
        ),
        dataclasses.replace(plan, schemas={}),
    ]
    for changed in wrong:
        found = unsound(changed)
        assert found is not None
        assert found[0] is Reason.PLAN_UNSOUND
    owner = wire.parties["north"].load()
    for changed, reason in [
        (dataclasses.replace(plan, terms=terms(epsilon="2")), Reason.PLAN_CHANGED),
        (dataclasses.replace(plan, aggregator_key="other"), Reason.PLAN_CHANGED),
        (
            dataclasses.replace(
                plan, shares=(dataclasses.replace(share, key="other"), *plan.shares[1:])
            ),
            Reason.PLAN_CHANGED,
        ),
        (
            dataclasses.replace(
                plan, shares=(dataclasses.replace(share, rows=99), *plan.shares[1:])
            ),
            Reason.PLAN_CHANGED,
        ),
        (dataclasses.replace(plan, shares=plan.shares[1:]), Reason.PLAN_CHANGED),
    ]:
        owner.data.plan = changed
        found = owner.recompute()
        assert found is not None
        assert found[0] is reason


def test_a_second_plan_in_a_round_is_refused() -> None:
    """A new plan is a new round: another proposal is refused by the owner."""
    wire = _until_proposal(horizontal())
    owner = wire.parties["north"].load()
    plan = owner.data.plan
    assert plan is not None
    other = dataclasses.replace(plan, composed="0.5")
    message = Message(
        round="r1",
        plan=other.hash,
        sender=AGGREGATOR,
        recipient="north",
        sequence=owner.data.received + 1,
        body=Proposal(plan=other, head=None),
    )
    with pytest.raises(PeerError) as caught:
        owner.receive(message)
    assert caught.value.reason is Reason.PLAN_CHANGED


def test_unsigned_plan_does_not_run() -> None:
    """An owner told to go on without everybody's signature refuses."""
    wire = _until_proposal(horizontal())
    wire.owner_works("north")
    assert wire.owner_works("north")
    owner = wire.parties["north"].load()
    assert owner.state is OwnerState.APPROVED
    plan = owner.data.plan
    assert plan is not None
    own = {"north": sign(key_of("north"), plan.hash)}
    for signatures in (own, {**own, "south": sign(key_of("north"), plan.hash)}):
        message = Message(
            round="r1",
            plan=plan.hash,
            sender=AGGREGATOR,
            recipient="north",
            sequence=owner.data.received + 1,
            body=Signed(signatures=signatures, head=None),
        )
        with pytest.raises(PeerError) as caught:
            owner.receive(message)
        assert caught.value.reason is Reason.PLAN_UNSIGNED
    assert owner.task is None


def test_wrong_signature_of_a_plan_is_refused() -> None:
    """The aggregator refuses a signature that is not the owner's."""
    wire = _until_proposal(horizontal())
    machine = wire.load()
    assert machine.data.plan is not None
    message = Message(
        round="r1",
        plan=machine.data.plan.hash,
        sender="north",
        recipient=AGGREGATOR,
        sequence=2,
        body=Signature(signature=sign(key_of("south"), machine.data.plan.hash)),
    )
    with pytest.raises(PeerError) as caught:
        machine.receive(message, now=0)
    assert caught.value.reason is Reason.SIGNATURE
    assert machine.data.received["north"] == 1


def test_refusal_by_policy_and_by_a_person() -> None:
    """A refusal before or after the proposal ends the round; only a code crosses over."""
    for change in ({"policy": Reason.UNKNOWN_AGGREGATOR}, {"approves": False}):
        parties = horizontal()
        for name, value in change.items():
            setattr(parties[0], name, value)
        wire = FakeWire(terms(), parties)
        wire.run()
        assert wire.load().data.reason is Reason.REFUSED
        assert parties[0].load().state is OwnerState.REFUSED
        assert not any(party.charges for party in parties)


def test_horizontal_goes_on_without_an_owner_only_if_the_terms_say_so() -> None:
    """With the rule `continue`, an owner that refuses at first is left out of the plan."""
    parties = horizontal()
    parties[0].policy = Reason.METHOD_NOT_ALLOWED
    wire = FakeWire(terms(dropout=Dropout.CONTINUE), parties)
    wire.run()
    data = wire.load().data
    assert data.state is RoundState.RELEASED
    assert data.plan is not None
    assert data.plan.owners == ("south",)
    assert data.dropped == {"north": Reason.METHOD_NOT_ALLOWED}


def _at_collecting(dropout: Dropout) -> FakeWire:
    wire = _until_proposal(horizontal(), dropout=dropout)
    for _ in range(2):  # check, approve
        for name in ("north", "south"):
            wire.owner_works(name)
    while wire.packets:
        wire.deliver(0)
    assert wire.load().state is RoundState.COLLECTING
    return wire


def test_deadline_with_and_without_going_on() -> None:
    """At the deadline a round expires, or is assembled from those who delivered in time."""
    for dropout, expected in (
        (Dropout.ABORT, RoundState.EXPIRED),
        (Dropout.CONTINUE, RoundState.RELEASED),
    ):
        wire = _at_collecting(dropout)
        wire.owner_works("north")
        while wire.packets:
            wire.deliver(0)
        machine = wire.load()
        assert machine.tick(1000) == []
        wire._keep(machine, machine.tick(1001))
        wire.now = 1001
        wire.run()
        assert wire.load().state is expected
        assert wire.parties["south"].load().state is OwnerState.EXPIRED
        assert wire.parties["north"].load().state is OwnerState.CLOSED
        assert not wire.parties["south"].charges


def test_late_delivery_is_refused() -> None:
    """What arrives after the deadline is refused with the code `late`."""
    wire = _at_collecting(Dropout.ABORT)
    wire.owner_works("north")
    wire.now = 1001
    wire.deliver(0)
    assert [error.reason for error in wire.errors] == [Reason.LATE]


def test_refusal_while_collecting() -> None:
    """An owner whose budget was spent by another round meanwhile drops out of this one."""
    for dropout, expected in (
        (Dropout.ABORT, RoundState.ABORTED),
        (Dropout.CONTINUE, RoundState.RELEASED),
    ):
        wire = _at_collecting(dropout)
        party = wire.parties["south"]
        owner = party.load()
        assert owner.task is OwnerTask.PROTECT
        sent = owner.refuse(Reason.BUDGET)
        party.store(owner, sent)
        wire.packets.append(("aggregator", sent))
        wire.run()
        assert wire.load().state is expected


def test_messages_that_do_not_belong_here() -> None:
    """Other rounds, recipients, senders, plans, gaps, repeats and wrong states are refused."""
    wire = _until_proposal(horizontal())
    machine = wire.load()
    assert machine.data.plan is not None
    good = Message(
        round="r1",
        plan=machine.data.plan.hash,
        sender="north",
        recipient=AGGREGATOR,
        sequence=2,
        body=Signature(signature="00"),
    )
    offer = wire.parties["north"].offer()
    cases: list[tuple[dict[str, Any], Reason]] = [
        ({"round": "r2"}, Reason.WRONG_ROUND),
        ({"recipient": "south"}, Reason.WRONG_RECIPIENT),
        ({"sender": "east"}, Reason.UNKNOWN_SENDER),
        ({"body": Abort(reason=Reason.STOPPED)}, Reason.UNKNOWN_SENDER),
        ({"plan": digest("other")}, Reason.PLAN_CHANGED),
        ({"plan": ""}, Reason.PLAN_CHANGED),
        ({"sequence": 1}, Reason.SEQUENCE_REUSED),
        ({"sequence": 3}, Reason.SEQUENCE_GAP),
        ({"body": offer}, Reason.UNEXPECTED),
    ]
    for changes, reason in cases:
        with pytest.raises(PeerError) as caught:
            machine.receive(dataclasses.replace(good, **changes), now=0)
        assert caught.value.reason is reason
    assert wire.load().data == machine.data
    owner = wire.parties["north"].load()
    note = Message(
        round="r1",
        plan=good.plan,
        sender=AGGREGATOR,
        recipient="north",
        sequence=3,
        body=Signed(signatures={}, head=None),
    )
    cases = [
        ({"round": "r2"}, Reason.WRONG_ROUND),
        ({"recipient": "south"}, Reason.WRONG_RECIPIENT),
        ({"sender": "south"}, Reason.UNKNOWN_SENDER),
        ({"body": Refusal(reason=Reason.BUDGET)}, Reason.UNKNOWN_SENDER),
        ({"sequence": 4}, Reason.SEQUENCE_GAP),
        ({"plan": digest("other")}, Reason.PLAN_CHANGED),
        ({}, Reason.UNEXPECTED),
    ]
    for changes, reason in cases:
        with pytest.raises(PeerError) as caught:
            owner.receive(dataclasses.replace(note, **changes))
        assert caught.value.reason is reason
    assert owner.receive(dataclasses.replace(note, sequence=2)) is False


def test_make_plan_checks_the_method() -> None:
    """A schema the method cannot mask ends the round with the reason, before any signature."""
    parties = [
        Party(name=n, schema={"attributes": {"a": {"type": "integer"}}}, people=("1", "2", "3"))
        for n in ("north", "south")
    ]
    wire = FakeWire(terms(), parties)
    wire.run()
    assert wire.load().data.reason is Reason.PLAN_UNSOUND
    assert "domain" in wire.load().data.details[0]
    with pytest.raises(ValueError, match="domain"):
        make_plan(
            terms(),
            {p.name: p.offer() for p in parties},
            {p.name: key_of(p.name) for p in parties},
            "key",
        )
