"""What an owner refuses, what it tells whom, and what a person decides."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from driving import fetch, flush, receive, step
from people import PARTS, SCHEMA, part, people

import sherd
from sherd.errors import PeerError
from sherd.federation.owner import owner_linking as linking
from sherd.federation.owner.approvals import preview
from sherd.federation.protocol.joint_plan import Dropout, Kind, Linkage
from sherd.federation.protocol.messages import Invite, Message
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OwnerState, RoundState
from sherd.federation.wire.envelope import seal
from sherd.release.bundle import Release

if TYPE_CHECKING:
    from consortium import Consortium


def add(consortium: Consortium, **policy: Any) -> None:
    """Two owners of the same attributes; the policy changes are north's."""
    for number, name in enumerate(("north", "south")):
        table = people(12, seed=number, first=number * 100)
        given = policy if name == "north" else {}
        consortium.add_owner(name, table, SCHEMA, key_column="id", **given)


def outcome(consortium: Consortium, name: str = "north") -> tuple[OwnerState, Reason | None, str]:
    """How the round ended for an owner, and the detail it keeps."""
    data = consortium.agents[name].journal.round("r1")
    assert data is not None
    return data.state, data.reason, " ".join(data.details)


def rewrite(consortium: Consortium, old: str, new: str) -> None:
    """Change north's policy."""
    path = consortium.homes["north"].policy_file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("registry:", "someone:", Reason.UNKNOWN_AGGREGATOR),
        ("kinds: [horizontal, vertical]", "kinds: []", Reason.METHOD_NOT_ALLOWED),
        ("methods: [dp, dp-graph, dp-um,", "methods: [", Reason.METHOD_NOT_ALLOWED),
        ("least_k: 3", "least_k: 4", Reason.K_TOO_SMALL),
        ("least_rows: 3", "least_rows: 13", Reason.TOO_FEW_ROWS),
        ("largest_epsilon: 10", "largest_epsilon: 0.9", Reason.EPSILON_TOO_LARGE),
        ("lifetime_epsilon: 100", "lifetime_epsilon: 0.9", Reason.BUDGET),
    ],
)
def test_policy_refuses(consortium: Consortium, old: str, new: str, reason: Reason) -> None:
    """Whatever the policy does not allow is refused: detail to the owner, a code to the others."""
    add(consortium)
    rewrite(consortium, old, new)
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    assert outcome(consortium)[:2] == (OwnerState.REFUSED, reason)
    data = consortium.store.round("r1")
    assert data is not None
    assert (data.state, data.reason) == (RoundState.ABORTED, Reason.REFUSED)
    assert data.details == (f"north: {reason.words}",)
    assert not consortium.agents["north"].ledger.account("people of north").spent


def test_linkage_and_attribute_policies(consortium: Consortium) -> None:
    """A linkage that is not allowed is refused; attributes not allowed are not offered."""
    add(consortium)
    rewrite(consortium, "linkage: [oprf, hmac]", "linkage: [oprf]")
    consortium.aggregator.open_round(consortium.terms(linkage=Linkage.HMAC))
    consortium.settle()
    assert outcome(consortium)[1] is Reason.LINKAGE_NOT_ALLOWED
    rewrite(consortium, "attributes: all", "attributes: [age]")
    consortium.aggregator.open_round(consortium.terms("r2"))
    consortium.settle()
    data = consortium.store.round("r2")
    assert data is not None
    assert data.reason is Reason.DIFFERENT_ATTRIBUTES
    assert any("'income'" in text for text in data.details)


def test_a_template_policy_refuses_everything(consortium: Consortium) -> None:
    """The policy an owner begins with allows nothing."""
    from sherd.federation.owner.policy import TEMPLATE

    add(consortium)
    consortium.homes["north"].policy_file.write_text(TEMPLATE, encoding="utf-8")
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    assert outcome(consortium)[1] is Reason.UNKNOWN_AGGREGATOR


@pytest.mark.parametrize("decision", ["approve", "refuse"])
def test_a_person_decides(consortium: Consortium, decision: str) -> None:
    """With `approve: ask` nothing is signed before a person says so, and a no ends it."""
    add(consortium, approve="ask")
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    assert outcome(consortium)[0] is OwnerState.AWAITING_APPROVAL
    consortium.agents["north"].journal.decide("r1", decision)
    consortium.settle()
    expected = OwnerState.CLOSED if decision == "approve" else OwnerState.REFUSED
    assert outcome(consortium)[0] is expected


def test_preview_stays_here_and_is_not_charged(consortium: Consortium) -> None:
    """The preview is labelled internal, differs each time, and spends nothing."""
    add(consortium, approve="ask")
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    agent = consortium.agents["north"]
    data = agent.journal.round("r1")
    assert data is not None
    shown = [preview(agent.home, data) for _ in range(2)]
    assert shown[0]["label"].startswith("internal")
    assert set(shown[0]["distance"]) == {"age", "income", "colour"}
    assert shown[0]["distance"] != shown[1]["distance"]
    assert not agent.ledger.account("people of north").spent


