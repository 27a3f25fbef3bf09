"""The ledger against a plain model of it, under any sequence of operations."""

from __future__ import annotations

import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
)

from sherd.budget import Amount, Ledger, Reservation
from sherd.errors import BudgetError

POPULATIONS = st.sampled_from(["a", "b"])
MICROS = st.integers(min_value=0, max_value=4_000_000)


class LedgerMachine(RuleBasedStateMachine):
    """Reserve, charge, free, limit and reopen, compared with dictionaries."""

    held: Bundle[Reservation] = Bundle("held")
    ended: Bundle[Reservation] = Bundle("ended")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "ledger.db"
        self.ledger = Ledger(self.path)
        self.limits: dict[str, int | None] = {}
        self.charges: list[tuple[str, int]] = []
        self.reserved: dict[str, tuple[str, int]] = {}
        self.count = 0
        self.heads = [self.ledger.head()[1]]

    def teardown(self) -> None:
        """Remove the file."""
        self.folder.cleanup()

    def _spent(self, population: str) -> int:
        return sum(amount for name, amount in self.charges if name == population)

    def _held(self, population: str) -> int:
        return sum(amount for name, amount in self.reserved.values() if name == population)

    @rule(target=held, population=POPULATIONS, micro=MICROS)
    def reserve(self, population: str, micro: int) -> Reservation | MultipleResults[Reservation]:
        """Reserve, refused exactly where the model's sum passes the limit."""
        wanted = self._spent(population) + self._held(population) + micro
        limit = self.limits.get(population)
        fits = limit is None or wanted <= limit

        def reserving() -> Reservation:
            return self.ledger.reserve(
                population=population,
                amount=Amount.of_micro(micro),
                plan_hash="1" * 64,
                schema_hash="2" * 64,
                method="dp",
            )

        if not fits:
            with pytest.raises(BudgetError):
                reserving()
            return multiple()
        reservation = reserving()
        self.reserved[reservation.id] = (population, micro)
        return reservation

    @rule(target=ended, reservation=consumes(held))
    def charge(self, reservation: Reservation) -> Reservation | MultipleResults[Reservation]:
        """Charge, refused exactly where the limit was lowered below the sum."""
        population, micro = self.reserved[reservation.id]
        limit = self.limits.get(population)
        if limit is not None and self._spent(population) + micro > limit:
            with pytest.raises(BudgetError):
                self.ledger.charge(reservation, artefact_sha256="3" * 64)
            self.ledger.free(reservation)
        else:
            self.ledger.charge(reservation, artefact_sha256="3" * 64)
            self.charges.append((population, micro))
            self._wrote()
        del self.reserved[reservation.id]
        return reservation

    @rule(target=ended, reservation=consumes(held))
    def free(self, reservation: Reservation) -> Reservation:
        """Give a reservation back."""
        self.ledger.free(reservation)
        del self.reserved[reservation.id]
        return reservation

    @rule(reservation=ended)
    def charge_again(self, reservation: Reservation) -> None:
        """A reservation that was charged or freed can never be charged."""
        with pytest.raises(BudgetError):
            self.ledger.charge(reservation, artefact_sha256="3" * 64)

    @rule(population=POPULATIONS, micro=st.none() | MICROS)
    def limit(self, population: str, micro: int | None) -> None:
        """Set, raise, lower or remove a limit."""
        self.ledger.set_limit(population, None if micro is None else Amount.of_micro(micro))
        self.limits[population] = micro
        self._wrote()

    @rule()
    def reopen(self) -> None:
        """Another object on the same file continues where this one was."""
        self.ledger = Ledger(self.path)

    def _wrote(self) -> None:
        self.count += 1
        self.heads.append(self.ledger.head()[1])

    @invariant()
    def agrees(self) -> None:
        """Sums, reservations, chain and every earlier head agree with the model."""
        for population in ("a", "b"):
            account = self.ledger.account(population)
            limit = self.limits.get(population)
            assert account.spent.micro == self._spent(population)
            assert account.reserved.micro == self._held(population)
            assert (None if account.limit is None else account.limit.micro) == limit
            assert (account.left is None) == (limit is None)
        assert {held.id for held in self.ledger.reservations()} == set(self.reserved)
        assert self.ledger.verify() == self.count
        assert self.ledger.holds(self.heads[-1])
        assert len(set(self.heads)) == self.count + 1


LedgerMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
test_ledger_machine = LedgerMachine.TestCase
