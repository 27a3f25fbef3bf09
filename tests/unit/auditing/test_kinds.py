from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.auditing.case.case import Limits
from sherd.auditing.case.method_drawing import CentroidRelease, FragmentedRelease
from sherd.auditing.case.record_drawing import CountQuery, Range, Values
from sherd.auditing.run import audit
from sherd.auditing.utility.queries import _counted, _worth_of_association
from sherd.errors import UsageError
from sherd.methods.fragmenting.private_record import Kept
from sherd.randomness import Randomness

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.auditing.verdict.audit_result import Audit

QUICK = Limits(attacked=120, modelled=400, compared=300, queries=20, triples=3, runs=200)
SCHEMA = sherd.Schema.from_data(
    {
        "attributes": {
            "age": {"type": "integer", "domain": ["0", "100"]},
            "town": {"type": "category", "values": ["a", "b", "c", "d"]},
            "job": {"type": "category", "values": ["p", "q", "r", "s", "t", "u"]},
            "ill": {
                "type": "category", "values": ["flu", "cold", "none", "leg", "arm", "eye"],
                "role": "sensitive",
            },
        }
    }
)  # fmt: skip


def table(n: int = 240) -> pa.Table:
    """People whose illness is spread evenly."""
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "age": rng.integers(0, 100, n),
            "town": np.array(list("abcd"))[rng.integers(0, 4, n)],
            "job": np.array(list("pqrstu"))[np.arange(n) % 6],
            "ill": np.array(["flu", "cold", "none", "leg", "arm", "eye"])[rng.permutation(n) % 6],
        }
    )


def audit_of(**plan: object) -> Audit:
    """The audit of a release of the table."""
    made = sherd.protect(table(), SCHEMA, sherd.Plan(**plan))  # type: ignore[arg-type]
    return audit(table(), made, limits=QUICK, alternatives=False)


