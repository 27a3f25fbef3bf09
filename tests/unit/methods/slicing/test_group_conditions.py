"""Conditions beyond l: met by every group, by definitions written down again here."""

from __future__ import annotations

import copy
import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import InfeasibleError, PlanError
from sherd.guarantees import GroupDiversity
from sherd.release.plan import Plan
from sherd.verifying import verify_contents as verify
from sherd.verifying.tuple_probability import SlicedView

if TYPE_CHECKING:
    from sherd.tables.schema import Schema

GRADES = ["low", "mild", "mid", "high", "grave"]

CONDITIONS: tuple[dict[str, Any], ...] = (
    {"entropy": 2.7},
    {"recursive": [1.5, 3]},
    {"recursive": [0.6, 2]},
    {"closeness": 0.2},
    {"ordered_closeness": 0.15},
    {"share": 0.45, "size": 7},
    {"likeness": 0.8},
    {"entropy": 2.2, "closeness": 0.3, "likeness": 2},
)
METHODS: tuple[dict[str, Any], ...] = (
    {"method": "slice", "groups": [["age", "sex"], ["grade"]]},
    {"method": "slice", "groups": [["age"], ["sex", "grade"]]},
    {"method": "slice", "groups": [["age", "sex"], ["grade"]], "regroup": False, "l": 2},
    {"method": "mondrian", "k": 4},
    {"method": "mondrian", "k": 2, "l": 2, "boxes": "cells"},
    {"method": "anatomy"},
    {"method": "anatomy", "l": 2},
)


@pytest.fixture(scope="module")
def graded() -> pa.Table:
    """People whose grade, of five unequal ones, depends on their age."""
    rng = np.random.default_rng(8)
    age = rng.integers(20, 70, 400)
    place = np.clip(rng.choice(5, 400, p=[0.3, 0.25, 0.2, 0.15, 0.1]) + (age > 55), 0, 4)
    sex = rng.choice(["F", "M"], 400)
    return pa.table({"age": age, "sex": sex, "grade": np.array(GRADES)[place]})


@pytest.fixture(scope="module")
def graded_schema(schema_of: Any) -> Schema:
    """The schema of ``graded``: the grades have an order."""
    return schema_of(
        {
            "age": {"type": "integer", "domain": ["20", "69"]},
            "sex": {"type": "category", "values": ["F", "M"]},
            "grade": {"type": "ordinal", "role": "sensitive", "values": GRADES},
        }
    )


def groups_of(made: Any) -> list[Counter[str]]:
    """The sensitive values of every group that a release shows, read from its tables."""
    tables, plan = made.outcome.tables, made.manifest["plan"]
    found: dict[Any, Counter[str]] = defaultdict(Counter)
    if plan["method"] == "anatomy":
        for row in tables["sensitive"].to_pylist():
            found[row["bucket"]][row["grade"]] += row["count"]
        return list(found.values())
    beside = [c for c in made.manifest["facts"].get("columns", [[]]) if "grade" in c]
    same = ["age", "sex"] if plan["method"] == "mondrian" else ["bucket", *beside[0]]
    for row in tables["data"].to_pylist():
        found[tuple(row[n] for n in same if n != "grade")][row["grade"]] += 1
    return list(found.values())


def holds(name: str, limit: Any, share: dict[str, Fraction], table: dict[str, Fraction]) -> bool:
    """A condition on a distribution, as its paper defines it."""
    ranked = sorted(share.values(), reverse=True)
    if name == "share":
        return ranked[0] <= Fraction(str(limit))
    if name == "entropy":
        entropy = -sum(float(p) * math.log(p) for p in ranked if p)
        return bool(entropy >= math.log(limit) - 1e-9)
    if name == "recursive":
        return ranked[0] < Fraction(str(limit[0])) * sum(ranked[limit[1] - 1 :], Fraction(0))
    gaps = [share.get(g, Fraction(0)) - table[g] for g in GRADES]
    if name == "closeness":
        return sum(gap for gap in gaps if gap > 0) <= Fraction(str(limit)) + Fraction(1, 10**9)
    if name == "ordered_closeness":
        ahead = [sum(gaps[: i + 1], Fraction(0)) for i in range(len(gaps))]
        moved = sum(map(abs, ahead), Fraction(0)) / (len(GRADES) - 1)
        return moved <= Fraction(str(limit)) + Fraction(1, 10**9)
    assert name == "likeness"
    return all(
        float(p) <= float(table[g]) * (1 + min(limit, -math.log(table[g]))) + 1e-9
        for g, p in share.items()
    )


