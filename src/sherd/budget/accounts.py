"""What every population has spent and may spend, worked out from the chain of rows.

No sum and no limit is stored beside the chain, so none can be changed in the file without
breaking it: to ask for an account is to have the whole chain checked first.

``verify`` recomputes a ledger from its first row: the chain, the sums, the limits and the seals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from sherd.budget import population_name, rows
from sherd.budget.amount import LARGEST, MICRO, Amount
from sherd.budget.entries import (
    COLUMN_WORDS,
    COLUMNS,
    DP,
    EPSILON,
    GENESIS,
    IDP,
    LOOKS,
    RHO,
    Account,
    AccountColumn,
)
from sherd.errors import BudgetError, VerificationError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from sherd.budget.entries import Entry, Reservation


COUNTED = ("none", "looks")
"""Columns whose limits are numbers of runs."""

_MOST = Fraction(LARGEST, MICRO)


@dataclass(kw_only=True)
class _Sums:
    name: str
    limits: dict[str, Fraction] = field(default_factory=dict)
    spent: dict[str, Fraction] = field(default_factory=dict)
    delta: Fraction = Fraction(0)


def limited(measure: str) -> tuple[str, ...]:
    """The columns that a limit is on."""
    return (DP, IDP) if measure == EPSILON else (measure,)


def limit_of(entry: Entry) -> Fraction | None:
    """The limit that an entry sets, None where it removes one."""
    if entry.measure == RHO:
        return entry.rho
    if entry.amount is None:
        return None
    return Fraction(entry.amount.micro) if entry.measure in COUNTED else entry.amount.epsilon


def walk(db: sqlite3.Connection, *, strict: bool = False) -> dict[str, _Sums]:
    """Every account's sums by its name's key, after each row was found as it was written.

    With ``strict`` a row that spends more than the limit of its time is damage as well.
    """
    by_population: dict[str, _Sums] = {}
    last = GENESIS
    for count, row in enumerate(db.execute("SELECT * FROM entries ORDER BY number"), 1):
        if row[0] != count:
            raise rows.damaged("a row is missing", f"row {count}")
        entry = rows.entry_of(row)
        if entry.previous != last:
            raise rows.damaged("the row does not follow the one before it", f"row {count}")
        last = entry.hash
        sums = by_population.setdefault(
            population_name.key(entry.population), _Sums(name=entry.population)
        )
        _add(sums, entry, strict)
    rows.head(db)  # rows cut off at the end leave a whole chain
    return by_population


def _add(sums: _Sums, entry: Entry, strict: bool) -> None:
    if entry.kind == "limit":
        limit = limit_of(entry)
        for column in limited(entry.measure):
            if limit is None:
                sums.limits.pop(column, None)
            else:
                sums.limits[column] = limit
        return
    sums.delta += entry.delta or 0
    for column, more in entry.adds().items():
        sums.spent[column] = sums.spent.get(column, Fraction(0)) + more
        limit = sums.limits.get(column)
        if strict and column != LOOKS and limit is not None and sums.spent[column] > limit:
            raise rows.damaged("the row spends more than the limit allowed", f"row {entry.index}")


def accounts(db: sqlite3.Connection) -> list[Account]:
    """Every population that has a limit, a charge or a reservation, by name."""
    sums, held = walk(db), rows.reservations(db)
    for one in held:
        sums.setdefault(population_name.key(one.population), _Sums(name=one.population))
    made = [_account(each, held) for each in sums.values()]
    return sorted(made, key=lambda account: account.population)


def account(db: sqlite3.Connection, population: str) -> Account:
    """The account of a population; an empty one where nothing was ever spent or limited."""
    sums = walk(db).get(population_name.key(population))
    return _account(sums or _Sums(name=population), rows.reservations(db))


def account_of(known: Sequence[Account], population: str) -> Account:
    """The account of a population among those that are known, or an empty one."""
    own = (one for one in known if population_name.same(one.population, population))
    return next(own, None) or _account(_Sums(name=population), ())


def _account(sums: _Sums, reservations: Sequence[Reservation]) -> Account:
    held: dict[str, Fraction] = {}
    for one in reservations:
        if population_name.same(one.population, sums.name):
            for column, more in one.wants().items():
                held[column] = held.get(column, Fraction(0)) + more
    columns = {
        name: AccountColumn(
            limit=sums.limits.get(name),
            spent=sums.spent.get(name, Fraction(0)),
            reserved=held.get(name, Fraction(0)),
        )
        for name in COLUMNS
    }
    tight = _tightest(columns)
    return Account(
        population=sums.name,
        limit=None if tight.limit is None else Amount(tight.limit),
        spent=Amount(tight.spent),
        reserved=Amount(tight.reserved),
        columns=columns,
        delta=sums.delta,
    )


def _tightest(columns: Mapping[str, AccountColumn]) -> AccountColumn:
    """The column of ε that is nearer to its limit, or has more where there is none."""
    one, other = columns[DP], columns[IDP]
    if one.left is not None and other.left is not None and one.left != other.left:
        return one if one.left < other.left else other
    if (one.left is None) != (other.left is None):
        return other if one.left is None else one
    return one if one.taken >= other.taken else other


def check_left(account: Account, wants: Mapping[str, Fraction]) -> None:
    """Refuse what a limit does not allow; a look is allowed as long as one is left."""
    looks = account.columns[LOOKS]
    if looks.left == 0:
        raise BudgetError(
            f"the limit on refused runs of population '{account.population}' is reached",
            must=f"at most {looks.limit} runs that read data and refused",
            got=f"{looks.spent} of them",
            do="raise the limit with `sherd ledger set-limit --of looks`",
        )
    for name, amount in wants.items():
        column = account.columns[name]
        limit = column.limit if column.limit is not None or name in COUNTED else _MOST
        if limit is None or column.taken + amount <= limit:
            continue
        left = max(Fraction(0), limit - column.taken)
        raise BudgetError(
            f"the budget of population '{account.population}' does not allow this",
            must=f"at most {shown(left)}, which is left of the limit {shown(limit)}"
            f" after {shown(column.spent)} spent and {shown(column.reserved)} reserved by running"
            " releases" + ("" if name == DP else f" ({COLUMN_WORDS[name]})"),
            got=shown(amount),
            do="spend less, or raise the limit with `sherd ledger set-limit` if you mean to",
        )


def shown(amount: Fraction) -> str:
    """An amount as a person reads it: exact where that is short, else to six digits.

    >>> shown(Fraction(1, 2)), shown(Fraction(1, 3)), shown(Fraction(2))
    ('0.5', '1/3', '2')
    >>> shown(Fraction(2957571769293, 197526239244208))
    '≈ 0.0149731'
    """
    micro = amount * MICRO
    if micro.denominator == 1 and micro <= LARGEST:
        return str(Amount(amount))
    exact = str(amount)
    return exact if len(exact) <= 12 else f"≈ {float(amount):.6g}"


def verify(db: sqlite3.Connection) -> int:
    """The number of rows, after every one of them was found as it was written.

    Raises VerificationError at the first row that is not.
    """
    _check_file(db)
    walk(db, strict=True)
    for reservation in rows.reservations(db):
        if rows.was_charged(db, reservation.id):
            raise rows.damaged(
                "a reservation is held and charged", f"reservation {reservation.id!r}"
            )
    rows.unpublished(db, all=True)
    return rows.head(db)[0]


def _check_file(db: sqlite3.Connection) -> None:
    state = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
    orphan = db.execute("PRAGMA foreign_key_check").fetchone()
    if state != "ok" or orphan is not None:
        raise VerificationError(
            "the ledger's file is damaged",
            got=str(state) if orphan is None else f"row {orphan[1]} of the table {orphan[0]}",
            do="restore it from a backup; do not delete it, it says what has been spent",
        )
