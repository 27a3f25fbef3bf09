from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import sherd
from sherd.errors import InfeasibleError, PlanError, SchemaError, SherdError
from sherd.release.protect import Settings
from sherd.verifying.fragmented_tables import verify

from .patients import PATIENTS, RULES, SEVEN, THREE, schema

TABLE = pa.table({name: list(range(400)) for name in "abcd"} | {"e": [i % 50 for i in range(400)]})
SCHEMA = sherd.Schema.from_data({"attributes": {name: {"type": "integer"} for name in "abcde"}})
RULE = {"constraints": [["a", "b"], ["b", "c"], ["d"]]}


def plan(**more: Any) -> sherd.Plan:
    """A plan to fragment."""
    return sherd.Plan(method="fragment", **{"constraints": RULE, "looseness": 6} | more)


def protect(chosen: sherd.Plan, table: pa.Table = TABLE, **more: Any) -> sherd.Release:
    """A reproducible release."""
    return sherd.protect(table, SCHEMA, chosen, settings=Settings(seed=1, **more))


def test_a_release_holds_fragments_and_association() -> None:
    """Every attribute but the withheld one, true values, one group column for each fragment."""
    release = protect(plan())
    assert set(release.tables) == {"fragment-1", "fragment-2", "association"}
    facts = release.manifest["facts"]
    assert facts["withheld"] == ["d"]
    assert sorted(n for f in facts["fragments"] for n in f) == ["a", "b", "c", "e"]
    assert facts["sizes"] == [3, 2]
    assert facts["suppressed"] == 0
    for f, names in enumerate(facts["fragments"], 1):
        part = release.tables[f"fragment-{f}"]
        assert part.column_names == [*names, f"group_{f}"]
        for name in names:
            assert sorted(part.column(name).to_pylist()) == sorted(TABLE.column(name).to_pylist())
    checks = verify(release.tables, release.manifest)
    assert all(check.passed is not False for check in checks)


def test_nothing_in_the_tables_order_links_fragments() -> None:
    """Rows and identifiers of two fragments are in orders that have nothing to do with it."""
    release = protect(plan())
    one, two = (release.tables[f"fragment-{f}"] for f in (1, 2))
    a, b = (t.column("a" if "a" in t.column_names else "b").to_pylist() for t in (one, two))
    assert sum(x == y for x, y in zip(a, b, strict=True)) < 20
    kept = protect(plan(), keep_order=True)
    a, b = (
        t.column("a" if "a" in t.column_names else "b").to_pylist()
        for t in (kept.tables["fragment-1"], kept.tables["fragment-2"])
    )
    assert a == b


def test_projections_are_released_instead_of_the_whole() -> None:
    """Only the associations that were asked for are there, and they pass."""
    rules = {"constraints": [["a", "b"], ["b", "c"], ["a", "c"]]}
    release = protect(plan(constraints=rules, projections=[[1, 2], [2, 3]]))
    names = [n for n in release.tables if n.startswith("association")]
    assert names == ["association-1-2", "association-2-3"]
    checks = verify(release.tables, release.manifest)
    assert all(check.passed is not False for check in checks)
    with pytest.raises(sherd.errors.UsageError, match="does not associate"):
        release.query("SELECT a, SUM(c) FROM release GROUP BY a")


def test_the_promise_needs_no_data() -> None:
    """k-looseness of the covered constraints, and never differential privacy."""
    guarantee = plan().guarantee(SCHEMA)
    assert guarantee.notion.as_data() == {"notion": "k-looseness", "k": 6}
    assert not guarantee.notion.is_differential_privacy
    assert "{a, b}" in guarantee.covers
    assert guarantee.unit.value == "association"
    alone = plan(fragments=[["a"], ["c"]]).guarantee(SCHEMA)
    assert alone.covers.startswith("no association")


def test_patients_with_the_papers_fragments() -> None:
    """The paper's example from plan to verified release."""
    chosen = sherd.Plan(
        method="fragment", constraints=RULES.as_data(), looseness=4,
        fragments=[list(f) for f in THREE], suppress=0.5,
    )  # fmt: skip
    release = sherd.protect(
        PATIENTS.select(list(SEVEN)), schema(*SEVEN), chosen, settings=Settings(seed=3)
    )
    assert all(c.passed is not False for c in verify(release.tables, release.manifest))


