"""Amounts of privacy budget, exact.

An amount is a whole number of micro-epsilon. Floating point would let a thousand charges
of 0.1 add up to something that is not 100; whole numbers add up, and what does not fit
into six decimals is rounded up, so that the ledger never counts less than was spent.

>>> Amount(0.1) + Amount("0.2") == Amount(0.3)
True
>>> str(Amount("1/3"))
'0.333334'
"""

from __future__ import annotations

import math
import numbers
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from sherd.errors import UsageError

MICRO = 1_000_000
"""Micro-epsilon in one epsilon."""

LARGEST = 2**63 - 1
"""The largest whole number the ledger's file can hold, in micro-epsilon."""

AmountLike: TypeAlias = "Amount | int | float | str | Fraction | Decimal"

# Bounded, because Fraction("1e999999999") would be computed digit by digit.
_TEXT = re.compile(
    r"(?:\d{1,40}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,3})?|\d{1,40}/\d{1,40}", re.ASCII
)


@dataclass(frozen=True, order=True, init=False, slots=True)
class Amount:
    """A non-negative amount of epsilon, held as whole micro-epsilon.

    A float is taken as the decimal it is written as (0.1 is one tenth), text as a decimal
    or a fraction. What is finer than a micro-epsilon is rounded up.

    >>> Amount(0.1).micro, Amount(1e-9).micro
    (100000, 1)
    >>> Amount(1) < Amount("1.000001")
    True
    """

    micro: int

    def __init__(self, epsilon: AmountLike) -> None:
        micro = epsilon.micro if isinstance(epsilon, Amount) else _micro(epsilon)
        object.__setattr__(self, "micro", micro)

    @classmethod
    def of_micro(cls, micro: int) -> Amount:
        """The amount of that many micro-epsilon.

        >>> Amount.of_micro(1_250_000)
        Amount('1.25')
        """
        return cls(Fraction(micro, MICRO))

    @classmethod
    def zero(cls) -> Amount:
        """Nothing."""
        return cls(0)

    @property
    def epsilon(self) -> Fraction:
        """The amount as an exact fraction."""
        return Fraction(self.micro, MICRO)

    def __add__(self, other: object) -> Amount:
        if not isinstance(other, Amount):
            return NotImplemented
        return Amount.of_micro(self.micro + other.micro)

    def less(self, other: Amount) -> Amount:
        """What is left after taking the other away, at least nothing.

        >>> Amount(1).less(Amount("0.25")), Amount(1).less(Amount(2))
        (Amount('0.75'), Amount('0'))
        """
        return Amount.of_micro(max(0, self.micro - other.micro))

    def __float__(self) -> float:
        return self.micro / MICRO

    def __bool__(self) -> bool:
        return self.micro > 0

    def __str__(self) -> str:
        whole, rest = divmod(self.micro, MICRO)
        return f"{whole}.{rest:06d}".rstrip("0").rstrip(".")

    def __repr__(self) -> str:
        return f"Amount('{self}')"


def _micro(value: object) -> int:
    exact = _exact(value)
    if exact is None:
        raise UsageError(
            "the amount of budget is not valid",
            must="a number from 0, such as 0.5",
            got=repr(value) if len(repr(value)) <= 60 else f"{len(repr(value))} characters",
        )
    micro = math.ceil(exact * MICRO)
    if micro > LARGEST:
        raise UsageError(
            "the amount of budget is too large",
            must=f"at most {LARGEST // MICRO}",
            do="such an epsilon protects nobody; for no limit on spending use 'none'",
        )
    return micro


def _exact(value: object) -> Fraction | None:
    """The value as a fraction, or None where it is no non-negative number."""
    exact: Fraction | None = None
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = value.strip()
        if _TEXT.fullmatch(text) and not re.search(r"/0+$", text):
            exact = Fraction(text)
    elif isinstance(value, Decimal):
        exact = Fraction(value) if value.is_finite() and abs(value.adjusted()) < 1000 else None
    elif isinstance(value, numbers.Rational):
        exact = Fraction(int(value.numerator), int(value.denominator))
    elif isinstance(value, numbers.Real):  # floats of NumPy too, whose repr is not a number
        number = float(value)
        exact = Fraction(repr(number)) if math.isfinite(number) else None
    return exact if exact is not None and exact >= 0 else None
