"""Associations over disjoint sets of fragments, each made for itself (Observation 3)."""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sherd
from sherd.errors import PlanError, UsageError
from sherd.tables.schema import Schema
from sherd.verifying import verify

if TYPE_CHECKING:
    from pathlib import Path

NAMES = "abcdef"
SCHEMA = Schema.from_data({"attributes": {n: {"type": "integer"} for n in NAMES}})
RULES = {"constraints": [["a", "c"], ["b", "c"], ["d", "e"], ["a", "e"], ["a", "b", "f"]]}
FRAGMENTS = [["a", "b"], ["c"], ["d"], ["e", "f"]]
SETS = [[1, 2], [3, 4]]


def people(rows: int = 300) -> pa.Table:
    """Made-up numbers."""
    rng = random.Random(1)  # noqa: S311 - test data
    return pa.table({name: [rng.randrange(60) for _ in range(rows)] for name in NAMES})


def released(**more: Any) -> Any:
    """Four fragments in two associations."""
    given = {"fragments": FRAGMENTS, "associations": SETS, **more}
    return sherd.fragment(people(), SCHEMA, constraints=RULES, looseness=6, **given)


def test_every_set_has_an_association_of_its_own() -> None:
    """With sizes that reach the looseness within the set."""
    release = released()
    assert set(release.tables) == {
        "fragment-1", "fragment-2", "fragment-3", "fragment-4", "association-1-2",
        "association-3-4",
    }  # fmt: skip
    assert release.manifest["facts"]["sizes"] == [3, 2, 3, 2]
    together = sherd.fragment(people(), SCHEMA, constraints=RULES, looseness=6, fragments=FRAGMENTS)
    assert together.manifest["facts"]["sizes"] == [2, 3, 3, 3]


def test_no_combination_within_a_set_is_likelier_than_one_in_k() -> None:
    """Posteriors by plain enumeration of the released tables, for each constraint of a set."""
    release = released()
    for left, right, f, g in (("a", "c", 1, 2), ("b", "c", 1, 2), ("d", "e", 3, 4)):
        tables = release.tables
        members = {
            n: _members(tables[f"fragment-{n}"], name, f"group_{n}")
            for n, name in ((f, left), (g, right))
        }
        meets: dict[int, list[int]] = defaultdict(list)
        for row in tables[f"association-{f}-{g}"].to_pylist():
            meets[row[f"group_{f}"]].append(row[f"group_{g}"])
        for group, others in meets.items():
            assert len(others) == len(members[f][group])
            belief: dict[int, Fraction] = defaultdict(Fraction)
            for other in others:
                for value in members[g][other]:
                    belief[value] += Fraction(1, len(others) * len(members[g][other]))
            assert max(belief.values()) <= Fraction(1, 6)


def _members(table: pa.Table, name: str, group: str) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for row in table.to_pylist():
        found[row[group]].append(row[name])
    return found


def test_nothing_links_the_sets() -> None:
    """No table names groups of both."""
    release = released()
    for names in (("group_1", "group_2"), ("group_3", "group_4")):
        held = [t for n, t in release.tables.items() if set(names) <= set(t.column_names)]
        assert len(held) == 1
        assert set(held[0].column_names) == set(names)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_it_verifies(tmp_path: Path, form: str) -> None:
    """Also the constraints whose fragments nothing links."""
    released().save(tmp_path / "out", format=form)
    checks = verify(tmp_path / "out").checks
    assert all(c.passed is not False for c in checks), checks
    assert any("{a, e}" in c.name and "no associations link" in c.detail for c in checks)


def test_queries_are_answered_within_a_set_and_refused_across() -> None:
    """What two sets have to do with each other is not in the release."""
    release = released()
    found = sherd.query(release, "SELECT SUM(c) AS s FROM release WHERE a < 30")
    assert not found.exact
    low, high = found.table["s_least"][0].as_py(), found.table["s_most"][0].as_py()
    table = people().to_pylist()
    assert low <= sum(r["c"] for r in table if r["a"] < 30) <= high
    assert sherd.query(release, "SELECT COUNT(*) FROM release WHERE e < 9").exact
    with pytest.raises(UsageError, match="does not associate"):
        sherd.query(release, "SELECT SUM(e) FROM release WHERE a < 30")


@pytest.mark.parametrize(
    "wrong",
    [
        {"associations": [[1, 2], [2, 3, 4]]},
        {"associations": [[1, 2]]},
        {"associations": [[1, 2, 3], [4]]},
        {"associations": [[1, 2], [3, 5]]},
        {"fragments": None},
        {"projections": [[1, 2]]},
        {"sizes": [3, 2, 1, 2]},
        {"sizes": [3, 2, 3]},
    ],
)
def test_sets_that_are_not_disjoint_or_not_whole_are_refused(wrong: dict[str, Any]) -> None:
    """Before any data is read."""
    with pytest.raises(PlanError):
        released(**wrong)


def test_a_record_is_kept_of_one_association_only() -> None:
    """What follows is made for all fragments at once."""
    table = people().append_column("who", pa.array(range(300)))
    schema = Schema.from_data(
        {"attributes": {**SCHEMA.as_data()["attributes"],
                        "who": {"type": "integer", "role": "identifier"}}}
    )  # fmt: skip
    with pytest.raises(PlanError, match="one association"):
        sherd.fragment(
            table, schema, constraints=RULES, looseness=6, fragments=FRAGMENTS,
            associations=SETS, key="who",
        )  # fmt: skip


def test_ciphertext_puts_the_sets_together_for_the_owner() -> None:
    """The link is in the key's hands alone."""
    from sherd.release.private_files import CellKey

    key = CellKey.generate()
    rules = {"constraints": [*RULES["constraints"], ["f"]]}
    release = sherd.fragment(
        people(), SCHEMA, constraints=rules, looseness=6, associations=SETS,
        fragments=[["a", "b"], ["c"], ["d"], ["e"]], withheld="ciphertext",
        settings=sherd.Settings(cell_key=key),
    )  # fmt: skip
    sql = "SELECT SUM(e * a), SUM(f) FROM release"
    found = sherd.query(release, sql, key=key).table.to_pylist()[0].values()
    rows = people().to_pylist()
    if release.manifest["facts"]["suppressed"] == 0:
        assert list(found) == [sum(r["e"] * r["a"] for r in rows), sum(r["f"] for r in rows)]