def distribution(counts: Counter[str]) -> dict[str, Fraction]:
    """Counts as shares."""
    return {g: Fraction(n, counts.total()) for g, n in counts.items()}


@pytest.mark.parametrize("wanted", CONDITIONS, ids=str)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_every_group_meets_what_is_asked(
    make: Any, graded: pa.Table, graded_schema: Schema, method: Any, wanted: Any
) -> None:
    """Counted from the release; there is more than one group; verification says the same."""
    try:
        made = make(graded, graded_schema, conditions=wanted, **method)
    except InfeasibleError:
        assert "sex" in method.get("groups", [[], []])[1]  # shares the sensitive column
        return
    groups = groups_of(made)
    table = distribution(sum(groups, Counter()))
    assert len(groups) > 1
    for counts in groups:
        assert counts.total() >= wanted.get("size", 1)
        for name in set(wanted) - {"size"}:
            assert holds(name, wanted[name], distribution(counts), table), (name, counts)
    checks = verify(made.outcome.tables, made.manifest)
    assert not [check for check in checks if check.passed is False]
    assert sum(any(f": {n} " in check.name for n in wanted) for check in checks) == len(wanted)


@pytest.mark.parametrize("wanted", CONDITIONS, ids=str)
def test_no_tuple_of_a_sliced_table_tells_more(
    make: Any, graded: pa.Table, graded_schema: Schema, wanted: Any
) -> None:
    """What can be believed of any tuple is a mixture of buckets, and meets what they meet."""
    columns = [["age"], ["sex"], ["grade"]]
    made = make(graded, graded_schema, method="slice", groups=columns, conditions=wanted)
    data = made.data
    table = distribution(Counter(data["grade"].to_pylist()))
    cells = {(i, c[0]): data[c[0]].to_pylist() for i, c in enumerate(columns)}
    view = SlicedView.of(columns, "grade", cells, data["bucket"].to_pylist()).counted()
    tried = 0
    for age, sex in itertools.product(range(20, 70), "FM"):
        believed = view.probabilities([(age,), (sex,), ()], beta=1.0)
        if believed:
            tried += 1
            share = {str(g): Fraction(p).limit_denominator(10**12) for g, p in believed.items()}
            for name in set(wanted) - {"size", "share", "recursive"}:
                loose = wanted[name] * (1 - 1e-6) if name == "entropy" else wanted[name] + 1e-6
                assert holds(name, loose, share, table), (name, believed)
    assert tried > 50


@pytest.mark.parametrize(
    ("name", "weak", "strict"),
    [
        ("entropy", 1.5, 4.9),
        ("recursive", [3, 2], [0.3, 3]),
        ("closeness", 0.6, 0.001),
        ("ordered_closeness", 0.5, 0.001),
        ("share", 0.7, 0.2),
        ("size", 3, 399),
        ("likeness", 3, 0.001),
    ],
)
@pytest.mark.parametrize("method", [METHODS[0], METHODS[3], METHODS[5]], ids=str)
def test_a_manifest_that_promises_more_than_was_done_is_found_out(
    make: Any, graded: pa.Table, graded_schema: Schema, method: Any, name: str, weak: Any,
    strict: Any,
) -> None:  # fmt: skip
    """A release made by a weak condition fails a strict one, and no other check."""
    made = make(graded, graded_schema, conditions={name: weak}, **method)
    manifest = copy.deepcopy(made.manifest)
    assert not [c for c in verify(made.outcome.tables, manifest) if c.passed is False]
    manifest["plan"]["conditions"] = {name: strict}
    wrong = [c.name for c in verify(made.outcome.tables, manifest) if c.passed is False]
    assert len(wrong) == 1
    assert wrong[0].startswith(f"grade: {name} ")


