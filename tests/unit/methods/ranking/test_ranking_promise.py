"""What a plan promises under a schema."""

from __future__ import annotations

from typing import Any

import pytest

from sherd.guarantees import Assumption, DifferentialPrivacy, Guarantee, IndividualDP, Unit
from sherd.release.plan import Plan
from sherd.tables.schema import Schema

NUMBER = {"type": "number", "domain": ["0", "1"]}


def _promise(attributes: dict[str, Any], method: str = "dp", **more: Any) -> Guarantee:
    parameters = more.pop("parameters", {})
    if method not in ("dp", "idp"):
        parameters = {"k": 3, "guarantee": "paper", **parameters}
    schema = Schema.from_data({"attributes": attributes, **more})
    return Plan(method=method, epsilon=0.5, **parameters).guarantee(schema)


def test_declared_bounds_and_labels_are_conditions() -> None:
    """They must have been chosen without the data."""
    labels = {"type": "category", "values": ["a", "b"]}
    found = _promise({"x": NUMBER, "c": labels, "b": {"type": "boolean"}}, missing="refuse")
    assert set(found.assumes) == {
        Assumption.PUBLIC_SIZE,
        Assumption.PARAMETERS_PUBLIC,
        Assumption.PUBLIC_BOUNDS,
        Assumption.PUBLIC_CATEGORIES,
        Assumption.ONE_ROW_PER_PERSON,
        Assumption.REFUSALS_SEEN,
    }


def test_what_comes_from_the_data_is_named() -> None:
    """Bounds, labels and their order."""
    labels = {"type": "category", "values": ["a", "b"]}
    taken = {"domain_from_data": 2.0, "category_order": "frequency"}
    found = _promise({"x": {"type": "number"}, "c": labels}, parameters=taken)
    assert Assumption.BOUNDS_FROM_DATA in found.assumes
    assert Assumption.ORDER_FROM_DATA in found.assumes
    assert Assumption.PUBLIC_BOUNDS not in found.assumes
    drafted = _promise({"c": {**labels, "values_from_data": True}})
    assert Assumption.ORDER_FROM_DATA in drafted.assumes
    ordinal = _promise({"c": {**labels, "type": "ordinal"}}, parameters=taken)
    assert Assumption.PUBLIC_CATEGORIES in ordinal.assumes


def test_gaps_and_dropped_records_are_named() -> None:
    """As the policies of the schema, or of one attribute, say."""
    assert Assumption.MISSINGNESS_PUBLIC in _promise({"x": NUMBER}).assumes
    for policies in ({"missing": "drop"}, {"missing": "refuse", "outside": "drop"}):
        found = _promise({"x": NUMBER}, **policies)
        assert Assumption.RECORDS_DROPPED in found.assumes
        assert Assumption.MISSINGNESS_PUBLIC not in found.assumes
    one = _promise({"x": NUMBER, "y": {**NUMBER, "missing": "drop"}}, missing="refuse")
    assert Assumption.RECORDS_DROPPED in one.assumes


def test_untouched_attributes_are_named() -> None:
    """Weights too."""
    found = _promise({"x": NUMBER, "w": {"type": "number", "role": "weight"}})
    assert Assumption.INSENSITIVE_RELEASED in found.assumes


def test_a_strict_release_has_no_rows_to_speak_of() -> None:
    """Nothing that leaks is among its assumptions, untouched attributes are not released."""
    found = _promise(
        {"x": NUMBER, "w": {"type": "number", "role": "weight"}}, "dp-um",
        parameters={"guarantee": "strict"}, missing="refuse",
    )  # fmt: skip
    assert isinstance(found.notion, DifferentialPrivacy)
    assert not any(assumption.leaks for assumption in found.assumes)
    assert "refusal as an outcome" in found.words()


PERSON = {"x": NUMBER, "who": {"role": "identifier"}}


def test_without_a_unit_the_promise_is_about_records() -> None:
    """And only as good for people as every one of them has one row."""
    found = _promise(PERSON)
    assert found.unit is Unit.RECORD
    assert Assumption.ONE_ROW_PER_PERSON in found.assumes


@pytest.mark.parametrize("method", ["dp", "idp", "idp-ls"])
def test_with_a_unit_of_one_row_it_is_about_people(method: str) -> None:
    """The table is checked for it."""
    found = _promise(PERSON, method, unit="who")
    assert found.unit is Unit.PERSON
    assert found.notion.epsilon == 0.5  # type: ignore[attr-defined]
    assert Assumption.ONE_ROW_PER_PERSON not in found.assumes


@pytest.mark.parametrize("method", ["dp", "dp-um"])
def test_several_rows_cost_as_much_as_they_are(method: str) -> None:
    """Group privacy: three rows, three times epsilon, and a person is covered."""
    found = _promise(PERSON, method, unit="who", rows_per_unit=3)
    assert found.unit is Unit.PERSON
    assert found.notion == DifferentialPrivacy(epsilon=1.5)


@pytest.mark.parametrize("method", ["idp", "idp-ls", "idp-cbls"])
def test_individual_differential_privacy_does_not_add_up(method: str) -> None:
    """The promise stays about single records, and says that a person is not covered."""
    found = _promise(PERSON, method, unit="who", rows_per_unit=3)
    assert found.unit is Unit.RECORD
    assert found.notion == IndividualDP(epsilon=0.5)
    assert any("up to 3 rows" in text for text in found.not_covered)
    assert "Not covered: a person as a whole" in found.words()
