"""The values a ledger speaks in, and the hash that chains its rows.

Every row's hash covers all its columns and the hash of the row before. The hash has no
key: anybody who can write the file can write a new chain. The chain shows accidents and careless
editing, and its head, kept by somebody else, pins everything before it.

What is spent stands in columns that are never added to each other: ε of differential privacy,
ε of individual differential privacy, releases without an ε, and beside them what was really
spent where that is more than was claimed, ρ of zero-concentrated differential privacy, and
looks (runs that read data and refused).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sherd.budget.amount import Amount
    from sherd.budget.process import Process

GENESIS = "0" * 64
"""What the first row names as the row before it."""

Kind = Literal["charge", "limit", "look"]

FORM = 2
"""The form of the rows written now; those of form 1 know one amount only."""

DP, IDP, NONE, COST, RHO, LOOKS = COLUMNS = ("dp", "idp", "none", "cost", "rho", "looks")
"""What an account counts, each by itself."""

EPSILON = "epsilon"
"""What a limit may be on besides a single column: ``dp`` and ``idp``, each by itself."""

COLUMN_WORDS = {
    DP: "ε of differential privacy",
    IDP: "ε of individual differential privacy",
    NONE: "releases without an ε",
    COST: "ε really spent",
    RHO: "ρ of zero-concentrated differential privacy",
    LOOKS: "runs that read data and refused",
}


def digest(columns: Sequence[str | int | None], form: int = 1) -> str:
    """The sha256 of a row's columns in a form that is the same everywhere.

    >>> digest([1, "a"]) == digest(["1", "a"])
    False
    """
    # A column of a type we never write (bytes) must give a wrong hash, not an exception.
    row = [f"sherd-ledger-{form}", *columns]
    text = json.dumps(row, separators=(",", ":"), ensure_ascii=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """Budget set aside for a run that has not finished, and the process that runs it."""

    id: str
    population: str
    amount: Amount
    method: str
    plan_hash: str
    schema_hash: str
    note: str
    time: str
    process: Process
    measure: str = DP
    rho: Fraction | None = None
    delta: Fraction | None = None

    def as_data(self) -> dict[str, object]:
        """The reservation as plain data."""
        exact = {"rho": _text(self.rho), "delta": _text(self.delta)}
        return {**asdict(self), "amount": float(self.amount), **exact}

    def wants(self) -> dict[str, Fraction]:
        """What the charge will add to each column, as far as it is known beforehand."""
        return increments(self.measure, self.amount, self.rho)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One row of the ledger, chained to the row before.

    ``amount`` is what was charged or the new limit; None means that a limit was removed.
    ``measure`` says what a charge's amount is of, or which column a limit is on. ``cost`` is
    what a release really spent where that is known, ``rho`` and ``delta`` are exact.
    The fields about a release are empty in a row of kind ``limit``.
    """

    index: int
    time: str
    kind: Kind
    population: str
    amount: Amount | None
    method: str = ""
    plan_hash: str = ""
    schema_hash: str = ""
    artefact: str = ""
    note: str = ""
    reservation: str | None = None
    previous: str
    hash: str = ""
    form: int = FORM
    measure: str = ""
    cost: Amount | None = None
    rho: Fraction | None = None
    delta: Fraction | None = None

    def columns(self) -> tuple[str | int | None, ...]:
        """Everything the hash covers, in the order of the table's columns."""
        return (
            self.index,
            self.time,
            self.kind,
            self.population,
            None if self.amount is None else self.amount.micro,
            self.method,
            self.plan_hash,
            self.schema_hash,
            self.artefact,
            self.note,
            self.reservation,
            self.previous,
            *self.added(),
        )

    def added(self) -> tuple[str | int | None, ...]:
        """The columns that rows of form 1 do not have."""
        if self.form == 1:
            return ()
        cost = None if self.cost is None else self.cost.micro
        return (self.measure, cost, _text(self.rho), _text(self.delta))

    def adds(self) -> dict[str, Fraction]:
        """What the entry adds to each column of its account."""
        if self.kind == "look":
            return {LOOKS: Fraction(1)}
        if self.kind == "limit" or self.amount is None:
            return {}
        added = increments(self.measure, self.amount, self.rho)
        if self.cost is not None:
            added[COST] = self.cost.epsilon
        return added

    def as_data(self) -> dict[str, object]:
        """The entry as plain data."""
        return {
            **asdict(self),
            "amount": None if self.amount is None else float(self.amount),
            "cost": None if self.cost is None else float(self.cost),
            "rho": _text(self.rho),
            "delta": _text(self.delta),
        }


