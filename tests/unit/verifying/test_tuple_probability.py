"""p(t, s) on the examples that the papers work out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sherd.verifying.tuple_probability import SlicedView

if TYPE_CHECKING:
    from collections.abc import Hashable

PIN = ["635207", "635307", "635109", "635605", "638106", "638183", "638194", "638125"]
AGE = [30, 35, 42, 49, 55, 59, 61, 65]
SEX = ["M", "F", "F", "F", "M", "M", "M", "F"]
ILL = ["Cancer", "Heart", "Heart", "Flu", "Heart", "Cancer", "Cancer", "Flu"]
BUCKETS = [1, 1, 1, 1, 2, 2, 2, 2]
"""Paper 003, Table 1, with the two buckets of Tables 2 and 3."""


def view(columns: list[list[str]], pins: list[str]) -> SlicedView:
    """The table sliced into the given columns."""
    cells: dict[str, list[Hashable]] = {
        "pin": list(pins), "age": list(AGE), "sex": list(SEX), "ill": list(ILL),
    }  # fmt: skip
    rows = {(i, name): cells[name] for i, column in enumerate(columns) for name in column}
    return SlicedView.of(columns, "ill", rows, BUCKETS)


def worst(sliced: SlicedView, beta: float = 1.0) -> float:
    """The largest p(t, s) of any tuple."""
    found, complete = sliced.counted().largest(sorted(set(BUCKETS)), beta=beta, budget=10_000)
    assert complete
    return found


def test_a_unique_pin_in_the_sensitive_column_gives_everything_away() -> None:
    """{Age, Sex} | {Pin, Disease} with unique pins: p = 1."""
    assert worst(view([["age", "sex"], ["pin", "ill"]], PIN)) == 1.0


def test_three_digits_of_the_pin_leave_one_half() -> None:
    """{Age, Sex} | {Pin, Disease} after Pin → 3 digits: p = 0.5."""
    short = [pin[:3] for pin in PIN]
    assert worst(view([["age", "sex"], ["pin", "ill"]], short)) == pytest.approx(0.5)


def test_bucketisation_leaves_one_half() -> None:
    """{Pin, Age, Sex} | {Disease}, paper 003's Table 3: p = 0.5."""
    assert worst(view([["pin", "age", "sex"], ["ill"]], PIN)) == pytest.approx(0.5)


def test_the_papers_weights_hide_a_violation() -> None:
    """Equal quasi-identifiers, buckets {a,b,c,d} and {s×8,d,e,f,g}: 1/3 by β = 0, truth 1/2."""
    values = list("abcd") + ["s"] * 8 + list("defg")
    buckets = [1] * 4 + [2] * 12
    rows: dict[tuple[int, str], list[Hashable]] = {(0, "q"): ["x"] * 16, (1, "s"): list(values)}
    counted = SlicedView.of([["q"], ["s"]], "s", rows, buckets).counted()
    assert counted.probabilities([("x",), ()], beta=0)["s"] == pytest.approx(1 / 3)
    assert counted.probabilities([("x",), ()], beta=1)["s"] == pytest.approx(1 / 2)


def test_two_values_beside_two_sexes_are_no_diversity() -> None:
    """{(F, flu), (M, cancer)} in one bucket gives p = 1."""
    rows: dict[tuple[int, str], list[Hashable]] = {
        (0, "age"): [30, 40], (1, "sex"): ["F", "M"], (1, "ill"): ["flu", "cancer"],
    }  # fmt: skip
    counted = SlicedView.of([["age"], ["sex", "ill"]], "ill", rows, [1, 1]).counted()
    assert counted.probabilities([(30,), ("F",)]) == {"flu": 1.0}


def test_a_shared_attribute_divides_by_its_own_count() -> None:
    """{age, sex} | {sex, ill}: who is F links to the illnesses of F only."""
    rows: dict[tuple[int, str], list[Hashable]] = {
        (0, "age"): [30, 40, 50, 60], (0, "sex"): ["F", "F", "M", "M"],
        (1, "sex"): ["F", "F", "M", "M"], (1, "ill"): ["flu", "cold", "cut", "cut"],
    }  # fmt: skip
    counted = SlicedView.of([["age", "sex"], ["sex", "ill"]], "ill", rows, [1] * 4).counted()
    assert counted.probabilities([(30, "F"), ("F",)]) == {"flu": 0.5, "cold": 0.5}
    assert counted.probabilities([(30, "F"), ("M",)]) == {"cut": 1.0}
    tuples = set(counted.tuples_of(1))
    assert ((30, "F"), ("F",)) in tuples
    assert ((30, "F"), ("M",)) not in tuples


def test_a_tuple_that_matches_nothing_has_no_probabilities() -> None:
    """Column values that share no bucket say nothing."""
    sliced = view([["age", "sex"], ["pin", "ill"]], PIN)
    assert sliced.counted().probabilities([(30, "M"), ("638125",)]) == {}


def test_the_budget_ends_the_search() -> None:
    """Too many tuples: the answer says that not all were tried."""
    found, complete = (
        view([["age", "sex"], ["pin", "ill"]], PIN).counted().largest([1, 2], beta=1.0, budget=3)
    )
    assert not complete
    assert found == 1.0
