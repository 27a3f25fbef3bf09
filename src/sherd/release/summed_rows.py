"""Joint releases by rows that need nothing but sums of the owners' own numbers.

A method that is ``SumsRows`` asks questions. Every owner answers one with numbers of its own rows
and its part of the noise; the leader of the release is given the sum of all answers and no
single one. Each question follows from the sums before it; when there is none left, the release
follows from the sums alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sherd.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.randomness import Randomness
    from sherd.release.method import Outcome, Run
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

    Numbers = NDArray[np.int64]
    Question = Mapping[str, Any]
    Answered = Sequence[tuple[Question, Numbers]]


@dataclass(frozen=True, kw_only=True)
class RowOwners:
    """Who has the rows: how many owners, how many of them may collude, how many rows in all.

    The promise holds against everybody who sees the release, the aggregator, and as many of the
    owners together as may collude.
    """

    owners: int
    colluders: int
    rows: int

    def __post_init__(self) -> None:
        if not 0 <= self.colluders < self.owners or self.rows < 1:
            raise PlanError(
                "the number of owners that may collude is out of range",
                must=f"0 to {self.owners - 1}, all owners but one",
                got=str(self.colluders),
            )

    @property
    def honest(self) -> int:
        """How many owners' noise must be enough by itself."""
        return self.owners - self.colluders


@runtime_checkable
class SumsRows(Protocol):
    """The optional part of a method's contract: a joint release by rows from sums alone."""

    def check_rows(self, plan: Plan, schema: Schema) -> None:
        """Raise PlanError where a plan cannot be carried out by sums."""

    def next_question(
        self, plan: Plan, schema: Schema, among: RowOwners, answered: Answered
    ) -> Question | None:
        """What to ask after these answers, as plain data; None where nothing is missing."""

    def length(self, plan: Plan, schema: Schema, question: Question) -> int:
        """How many numbers answer a question; PlanError where it is none."""

    def price(self, plan: Plan, schema: Schema, questions: Sequence[Question]) -> Fraction:
        """What answering these questions costs; PlanError where the plan does not allow it."""

    def own_numbers(
        self,
        table: pa.Table,
        schema: Schema,
        plan: Plan,
        among: RowOwners,
        question: Question,
        randomness: Randomness,
    ) -> Numbers:
        """One owner's answer: numbers of its rows and its part of the noise."""

    def release_rows(
        self, plan: Plan, schema: Schema, among: RowOwners, answered: Answered, run: Run
    ) -> Outcome:
        """The release that the sums lead to."""