def test_what_the_whole_table_does_not_meet_is_refused(
    make: Any, graded: pa.Table, graded_schema: Schema
) -> None:
    """Groups can be put together only: five values have entropy 5-diversity at the most."""
    for method in ({"method": "slice"}, {"method": "mondrian", "k": 2}, {"method": "anatomy"}):
        with pytest.raises(InfeasibleError, match="does not meet the condition 'entropy'"):
            make(graded, graded_schema, conditions={"entropy": 5}, **method)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"entropi": 2}, "condition is unknown"),
        ({"entropy": 1}, "above 1"),
        ({"entropy": "2"}, "above 1"),
        ({"recursive": 2}, "two numbers"),
        ({"recursive": [2, 1.5]}, "two numbers"),
        ({"recursive": [0, 2]}, "two numbers"),
        ({"closeness": 1}, "below 1"),
        ({"share": True}, "below 1"),
        ({"size": 2.5}, "whole number"),
        ({"likeness": math.inf}, "above 0"),
    ],
)
def test_conditions_that_mean_nothing_are_refused(
    graded_schema: Schema, wanted: Any, said: str
) -> None:
    """Every limit has its range, and the message says it."""
    with pytest.raises(PlanError, match=said):
        Plan(method="anatomy", conditions=wanted).guarantee(graded_schema)


def test_conditions_need_values_with_a_meaning(people_schema: Schema) -> None:
    """No order, no ordered distance; nothing asked for, nothing promised."""
    with pytest.raises(PlanError, match="no declared order"):
        Plan(method="anatomy", conditions={"ordered_closeness": 0.2}).guarantee(people_schema)
    with pytest.raises(PlanError, match="asked for no diversity"):
        Plan(method="slice").guarantee(people_schema)
    with pytest.raises(PlanError, match="scope 'any'"):
        Plan(method="slice", l=2, scope="records", conditions={"share": 0.5}).guarantee(
            people_schema
        )


def test_the_guarantee_says_every_condition(graded_schema: Schema) -> None:
    """In words and as data; none of it is called differential privacy."""
    wanted = {
        "share": 0.5, "size": 4, "entropy": 2.5, "recursive": [2, 3], "closeness": 0.2,
        "ordered_closeness": 0.1, "likeness": 1,
    }  # fmt: skip
    made = Plan(method="mondrian", k=3, l=2, conditions=wanted).guarantee(graded_schema)
    assert isinstance(made.notion, GroupDiversity)
    words = made.words()
    for part in ("3-anonymity", "2-diversity", "(0.5, 4)-anonymity", "entropy 2.5-diversity",
                 "recursive (2, 3)-diversity", "0.2-closeness (equal distance)",
                 "0.1-closeness (ordered distance)", "enhanced 1-likeness",
                 "it is not differential privacy"):  # fmt: skip
        assert part in words
    assert made.as_data()["recursive"] == [2.0, 3]
    alone = GroupDiversity(share=0.5).words(), GroupDiversity(size=5).words()
    assert alone[0].startswith("no sensitive value above 0.5")
    assert alone[1].startswith("groups of at least 5")


def test_closeness_of_an_attribute_of_two_values(make: Any, schema_of: Any) -> None:
    """Where one value fills 75 %, no l above 1 is feasible, but t-closeness is."""
    rng = np.random.default_rng(3)
    table = pa.table(
        {"age": rng.integers(20, 70, 400), "pay": np.where(rng.random(400) < 0.75, "less", "more")}
    )
    schema = schema_of(
        {"age": {"type": "integer"}, "pay": {"type": "category", "role": "sensitive"}}
    )
    for method in ({"method": "slice"}, {"method": "mondrian", "k": 5}, {"method": "anatomy"}):
        with pytest.raises(InfeasibleError, match="no release with l = 2"):
            make(table, schema, l=2, **method)
        made = make(table, schema, conditions={"closeness": 0.15}, **method)
        assert not [c for c in verify(made.outcome.tables, made.manifest) if c.passed is False]
        names = ["bucket"] if method["method"] != "mondrian" else ["age"]
        stem = "sensitive" if method["method"] == "anatomy" else "data"
        assert len(set(made.outcome.tables[stem][names[0]].to_pylist())) > 5


@pytest.mark.parametrize("room", [1, 7, 2000, 10**12])
def test_rows_come_in_the_order_of_their_places(room: int) -> None:
    """Counted or sorted, rows of one place keep their order."""
    from sherd.methods.slicing.condition_kernels import by_place

    places = np.random.default_rng(2).integers(0, room, 300)
    assert by_place(places).tolist() == np.argsort(places, kind="stable").tolist()
    assert by_place(places[:0]).tolist() == []