@pytest.mark.parametrize(
    "plan",
    [
        {"method": "anatomy", "l": 2},
        {"method": "mondrian", "k": 5},
        # Compiling the methods' kernels takes longer than the audit.
        pytest.param({"method": "slice", "l": 2}, marks=pytest.mark.slow),
        pytest.param(
            {
                "method": "fragment",
                "looseness": 4,
                "constraints": {"constraints": [["job", "ill"]]},
            },
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda plan: str(plan["method"]),
)
def test_every_kind_of_release_is_audited(plan: dict[str, object]) -> None:
    """Slices, buckets, generalised tables and fragments go through the same measures."""
    if plan["method"] == "fragment":
        pytest.importorskip("ortools")
    found = audit_of(**plan)
    assert {"marginals-1", "queries", "distinguishable", "inference", "membership"} <= set(
        found.by_code
    )
    assert {"linkage", "mean-sse"} <= {skipped.spec.code for skipped in found.skipped}
    assert found.checks
    assert found.verdict.promise == "holds"
    if plan["method"] == "mondrian":
        assert found["prosecutor"].value <= 1 / 5
        assert 0 < found["ncp"].value < 1
        assert found["discernibility"].value >= 5 / 240
    if plan["method"] in ("slice", "fragment"):
        # True values in permuted rows: single attributes survive, but for tuples left out.
        left_out = 1 - found.released_rows / found.rows
        assert found["marginals-1"].value <= left_out + 1e-12
    assert ("association-utility" in found.by_code) == (plan["method"] == "fragment")


def fragments() -> FragmentedRelease:
    """Four tuples in two groups of two, on either side."""
    return FragmentedRelease.of(
        {
            "fragment-1": pa.table({"group_1": [0, 0, 1, 1], "job": ["p", "q", "r", "s"]}),
            "fragment-2": pa.table({"group_2": [5, 5, 6, 6], "ill": ["flu", "leg", "arm", "eye"]}),
            "association": pa.table({"group_1": [0, 0, 1, 1], "group_2": [5, 6, 5, 6]}),
        }
    )


def test_fragments_are_dealt_by_their_groups() -> None:
    """A draw uses every tuple once and joins only groups that the association joins."""
    pairs = set()
    for drawn in fragments().draw(Randomness.seeded(1), 60):
        assert sorted(drawn["job"].to_pylist()) == ["p", "q", "r", "s"]
        assert sorted(drawn["ill"].to_pylist()) == ["arm", "eye", "flu", "leg"]
        pairs |= set(zip(drawn["job"].to_pylist(), drawn["ill"].to_pylist(), strict=True))
        first = {i for j, i in zip(drawn["job"].to_pylist(), drawn["ill"].to_pylist(), strict=True)
                 if j in "pq"}  # fmt: skip
        assert len(first & {"flu", "leg"}) == 1
    assert len(pairs) == 16


def test_fragments_count_by_shares() -> None:
    """Expected counts are products of the groups' shares."""
    release = fragments()
    flu = Values(of=frozenset({"flu"}))
    p = Values(of=frozenset({"p"}))
    assert release.count(CountQuery(where={"ill": flu})) == 1
    assert release.count(CountQuery(where={"job": p, "ill": flu})) == pytest.approx(0.25)
    with pytest.raises(UsageError, match="does not have"):
        release.count(CountQuery(where={"age": Range(low=1)}))
    with pytest.raises(UsageError, match="cannot be turned into records"):
        FragmentedRelease.of({"fragment-1": pa.table({"a": [1]})})


def test_withdrawn_parts_are_empty_places() -> None:
    """Where a part was withdrawn the record lacks it, no query finds it, and the rest is dealt."""
    release = FragmentedRelease.of(
        {
            "fragment-1": pa.table({"group_1": [0, 0, 1, 1], "job": ["p", "q", "r", "s"]}),
            "fragment-2": pa.table({"group_2": [5, 5], "ill": ["flu", "leg"]}),
            "fragment-3": pa.table({"group_3": [7, 7], "age": [30, 40]}),
            "association": pa.table(
                {"group_1": [0, 0, 1, 1, None], "group_2": [5, None, 5, None, None]}
            ),
            "association-other": pa.table({"group_3": [7, 7]}),
        }
    )
    assert release.rows == 4, "a row that is empty everywhere is no record"
    seen = set()
    for drawn in release.draw(Randomness.seeded(1), 40):
        assert sorted(drawn["job"].to_pylist()) == ["p", "q", "r", "s"]
        assert drawn["ill"].is_null().to_pylist() == [False, True, False, True]
        assert sorted(drawn["ill"].drop_null().to_pylist()) == ["flu", "leg"]
        assert sorted(drawn["age"].drop_null().to_pylist()) == [30, 40]
        seen.add((drawn["job"].to_pylist()[0], drawn["ill"].to_pylist()[0]))
    assert seen == {("p", "flu"), ("p", "leg"), ("q", "flu"), ("q", "leg")}
    flu = Values(of=frozenset({"flu"}))
    assert release.count(CountQuery(where={"ill": flu})) == pytest.approx(1)
    both = CountQuery(where={"ill": flu, "job": Values(of=frozenset({"p"}))})
    assert release.count(both) == pytest.approx(0.25)


@pytest.mark.slow  # as above
def test_a_release_that_follows_another_is_audited(tmp_path: Path) -> None:
    """Empty places are suppressed cells; its control is a first release, and the report says so."""
    pytest.importorskip("ortools")
    from sherd.methods.fragmenting.next_release_plan import follow

    people = table(600).append_column("who", pa.array([str(i) for i in range(600)]))
    data = SCHEMA.as_data()
    data["attributes"]["who"] = {"type": "category", "role": "identifier"}
    schema = sherd.Schema.from_data(data)
    plan = sherd.Plan(method="fragment", looseness=4, constraints={"constraints": [["age", "ill"]]})
    first = sherd.protect(people, schema, plan, settings=sherd.Settings(key="who"))
    assert isinstance(first.record, Kept)
    record = first.record.of(first.save(tmp_path / "first"))
    left = people.slice(3)
    made = sherd.protect(
        left,
        schema,
        follow(tmp_path / "first", record, schema, {"withdraw": "groups"}),
        settings=sherd.Settings(key="who", past=record),
    )
    empty = sum(column.null_count for column in made.tables["association"].columns)
    assert empty > 0, "something was withdrawn"
    found = audit(left, made.save(tmp_path / "second"), limits=QUICK, alternatives=False)
    assert found["suppressed"].value > 0
    assert found.verdict.promise == "holds"
    for code in ("inference", "membership", "linkability"):
        assert "as a first release" in found[code].basis
    assert found["associations"].value < 0.15, "parts that are missing together are no dependence"


def test_centroids_are_drawn_and_counted() -> None:
    """Each centroid comes as often as its cluster is large; conditions multiply."""
    release = CentroidRelease(
        schema=SCHEMA,
        table=pa.table(
            {
                "attribute": ["age", "age", "town", "town"],
                "cluster": [1, 2, 1, 2],
                "size": [3, 1, 2, 2],
                "value": [10.0, 50.0, 0.0, 1.0],
                "text": ["10", "50", "a", "b"],
            }
        ),
    )
    drawn = next(iter(release.draw(Randomness.seeded(0), 1)))
    assert sorted(drawn["age"].to_pylist()) == [10, 10, 10, 50]
    assert sorted(drawn["town"].to_pylist()) == ["a", "a", "b", "b"]
    query = CountQuery(where={"age": Range(high=20), "town": Values(of=frozenset({"a"}))})
    assert release.count(query) == pytest.approx(4 * 3 / 4 * 1 / 2)


@pytest.mark.parametrize(
    ("groups", "worth"), [([0, 1, 2, 3], 1.0), ([0, 0, 0, 0], 0.0), ([0, 0, 1, 1], 1 / 3)]
)
def test_an_association_is_worth_the_error_it_saves(groups: list[int], worth: float) -> None:
    """Groups of one answer exactly, one group of all as fragments without it, others between."""
    jobs, ills = ("p", "q", "r", "s"), ("flu", "leg", "arm", "eye")
    release = FragmentedRelease.of(
        {
            "fragment-1": pa.table({"group_1": groups, "job": jobs}),
            "fragment-2": pa.table({"group_2": groups, "ill": ills}),
            "association": pa.table({"group_1": groups, "group_2": groups}),
        }
    )
    scales = {"job": SimpleNamespace(labels=jobs), "ill": SimpleNamespace(labels=ills)}
    case = SimpleNamespace(drawable=release, scales=scales, n=4, table_rows=4)
    asked = [[("job", frozenset({i})), ("ill", frozenset({i}))] for i in range(4)]
    asked.append([("job", frozenset({0}))])
    truth = np.full(5, 0.25)
    answers = np.array([release.count(_counted(case, query)) for query in asked]) / 4  # type: ignore[arg-type]
    (found,) = _worth_of_association(case, asked, truth, answers)  # type: ignore[arg-type]
    assert found.value == pytest.approx(worth)
    assert found.basis.startswith("4 random queries")