def test_table_that_changed_since_the_offer(consortium: Consortium) -> None:
    """A table with other rows than offered is refused before anything is charged."""
    import pyarrow.parquet as pq

    add(consortium, approve="ask")
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    pq.write_table(people(13), consortium.homes["north"].folder / "table.parquet")
    consortium.agents["north"].journal.decide("r1", "approve")
    consortium.settle()
    assert outcome(consortium)[:2] == (OwnerState.REFUSED, Reason.METHOD_FAILED)
    assert not consortium.agents["north"].ledger.account("people of north").spent


def test_cells_never_reach_the_aggregator(consortium: Consortium) -> None:
    """A table that does not fit its schema is refused with a code; the detail stays."""
    table = people(12).set_column(3, "colour", pa.array(["red"] * 11 + ["mauve-SECRET"]))
    consortium.add_owner("north", table, SCHEMA)
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    state, reason, detail = outcome(consortium)
    assert (state, reason) == (OwnerState.REFUSED, Reason.METHOD_FAILED)
    assert "colour" in detail
    assert "SECRET" not in detail
    with consortium.store.engine.connect() as connection:
        from sqlalchemy import text

        raws = [bytes(row[0]) for row in connection.execute(text("SELECT raw FROM messages"))]
    assert not any(b"SECRET" in raw for raw in raws)


def test_keys_that_cannot_link(consortium: Consortium) -> None:
    """A key column with a person twice is refused; one with gaps links those who have one."""
    doubled = part("north", 12)
    doubled = doubled.set_column(0, "id", pa.array(["same"] * 2 + [f"x{i}" for i in range(10)]))
    consortium.add_owner("north", doubled, PARTS["north"], key_column="id")
    gaps = part("south", 12)
    ids = gaps.column("id").to_pylist()
    gaps = gaps.set_column(0, "id", pa.array([None, *ids[1:]]))
    consortium.add_owner("south", gaps, PARTS["south"], key_column="id")
    consortium.aggregator.open_round(consortium.terms(kind=Kind.VERTICAL))
    consortium.settle()
    assert outcome(consortium)[:2] == (OwnerState.REFUSED, Reason.METHOD_FAILED)
    data = consortium.store.round("r1")
    assert data is not None
    assert "south" not in data.offers or data.offers["south"].rows == 11


def test_hmac_needs_the_shared_key(consortium: Consortium) -> None:
    """Without the shared key, the low-assurance linkage is refused, not weakened."""
    add(consortium)
    consortium.aggregator.open_round(consortium.terms(linkage=Linkage.HMAC))
    consortium.settle()
    assert outcome(consortium)[:2] == (OwnerState.REFUSED, Reason.METHOD_FAILED)


def test_overlapping_people(consortium: Consortium) -> None:
    """A person at two owners aborts a horizontal round whose people are tested."""
    for name in ("north", "south"):
        consortium.add_owner(name, people(12, first=0), SCHEMA, key_column="id")
    consortium.aggregator.open_round(consortium.terms(linkage=Linkage.OPRF))
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.reason is Reason.OVERLAPPING_PEOPLE


@pytest.mark.parametrize(("common", "ends"), [(0, False), (1, False), (9, False), (10, True)])
def test_a_few_common_people_are_not_told(consortium: Consortium, common: int, ends: bool) -> None:
    """An owner that guesses a few people of another's learns nothing by whether the round ends."""
    for number, name in enumerate(("north", "south")):
        table = people(12, seed=number, first=number * (12 - common))
        consortium.add_owner(name, table, SCHEMA, key_column="id")
    consortium.aggregator.open_round(consortium.terms(linkage=Linkage.OPRF))
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert (data.reason is Reason.OVERLAPPING_PEOPLE) is ends
    if not ends:
        folder = consortium.aggregator.folder("r1")
        assert not sherd.verify(folder).failed
        manifest = Release.load(folder).manifest
        assert "fewer than 10 people" in manifest["joint"]["disjointness"]
        assert any("up to 9 people" in words for words in manifest["guarantee"]["not_covered"])


def test_forged_hops_are_refused(consortium: Consortium) -> None:
    """An owner raises only what the hop before it signed: the relay cannot ask for more."""
    for name in ("north", "south"):
        consortium.add_owner(name, part(name, 12), PARTS[name], key_column="id")
    consortium.aggregator.open_round(consortium.terms(kind=Kind.VERTICAL))
    for _ in range(3):
        for agent in consortium.agents.values():
            step(agent)
    for agent in consortium.agents.values():
        flush(agent)
    north = consortium.agents["north"]
    fetch(north)
    machine = north._book("r1").machine
    (hop,) = machine.data.to_raise
    linking.check_proof(machine, hop)
    for forged in (
        dataclasses.replace(hop, count=hop.count - 1),
        dataclasses.replace(hop, attachment=dataclasses.replace(hop.attachment, sha256="0" * 64)),
        dataclasses.replace(hop, proof="{}"),
        dataclasses.replace(hop, proof=hop.proof.replace('"hop":0', '"hop":1')),
    ):
        with pytest.raises(PeerError):
            linking.check_proof(machine, forged)