def test_findings_say_why_tuples_are_left_out() -> None:
    """Too frequent values are an internal finding, with counts; values are not named."""
    table = pa.table({"a": [7] * 80 + list(range(100, 420)), "b": list(range(400)), "c": [1] * 400})
    given = sherd.Schema.from_data({"attributes": {n: {"type": "integer"} for n in "abc"}})
    chosen = sherd.Plan(
        method="fragment", constraints={"constraints": [["a", "b"]]}, looseness=9, suppress=0.5
    )
    release = sherd.protect(table, given, chosen, settings=Settings(seed=1))
    names = {finding.name: finding for finding in release.findings}
    assert names["too frequent"].attribute == "a"
    assert int(names["too frequent"].value) >= 40
    assert names["suppressed"].value == release.manifest["facts"]["suppressed"]
    with pytest.raises(InfeasibleError, match="values of a are too frequent"):
        sherd.protect(
            table, given, sherd.Plan(**{**chosen.as_data(), "suppress": 0.05}),
            settings=Settings(seed=1),
        )  # fmt: skip


def test_more_left_out_than_allowed_is_refused() -> None:
    """Five tuples, no value twice: four of them make groups, the fifth finds none beside them."""
    table = pa.table({"a": [0, 1, 2, 3, 4], "b": [0, 1, 2, 3, 4]})
    given = sherd.Schema.from_data({"attributes": {n: {"type": "integer"} for n in "ab"}})
    chosen = sherd.Plan(
        method="fragment", constraints={"constraints": [["a", "b"]]}, looseness=4, suppress=0.0,
        budget=1,
    )  # fmt: skip
    with pytest.raises(InfeasibleError, match="left out"):
        sherd.protect(table, given, chosen, settings=Settings(seed=1))


@pytest.mark.parametrize(
    ("more", "error", "wrong"),
    [
        ({"constraints": {"constraints": [["a", "z"]]}}, PlanError, "schema lacks"),
        ({"constraints": {"constraints": [["d"]]}}, PlanError, "no fragmentation"),
        ({"constraints": {"constraints": [["a"], ["b"], ["c"], ["d"]]}}, InfeasibleError, "withh"),
        (
            {"constraints": {"constraints": [["a", "b"]], "together": [["a", "b"]]}},
            InfeasibleError,
            "contradict",
        ),
        ({"fragments": [["a", "b"], ["c"]]}, PlanError, "breaks the constraints"),
        ({"fragments": ["a", "b"]}, PlanError, "lists of attributes"),
        ({"sizes": [2, 2]}, PlanError, "do not reach"),
        ({"sizes": [6]}, PlanError, "number of group sizes"),
        ({"suppress": 1.5}, PlanError, "suppress"),
        ({"similar": ["zz"]}, SchemaError, "no attribute 'zz'"),
        ({"projections": [[1]]}, PlanError, "projection"),
        ({"projections": [[1, 9]]}, PlanError, "projection"),
        ({"projections": [["a", "b"]]}, PlanError, "lists of numbers"),
    ],
)
def test_bad_plans_are_refused_before_data(
    more: dict[str, Any], error: type[SherdError], wrong: str
) -> None:
    """Every contradiction between plan and schema is found without a table."""
    with pytest.raises(error, match=wrong):
        plan(**more).guarantee(SCHEMA)


def test_an_attribute_called_like_a_group_is_refused() -> None:
    """A column group_1 would be taken for group identifiers."""
    given = sherd.Schema.from_data(
        {"attributes": {n: {"type": "integer"} for n in ("a", "b", "c", "d", "group_1")}}
    )
    with pytest.raises(SchemaError, match="rename"):
        plan().guarantee(given)


def test_release_query_gives_a_dataframe() -> None:
    """The kind that came in comes out; a release from disk gives pandas."""
    release = sherd.protect(TABLE.to_pandas(), SCHEMA, plan(), settings=Settings(seed=1))
    found = release.query("SELECT e, COUNT(*) AS n FROM release GROUP BY e ORDER BY e")
    assert list(found.columns) == ["e", "n"]
    assert int(found.n.sum()) == 400
    joined = release.query("SELECT COUNT(*) AS n FROM release JOIN mine USING (e)",
                           mine=pa.table({"e": [1, 2]}))  # fmt: skip
    assert int(joined.n[0]) == 16


def test_a_fragmentation_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checking, promising and running share one search, so that they speak of one layout."""
    from sherd.methods.fragmenting import fragment_layout, fragmentation

    searches = 0
    find = fragmentation.find_minimal

    def counted(*given: Any, **more: Any) -> Any:
        nonlocal searches
        searches += 1
        return find(*given, **more)

    monkeypatch.setattr(fragment_layout, "find_minimal", counted)
    # a limit that nothing else uses, so that no earlier test has solved it
    release = protect(plan(time_limit=9.5))
    assert release.manifest["facts"]["fragments"]
    assert searches == 1
