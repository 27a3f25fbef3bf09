"""Owners that lose their memory: same plan, same bytes; and the way back from a backup."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from deliveries import artefacts, round_of
from driving import step
from people import KINDS, PARTS, SCHEMA, part, people

from sherd.federation.owner.recovery import recover
from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OwnerState, RoundState

if TYPE_CHECKING:
    from pathlib import Path

    from consortium import Consortium

    from sherd.federation.owner.agent import Agent


def add(consortium: Consortium, kind: Kind = Kind.HORIZONTAL) -> None:
    """Two owners."""
    for number, name in enumerate(("north", "south")):
        if kind is Kind.VERTICAL:
            consortium.add_owner(name, part(name, 12), PARTS[name], key_column="id")
        else:
            table = people(12, seed=number, first=number * 100)
            consortium.add_owner(name, table, SCHEMA, key_column="id")


def restore(consortium: Consortium, backup: Path) -> Agent:
    """Put north's folder back as it was, and start its agent."""
    home = consortium.homes["north"].folder
    consortium.agents["north"].journal.close()
    shutil.rmtree(home)
    shutil.copytree(backup, home)
    return consortium.start("north")


def back_up(consortium: Consortium) -> Path:
    """A copy of north's folder, as a backup makes it."""
    target = consortium.folder / "backup"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(consortium.homes["north"].folder, target)
    return target


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_plan_gives_the_same_bytes(
    consortium: Consortium, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home restored to before it protected makes every file of its artefact the same again.

    The aggregator keeps back which ledger head it saw, or the owner would not go on at all.
    """
    monkeypatch.setattr(consortium.store, "head", lambda _owner: None)
    add(consortium, kind)
    consortium.aggregator.open_round(consortium.terms(kind=kind))
    backups: list[Path] = []
    north = consortium.agents["north"]
    for _ in range(14):
        before = back_up(consortium) if not artefacts(north) else None
        if before is not None:
            backups[:] = [before]
        for agent in consortium.agents.values():
            step(agent)
        consortium.aggregator.work()
        if artefacts(north):
            break
    made = artefacts(north)
    assert len(made) == 3
    again = restore(consortium, backups[0])
    assert not artefacts(again)
    for _ in range(3):
        again.turn()
        consortium.aggregator.work()
    assert artefacts(again) == made, again.journal.audit()
    consortium.settle()
    assert round_of(consortium).state is RoundState.RELEASED


def test_another_plan_or_table_has_other_noise(consortium: Consortium) -> None:
    """The noise of one round tells nothing about another's: no file is the same, nor the key."""
    add(consortium)
    north = consortium.agents["north"]
    tables = []
    for round_id in ("r1", "r2"):
        consortium.aggregator.open_round(consortium.terms(round_id))
        consortium.settle()
        tables.append({path: h for path, h in artefacts(north).items() if path.endswith("arrows")})
    assert len(tables[1]) == 2
    assert len(set(tables[1].values())) == 2


def test_the_noise_is_stamped_as_that_of_any_release(consortium: Consortium) -> None:
    """A keyed stream carries the guarantee: no stamp says that the release has none."""
    from sherd.release.bundle import read_manifest

    add(consortium)
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    (folder,) = consortium.homes["north"].outbox.iterdir()
    manifest = read_manifest(folder)
    assert manifest["stamps"] == []
    assert "no guarantee" not in str(manifest["guarantee"])


def test_a_restored_ledger_is_noticed_at_login(consortium: Consortium) -> None:
    """Before it offers anything, an owner learns that its ledger is older than it was."""
    add(consortium)
    backup = back_up(consortium)
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    assert round_of(consortium).state is RoundState.RELEASED
    north = restore(consortium, backup)
    consortium.aggregator.open_round(consortium.terms("r2"))
    consortium.settle()
    data = north.journal.round("r2")
    assert data is not None
    assert (data.state, data.reason) == (OwnerState.REFUSED, Reason.ROLLED_BACK)
    assert "sherd owner recover" in data.details[0]
    assert data.offer is None


@pytest.mark.parametrize("until", ["released", "signed"])
def test_recovering_spends_what_may_have_been_spent(consortium: Consortium, until: str) -> None:
    """Every plan that was signed is charged, once, and the owner can take part again."""
    add(consortium)
    backup = back_up(consortium)
    consortium.aggregator.open_round(consortium.terms())
    if until == "released":
        consortium.settle()
    else:
        for _ in range(2):
            for agent in consortium.agents.values():
                step(agent)
        assert "north" in round_of(consortium).signatures
    north = restore(consortium, backup)
    assert str(north.ledger.account("people of north").spent) == "0"
    for _ in range(2):  # a second time charges nothing more
        recover(north.home, north.client, north.ledger, north.journal)
        assert str(north.ledger.account("people of north").spent) == "1"
    (entry,) = [entry for entry in north.ledger.entries() if entry.kind == "charge"]
    expected = "delivered" if until == "released" else "may have been delivered"
    assert entry.note == f"recovered: round r1, {expected}"
    north.ledger.verify()
    began = consortium.time
    consortium.settle()
    if until == "signed":  # the others hear of it at once and do not wait for the deadline
        ended = round_of(consortium)
        assert (ended.state, ended.reason) == (RoundState.ABORTED, Reason.REFUSED)
        assert ended.details == (f"north: {Reason.ROLLED_BACK.words}",)
        south = consortium.agents["south"].journal.round("r1")
        assert south is not None
        assert south.state is OwnerState.ABORTED
        assert consortium.time == began
    consortium.aggregator.open_round(consortium.terms("r2"))
    consortium.settle()
    assert round_of(consortium, "r2").state is RoundState.RELEASED
    assert str(north.ledger.account("people of north").spent) == "2"


def test_the_aggregator_cannot_invent_a_charge(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a plan that carries the owner's own signature is charged."""
    add(consortium)
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    north = consortium.agents["north"]
    spent = north.ledger.account("people of north").spent
    _, raws = north.client.commitments()
    forged = [raw.replace(b'"r1"', b'"r9"') for raw in raws]
    no_signature = [raw for raw in raws if b'"type":"signature"' not in raw]
    for given in (forged, no_signature, [b"", b"{}", b"\xff"], []):
        answer: Any = (None, given)
        monkeypatch.setattr(north.client, "commitments", lambda answer=answer: answer)
        assert recover(north.home, north.client, north.ledger, north.journal) == []
    assert north.ledger.account("people of north").spent == spent


# a round that is repeated costs nothing more


def test_a_repeated_round_costs_nothing_more(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spent and nothing released: said so, with who caused it; the repetition is free."""
    from sherd.errors import VerificationError
    from sherd.federation.aggregator import round_tasks

    add(consortium, Kind.VERTICAL)
    good = round_tasks.check  # type: ignore[attr-defined]

    def refuse(data: Any, owner: str, tables: Any) -> None:
        raise VerificationError(f"the delivery of {owner} is not what the plan asks for")

    monkeypatch.setattr(round_tasks, "check", refuse)
    consortium.aggregator.open_round(consortium.terms(kind=Kind.VERTICAL))
    for _ in range(12):  # both are charged before the aggregator looks
        for agent in consortium.agents.values():
            step(agent)
        if round_of(consortium).state is RoundState.LINKING:
            consortium.aggregator.work()
    consortium.settle()
    assert round_of(consortium).state is RoundState.ABORTED
    north = consortium.agents["north"]
    said = [line for line in north.journal.audit() if line[2] == "spent, nothing released"]
    assert len(said) == 1
    assert "the delivery of north" in said[0][3]
    (lost,) = [entry for entry in north.ledger.entries() if "nothing released" in entry.note]
    assert lost.note.startswith("round r1: spent, nothing released: a delivery is not what")
    assert "the delivery of north" in lost.note
    assert (lost.measure, str(lost.amount)) == ("none", "0")
    north.ledger.verify()
    first = artefacts(north)
    monkeypatch.setattr(round_tasks, "check", good)
    deadline = int(consortium.time) + 3600
    consortium.aggregator.repeat("r1", name="r2", deadline=deadline)
    consortium.settle()
    assert round_of(consortium, "r2").state is RoundState.RELEASED
    assert str(north.ledger.account("people of north").spent) == "0.666667"
    assert artefacts(north) == first


def test_only_a_failed_round_of_ours_is_repeated(consortium: Consortium) -> None:
    """A round that says to repeat a released one, or one nobody knows, is refused."""
    import dataclasses

    add(consortium)
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    plan = round_of(consortium).plan
    assert plan is not None
    for number, repeats in enumerate((plan.hash, "0" * 64)):
        name = f"again-{number}"
        terms = dataclasses.replace(consortium.terms(name), repeats=repeats)
        consortium.aggregator.open_round(terms)
        consortium.settle()
        data = consortium.agents["north"].journal.round(name)
        assert data is not None
        assert (data.state, data.reason) == (OwnerState.REFUSED, Reason.PLAN_CHANGED)
