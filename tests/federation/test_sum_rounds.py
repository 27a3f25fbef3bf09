"""Rounds of sums: dp-graph over rows of several owners, through real agents and storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from driving import fetch, flush
from people import SCHEMA, people

import sherd
from sherd.errors import PeerError, PlanError
from sherd.federation.aggregator import round_tasks, sum_rounds
from sherd.federation.owner import owner_counting
from sherd.federation.protocol.joint_plan import Dropout, Kind
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OwnerState, RoundState
from sherd.federation.protocol.summing import masked, public_key, total
from sherd.federation.wire.chunks import describe
from sherd.release.bundle import Release
from sherd.values import canonical

if TYPE_CHECKING:
    from consortium import Consortium

    from sherd.federation.owner.agent import Agent
    from sherd.federation.protocol.knowledge import RoundData

PARAMETERS = {"delta": 1e-6, "choice": "all"}
NAMES = ("north", "south", "west")


def add_owners(consortium: Consortium, *sizes: int) -> None:
    """Owners of the same attributes and different people."""
    for number, (name, size) in enumerate(zip(NAMES, sizes, strict=False)):
        table = people(size, seed=number, first=number * 10_000)
        consortium.add_owner(name, table, SCHEMA, key_column="id")


def open_round(consortium: Consortium, round_id: str = "r1", **changes: Any) -> None:
    """Invite everybody to a round of sums."""
    base: dict[str, Any] = {"method": "dp-graph", "parameters": PARAMETERS, "epsilon": "5"}
    consortium.aggregator.open_round(consortium.terms(round_id, **{**base, **changes}))


def data_of(consortium: Consortium, round_id: str = "r1") -> RoundData:
    """What the aggregator knows of a round."""
    data = consortium.store.round(round_id)
    assert data is not None
    return data


def spent(agent: Agent) -> str:
    """What an owner's people have spent."""
    return str(agent.ledger.account(agent.home.settings.population).spent)


def settle_until(consortium: Consortium, asked: int) -> None:
    """Let everybody work until so many questions were asked."""
    for _ in range(60):
        for agent in consortium.agents.values():
            agent.turn()
            flush(agent)
        consortium.aggregator.work()
        if len(data_of(consortium).asked or ()) >= asked:
            return
    raise AssertionError("so many questions were never asked")


def check_released(consortium: Consortium, round_id: str = "r1") -> Release:
    """The round has a release that verifies, and everybody was charged once."""
    data = data_of(consortium, round_id)
    assert data.state is RoundState.RELEASED, (data.reason, data.details)
    folder = consortium.aggregator.folder(round_id)
    found = sherd.verify(folder)
    assert found.passed, [check for check in found.checks if check.passed is False]
    for agent in consortium.agents.values():
        assert spent(agent) == "5"
        agent.ledger.verify()
    return Release.load(folder)


@pytest.mark.parametrize("colluders", [None, 0])
def test_round_of_sums(consortium: Consortium, colluders: int | None) -> None:
    """Three owners' rows lead to one verified release; each is charged once, in ε and in ρ."""
    add_owners(consortium, 400, 300, 200)
    for home in consortium.homes.values():
        text = home.policy_file.read_text() + "least_colluders: 0\n"
        home.policy_file.write_text(text)
    open_round(consortium, colluders=colluders)
    consortium.settle()
    assert consortium.ended()
    release = check_released(consortium)
    assert release.tables["data"].num_rows == 900
    noise = release.manifest["joint"]["noise"]
    assert (noise["owners"], noise["colluders"]) == (3, 2 if colluders is None else 0)
    for agent in consortium.agents.values():
        charges = [entry for entry in agent.ledger.entries() if entry.kind == "charge"]
        assert [entry.measure for entry in charges] == ["dp", "none"]
        assert charges[0].rho is not None
        kept = agent.journal.round("r1")
        assert kept is not None
        assert kept.state is OwnerState.CLOSED
        assert not list(agent.home.bulk.iterdir()), "answers are thrown away at the end"
    facts = release.manifest["guarantee"]["not_covered"]
    assert any("counts as so many records" in words for words in facts)


