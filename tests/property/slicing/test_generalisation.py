# ruff: noqa: E741 - l is the field's own name for it
"""Random tables: classes of at least k, diverse where asked, and labels that tell the truth."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sherd.errors import InfeasibleError
from sherd.randomness import Randomness
from sherd.release.method import Run
from sherd.release.plan import Plan
from sherd.tables.schema import Schema
from sherd.verifying import verify_contents as verify
from sherd.verifying.label_meaning import meaning

TREE = [["u", "S", "*"], ["k", "N", "*"], ["p", "S", "*"], ["b", "N", "*"], ["z", "*"]]
SCHEMA = Schema.from_data(
    {
        "attributes": {
            "age": {"type": "integer", "domain": ["0", "20"]},
            "town": {"type": "category", "taxonomy": TREE},
            "s": {"type": "text", "role": "sensitive"},
        }
    }
)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(0, 20)),
            st.one_of(st.none(), st.sampled_from("ukpbz")),
            st.sampled_from("xyzw"),
        ),
        min_size=4,
        max_size=60,
    ),
    k=st.integers(2, 6),
    l=st.integers(1, 3),
    boxes=st.sampled_from(["tight", "cells"]),
    suppress=st.booleans(),
)
def test_classes_are_large_diverse_and_cover_their_values(
    rows: list[Any],
    k: int,
    l: int,
    boxes: str,
    suppress: bool,
) -> None:
    """Every released label covers the cell it stands for, in classes of k that are l-diverse."""
    names = ("age", "town", "s")
    table = pa.table({n: [row[i] for row in rows] for i, n in enumerate(names)})
    table = table.cast(pa.schema([("age", pa.int64()), ("town", pa.string()), ("s", pa.string())]))
    plan = Plan(method="mondrian", k=k, l=l, boxes=boxes, suppress=suppress, most_suppressed=1)
    plan.check(SCHEMA)
    try:
        outcome = plan.spec.run(table, SCHEMA, plan, Run(randomness=Randomness.seeded(2)))
    except InfeasibleError:
        assume(False)
        raise
    facts: Any = outcome.facts
    manifest = {"plan": plan.as_data(), "schema": SCHEMA.as_data(), "facts": facts}
    assert not [check for check in verify(outcome.tables, manifest) if check.passed is False]
    for released, row in zip(outcome.tables["data"].to_pylist(), outcome.order, strict=True):
        original = dict(zip(names, rows[row], strict=True))
        assert released["s"] == original["s"]
        for name, kind in (("age", "integer"), ("town", "category")):
            book = facts["labels"][name]
            said, cell = meaning(released[name], book, kind), original[name]
            if cell is None:
                covered = released[name] is None or book[released[name]].get("missing")
                assert covered
            elif said.low is not None:
                assert said.low <= cell <= said.high
            else:
                assert cell in said.values
