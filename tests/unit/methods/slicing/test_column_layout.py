"""Columns given by hand, and attributes in several of them."""

from __future__ import annotations

from typing import Any

import pytest

from sherd.errors import PlanError
from sherd.methods.slicing.column_layout import ColumnLayout, given_layout


def test_the_sensitive_column_comes_last_and_repeats_are_numbered() -> None:
    """Order follows the groups; a second appearance gets a field of its own."""
    layout = given_layout([["ill", "sex"], ["age", "sex"]], ["age", "sex"], ["ill"])
    assert layout.columns == (("age", "sex"), ("ill", "sex"))
    assert layout.fields() == (("age", "sex"), ("ill", "sex.2"))
    assert layout.beside == ("sex",)
    assert layout.duplicated == ("sex",)
    assert layout.separators == ((), ("sex",))


def test_a_field_name_never_collides_with_an_attribute() -> None:
    """An attribute called like the numbered field keeps its name."""
    layout = ColumnLayout(columns=(("sex", "sex.2"), ("sex", "ill")), sensitive=("ill",))
    fields = [field for column in layout.fields() for field in column]
    assert len(set(fields)) == 4
    assert fields[:2] == ["sex", "sex.2"]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([["age"], []], "empty"),
        ([["age", "sex"], ["ill", "height"]], "not there"),
        ([["age", "age", "sex"], ["ill"]], "twice"),
        ([["age", "ill"], ["sex", "ill"]], "several groups"),
        ([["age"], ["ill"]], "leave attributes out"),
        ([["age", "sex"]], "leave attributes out"),
        ([["age", "sex", "ill"]], "only one group"),
    ],
)
def test_groups_that_do_not_fit(groups: Any, message: str) -> None:
    """Every way to get the groups wrong has its own message."""
    with pytest.raises(PlanError, match=message):
        given_layout(groups, ["age", "sex"], ["ill"])


def test_columns_that_share_in_a_circle_are_refused() -> None:
    """A separator must lie in one earlier column."""
    with pytest.raises(PlanError, match="circle"):
        ColumnLayout(columns=(("a", "b"), ("b", "c"), ("a", "c", "s")), sensitive=("s",))