def test_aggregator_sees_masked_numbers_alone(consortium: Consortium) -> None:
    """What an owner hands in is uniform on 64 bits; the sum of all is the noisy histogram.

    2 × 210 numbers: were one of them small (below 2^48), that is chance once in 150 runs a number
    of 2^-16; at most two are expected never in a million runs.
    """
    add_owners(consortium, 400, 300)
    open_round(consortium)
    settle_until(consortium, 1)
    for agent in consortium.agents.values():
        agent.turn()
        flush(agent)
    data = data_of(consortium)
    assert data.masked is not None
    assert set(data.masked) == {"north", "south"}
    handed_in = [
        round_tasks._bulk(consortium.aggregator, "r1", one.attachment)
        for one in data.masked.values()
    ]
    for raw in handed_in:
        numbers = np.frombuffer(raw, "<i8")
        assert (np.abs(numbers.astype(np.float64)) < 2.0**48).sum() <= 2
        bits = np.unpackbits(np.frombuffer(raw, np.uint8))
        assert abs(bits.mean() - 0.5) < 6 * 0.5 / np.sqrt(len(bits))
    sums = total(handed_in)
    assert np.abs(sums).max() < 2000
    # The 1-ways follow each other; each sums up to the rows, up to its noise.
    assert abs(int(sums.sum()) - 3 * 700) < 1000
    # The sum that the aggregator works with is the only thing it makes of them.
    consortium.aggregator.work()
    data = data_of(consortium)
    assert data.sums is not None
    kept = round_tasks._bulk(consortium.aggregator, "r1", data.sums[0])
    assert np.array_equal(np.frombuffer(kept, "<i8"), sums)


def test_masks_cancel_for_one_question_only() -> None:
    """Owners that were asked differently leave nothing but noise of 64 bits."""
    seeds = {name: name.encode() * 8 for name in NAMES}
    keys = {name: public_key(seed) for name, seed in seeds.items()}
    numbers = np.arange(50)
    asked = dict.fromkeys(NAMES, b"a question")
    same = total([masked(numbers, seeds[n], n, keys, asked[n]) for n in NAMES])
    assert np.array_equal(same, 3 * numbers)
    asked["west"] = b"another question"
    other = total([masked(numbers, seeds[n], n, keys, asked[n]) for n in NAMES])
    assert (np.abs(other.astype(np.float64)) > 2.0**48).sum() >= 48
    # All but one together: what is left under their masks is the last one's own numbers.
    parts = [masked(np.zeros(50, np.int64), seeds[n], n, keys, b"q") for n in ("south", "west")]
    last = masked(numbers, seeds["north"], "north", keys, b"q")
    assert np.array_equal(total([last, *parts]), numbers)
    with pytest.raises(PeerError, match="not valid"):
        masked(numbers, seeds["north"], "north", {**keys, "south": "00" * 32}, b"q")


def dearer(question: dict[str, Any]) -> dict[str, Any]:
    """A question with hardly any noise."""
    cheap = [{**one, "scale": "1/16"} for one in question["marginals"]]
    return {**question, "marginals": cheap}


