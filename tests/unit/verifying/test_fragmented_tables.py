from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.methods.fragmenting.patients import (
    FIGURE_4,
    PATIENTS,
    RULES,
    THREE,
    group_of,
    manifest,
    released,
)

from sherd.methods.fragmenting.constraints import Constraints
from sherd.verifying.consecutive_releases import verify_together
from sherd.verifying.fragmented_tables import verify

if TYPE_CHECKING:
    from sherd.verifying.check import Check

MANIFEST = manifest(THREE, 4, [2, 2, 2])


def failed(checks: list[Check]) -> list[str]:
    """The names of the checks that failed."""
    return [check.name for check in checks if check.passed is False]


def detail(checks: list[Check], name: str) -> str:
    """What a check says."""
    return next(check.detail for check in checks if check.name.startswith(name))


def test_figure_4_is_loose() -> None:
    """c1 to c3 are 4-loose, c4 and c5 8-loose, with the probabilities to match."""
    checks = verify(released(THREE, FIGURE_4), MANIFEST)
    assert failed(checks) == []
    for constraint in RULES.constraints:
        label = "{" + ", ".join(constraint) + "}"
        wide = len(constraint) == 3
        assert detail(checks, f"{label}: 4 different") == f"at least {8 if wide else 4}"
        likeliest = detail(checks, f"{label}: no combination likelier")
        assert likeliest.endswith("0.125" if wide else "0.25")


def test_figure_3_leaks() -> None:
    """Two associations made separately over a shared fragment: Alice has Flu or Calculi."""
    tables = figure_3()
    checks = verify(tables, MANIFEST)
    assert "fragment 2: one grouping" in failed(checks)
    assert "{Name, Disease}: associations together" in failed(checks)
    assert "0.5" in detail(checks, "{Name, Disease}: associations together")
    assert not any("{YoB, Edu}: 4 different" in name for name in failed(checks))
    assert not any("{ZIP, Job}: 4 different" in name for name in failed(checks))


def figure_3() -> dict[str, pa.Table]:
    """Figure 3 as its text describes it: ny1 meets ez11 and ez12, those lead to jmd1 and jmd2."""
    ny = ({1, 6}, {3, 5}, {2, 4}, {7, 8})
    ez1 = ({1, 5}, {3, 6}, {2, 7}, {4, 8})
    ez2 = ({1, 6}, {3, 5}, {2, 8}, {4, 7})
    jmd = ({1, 3}, {5, 6}, {2, 4}, {7, 8})
    names = {"group_1": ny, "group_2a": ez1, "group_2b": ez2, "group_3": jmd}
    columns = {name: pa.array(group_of(groups)) for name, groups in names.items()}
    middle = PATIENTS.select(list(THREE[1]))
    for name in ("group_2a", "group_2b"):
        middle = middle.append_column(name, columns[name])
    return {
        "fragment-1": PATIENTS.select(list(THREE[0])).append_column("group_1", columns["group_1"]),
        "fragment-2": middle,
        "fragment-3": PATIENTS.select(list(THREE[2])).append_column("group_3", columns["group_3"]),
        "association-1-2": pa.table({n: columns[n] for n in ("group_1", "group_2a")}),
        "association-2-3": pa.table({n: columns[n] for n in ("group_2b", "group_3")}),
    }


def test_projections_of_one_association_are_safe() -> None:
    """Observations 1 and 2: any projections of Figure 4 pass; what they hide is said."""
    tables = released(THREE, FIGURE_4)
    whole = tables.pop("association")
    for chosen in itertools.combinations(([1, 2], [2, 3], [1, 3]), 2):
        projected = {
            "association-" + "-".join(map(str, c)): whole.select([f"group_{f}" for f in c])
            for c in chosen
        }
        assert failed(verify({**tables, **projected}, MANIFEST)) == []


def test_disjoint_associations_are_safe() -> None:
    """Observation 3: associations that share no fragment link nothing."""
    four = (("Name",), ("Edu",), ("Job",), ("Disease",))
    rules = Constraints(constraints=(("Name", "Edu"), ("Job", "Disease"), ("Name", "Disease")))
    tables = released(four, (*FIGURE_4[:2], FIGURE_4[2], FIGURE_4[0]))
    whole = tables.pop("association")
    tables["association-1-2"] = whole.select(["group_1", "group_2"])
    tables["association-3-4"] = whole.select(["group_3", "group_4"])
    checks = verify(tables, manifest(four, 2, [2, 2, 2, 2], rules))
    assert detail(checks, "{Name, Disease}: associations together").startswith("no associations")


