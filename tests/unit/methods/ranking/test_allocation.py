"""Epsilon and k shared out over the attributes.

Scales as exact fractions: never less noise than declared.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherd.errors import PlanError
from sherd.methods.ranking.allocation import FINEST, LARGEST, Scales, cluster_sizes, epsilons
from sherd.methods.ranking.sensitivity import loss
from sherd.randomness import Randomness
from sherd.release.plan import Plan
from sherd.tables.schema import Schema


def _schema(*names: str) -> Schema:
    attributes: dict[str, Any] = {name: {"type": "boolean"} for name in names}
    return Schema.from_data({"attributes": {**attributes, "id": {"role": "identifier"}}})


def test_shares_are_equal_unless_weighted() -> None:
    """Identifiers get none; a weight counts against 1 for the others."""
    schema = _schema("a", "b", "c")
    assert set(epsilons(Plan(method="dp", epsilon=1), schema).values()) == {Fraction(1, 3)}
    weighted = Plan(method="dp", epsilon=0.5, weights={"a": 0.5, "b": np.float64(2.5)})
    assert epsilons(weighted, schema) == {
        "a": Fraction(1, 16),
        "b": Fraction(5, 16),
        "c": Fraction(1, 8),
    }


@given(
    st.floats(1e-3, 1e6),
    st.lists(st.floats(1e-2, 1e3), min_size=1, max_size=6),
)
def test_shares_never_add_up_to_more_than_epsilon(epsilon: float, weights: list[float]) -> None:
    """Each is rounded down to a small fraction, and by little."""
    names = [f"a{i}" for i in range(len(weights))]
    plan = Plan(method="dp", epsilon=epsilon, weights=dict(zip(names, weights, strict=True)))
    try:
        shares = epsilons(plan, _schema(*names))
    except PlanError:
        return  # a share below the finest one, which is refused
    exact = plan.exact("epsilon")
    assert sum(shares.values()) <= exact
    assert exact - sum(shares.values()) <= Fraction(len(names), FINEST)
    assert all(0 < share.denominator <= FINEST for share in shares.values())


def test_a_vanishing_share_is_refused() -> None:
    """Rather than rounded to 0, which is no noise's scale."""
    plan = Plan(method="dp", epsilon=1, weights={"a": 1e-9})
    with pytest.raises(PlanError, match="the attribute 'a' gets too small a share"):
        epsilons(plan, _schema("a", "b"))


@pytest.mark.parametrize(
    "value", [0, -1, True, "2", None, [1], float("nan"), float("inf"), 1j], ids=repr
)
def test_a_weight_is_a_number_above_0(value: Any) -> None:
    """Anything else is quoted and refused."""
    plan = Plan(method="dp", epsilon=1, weights={"a": value})
    with pytest.raises(PlanError, match="'weights' of the attribute 'a' is not valid"):
        epsilons(plan, _schema("a"))


@pytest.mark.parametrize("name", ["zz", "id"])
def test_only_protected_attributes_have_shares(name: str) -> None:
    """An unknown one and an identifier are refused, with a hint where one is near."""
    with pytest.raises(PlanError, match="not a protected one"):
        epsilons(Plan(method="dp", epsilon=1, weights={name: 2}), _schema("age", "sex"))
    with pytest.raises(PlanError, match="did you mean 'age'"):
        epsilons(Plan(method="dp", epsilon=1, weights={"agee": 2}), _schema("age", "sex"))


def test_every_attribute_may_have_its_own_k() -> None:
    """The plan's k where none is given; numpy's numbers too."""
    plan = Plan(method="idp-cbls", epsilon=1, k=5, guarantee="paper", k_of={"a": np.int64(9)})
    assert cluster_sizes(plan, _schema("a", "b"), 3) == {"a": 9, "b": 5}


@pytest.mark.parametrize("k", [2, 3.5])
def test_no_attributes_k_is_below_the_methods_least(k: float) -> None:
    """And it is a whole number."""
    plan = Plan(method="idp-cbls", epsilon=1, k=5, guarantee="paper", k_of={"a": k})
    with pytest.raises(PlanError, match="the k of the attribute 'a' is not valid"):
        cluster_sizes(plan, _schema("a"), 3)


