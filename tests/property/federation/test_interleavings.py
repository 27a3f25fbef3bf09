"""Rounds under lost, repeated and reordered packets, restarts and crashes."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from fakewire import AGGREGATOR, FakeWire, Party
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sherd.federation.protocol.joint_plan import Dropout, Kind, Linkage, Terms
from sherd.federation.protocol.states import OwnerState, RoundState

DEADLINE = 1000
NAMES = ("north", "south", "west")


def schema(*names: str) -> dict[str, object]:
    """A schema of whole numbers."""
    return {"attributes": {n: {"type": "integer", "domain": ["0", "9"]} for n in names}}


def parties(kind: Kind, count: int, common: int) -> list[Party]:
    """Owners with some people in common (vertical), none (horizontal), or both (blocks).

    Of three owners of blocks, the first two part the people of the third between them.
    """
    shared = tuple(f"person {i}" for i in range(common))
    made = []
    for place, name in enumerate(NAMES[:count]):
        attributes: tuple[str, ...] = (f"a-{name}",)
        people: tuple[str, ...] = (*shared, f"own {name}")
        if kind is Kind.HORIZONTAL:
            attributes, people = ("a", "b"), tuple(f"{name} {i}" for i in range(4))
        elif kind is Kind.BLOCKS and count == 3:
            halves = [tuple(f"{half} {i}" for i in range(common)) for half in ("left", "right")]
            attributes = ("a",) if place < 2 else ("b",)
            people = (*halves[place], f"own {name}") if place < 2 else halves[0] + halves[1]
        made.append(Party(name=name, schema=schema(*attributes), people=people))
    return made


class Interleavings(RuleBasedStateMachine):
    """Any order of packets, losses, repeats, restarts and work."""

    @initialize(
        kind=st.sampled_from(Kind),
        count=st.integers(1, 3),
        linkage=st.sampled_from(Linkage),
        dropout=st.sampled_from(Dropout),
        refuses=st.booleans(),
        dies=st.booleans(),
    )
    def begin(
        self,
        kind: Kind,
        count: int,
        linkage: Linkage,
        dropout: Dropout,
        refuses: bool,
        dies: bool,
    ) -> None:
        """Open a round."""
        count = max(count, 2) if kind is Kind.BLOCKS else count
        if kind.joins:
            dropout = Dropout.ABORT
            linkage = Linkage.OPRF if linkage is Linkage.NONE else linkage
        terms = Terms(
            round="round-1",
            aggregator=AGGREGATOR,
            kind=kind,
            owners=NAMES[:count],
            method="dp-um",
            parameters={"k": 3},
            epsilon="1",
            linkage=linkage,
            dropout=dropout,
            deadline=DEADLINE,
        )
        made = parties(kind, count, 4)
        made[-1].approves = not refuses
        made[0].die_after_charge = dies
        self.refuses = refuses
        self.wire = FakeWire(terms, made)
        self.first: dict[str, str] = {}

    @precondition(lambda self: self.wire.packets)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        """Any packet arrives."""
        self.wire.deliver(data.draw(st.integers(0, len(self.wire.packets) - 1)))

    @precondition(lambda self: self.wire.packets)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        """Any packet is lost."""
        self.wire.packets.pop(data.draw(st.integers(0, len(self.wire.packets) - 1)))

    @precondition(lambda self: self.wire.packets)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """Any packet is doubled."""
        place = data.draw(st.integers(0, len(self.wire.packets) - 1))
        self.wire.packets.append(self.wire.packets[place])

    @rule()
    def resend(self) -> None:
        """Everybody sends again what is not acknowledged."""
        if len(self.wire.packets) < 40:
            self.wire.resend()

    @rule(place=st.integers(0, 2))
    def work(self, place: int) -> None:
        """An owner does its task (restarted before it: it reads what it wrote down)."""
        names = list(self.wire.parties)
        self.wire.owner_works(names[place % len(names)])

    @rule()
    def aggregate(self) -> None:
        """The aggregator links or assembles."""
        self.wire.aggregator_works()

    @rule(seconds=st.sampled_from([1, 10, 400]))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.wire.now += seconds
        machine = self.wire.load()
        self.wire._keep(machine, machine.tick(self.wire.now))

    @invariant()
    def one_artefact_and_one_charge(self) -> None:
        """No plan is charged twice, and nobody delivers two artefacts."""
        if not hasattr(self, "wire"):
            return
        for party in self.wire.parties.values():
            assert len(party.charges) == len(set(party.charges)) <= 1
        assert len(self.wire.released) <= 1
        for owner, delivery in self.wire.load().data.deliveries.items():
            assert self.first.setdefault(owner, delivery.artefact) == delivery.artefact

    @invariant()
    def nothing_before_all_signed(self) -> None:
        """Nobody is charged before every owner signed the same plan."""
        if not hasattr(self, "wire"):
            return
        data = self.wire.load().data
        for party in self.wire.parties.values():
            if party.charges:
                assert data.plan is not None
                assert party.charges == [data.plan.hash]
                assert set(data.signatures) == set(data.plan.owners)

    @invariant()
    def nobody_refused_after_charging(self) -> None:
        """Who was charged is never in the state refused."""
        if not hasattr(self, "wire"):
            return
        for party in self.wire.parties.values():
            if party.load().state is OwnerState.REFUSED:
                assert not party.charges

    def teardown(self) -> None:
        """Once the network is well, the round ends, and everybody agrees how."""
        if not hasattr(self, "wire"):
            return
        for _ in range(30):
            self.wire.resend()
            self.wire.run()
            if self.wire.load().ended:
                break
        if self.wire.now <= DEADLINE:
            assert self.wire.load().ended, "nothing is lost: the round comes to its end"
            wanted = RoundState.ABORTED if self.refuses else RoundState.RELEASED
            if self.wire.terms.dropout is Dropout.ABORT:
                assert self.wire.load().state is wanted
        self.wire.now += 10 * DEADLINE
        machine = self.wire.load()
        self.wire._keep(machine, machine.tick(self.wire.now))
        self.wire.resend()
        self.wire.run()
        self.wire.resend()
        self.wire.run()
        state = self.wire.load().state
        assert state in (RoundState.RELEASED, RoundState.ABORTED, RoundState.EXPIRED)
        for party in self.wire.parties.values():
            assert party.load().ended
            if state is RoundState.RELEASED and party.name in self.wire.load().active:
                assert party.load().state is OwnerState.CLOSED
        self.one_artefact_and_one_charge()


CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much]
Interleavings.TestCase.settings = settings(
    max_examples=100, stateful_step_count=60, deadline=None, suppress_health_check=CHECKS
)
TestInterleavings = Interleavings.TestCase


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_thousands_of_interleavings() -> None:
    """The same, much longer."""
    run_state_machine_as_test(
        Interleavings,
        settings=settings(
            max_examples=2500,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=CHECKS,
        ),
    )
