"""Arithmetic on many field elements at once: exact, uniform, and shares as MPyC makes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherd.secure.engine.field_arithmetic import matrix_product, random_below, random_split
from sherd.secure.engine.mpyc_engine import load_mpyc

PRIMES = (7, 2**31 - 1, 2**61 - 1, 2**96 - 17, 2**127 - 1)


@given(st.sampled_from(PRIMES), st.integers(0, 2**32), st.tuples(*[st.integers(1, 40)] * 3))
def test_products_are_those_of_whole_numbers(
    modulus: int, seed: int, shape: tuple[int, int, int]
) -> None:
    """Any field, any shape: the same as one number after the other."""
    draw = np.random.default_rng(seed)
    rows, inner, columns = shape
    raw = draw.integers(0, 2**62, rows * inner + inner * columns).tolist()
    numbers = np.array([one**3 % modulus for one in raw], object)
    a = numbers[: rows * inner].reshape(rows, inner)
    b = numbers[rows * inner :].reshape(inner, columns)
    assert matrix_product(a, b, modulus).tolist() == ((a @ b) % modulus).tolist()


@pytest.mark.parametrize("inner", [8191, 8192, 2**14, 2**14 + 1])
@pytest.mark.parametrize("modulus", PRIMES[2:])
def test_largest_numbers_are_exact(modulus: int, inner: int) -> None:
    """Where rounding would show first: every element p − 1, and many records at once."""
    a = np.full((1, inner), modulus - 1, object)
    assert matrix_product(a, a.T, modulus).tolist() == [[inner % modulus]]


def test_random_numbers_are_uniform() -> None:
    """Every residue as often as it should be; false alarms in a million (6 deviations)."""
    bound, n = 11, 44_000
    counts = np.bincount(random_below(bound, n).astype(np.int64), minlength=bound)
    assert len(counts) == bound
    assert (np.abs(counts - n / bound) < 6 * np.sqrt(n / bound)).all()
    wide = random_below(2**96 - 17, 2000)
    assert max(wide) > 2**95
    assert len(set(wide.tolist())) == 2000


@pytest.mark.parametrize(("t", "m"), [(1, 3), (2, 5)])
def test_shares_recombine_and_a_minority_sees_uniform_numbers(t: int, m: int) -> None:
    """Shares of t + 1 give the secret back; each share alone is uniform, whatever the secret."""
    load_mpyc()
    from mpyc import finfields, thresha

    field: Any = finfields.GF(11)
    secrets = field.array(np.array([3] * 22_000, object))
    shares = random_split(field, secrets, t, m)
    assert thresha.np_random_split is random_split, "the engine uses it"
    points = [(place + 1, shares[place]) for place in range(m - t - 1, m)]
    assert set(thresha.np_recombine(field, points).value.tolist()) == {3}
    for share in shares:
        counts = np.bincount(share.astype(np.int64), minlength=11)
        assert (np.abs(counts - 2000) < 6 * np.sqrt(2000)).all()