def brute_loose(tables: dict[str, pa.Table], rules: Constraints, k: int) -> bool:
    """Definition 4.3 by hand, from the released tables."""
    rows = tables["association"].to_pylist()
    fragments = [tables[f"fragment-{f}"].to_pylist() for f in (1, 2, 3)]
    names = [set(part[0]) for part in fragments]
    for constraint in rules.constraints:
        held = [f for f in range(3) if names[f] & set(constraint)]
        for source in held:
            others = [f for f in held if f != source]
            for group in {row[f"group_{source + 1}"] for row in rows}:
                reached: list[Any] = []
                for row in rows:
                    if row[f"group_{source + 1}"] != group:
                        continue
                    members = [
                        [t for t in fragments[f] if t[f"group_{f + 1}"] == row[f"group_{f + 1}"]]
                        for f in others
                    ]
                    reached += [
                        tuple(t[a] for t, f in zip(c, others, strict=True)
                              for a in sorted(names[f] & set(constraint)))
                        for c in itertools.product(*members)
                    ]  # fmt: skip
                if len(reached) < k or len(set(reached)) != len(reached):
                    return False
    return True


def test_every_swap_that_breaks_looseness_is_caught() -> None:
    """Swapping any two tuples' groups in Figure 4 is caught exactly when Definition 4.3 breaks."""
    broken = 0
    for f, (i, j) in itertools.product((1, 2, 3), itertools.combinations(range(8), 2)):
        tables = released(THREE, FIGURE_4)
        groups = tables[f"fragment-{f}"].column(f"group_{f}").to_pylist()
        groups[i], groups[j] = groups[j], groups[i]
        part = tables[f"fragment-{f}"].drop_columns([f"group_{f}"])
        tables[f"fragment-{f}"] = part.append_column(f"group_{f}", pa.array(groups))
        loose = brute_loose(tables, RULES, 4)
        broken += not loose
        assert (failed(verify(tables, MANIFEST)) == []) is loose
    assert broken > 30


def test_what_does_not_fit_together_is_caught() -> None:
    """Missing tables, wrong counts, small groups, shown constraints, identifiers, overlaps."""
    tables = released(THREE, FIGURE_4)
    assert failed(verify({"fragment-1": tables["fragment-1"]}, MANIFEST)) == ["files"]
    rows = tables["association"].slice(1)
    assert any("as often" in n for n in failed(verify({**tables, "association": rows}, MANIFEST)))
    small = manifest(THREE, 4, [3, 2, 2])
    assert "group_1: least group size" in failed(verify(tables, small))
    shown = Constraints(constraints=(("Name", "YoB"),))
    assert "no fragment shows a constraint" in failed(
        verify(tables, manifest(THREE, 4, rules=shown))
    )
    told = Constraints.from_data(
        {"constraints": [["Name", "Job"]], "dependencies": ["Name -> Job"]}
    )
    names = failed(verify(tables, manifest(THREE, 4, rules=told)))
    assert {"no fragment shows a constraint", "dependencies link no fragments"} <= set(names)
    identified = manifest(THREE, 4)
    identified["schema"]["attributes"]["Name"]["role"] = "identifier"
    assert "no identifier" in failed(verify(tables, identified))
    other = manifest((("Name",), *THREE[1:]), 4)
    assert "fragments as stated" in failed(verify(tables, other))


def test_equal_values_count_more_than_once() -> None:
    """A value that two groups share is likelier, even where enough others are there."""
    tables = released(THREE, FIGURE_4)
    sick = ["Flu", "Flu", "Calculi", "Asthma", "Flu", "Calculi", "Diabetes", "Asthma"]
    part = tables["fragment-3"]
    at = part.schema.get_field_index("Disease")
    tables["fragment-3"] = part.set_column(at, "Disease", pa.array(sick))
    assert any(name.startswith("{Name, Disease}") for name in failed(verify(tables, MANIFEST)))


@pytest.mark.parametrize("how", ["same", "deleted", "appended", "regrouped"])
def test_two_releases_together(how: str) -> None:
    """A tuple that goes or comes alone is found; so is a table grouped twice."""
    old = released(THREE, FIGURE_4)
    new = dict(old)
    if how == "deleted":
        new = {name: table.slice(1) for name, table in old.items()}
    elif how == "appended":
        old = {name: table.slice(1) for name, table in old.items()}
    elif how == "regrouped":
        new = {}
        for name, table in old.items():
            for column in table.column_names:
                if column.startswith("group_"):
                    at = table.schema.get_field_index(column)
                    moved = np.asarray(table.column(column)) + 100
                    table = table.set_column(at, column, pa.array(moved))  # noqa: PLW2901
            new[name] = table
    wrong = failed(verify_together(old, new, MANIFEST))
    assert bool(wrong) is (how != "same")
    if how == "regrouped":
        assert wrong == ["groups are kept"]
    if how in ("deleted", "appended"):
        assert any(name.startswith("what ") for name in wrong)


def test_releases_of_different_shape_cannot_be_compared() -> None:
    """Other tables or other columns are said to be so."""
    old = released(THREE, FIGURE_4)
    assert failed(verify_together(old, {**old, "more": old["association"]}, MANIFEST)) == ["files"]
    renamed = old["fragment-1"].rename_columns(["Who", "YoB", "group_1"])
    assert failed(verify_together(old, {**old, "fragment-1": renamed}, MANIFEST)) == ["files"]
