"""What happens to reservations inside one transaction of the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.budget import accounts, population_name, publishing, rows
from sherd.budget.entries import COST, GENESIS, Entry, Pending, Reservation
from sherd.budget.process import current
from sherd.errors import BudgetError, UsageError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

    from sherd.budget.amount import Amount
    from sherd.budget.entries import Account


class OverspentError(BudgetError):
    """A release really spends more than a limit allows, which only its cells show."""


def charge(
    db: sqlite3.Connection,
    id: str,  # noqa: A002
    artefact: str,
    cost: Amount | None,
) -> Entry:
    """Replace a held reservation by a charge."""
    reservations = rows.reservations(db, id)
    if not reservations:
        charged = rows.was_charged(db, id)
        raise BudgetError(
            f"the reservation was already {'charged' if charged else 'freed'}",
            must="held",
            do="nothing was charged now; reserve again",
        )
    (held,) = reservations
    account = accounts.account(db, held.population)
    wants = held.wants()
    if cost is not None:
        wants[COST] = cost.epsilon
    for name, more in wants.items():
        column = account.columns[name]
        if column.limit is not None and column.spent + more > column.limit:
            refused = OverspentError if name == COST else BudgetError
            raise refused(
                f"the limit of population '{held.population}' was lowered meanwhile"
                if name != COST
                else f"the release really spends more than population '{held.population}' may",
                must=f"at most {accounts.shown(column.limit)}",
                # What is really spent follows from the cells: a refusal must not tell it.
                got="more than that with this release",
                do="nothing was charged; raise the limit with `sherd ledger set-limit`",
            )
    rows.delete_reservation(db, id)
    rows.forget_stagings(db, id)
    return rows.append(
        db,
        kind="charge",
        population=held.population,
        amount=held.amount,
        method=held.method,
        plan_hash=held.plan_hash,
        schema_hash=held.schema_hash,
        artefact=artefact,
        note=held.note,
        reservation=id,
        measure=held.measure,
        cost=cost,
        rho=held.rho,
        delta=held.delta,
    )


def hold_artefact(
    db: sqlite3.Connection, entry: Entry, staged: Path, final: Path, key: str | None
) -> Pending:
    """Note where a paid artefact lies, where it belongs, and the key that opens it."""
    pending = Pending(
        index=entry.index,
        artefact=entry.artefact,
        staged=staged.absolute(),
        final=final.absolute(),
        process=current(),
        key=key,
    )
    rows.insert_artefact(db, pending)
    return pending


def check_name(accounts: Sequence[Account], population: str) -> None:
    """Refuse a new name that looks like a misspelling of a known one."""
    known = {one.population for one in accounts}
    if any(population_name.same(population, name) for name in known):
        return
    near = population_name.near_miss(population, sorted(known))
    if near is not None:
        raise UsageError(
            f"the ledger knows no population '{population}', but one called '{near}'",
            must="the same name for the same people",
            do=f"name '{near}'; if these are other people, open their account with "
            f"`sherd ledger set-limit '{population}' none`",
        )


def holds(db: sqlite3.Connection, hash: str) -> bool:  # noqa: A002
    """Whether a hash is that of a row, or of the ledger's beginning."""
    row = db.execute("SELECT 1 FROM entries WHERE hash = ?", (hash,)).fetchone()
    return row is not None or hash == GENESIS


def free_abandoned(db: sqlite3.Connection) -> list[Reservation]:
    """Free the reservations of processes that are gone, and delete what they staged."""
    abandoned = [held for held in rows.reservations(db) if rows.abandoned(held)]
    for held in abandoned:
        rows.delete_reservation(db, held.id)
        publishing.clear(rows.stagings(db, held.id))
        rows.forget_stagings(db, held.id)
    return abandoned