def test_question_that_the_plan_does_not_pay_for(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An aggregator that asks for less noise gets no answer, and nobody is charged."""
    add_owners(consortium, 400, 300)
    real = canonical
    monkeypatch.setattr(sum_rounds, "canonical", lambda question: real(dearer(question)))
    open_round(consortium)
    consortium.settle()
    data = data_of(consortium)
    assert data.state is RoundState.ABORTED
    assert data.reason is Reason.REFUSED
    assert [spent(agent) for agent in consortium.agents.values()] == ["0", "0"]


def test_later_question_that_costs_too_much(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a second question answered that the plan has nothing left for."""
    add_owners(consortium, 400, 300)
    open_round(consortium)
    settle_until(consortium, 1)
    real = canonical
    monkeypatch.setattr(sum_rounds, "canonical", lambda question: real(dearer(question)))
    consortium.settle()
    assert len(data_of(consortium).asked or ()) == 2
    assert not data_of(consortium).masked
    for agent in consortium.agents.values():
        kept = agent.journal.round("r1")
        assert kept is not None
        assert (kept.reason, kept.answered) == (Reason.PLAN_UNSOUND, 1)
        assert spent(agent) == "5"
        paid, lost = [e for e in agent.ledger.entries() if e.kind == "charge"]
        assert paid.note == "round r1"
        assert "spent, nothing released" in lost.note


def test_dropping_out_before_sharing(consortium: Consortium) -> None:
    """An owner that refuses before there is a plan is left out, and its noise is not counted on."""
    add_owners(consortium, 400, 300, 200)
    policy = consortium.homes["west"].policy_file
    policy.write_text(policy.read_text().replace("dp-graph, ", ""))
    open_round(consortium, dropout=Dropout.CONTINUE, least_owners=2)
    consortium.settle()
    data = data_of(consortium)
    assert data.state is RoundState.RELEASED, (data.reason, data.details)
    release = Release.load(consortium.aggregator.folder("r1"))
    assert release.tables["data"].num_rows == 700
    assert release.manifest["joint"]["noise"]["owners"] == 2
    assert [spent(consortium.agents[name]) for name in NAMES] == ["5", "5", "0"]


def test_dropping_out_during_sharing(consortium: Consortium) -> None:
    """An owner that is gone between two questions ends the round; repeated, it costs nothing."""
    add_owners(consortium, 400, 300, 200)
    open_round(consortium)
    settle_until(consortium, 2)
    gone = consortium.agents.pop("west")
    consortium.settle()
    consortium.time += 4000  # the deadline passes
    consortium.settle()
    data = data_of(consortium)
    assert data.state is RoundState.EXPIRED
    assert not consortium.aggregator.folder("r1").exists()
    first = [round_question.sha256 for round_question in data.asked or ()]
    consortium.agents["west"] = gone
    consortium.settle()
    consortium.aggregator.repeat("r1", name="r2", deadline=int(consortium.time) + 3600)
    consortium.settle()
    check_released(consortium, "r2")
    asked = data_of(consortium, "r2").asked or ()
    assert [one.sha256 for one in asked] == first, "the same noise leads to the same questions"


def test_dropping_out_after_sharing(consortium: Consortium) -> None:
    """Once all have answered everything, nobody is needed for the release."""
    add_owners(consortium, 400, 300)
    open_round(consortium)
    settle_until(consortium, 2)
    for agent in consortium.agents.values():
        agent.turn()
        flush(agent)
    for _ in range(4):
        consortium.aggregator.work()
    assert data_of(consortium).state is RoundState.RELEASED
    consortium.settle()
    check_released(consortium)


def test_repeated_round_with_another_question(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was paid for answers one question: a repetition that asks another gets no answer."""
    add_owners(consortium, 400, 300)
    open_round(consortium)
    settle_until(consortium, 1)
    for agent in consortium.agents.values():  # the answers are made and never used
        agent.turn()
    consortium.aggregator.abort("r1")
    consortium.settle()
    real = canonical

    def other(question: dict[str, Any]) -> bytes:
        return real({**question, "marginals": question["marginals"][:1]})

    monkeypatch.setattr(sum_rounds, "canonical", other)
    charged = [spent(agent) for agent in consortium.agents.values()]
    consortium.aggregator.repeat("r1", name="r2", deadline=int(consortium.time) + 3600)
    consortium.settle()
    assert data_of(consortium, "r2").state is not RoundState.RELEASED
    assert [spent(agent) for agent in consortium.agents.values()] == charged == ["5", "5"]
    kept = [agent.journal.round("r2") for agent in consortium.agents.values()]
    assert Reason.PLAN_CHANGED in [one.reason for one in kept if one is not None]
    assert not any(one.answered for one in kept if one is not None)


def test_death_between_charge_and_answer(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that dies after paying answers with the same numbers when it is back."""
    add_owners(consortium, 400, 300)
    open_round(consortium)
    real, seen = masked, list[Any]()

    def dies_first(*given: Any) -> bytes:
        if not seen or given[2] == "north":
            seen.append(given[0].copy())
        if len(seen) == 1:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(owner_counting, "masked", dies_first)
    for _ in range(60):
        died = False
        for name in list(consortium.agents):
            try:
                consortium.agents[name].turn()
                flush(consortium.agents[name])
            except KeyboardInterrupt:
                died = True
                consortium.start(name)
        consortium.aggregator.work()
        if died:
            break
    consortium.settle()
    check_released(consortium)
    assert np.array_equal(seen[0], seen[1])


def test_ledger_that_lost_an_answer_is_noticed(consortium: Consortium) -> None:
    """An owner restored to before its last answer does not give another one."""
    add_owners(consortium, 400, 300)
    open_round(consortium)
    settle_until(consortium, 2)
    north = consortium.agents["north"]
    backup = north.home.ledger.read_bytes()
    fetch(north)
    north.turn()
    flush(north)
    charges = [entry for entry in north.ledger.entries() if entry.kind == "charge"]
    assert len(charges) == 2
    for path in north.home.ledger.parent.glob(north.home.ledger.name + "*"):
        path.unlink()
    north.home.ledger.write_bytes(backup)
    restored = consortium.start("north")
    # Sessions tell the last head; the next one is opened now.
    open_round(consortium, "r2")
    consortium.settle()
    kept = restored.journal.round("r2")
    assert kept is not None
    assert kept.reason is Reason.ROLLED_BACK


def test_policy_on_colluders(consortium: Consortium) -> None:
    """An owner refuses noise that withstands fewer owners than its policy asks for."""
    add_owners(consortium, 400, 300, 200)
    open_round(consortium, colluders=1)
    consortium.settle()
    data = data_of(consortium)
    assert data.state is RoundState.ABORTED
    assert "does not allow the method" in data.details[0]
    assert {spent(agent) for agent in consortium.agents.values()} == {"0"}


def test_terms_that_are_refused(consortium: Consortium) -> None:
    """Columns, thresholds and methods that do not go with sums."""
    add_owners(consortium, 40, 30)
    with pytest.raises(PlanError, match="cannot be joined"):
        open_round(consortium, kind=Kind.VERTICAL)
    with pytest.raises(PlanError, match="may collude is out of range"):
        open_round(consortium, colluders=2)
    with pytest.raises(PlanError, match="does not share out noise"):
        open_round(consortium, method="dp-um", parameters={"k": 3}, colluders=1)
    for number, parameters in enumerate(({"choice": "all"}, {"delta": 1e-6})):
        open_round(consortium, f"q{number}", parameters=parameters)
    consortium.settle()
    for number, words in enumerate(("pure epsilon", "do not choose a tree")):
        data = data_of(consortium, f"q{number}")
        assert data.reason is Reason.PLAN_UNSOUND
        assert words in data.details[0]


def test_answer_of_another_length_is_refused(consortium: Consortium) -> None:
    """An owner cannot hand in more or fewer numbers than were asked for, or answer twice."""
    add_owners(consortium, 40, 30)
    open_round(consortium)
    settle_until(consortium, 1)
    north = consortium.agents["north"]
    fetch(north)
    machine = north._book("r1").machine
    body, _files = owner_counting.answer(north.home, north.ledger, machine, north.client)
    import dataclasses

    from sherd.federation.wire.envelope import seal

    for changed, reason in (
        (dataclasses.replace(body, attachment=describe(b"0" * 8)), Reason.MALFORMED),
        (dataclasses.replace(body, exchange=2), Reason.UNEXPECTED),
    ):
        again = north._book("r1").machine
        message = dataclasses.replace(again.counted(body), body=changed)
        raw = seal(message, north.key, expires=int(consortium.time) + 3600)
        with pytest.raises(PeerError) as caught:
            consortium.aggregator.receive("north", "r1", raw)
        assert caught.value.reason is reason