def _text(exact: Fraction | None) -> str | None:
    return None if exact is None else str(exact)


def increments(measure: str, amount: Amount, rho: Fraction | None) -> dict[str, Fraction]:
    """What a charge adds to each column.

    >>> from sherd.budget.amount import Amount
    >>> {name: str(more) for name, more in increments("idp", Amount("0.5"), None).items()}
    {'idp': '1/2', 'cost': '1/2'}
    """
    if measure == NONE:
        return {NONE: Fraction(1)}
    added = {measure: amount.epsilon, COST: amount.epsilon}
    if rho is not None:
        added[RHO] = rho
    return added


@dataclass(frozen=True, kw_only=True)
class AccountColumn:
    """What of one kind an account may spend, has spent and has set aside, exact."""

    limit: Fraction | None = None
    spent: Fraction = Fraction(0)
    reserved: Fraction = Fraction(0)

    @property
    def left(self) -> Fraction | None:
        """What can still be reserved; None where there is no limit."""
        return None if self.limit is None else max(Fraction(0), self.limit - self.taken)

    @property
    def taken(self) -> Fraction:
        """What is spent or set aside."""
        return self.spent + self.reserved

    def as_data(self) -> dict[str, object]:
        """The column as plain data, exact amounts as text."""
        return {
            "limit": _text(self.limit),
            "spent": str(self.spent),
            "reserved": str(self.reserved),
            "left": _text(self.left),
        }


@dataclass(frozen=True, kw_only=True)
class Account:
    """What one population's budget is: its limit, what is spent and what is set aside.

    ``limit``, ``spent`` and ``reserved`` are those of the column of ε that is nearer to its limit;
    ``columns`` has all of them. ``delta`` is the sum of the charges' δ.
    """

    population: str
    limit: Amount | None
    spent: Amount
    reserved: Amount
    columns: Mapping[str, AccountColumn] = field(default_factory=dict)
    delta: Fraction = Fraction(0)

    @property
    def left(self) -> Amount | None:
        """What can still be reserved; None where there is no limit."""
        return None if self.limit is None else self.limit.less(self.spent + self.reserved)

    def as_data(self) -> dict[str, object]:
        """The account as plain data, amounts in epsilon."""
        return {
            "population": self.population,
            "limit": None if self.limit is None else float(self.limit),
            "spent": float(self.spent),
            "reserved": float(self.reserved),
            "left": None if self.left is None else float(self.left),
            "columns": {name: column.as_data() for name, column in self.columns.items()},
            "delta": str(self.delta),
            "epsilon_of_rho": None if self.concentrated is None else float(self.concentrated[0]),
        }

    @property
    def concentrated(self) -> tuple[Fraction, Fraction] | None:
        """What all ρ that was spent means as (ε, δ), at the account's δ; None where there is none.

        Less than the releases' ε added up: ρ composes exactly.
        """
        column = self.columns.get(RHO)
        if column is None or not column.spent or not 0 < self.delta < 1:
            return None
        return self.epsilon_of_rho(self.delta), self.delta

    def epsilon_of_rho(self, delta: Fraction) -> Fraction:
        """The ε that the account's ρ amounts to at a δ (``sherd.guarantees.concentrated``)."""
        from sherd.guarantees.concentrated import epsilon_of

        return epsilon_of(self.columns[RHO].spent, delta)


@dataclass(frozen=True, kw_only=True)
class Pending:
    """An artefact that is paid for but was not seen to reach its place."""

    index: int
    artefact: str
    staged: Path
    final: Path
    process: Process
    key: str | None = field(default=None, repr=False)

    def as_data(self) -> dict[str, object]:
        """The artefact as plain data, without its key."""
        return {
            "index": self.index,
            "artefact": self.artefact,
            "staged": str(self.staged),
            "final": str(self.final),
        }
