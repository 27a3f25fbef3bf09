"""The durable ledger of one owner: what each population's privacy budget was spent on.

A run reserves its budget before it reads data, and one transaction turns the reservation
into a charge together with the hash of what was made. A run that fails before that frees
its reservation; a charge is never refunded. A run that read data and refused is booked as a
look. Accounts are per population (the people in the data), so that a copy or a new version of
a table does not start afresh; case, width and spaces of a name do not make another account.

    with ledger.reserving(population="patients", amount=Amount(1), …) as reservation:
        …  # make the artefact, write it into a staging folder, sync it
        ledger.charge(reservation, artefact_sha256=…, staged=staging, final=out)

Any number of processes and threads may use one ledger at once. The file must lie on a disk
of this machine: SQLite's write-ahead log does not work over a network.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict, Unpack

from sherd.budget import accounts, population_name, publishing, reservations, rows, storage
from sherd.budget.amount import Amount
from sherd.budget.entries import (
    COLUMNS,
    DP,
    EPSILON,
    IDP,
    NONE,
    RHO,
    Account,
    Entry,
    Pending,
    Reservation,
)
from sherd.budget.process import current
from sherd.errors import BudgetError, StorageError, UsageError, VerificationError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

__all__ = ["Account", "Amount", "Entry", "Ledger", "Pending", "Reservation"]

_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Wanted(TypedDict):
    """What a run wants to spend, of whom, and for which plan."""

    population: str
    amount: Amount
    plan_hash: str
    schema_hash: str
    method: str
    note: NotRequired[str]
    measure: NotRequired[str]
    rho: NotRequired[Fraction | None]
    delta: NotRequired[Fraction | None]
    staging: NotRequired[Path | None]


class Ledger:
    """One ledger in one SQLite file, which is created if it is missing."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links
        # Reservations that became charges here: nothing is left of them to be freed.
        self._charged: set[str] = set()
        storage.create(self.path)
        with self._reading():
            pass  # connecting looks at the file's kind and version

    def _reading(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        return storage.reading(self.path)

    def _writing(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        return storage.writing(self.path)

    def kept_open(self) -> contextlib.AbstractContextManager[None]:
        """Let what this thread does in a block open the file once, instead of each time."""
        return storage.kept_open(self.path)

    def reserve(self, **wanted: Unpack[Wanted]) -> Reservation:
        """Set budget aside for a run, or raise BudgetError where the limit does not allow it.

        ``measure`` says what the amount is of: ``dp``, ``idp``, or ``none`` for a release without
        an ε. Reservations of processes that are gone are freed first, and what they staged is
        deleted. A name that looks like a slip for another asks. ``staging`` is where the run will
        write what it has not paid for: freeing the reservation deletes that.
        """
        measure = wanted.get("measure", DP)
        if measure not in (DP, IDP, NONE):
            raise UsageError("the measure is not valid", must="dp, idp or none", got=repr(measure))
        population = _text("population", wanted["population"])
        reservation = Reservation(
            id=secrets.token_hex(16),
            population=population,
            amount=wanted["amount"],
            method=_text("method", wanted["method"]),
            plan_hash=_hash("plan_hash", wanted["plan_hash"]),
            schema_hash=_hash("schema_hash", wanted["schema_hash"]),
            note=_text("note", wanted.get("note", ""), least=0, most=1000),
            time=rows.now(),
            process=current(),
            measure=measure,
            rho=wanted.get("rho"),
            delta=wanted.get("delta"),
        )
        with self._writing() as db:
            reservations.free_abandoned(db)
            known = accounts.accounts(db)
            reservations.check_name(known, population)
            accounts.check_left(accounts.account_of(known, population), reservation.wants())
            rows.insert_reservation(db, reservation)
            if (staging := wanted.get("staging")) is not None:
                rows.note_staging(db, staging.absolute(), reservation.id)
        return reservation

    @contextlib.contextmanager
    def reserving(self, **wanted: Unpack[Wanted]) -> Iterator[Reservation]:
        """Reserve for the length of a block, and free what the block did not charge."""
        reservation = self.reserve(**wanted)
        try:
            yield reservation
        except BaseException as error:
            try:
                self._free(reservation.id)
            except (StorageError, VerificationError) as second:
                # The block's own error matters more; the end of this process frees it too.
                error.add_note(f"the reservation could not be freed: {second}")
            raise
        if reservation.id not in self._charged:
            self._free(reservation.id)
        self._charged.discard(reservation.id)

    def charge(
        self,
        reservation: Reservation,
        *,
        artefact_sha256: str | None,
        staged: Path | None = None,
        final: Path | None = None,
        finish: Callable[[], object] | None = None,
        once: bool = False,
        cost: Amount | None = None,
        key: str | None = None,
    ) -> Entry:
        """Turn a reservation into a charge, then publish what was paid for.

        ``staged`` and ``final`` say where the artefact lies, written and synced, and where
        it belongs; with them, ``recover`` can publish it should this process die. ``finish``
        publishes it and is called after the commit; left out, the ledger renames ``staged``
        to ``final`` itself. An error in publishing leaves the charge and the staged artefact.

        ``artefact_sha256`` is None for what is paid for before anything of it exists.

        ``cost`` is what the release really spends, where that is more than its claim; ``key``
        opens what is staged, and is held until the artefact is in its place.

        The limit in force now counts: one that was lowered since the reservation refuses.
        With ``once``, a plan hash that was charged before refuses, too, in the same
        transaction: of two processes that carry out one plan, one is charged.
        """
        artefact = "" if artefact_sha256 is None else _hash("artefact_sha256", artefact_sha256)
        if (staged is None) != (final is None):
            raise UsageError("a staged artefact has two places", must="both staged and final")
        if staged is not None and not os.path.lexists(staged):
            raise StorageError(
                "the staged artefact is missing", got=str(staged), do="nothing was charged"
            )
        with self._booking_overspent(reservation), contextlib.ExitStack() as mark:
            with self._writing() as db:
                if once and rows.charge_of(db, reservation.plan_hash) is not None:
                    raise BudgetError(
                        "this plan has already been charged",
                        do="nothing was charged now; use the artefact that was made for it",
                    )
                entry = reservations.charge(db, reservation.id, artefact, cost)
                pending = None
                if staged is not None and final is not None:
                    pending = reservations.hold_artefact(db, entry, staged, final, key)
                # Before the commit, so that no other thread takes it for left behind.
                mark.enter_context(publishing.finishing(self.path, entry.index))
            self._charged.add(reservation.id)
            if finish is not None:
                finish()
            elif pending is not None:
                publishing.publish(pending.staged, pending.final, pending.key)
            if pending is not None:
                with contextlib.suppress(StorageError):  # it is in place, recover() will see
                    self.mark_published(entry)
        return entry

    @contextlib.contextmanager
    def _booking_overspent(self, reservation: Reservation) -> Iterator[None]:
        """Book a look if cells decide that a charge is refused: the refusal reveals something."""
        try:
            yield
        except reservations.OverspentError as error:
            self.look(reservation, note=type(error).__name__)
            raise

    def settle(self) -> None:
        """Bring what was written from the journal into the file, where one is kept open."""
        storage.settle(self.path)

    def free(self, reservation: Reservation) -> None:
        """Give a reservation back; once charged it cannot be, once freed it stays so."""
        if not self._free(reservation.id):
            raise BudgetError(
                "the reservation was charged", do="a charge is never refunded: it was released"
            )

    def _free(self, id: str) -> bool:  # noqa: A002
        """Free a reservation unless it was charged; whether it is free now."""
        with self._writing() as db:
            rows.delete_reservation(db, id)
            if rows.was_charged(db, id):
                return False
            publishing.clear(rows.stagings(db, id))
            rows.forget_stagings(db, id)
            return True

    def look(self, reservation: Reservation, *, note: str = "") -> Entry:
        """Book that a run read data and gave back nothing but a refusal."""
        with self._writing() as db:
            return rows.append(
                db,
                kind="look",
                population=reservation.population,
                amount=None,
                method=reservation.method,
                plan_hash=reservation.plan_hash,
                schema_hash=reservation.schema_hash,
                note=_text("note", note, least=0, most=1000),
            )

    def is_charged(self, reservation: Reservation) -> bool:
        """Whether a reservation has become a charge."""
        with self._reading() as db:
            return rows.was_charged(db, reservation.id)

    def free_abandoned(self) -> list[Reservation]:
        """Free the reservations whose processes are gone, and say which they were."""
        with self._reading() as db:
            abandoned = [held for held in rows.reservations(db) if rows.abandoned(held)]
        if not abandoned:
            return []
        with self._writing() as db:
            return reservations.free_abandoned(db)

    def reservations(self) -> list[Reservation]:
        """Every reservation that is held, oldest first."""
        with self._reading() as db:
            return rows.reservations(db)

    def set_limit(
        self, population: str, amount: Amount | Fraction | int | None, *, of: str = EPSILON
    ) -> None:
        """Set the most a population may ever spend; None removes the limit.

        ``of`` says of what: ``epsilon`` (differential and individual differential privacy, each
        for itself), ``dp``, ``idp``, ``cost`` (what is really spent), ``rho``, ``none`` (how many
        releases without an ε) or ``looks``. A limit below what is spent already is allowed:
        nothing more can be spent then. Naming a population here opens its account.
        """
        _text("population", population)
        if of not in (EPSILON, *COLUMNS):
            raise UsageError(
                "the ledger has no such column",
                must="one of " + ", ".join((EPSILON, *COLUMNS)),
                got=repr(of),
            )
        rho = None
        if amount is not None and of == RHO:
            rho = amount if isinstance(amount, Fraction) else Amount(amount).epsilon
            amount = None
        elif amount is not None and of in accounts.COUNTED:
            amount = Amount.of_micro(_count(amount))
        elif amount is not None:
            amount = Amount(amount)
        with self._writing() as db:
            rows.append(db, kind="limit", population=population, amount=amount, measure=of, rho=rho)

    def account(self, population: str) -> Account:
        """One population's limit, what it spent and what is set aside."""
        return self.standing(population)[0]

    def standing(self, population: str, *heads: str) -> tuple[Account, bool]:
        """One population's account, and whether the ledger holds all of these hashes.

        Read at one moment; see ``account`` and ``holds``.
        """
        for _ in range(2):
            with self._reading() as db:
                account = accounts.account(db, population)
                held = all(reservations.holds(db, head) for head in heads)
                abandoned = any(rows.abandoned(each) for each in rows.reservations(db))
            if not abandoned:
                break
            self.free_abandoned()
        return account, held

    def accounts(self) -> list[Account]:
        """Every population that has a limit, a charge or a reservation, by name."""
        self.free_abandoned()
        with self._reading() as db:
            return accounts.accounts(db)

    def entries(self, population: str | None = None) -> list[Entry]:
        """Every charge, look and change of a limit, oldest first, each hash checked."""
        with self._reading() as db:
            read = [rows.entry_of(row) for row in db.execute("SELECT * FROM entries")]
        return [
            entry
            for entry in sorted(read, key=lambda entry: entry.index)
            if population is None or population_name.same(entry.population, population)
        ]

    def charge_of(self, plan_hash: str) -> Entry | None:
        """The first charge for a plan hash, None where there is none."""
        with self._reading() as db:
            return rows.charge_of(db, _hash("plan_hash", plan_hash))

    def head(self) -> tuple[int, str]:
        """The number of rows and the hash of the last one, which pins all before it."""
        with self._reading() as db:
            return rows.head(db)

    def holds(self, hash: str) -> bool:  # noqa: A002
        """Whether a hash is that of a row of this ledger, or of its beginning.

        A head that others saw and that is not held any more tells of a restored backup.
        """
        with self._reading() as db:
            return reservations.holds(db, hash)

    def verify(self) -> int:
        """Recompute the chain and the sums; the number of rows, or VerificationError."""
        with self._reading() as db:
            return accounts.verify(db)

    def pending(self) -> list[Pending]:
        """Artefacts that are paid for and were not seen to reach their place."""
        with self._reading() as db:
            return rows.unpublished(db)

    def mark_published(self, entry: Entry | Pending) -> None:
        """Note that a paid artefact is in its place (or needs no place any more)."""
        with self._writing() as db:
            rows.mark_published(db, entry.index)

    def recover(self, digest: Callable[[Path], str]) -> list[Path]:
        """Publish what dead processes paid for and did not publish; the places filled.

        ``digest`` computes the hash an artefact was charged with, and decides whether what
        is staged is what was paid for. Every artefact is tried before an error is raised.
        """
        return publishing.recover(self.path, digest)


def _count(given: Amount | Fraction | int) -> int:
    exact = given.epsilon if isinstance(given, Amount) else Fraction(given)
    if exact.denominator != 1 or exact < 0:
        raise UsageError("the limit is not valid", must="a whole number of runs", got=str(exact))
    return int(exact)


def _text(name: str, value: str, *, least: int = 1, most: int = 200) -> str:
    if not isinstance(value, str) or not least <= len(value) <= most or not value.isprintable():
        raise UsageError(
            f"the ledger cannot note this {name}",
            must=f"{least} to {most} printable characters",
            got=f"{len(value)} characters" if isinstance(value, str) else type(value).__name__,
        )
    return value


def _hash(name: str, value: str) -> str:
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise UsageError(f"the {name} is not valid", must="a sha256 of 64 hexadecimal digits")
    return value