def _exact(scales: Scales) -> list[Fraction]:
    return [Fraction(int(n), scales.denominator) for n in scales.numerators]


@given(
    st.lists(st.integers(0, 2**33), min_size=1, max_size=5),
    st.fractions(Fraction(1, 10**6), 10**9, max_denominator=10**6),
)
def test_a_scale_is_never_below_the_declared_one(reach: list[int], epsilon: Fraction) -> None:
    """Exact where it fits 54 bits, else rounded upwards by less than a billionth."""
    found = _exact(Scales.laplace(np.array(reach), epsilon))
    for scale, sensitivity in zip(found, reach, strict=True):
        declared = sensitivity / epsilon
        assert scale >= declared
        assert scale <= declared * (1 + Fraction(1, 10**9)) + Fraction(1, 1)
        if sensitivity == 0:
            assert scale == 0


def test_a_small_scale_is_exact() -> None:
    """Numerator and denominator are those of the fraction."""
    scales = Scales.laplace(np.array([0, 3, 90]), Fraction(3, 10))
    assert _exact(scales) == [0, 10, 300]
    assert scales.values().tolist() == [0, 10, 300]


def test_a_huge_epsilon_still_gives_some_noise() -> None:
    """Rounded upwards to the finest scale there is, where its fraction has no room."""
    scales = Scales.laplace(np.array([1, 0]), Fraction(10**300))
    assert _exact(scales)[0] > 0
    assert _exact(scales)[1] == 0
    assert scales.draw(Randomness.seeded(1)).tolist() == [0, 0]


def test_a_scale_beyond_the_sampler_is_refused() -> None:
    """Never narrowed to fit."""
    with pytest.raises(PlanError, match="too wide to draw exactly"):
        Scales.laplace(np.array([2**36]), Fraction(1, 10**6))


@given(
    st.lists(st.tuples(st.integers(0, 2**36), st.integers(1, 10**6)), min_size=1, max_size=4),
    st.fractions(Fraction(1, 10**4), 100, max_denominator=10**6),
    st.fractions(0, 2**27, max_denominator=10**6),
)
def test_the_floor_holds_for_the_released_value(
    clusters: list[tuple[int, int]], epsilon: Fraction, floor: Fraction
) -> None:
    """The scale over the cluster's size is at least the floor, and never less than before."""
    reach, sizes = (np.array(part) for part in zip(*clusters, strict=True))
    before = Scales.laplace(reach, epsilon)
    after = before.at_least(floor, sizes)
    for old, new, size in zip(_exact(before), _exact(after), sizes, strict=True):
        assert new >= old
        assert new / int(size) >= floor


def test_a_floor_beyond_the_sampler_is_refused() -> None:
    """A share of a thousand times the range."""
    scales = Scales.laplace(np.array([2**36]), Fraction(1))
    with pytest.raises(PlanError, match="lower min_scale"):
        scales.at_least(Fraction(2**40), np.array([2**20]))
    assert int(scales.numerators.max()) <= LARGEST


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)), min_size=1, max_size=8),
    st.fractions(Fraction(1, 1000), 10, max_denominator=1000),
)
def test_enlarged_scales_cover_the_loss(clusters: list[tuple[int, int]], epsilon: Fraction) -> None:
    """In exact arithmetic, in both directions; scales that suffice stay as they are."""
    moves, reach = (np.array(part) for part in zip(*clusters, strict=True))
    shifts = (moves, moves[::-1].copy())
    before = Scales.laplace(reach, epsilon)
    after = before.covering(shifts, epsilon)
    for shift in shifts:
        spent = sum(
            (Fraction(int(s)) / b for s, b in zip(shift, _exact(after), strict=True)), Fraction(0)
        )
        assert spent <= epsilon
    if loss(shifts, before.values()) <= float(epsilon):
        assert after is before


def test_noise_is_drawn_for_every_cluster() -> None:
    """One draw each, none where the scale is 0."""
    drawn = Scales(numerators=np.array([0, 10**6, 0]), denominator=1).draw(Randomness.seeded(3))
    assert drawn[0] == drawn[2] == 0
    assert drawn[1] != 0
    empty = Scales.laplace(np.empty(0, np.int64), Fraction(1))
    assert empty.draw(Randomness.seeded(1)).size == 0
