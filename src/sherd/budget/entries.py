"""The values a ledger speaks in, and the hash that chains its rows.

Every row's hash covers all its columns and the hash of the row before. The hash has no
key: who can write the file can write a new chain. The chain tells accident and careless
editing from truth, and its head, kept by somebody else, pins everything before it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sherd.budget.amount import Amount
    from sherd.budget.process import Process

GENESIS = "0" * 64
"""What the first row names as the row before it."""

Kind = Literal["charge", "limit"]


def digest(columns: Sequence[str | int | None]) -> str:
    """The sha256 of a row's columns in a form that is the same everywhere.

    >>> digest([1, "a"]) == digest(["1", "a"])
    False
    """
    # A column of a type we never write (bytes) must give a wrong hash, not an exception.
    row = ["sherd-ledger-1", *columns]
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

    def as_data(self) -> dict[str, object]:
        """The reservation as plain data."""
        return {**asdict(self), "amount": float(self.amount)}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One row of the ledger, chained to the row before.

    ``amount`` is what was charged or the new limit; None means that a limit was removed.
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
        )

    def as_data(self) -> dict[str, object]:
        """The entry as plain data."""
        return {**asdict(self), "amount": None if self.amount is None else float(self.amount)}


@dataclass(frozen=True, kw_only=True)
class Account:
    """What one population's budget is: its limit, what is spent and what is set aside."""

    population: str
    limit: Amount | None
    spent: Amount
    reserved: Amount

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
        }


@dataclass(frozen=True, kw_only=True)
class Pending:
    """An artefact that is paid for but was not seen to reach its place."""

    index: int
    artefact: str
    staged: Path
    final: Path
    process: Process

    def as_data(self) -> dict[str, object]:
        """The artefact as plain data."""
        return {
            "index": self.index,
            "artefact": self.artefact,
            "staged": str(self.staged),
            "final": str(self.final),
        }
