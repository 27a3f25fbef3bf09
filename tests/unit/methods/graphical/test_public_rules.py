"""Rules that leave no record are refused before any data is read."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sherd
from sherd.errors import PlanError
from sherd.methods.graphical import public_rules
from sherd.methods.graphical.dp_graph import design_of

LABELS = {"type": "category", "values": ["a", "b", "c"]}
SCHEMA = sherd.Schema.from_data(
    {
        "missing": "keep",
        "attributes": {
            "x": LABELS, "y": LABELS, "z": LABELS, "age": {"type": "integer", "domain": ["0", "9"]},
        },
    }
)  # fmt: skip


def check(rules: list[dict[str, list[Any]]]) -> None:
    """Check a plan with these rules, without a table."""
    sherd.Plan(method="dp-graph", epsilon=1.0, rules=rules).check(SCHEMA)


CYCLE = [
    {"x": ["a"], "y": ["a"]}, {"y": ["b", "c"], "z": ["b", "c"]}, {"x": ["b", "c"]},
    {"x": ["a"], "z": ["a"]},
]  # fmt: skip


def test_rules_that_exclude_everything_together_are_refused() -> None:
    """None of them does by itself; with any of them left out, records are left."""
    with pytest.raises(PlanError, match="together exclude every record"):
        check(CYCLE)
    for left_out in range(len(CYCLE)):
        check(CYCLE[:left_out] + CYCLE[left_out + 1 :])
    with pytest.raises(PlanError, match="together exclude every record"):
        check([{"age": [0, 4]}, {"age": [5, 9]}])
    check([{"age": [0, 4]}, {"age": [6, 9]}])


labels = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)
rules = st.lists(
    st.dictionaries(st.sampled_from("xyz"), labels, min_size=1, max_size=3), max_size=8
)


@given(rules)
def test_exactly_the_rules_that_leave_nothing_are_refused(given_: list[dict[str, Any]]) -> None:
    """Beside all 27 records of three attributes."""
    left = [
        record
        for record in itertools.product("abc", repeat=3)
        if not any(
            all(dict(zip("xyz", record, strict=True))[name] in values
                for name, values in rule.items())
            for rule in given_
        )
    ]  # fmt: skip
    if left:
        check(given_)
    else:
        with pytest.raises(PlanError, match="together exclude every record"):
            check(given_)


def test_the_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules that take too long to look through are refused in words of their own."""
    monkeypatch.setattr(public_rules, "MOST_TRIED", 3)
    with pytest.raises(PlanError, match="takes too long"):
        design_of(sherd.Plan(method="dp-graph", epsilon=1.0, rules=CYCLE), SCHEMA)
