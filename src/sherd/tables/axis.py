"""Axes: the public line of whole positions on which an attribute's values are placed.

All masking happens on whole numbers. An axis says which: values are rounded to a public
grid, and position q stands for the value q·step (of days since 1970 for dates, seconds
for times, the label's rank for categories). Sums, sensitivities and noise are then exact,
and what comes out lies on a lattice that depends on the schema alone.

>>> axis = Axis.of(Attribute(name="age", type=Type.INTEGER, domain=(Decimal(17), Decimal(90))))
>>> axis.low, axis.high, axis.step
(17, 90, Fraction(1, 1))
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

from sherd.errors import SchemaError
from sherd.tables.attribute import Attribute, Bound, Type

MAX_STEPS = 2**36
"""Positions of one axis: with a row number beside it (28 bits), a position still fits a word."""

_LARGEST = {True: 10**300, False: 2**63 - 1}  # what a float, and what a whole number, can hold
_FEW_STEPS, _FINEST_STEP = 10**6, Fraction(1, 10**290)  # for domains such as [0, 1e-15]
_MAX_POSITION = 2**53  # beyond it neighbouring positions are the same float


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Positions ``low`` to ``high``, each ``step`` of the attribute's unit apart.

    ``labels`` lists the labels of a labelled attribute by position, ``other`` the position
    that unknown labels take (None: they are refused).
    """

    name: str
    type: Type
    low: int
    high: int
    step: Fraction
    labels: tuple[str, ...] | None = None
    other: int | None = None

    @property
    def steps(self) -> int:
        """The width of the axis: the range of the domain in steps."""
        return self.high - self.low

    @classmethod
    def of(cls, attribute: Attribute) -> Axis:
        """The axis that a schema's attribute declares, without seeing any data."""
        if attribute.type is Type.BOOLEAN:
            return cls(name=attribute.name, type=attribute.type, low=0, high=1, step=Fraction(1))
        if attribute.type.labelled:
            return cls._of_labels(attribute)
        if attribute.type is Type.TEXT:
            raise SchemaError(
                f"the attribute '{attribute.name}' is text, which cannot be masked",
                must="of another type, or an identifier",
                do="give it the role identifier, or the type category with its values",
            )
        if attribute.domain is None:
            raise SchemaError(
                f"the attribute '{attribute.name}' has no domain",
                must="[lowest, highest] value that can occur, decided without looking at the data",
                got="nothing",
                do="declare `domain: [lo, hi]`",
            )
        return cls._of_domain(attribute, *attribute.domain)

    @classmethod
    def _of_labels(cls, attribute: Attribute) -> Axis:
        labels = attribute.labels
        if labels is None:
            raise SchemaError(
                f"the attribute '{attribute.name}' has no values",
                must="the list of labels that can occur, in their order",
                got="nothing",
                do="declare `values: [...]` or a taxonomy",
            )
        return cls(
            name=attribute.name,
            type=attribute.type,
            low=0,
            high=len(labels) - 1,
            step=Fraction(1),
            labels=labels,
            other=None if attribute.other is None else labels.index(attribute.other),
        )

    @classmethod
    def _of_domain(cls, attribute: Attribute, lowest: Bound, highest: Bound) -> Axis:
        bottom, top = measure(lowest), measure(highest)
        if max(-bottom, top) > _LARGEST[attribute.type is Type.NUMBER]:
            raise SchemaError(
                f"the domain of the attribute '{attribute.name}' is too wide",
                must="within ±1e300 for numbers, ±2**63 for whole ones",
            )
        step = _step(attribute.type, attribute.grid, bottom, top)
        low, high = -(-bottom // step), top // step
        if high <= low:
            raise SchemaError(
                f"the grid of the attribute '{attribute.name}' is wider than its domain",
                must="a step that fits into the domain",
                got=f"a step of {float(step):g}",
                do="declare a finer `grid` or a wider `domain`",
            )
        if high - low > MAX_STEPS or max(abs(low), abs(high)) > _MAX_POSITION:
            raise SchemaError(
                f"the grid of the attribute '{attribute.name}' is too fine for its domain",
                must=f"at most {MAX_STEPS} steps between the bounds",
                got=f"{high - low} steps",
                do="declare a wider `grid`",
            )
        return cls(
            name=attribute.name, type=attribute.type, low=int(low), high=int(high), step=step
        )


def measure(bound: Bound) -> Fraction:
    """A bound in its type's unit: the number, days or seconds since 1970.

    >>> measure(date(1970, 1, 3)), measure(Decimal("0.5"))
    (Fraction(2, 1), Fraction(1, 2))
    """
    if isinstance(bound, Decimal):
        return Fraction(bound)
    if isinstance(bound, datetime):
        since = bound - datetime(1970, 1, 1, tzinfo=UTC)
        return Fraction(since.days * 86_400 + since.seconds) + Fraction(since.microseconds, 10**6)
    return Fraction((bound - date(1970, 1, 1)).days)


@functools.lru_cache(maxsize=4096)  # the same few domains are asked about again and again
def _step(kind: Type, grid: Decimal | None, bottom: Fraction, top: Fraction) -> Fraction:
    """The declared grid, or the finest decimal one that fits.

    Never finer than whole units for integers, days and seconds.
    """
    if grid is not None:
        return Fraction(grid)
    step = Fraction(1)
    if kind is Type.NUMBER:
        step = Fraction(1, 10**12)
        while (top - bottom) / step < _FEW_STEPS and step > _FINEST_STEP:
            step /= 10
    while (top - bottom) / step > MAX_STEPS or max(abs(bottom), abs(top)) / step > _MAX_POSITION:
        step *= 10
    return step