def test_messages_from_a_false_aggregator(consortium: Consortium) -> None:
    """Envelopes of another key, and invitations with another key inside, are not taken."""
    from sherd.signing_keys import SigningKey

    add(consortium)
    north = consortium.agents["north"]
    terms = consortium.terms()
    message = Message(
        round="r1",
        plan="",
        sender="registry",
        recipient="north",
        sequence=1,
        body=Invite(terms=terms, aggregator_key=consortium.key.public),
    )
    assert not receive(north, seal(message, SigningKey.generate(), expires=2**40))
    assert north.journal.round("r1") is None
    other = dataclasses.replace(
        message, body=Invite(terms=terms, aggregator_key=SigningKey.generate().public)
    )
    assert not receive(north, seal(other, consortium.key, expires=2**40))
    assert receive(north, seal(message, consortium.key, expires=2**40))
    assert not receive(north, seal(message, consortium.key, expires=2**40))


def test_other_methods_and_many_owners(consortium: Consortium) -> None:
    """Other methods, and promises without records, go through as well, all at once."""
    schema = SCHEMA.replace("attributes:", "missing: refuse\nattributes:")
    for number in range(5):
        table = people(30, seed=number, first=number * 100)
        consortium.add_owner(f"owner-{number}", table, schema)
    consortium.aggregator.open_round(
        consortium.terms("strict", parameters={"k": 3, "guarantee": "strict"})
    )
    consortium.aggregator.open_round(consortium.terms("plain", method="dp", parameters={}))
    consortium.aggregator.open_round(
        consortium.terms("cbls", method="idp-cbls", parameters={"k": 5, "guarantee": "centroids"})
    )
    consortium.settle()
    for name in ("strict", "plain", "cbls"):
        data = consortium.store.round(name)
        assert data is not None
        assert data.state is RoundState.RELEASED, (name, data.reason, data.details)
    strict = Release.load(consortium.aggregator.folder("strict"))
    assert len(strict.tables) == 5
    assert Release.load(consortium.aggregator.folder("plain")).tables["data"].num_rows == 150


@pytest.mark.slow
def test_a_method_without_epsilon(consortium: Consortium) -> None:
    """Generalised tables are united, too; nothing is charged where there is no epsilon."""
    for number in range(3):
        table = people(30, seed=number, first=number * 100)
        consortium.add_owner(f"owner-{number}", table, SCHEMA)
    terms = consortium.terms(method="mondrian", parameters={"k": 5}, epsilon=None)
    consortium.aggregator.open_round(terms)
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.RELEASED, (data.reason, data.details)
    assert Release.load(consortium.aggregator.folder("r1")).tables["data"].num_rows == 90
    for agent in consortium.agents.values():
        assert {entry.measure for entry in agent.ledger.entries()} <= {"none"}
        assert str(agent.ledger.account(agent.home.settings.population).spent) == "0"


def test_an_owner_left_out_at_first(consortium: Consortium) -> None:
    """With `continue`, a round goes on without an owner whose policy refuses."""
    add(consortium)
    rewrite(consortium, "least_k: 3", "least_k: 9")
    consortium.aggregator.open_round(consortium.terms(dropout=Dropout.CONTINUE))
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.RELEASED
    manifest = Release.load(consortium.aggregator.folder("r1")).manifest
    assert manifest["joint"]["dropped_out"] == {"north": Reason.K_TOO_SMALL.words}


def test_deliveries_are_verified(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delivery that is not what the plan asks for ends the round without a release."""
    from sherd.errors import VerificationError
    from sherd.federation.aggregator.delivery_check import check_delivery
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

    schema = Schema.from_data(
        {
            "attributes": {
                "age": {"type": "integer", "domain": ["0", "99"]},
                "colour": {"type": "category", "values": ["red", "blue"]},
            }
        }
    )
    plan = Plan(method="dp-um", epsilon=1.0, k=3)
    good = pa.table({"age": [1] * 3 + [5] * 3, "colour": ["red"] * 3 + ["blue"] * 3})
    check_delivery("north", {"data": good}, schema, plan, 6)
    for table, rows, words in (
        (good.select(["age"]), 6, "columns"),
        (good, 7, "rows"),
        (good.set_column(0, "age", pa.array([1, 1, 5, 5, 5, 5])), 6, "fewer than 3"),
        (good.set_column(0, "age", pa.array([1] * 3 + [100] * 3)), 6, "outside"),
        (good.set_column(1, "colour", pa.array(["red"] * 3 + ["green"] * 3)), 6, "label"),
    ):
        with pytest.raises(VerificationError, match=words):
            check_delivery("north", {"data": table}, schema, plan, rows)
    add(consortium)

    def refuse(*_args: object, **_options: object) -> None:
        raise VerificationError("the delivery of north is not what the plan asks for")

    monkeypatch.setattr("sherd.federation.aggregator.assembly.check_delivery", refuse)
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert (data.state, data.reason) == (RoundState.ABORTED, Reason.VERIFICATION)
    assert not consortium.aggregator.folder("r1").exists()
