"""Axes: the public line of positions that a schema declares."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from sherd.errors import SchemaError
from sherd.tables.axis import MAX_STEPS, Axis, measure
from sherd.tables.schema import Attribute, Type


def _axis(kind: Type, *domain: Any, **more: Any) -> Axis:
    if domain and not isinstance(domain[0], date):
        domain = tuple(Decimal(bound) for bound in domain)
    return Axis.of(Attribute(name="x", type=kind, domain=domain or None, **more))


def test_booleans_and_labels_have_whole_places() -> None:
    """False and true are 0 and 1, labels stand at their rank."""
    assert (_axis(Type.BOOLEAN).low, _axis(Type.BOOLEAN).high) == (0, 1)
    axis = _axis(Type.CATEGORY, values=("a", "b", "c"), other="b")
    assert (axis.steps, axis.labels, axis.other) == (2, ("a", "b", "c"), 1)
    assert _axis(Type.ORDINAL, values=("a",)).steps == 0


@pytest.mark.parametrize(
    ("kind", "domain", "step"),
    [
        (Type.INTEGER, ("17", "90"), Fraction(1)),
        (Type.INTEGER, ("0", "1e15"), Fraction(10**5)),
        (Type.NUMBER, ("0", "1"), Fraction(1, 10**10)),
        (Type.NUMBER, ("-100", "100"), Fraction(1, 10**8)),
        (Type.NUMBER, ("0", "1e20"), Fraction(10**10)),
        (Type.NUMBER, ("0", "1e-30"), Fraction(1, 10**36)),
        (Type.NUMBER, ("1000000000000", "1000000000001"), Fraction(1, 1000)),
        (Type.DATE, (date(1900, 1, 1), date(2030, 1, 1)), Fraction(1)),
        (Type.DATETIME, (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)), 10),
    ],
)
def test_the_step_is_the_finest_that_fits(kind: Type, domain: Any, step: Fraction) -> None:
    """A power of ten, never more positions than a word has room for."""
    axis = _axis(kind, *domain)
    assert axis.step == step
    assert 0 < axis.steps <= MAX_STEPS


def test_positions_stay_within_the_domain() -> None:
    """Where the bounds are not on the grid, the ends move inwards."""
    axis = _axis(Type.NUMBER, "0.1", "0.95", grid=Decimal("0.25"))
    assert (axis.low, axis.high, axis.step) == (1, 3, Fraction(1, 4))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: _axis(Type.TEXT), "text, which cannot be masked"),
        (lambda: _axis(Type.NUMBER), "has no domain"),
        (lambda: _axis(Type.DATE), "declare `domain"),
        (lambda: _axis(Type.CATEGORY), "declare `values"),
        (lambda: _axis(Type.NUMBER, "0", "1", grid=Decimal(2)), "wider than its domain"),
        (lambda: _axis(Type.NUMBER, "1e15", "1000000000000000.1"), "wider than its domain"),
        (lambda: _axis(Type.NUMBER, "0", "1", grid=Decimal("1e-12")), "too fine"),
        (lambda: _axis(Type.NUMBER, "1e16", "10000000000000010", grid=Decimal(1)), "too fine"),
        (lambda: _axis(Type.NUMBER, "0", "1e400"), "is too wide"),
        (lambda: _axis(Type.INTEGER, "0", "1e20"), "is too wide"),
        (lambda: _axis(Type.INTEGER, "-1e20", "0"), "is too wide"),
    ],
)
def test_what_makes_no_axis_is_refused(make: Any, text: str) -> None:
    """With what to declare."""
    with pytest.raises(SchemaError, match=text):
        make()


def test_bounds_are_measured_exactly() -> None:
    """Also before 1970, and with microseconds."""
    assert measure(date(1969, 12, 31)) == -1
    assert measure(datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)) == Fraction(-1, 2)
    assert measure(Decimal("0.1")) == Fraction(1, 10)
