from __future__ import annotations

import copy
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherd.budget.amount import LARGEST, MICRO, Amount
from sherd.errors import UsageError


@pytest.mark.parametrize(
    ("given_", "micro"),
    [
        (0, 0),
        (1, 1_000_000),
        (0.1, 100_000),
        (0.30000000000000004, 300_001),
        ("1.25", 1_250_000),
        (" 1.25 ", 1_250_000),
        (".5", 500_000),
        ("1.", 1_000_000),
        ("1e-3", 1_000),
        ("2/3", 666_667),
        (Fraction(1, 3), 333_334),
        (Decimal("0.0000001"), 1),
        (5e-324, 1),
        (np.float64(0.1), 100_000),
        (np.int64(2), 2_000_000),
        (np.float32(0.5), 500_000),
        (Amount("0.5"), 500_000),
    ],
)
def test_made_exactly_and_rounded_up(given_: float, micro: int) -> None:
    """Every kind of number becomes the decimal it is written as, rounded up."""
    assert Amount(given_).micro == micro


@pytest.mark.parametrize(
    "wrong",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        -1,
        -0.1,
        "-1",
        "",
        "abc",
        "1,5",
        "1/0",
        "1/00",
        "nan",
        "inf",
        "1e9999999",
        "٣",
        True,
        None,
        [1],
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal(-1),
        Decimal("1e5000"),
        Fraction(-1, 2),
        1j,
        "9" * 100,
    ],
)
def test_refuses_what_is_no_amount(wrong: float) -> None:
    """NaN, infinity, negatives, truth values and nonsense are refused as wrong input."""
    with pytest.raises(UsageError, match="amount of budget is not valid"):
        Amount(wrong)


def test_refuses_more_than_the_file_holds() -> None:
    """The largest amount is the largest integer of SQLite; adding past it is refused too."""
    most = Amount.of_micro(LARGEST)
    assert most.micro == LARGEST
    with pytest.raises(UsageError, match="too large"):
        Amount("1e30")
    with pytest.raises(UsageError, match="too large"):
        most + Amount.of_micro(1)


@pytest.mark.parametrize(
    ("micro", "text"),
    [(0, "0"), (1, "0.000001"), (1_250_000, "1.25"), (10_000_000, "10"), (100_000, "0.1")],
)
def test_written_without_needless_zeros(micro: int, text: str) -> None:
    """An amount is written as a plain decimal that reads back as the same amount."""
    assert str(Amount.of_micro(micro)) == text
    assert repr(Amount.of_micro(micro)) == f"Amount('{text}')"
    assert Amount(text).micro == micro


def test_is_a_frozen_value() -> None:
    """Equal amounts are one key, copies are equal, and none can be changed."""
    one = Amount(1)
    assert len({one, Amount("1.0"), Amount(Fraction(1))}) == 1
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)  # noqa: S301 - our own
    with pytest.raises(AttributeError):
        one.micro = 2  # type: ignore[misc]
    assert one.epsilon == 1
    assert float(one) == 1.0
    assert not Amount.zero()
    assert Amount.of_micro(1)


def test_adds_only_amounts() -> None:
    """A bare number is not added, since its rounding would not be seen."""
    with pytest.raises(TypeError):
        Amount(1) + 1


@given(st.floats(min_value=0, max_value=1e9), st.floats(min_value=0, max_value=1e9))
def test_never_counts_less(a: float, b: float) -> None:
    """An amount is at least its number, less than a micro-epsilon more, and adds exactly."""
    one, two = Amount(a), Amount(b)
    exact = Fraction(repr(a))
    assert exact <= one.epsilon < exact + Fraction(1, MICRO)
    assert (one + two).micro == one.micro + two.micro
    assert (one < two) == (one.micro < two.micro)
    assert (one + two).less(two) == one
