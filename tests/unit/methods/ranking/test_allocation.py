"""Epsilon and k shared out over the attributes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherd.errors import PlanError
from sherd.methods.ranking.allocation import FINEST, cluster_sizes, epsilons
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
