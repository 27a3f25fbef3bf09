"""Spending: how ε or ρ is shared out over what touches the data, in exact fractions.

Three things do: the fine 1-ways, the choices (none for `all` and `workload`), and the chosen
marginals. Costs add up, of pure ε as of ρ, also where later ones depend on earlier answers.
Every amount is a fraction; noise is rounded up and rates down to a grid, so the sum of what is
spent never exceeds the total.

>>> account = Spending(kind="gaussian", total=Fraction(1, 100))
>>> account.spend(Fraction(1, 400))
>>> account.left
Fraction(3, 400)
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from sherd.errors import PlanError
from sherd.methods.graphical.measuring import Noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sherd.methods.graphical.measuring import Marginal

ONE_WAYS = Fraction(1, 4)
"""The share of the fine 1-ways."""

CHOICES = Fraction(1, 20)
"""The share of the choices, where there are any."""


class Spending:
    """What may be spent in all and what was; refuses to spend more."""

    def __init__(self, *, kind: Literal["laplace", "gaussian"], total: Fraction) -> None:
        self.kind, self.total, self.spent = kind, total, Fraction(0)

    @property
    def left(self) -> Fraction:
        """What is not spent yet."""
        return self.total - self.spent

    def spend(self, amount: Fraction) -> None:
        """Note that an amount was spent, before it is."""
        if amount <= 0 or amount > self.left:
            raise PlanError("more would be spent than the plan has", must=f"at most {self.left}")
        self.spent += amount

    def noises(self, marginals: Sequence[Marginal], amount: Fraction) -> list[Noise]:
        """Noise for marginals that together cost an amount at most, and note it as spent.

        A marginal's share grows with the root of its cells: large tables need it more.
        """
        weights = [math.isqrt(16 * one.cells) for one in marginals]
        whole = sum(weights)
        noises = [Noise.costing(self.kind, amount * weight / whole) for weight in weights]
        self.spend(sum((one.cost for one in noises), Fraction(0)))
        return noises
