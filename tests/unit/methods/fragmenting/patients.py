"""The relation PATIENTS of Figure 1(a), and the groups the paper's figures draw over it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sherd.methods.fragmenting.constraints import Constraints
from sherd.tables.schema import Schema

PATIENTS = pa.table(
    {
        "Name": ["Alice", "Bob", "Carol", "David", "Greg", "Hal", "Eric", "Fred"],
        "YoB": [1974, 1965, 1976, 1972, 1975, 1970, 1960, 1974],
        "Edu": ["B.Sc", "MBA", "Ph.D", "M.Sc", "M.Sc", "Th.D", "Primary", "Ed.D"],
        "ZIP": [90015, 90038, 90001, 90087, 90025, 90007, 90025, 90060],
        "Job": ["Assistant", "Manager", "Manager", "Doctor", "Doctor", "Clerk", "Chef", "Teacher"],
        "MarStatus": [
            "Married", "Widow", "Married", "Divorced", "Single", "Single", "Divorced", "Widow",
        ],
        "Disease": [
            "Flu", "Diabetes", "Calculi", "Asthma", "Flu", "Calculi", "Diabetes", "Asthma",
        ],
        "Race": ["Black", "White", "Black", "Asian", "Indian", "Indian", "White", "Asian"],
        "InsCompany": [
            "BestCompany", "BestCompany", "MyCompany", "HerCompany", "MyCompany", "BestCompany",
            "YourCompany", "YourCompany",
        ],
        "Salary": [1000, 5000, 2000, 4000, 1000, 2000, 4000, 5000],
        "InsAmount": [150, 70, 100, 150, 70, 120, 110, 60],
    }
)  # fmt: skip

RULES = Constraints(
    constraints=(
        ("YoB", "Edu"),
        ("ZIP", "Job"),
        ("Name", "Disease"),
        ("YoB", "ZIP", "Disease"),
        ("YoB", "ZIP", "MarStatus"),
    )
)
SEVEN = ("Name", "YoB", "Edu", "ZIP", "Job", "MarStatus", "Disease")
THREE = (("Name", "YoB"), ("Edu", "ZIP"), ("Job", "MarStatus", "Disease"))

FIGURE_4 = (
    ({1, 2}, {3, 4}, {5, 6}, {7, 8}),
    ({1, 3}, {2, 5}, {4, 7}, {6, 8}),
    ({1, 4}, {2, 6}, {3, 7}, {5, 8}),
)
FIGURE_6 = (
    ({1, 3}, {2, 7}, {4, 8}, {5, 6}),
    ({1, 5}, {3, 6}, {4, 7}, {2, 8}),
)


def group_of(groups: tuple[set[int], ...]) -> list[int]:
    """The group of every tuple, tuples counted from 1 as in the paper."""
    return [next(g for g, members in enumerate(groups) if t in members) for t in range(1, 9)]


def schema(*names: str) -> Schema:
    """A schema of some of the attributes."""
    numbers = ("YoB", "Salary", "InsAmount")
    return Schema.from_data(
        {"attributes": {n: {"type": "integer" if n in numbers else "category"} for n in names}}
    )


def released(
    fragments: tuple[tuple[str, ...], ...], groupings: tuple[tuple[set[int], ...], ...]
) -> dict[str, pa.Table]:
    """The tables of a release with these groups."""
    tables = {}
    columns = {}
    for f, (names, groups) in enumerate(zip(fragments, groupings, strict=True), 1):
        columns[f"group_{f}"] = group_of(groups)
        part = PATIENTS.select(list(names))
        tables[f"fragment-{f}"] = part.append_column(f"group_{f}", pa.array(columns[f"group_{f}"]))
    return {**tables, "association": pa.table(columns)}


def manifest(
    fragments: tuple[tuple[str, ...], ...],
    looseness: int,
    sizes: list[int] | None = None,
    rules: Constraints = RULES,
    suppressed: int = 0,
) -> dict[str, Any]:
    """What a manifest says about such a release."""
    return {
        "plan": {
            "method": "fragment",
            "looseness": looseness,
            "constraints": rules.as_data(),
        },
        "schema": schema(*[n for f in fragments for n in f]).as_data(),
        "facts": {
            "fragments": [list(f) for f in fragments],
            "sizes": sizes or [1] * len(fragments),
            "withheld": [],
            "suppressed": suppressed,
        },
    }
