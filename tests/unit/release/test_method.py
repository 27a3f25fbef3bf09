"""Parameters, what a method is given and makes, and finding one by its name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sherd.errors import PlanError
from sherd.randomness import Randomness
from sherd.release.method import Described, Describing, Finding, Method, Parameter, Run, find, names


def _parameter(kind: type, **more: Any) -> Parameter:
    return Parameter(name="p", kind=kind, help="a parameter", **more)


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (int, 3, 3),
        (int, 3.0, 3),
        (int, np.int64(7), 7),
        (int, np.float32(2), 2),
        (float, 2, 2.0),
        (float, 0.25, 0.25),
        (float, np.float64(0.1), 0.1),
        (str, "x", "x"),
        (bool, True, True),
        (dict, {"a": 1}, {"a": 1}),
        (list, [1], [1]),
    ],
)
def test_a_good_value_comes_back_in_its_own_type(kind: type, given: Any, expected: Any) -> None:
    """Also numpy's numbers, which a notebook hands over without noticing."""
    found = _parameter(kind).check(given)
    assert found == expected
    assert type(found) is kind


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (int, True),
        (int, "3"),
        (int, 3.5),
        (int, float("nan")),
        (int, float("inf")),
        (float, "1"),
        (float, True),
        (float, float("nan")),
        (float, float("-inf")),
        (float, 10**400),
        (str, 3),
        (bool, "yes"),
        (dict, [1]),
        (list, {"a": 1}),
        (float, 1j),
    ],
)
def test_another_type_is_refused(kind: type, given: Any) -> None:
    """With what it must be and what was given."""
    with pytest.raises(PlanError, match="the 'p' parameter is not valid") as caught:
        _parameter(kind).check(given)
    assert str(caught.value.must).startswith(_parameter(kind).must())
    endless = isinstance(given, float) and not math.isfinite(given)
    assert str(caught.value.must).endswith("finite") is endless
    assert caught.value.got == repr(given)


def test_limits_hold() -> None:
    """``least`` may be met, ``above`` may not; a whole number may exceed any float."""
    least, above = _parameter(int, least=3), _parameter(float, above=0)
    assert least.check(3) == 3
    assert least.check(10**400) == 10**400
    with pytest.raises(PlanError, match="a whole number from 3"):
        least.check(2)
    with pytest.raises(PlanError, match="a number above 0"):
        above.check(0)


def test_what_a_value_must_be_is_said_in_words() -> None:
    """For every kind of parameter."""
    said = [_parameter(kind).must() for kind in (int, float, str, bool, dict, list)]
    assert said == ["a whole number", "a number", "text", "true or false", "a mapping", "a list"]
    assert _parameter(str, choices=("a", "b")).must() == "one of a, b"


def test_a_choice_is_one_of_its_own_with_a_hint() -> None:
    """A near miss gets a hint, a far one does not."""
    choice = _parameter(str, choices=("paper", "strict"))
    assert choice.check("paper") == "paper"
    with pytest.raises(PlanError, match="did you mean 'strict'"):
        choice.check("strit")
    with pytest.raises(PlanError) as caught:
        choice.check("zzzzzz")
    assert caught.value.do is None


def test_nothing_is_fine_unless_required() -> None:
    """None means "not given"."""
    assert _parameter(int).check(None) is None
    with pytest.raises(PlanError):
        _parameter(int, required=True).check(None)


def test_a_finding_is_labelled_internal() -> None:
    """Whatever prints it, the label travels with it."""
    data = Finding(name="n", value=1, meaning="m", attribute="a").as_data()
    assert data["label"] == "internal: not for publication"
    assert data["attribute"] == "a"


def test_a_run_watches_silently_unless_told() -> None:
    """The default progress takes a step and says nothing."""
    assert Run(randomness=Randomness.seeded(1)).progress("x", 1, 2) is None  # type: ignore[func-returns-value]


def test_unknown_methods_get_a_hint_or_the_way_to_the_list() -> None:
    """A near miss is guessed, else the command that lists them is named."""
    with pytest.raises(PlanError, match="did you mean 'idp-ls'"):
        find("idp-sl")
    with pytest.raises(PlanError, match="run `sherd methods`"):
        find("????????????")


@pytest.mark.parametrize("name", names())
def test_every_method_describes_its_promises_in_general(name: str) -> None:
    """No number of a plan is in it: e^ε stands as e^ε."""
    method = find(name)
    assert isinstance(method, Method)
    assert isinstance(method, Describing)
    for one in method.describe():
        assert isinstance(one, Described)
        assert one.promise
        assert one.covers
        assert one.source
        assert "2.718" not in one.promise
        assert "ε = 1" not in one.promise
        assert isinstance(one.as_data()["not_covered"], list)
