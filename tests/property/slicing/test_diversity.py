# ruff: noqa: E741 - l is the field's own name for it
"""Random tables: the kept sums equal those from scratch, and no tuple ever exceeds 1/l."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sherd.errors import InfeasibleError
from sherd.methods.slicing.attribute_codes import combined
from sherd.methods.slicing.bucket_pipeline import signatures
from sherd.methods.slicing.incremental_diversity import from_scratch, partition_records
from sherd.methods.slicing.sensitive_values import Sensitive
from sherd.randomness import Randomness
from sherd.release.method import Outcome, Run
from sherd.release.plan import Plan
from sherd.tables.schema import Schema
from sherd.verifying import verify_contents as verify
from sherd.verifying.tuple_probability import Counted, SlicedView

NAMES = ("a", "b", "c", "d")
PATIENT = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Small tables with many equal cells; some cells are missing."""
    n = draw(st.integers(4, 40))
    n_values = draw(st.integers(2, 6))
    cell = st.one_of(st.none(), *[st.just(str(i)) for i in range(3)])
    columns: dict[str, Any] = {name: draw(st.lists(cell, min_size=n, max_size=n)) for name in NAMES}
    columns["s"] = [draw(st.sampled_from([str(v) for v in range(n_values)])) for _ in range(n)]
    return pa.table({k: pa.array(v, pa.string()) for k, v in columns.items()})


def schema() -> Schema:
    """Four quasi-identifiers and a sensitive attribute."""
    quasi = {name: {"type": "category", "values": ["0", "1", "2"]} for name in NAMES}
    return Schema.from_data({"attributes": {**quasi, "s": {"type": "text", "role": "sensitive"}}})


GROUPS: tuple[list[list[str]], ...] = (
    [["a", "b", "c", "d"], ["s"]],
    [["a", "b"], ["c", "d"], ["s"]],
    [["a"], ["b", "c"], ["d", "s"]],
    [["a", "b"], ["b", "c"], ["d", "s"]],
    [["a", "b"], ["c"], ["b", "d", "s"]],
)


def released(table: pa.Table, **parameters: Any) -> tuple[Outcome, dict[str, Any]]:
    """A release of the table, or none where it is infeasible."""
    plan = Plan(method="slice", **parameters)
    plan.check(schema())
    try:
        outcome = plan.spec.run(table, schema(), plan, Run(randomness=Randomness.seeded(1)))
    except InfeasibleError:
        assume(False)
        raise
    manifest = {"plan": plan.as_data(), "schema": schema().as_data(), "facts": outcome.facts}
    return outcome, manifest


def counted(outcome: Outcome) -> Counted:
    """The release's buckets, counted by the definition."""
    data, facts = outcome.tables["data"], outcome.facts
    columns: Any = facts["columns"]
    attributes: Any = facts["attributes"]
    rows = {
        (place, attributes[field]): data[field].to_pylist()
        for place, fields in enumerate(columns)
        for field in fields
    }
    named = [[attributes[field] for field in fields] for fields in columns]
    return SlicedView.of(named, "s", rows, data["bucket"].to_pylist()).counted()


@PATIENT
@given(
    table=tables(),
    groups=st.sampled_from(GROUPS),
    l=st.integers(2, 3),
    regroup=st.booleans(),
    suppress=st.booleans(),
)
def test_no_tuple_exceeds_one_in_l(
    table: pa.Table,
    groups: list[list[str]],
    l: int,
    regroup: bool,
    suppress: bool,
) -> None:
    """Every tuple that matches the release, also one that nobody has, stays within 1/l."""
    outcome, manifest = released(
        table, l=l, groups=groups, regroup=regroup, suppress=suppress, most_suppressed=1
    )
    counts = counted(outcome)
    for beta in (0.0, 1.0):
        worst, complete = counts.largest(sorted(counts.sizes), beta=beta, budget=100_000)  # type: ignore[type-var]
        assert complete
        assert worst * l <= 1 + 1e-9
    assert not [check for check in verify(outcome.tables, manifest) if check.passed is False]


@PATIENT
@given(
    table=tables(),
    columns=st.integers(2, 4),
    alpha=st.integers(1, 2),
    least=st.integers(2, 5),
)
def test_generalised_columns_stay_frequent_and_diverse(
    table: pa.Table, columns: int, alpha: int, least: int
) -> None:
    """With a least frequency every column's values are that frequent, and 1/l holds."""
    assume(least <= table.num_rows)
    outcome, manifest = released(table, l=2, columns=columns, alpha=alpha, min_frequency=least)
    assert not [check for check in verify(outcome.tables, manifest) if check.passed is False]
    counts = counted(outcome)
    worst, complete = counts.largest(sorted(counts.sizes), beta=1.0, budget=100_000)  # type: ignore[type-var]
    assert complete
    assert worst * 2 <= 1 + 1e-9


@PATIENT
@given(table=tables(), groups=st.sampled_from(GROUPS), l=st.integers(2, 3))
def test_records_scope_bounds_every_records_own_tuple(
    table: pa.Table,
    groups: list[list[str]],
    l: int,
) -> None:
    """The check on the records' own tuples holds for them, by the definition."""
    outcome, _ = released(table, l=l, groups=groups, scope="records")
    counts = counted(outcome)
    for row in table.to_pylist():
        parts = [tuple(row[name] for name in names) for names in counts.view.columns]
        assert max(counts.probabilities(parts).values()) * l <= 1 + 1e-9


@PATIENT
@given(
    table=tables(),
    groups=st.sampled_from(GROUPS),
    l=st.integers(1, 3),
    beta=st.sampled_from([0.0, 1.0]),
)
def test_kept_sums_equal_those_from_scratch(
    table: pa.Table,
    groups: list[list[str]],
    l: int,
    beta: float,
) -> None:
    """After all splits the sums kept along the way are N(t, s) of the result."""
    codes = {
        name: np.unique([str(v) for v in table[name].to_pylist()], return_inverse=True)[1]
        for name in (*NAMES, "s")
    }
    coded = {name: (array.astype(np.int32), int(array.max()) + 1) for name, array in codes.items()}

    def together(names: list[str]) -> tuple[Any, int]:
        mine = [coded[name] for name in names]
        if not mine:
            return np.zeros(table.num_rows, dtype=np.int32), 1
        return combined([c for c, _ in mine], [size for _, size in mine])

    seen: set[str] = set()
    shared: list[Any] = []
    for column in groups:
        common = [name for name in column if name in seen]
        shared.append(together(common) if common else None)
        seen |= set(column)
    q = together([name for name in groups[-1] if name != "s"])
    sensitive = Sensitive(names=("s",), codes=coded["s"][0][:, None], sizes=(coded["s"][1],))
    pairs, n_pairs = sensitive.pairs(*q)
    found = signatures(
        [together(column) for column in groups[:-1]], shared, q, sensitive, pairs, n_pairs,
        beta=beta,
    )  # fmt: skip
    sizes = np.array([coded[name][1] for name in NAMES], dtype=np.int32)
    rows = np.column_stack([*(coded[name][0] for name in NAMES), found.of_row, *pairs])
    rows = np.ascontiguousarray(rows, dtype=np.int32)
    ids = np.arange(len(rows))

    def scratch(starts: Any) -> Any:
        return from_scratch(
            rows, 4, starts, found.parts, found.n_plus, found.n_values, found.heads,
            found.members, found.pair_of, n_pairs, int(found.blocks[-1]), found.power,
        )  # fmt: skip

    state = scratch(np.zeros(1, dtype=np.int64))
    starts = partition_records(
        rows, ids, 4, sizes, 1.0 / np.maximum(sizes - 1, 1), found.parts, found.n_plus,
        found.n_values, found.heads, found.members, found.pair_of, n_pairs, found.blocks,
        found.power, l, 50, state,
    )  # fmt: skip
    assert state == pytest.approx(scratch(starts), abs=1e-9)
    assert sorted(ids) == list(range(len(ids)))


def test_an_exhaustive_look_finds_the_fake_tuple_that_the_papers_check_misses() -> None:
    """A tuple nobody has matches one bucket only: p = 1 there, though every record is within ½."""
    # Records of bucket 2 also match bucket 1 and are averaged out; (1, 1) matches bucket 2 alone.
    columns = [["a"], ["b"], ["s"]]
    buckets = [1] * 8 + [2] * 2
    rows: Any = {
        (0, "a"): ["0"] * 4 + ["2"] * 4 + ["0", "1"],
        (1, "b"): ["1"] * 4 + ["2"] * 4 + ["1", "0"],
        (2, "s"): [*list("pqpqpqpq"), "p", "p"],
    }
    counts = SlicedView.of(columns, "s", rows, buckets).counted()
    real = counts.probabilities([("0",), ("1",), ()])
    fake = counts.probabilities([("1",), ("1",), ()])
    assert max(real.values()) < 0.7
    assert fake == {"p": 1.0}
    assert (("1",), ("1",), ()) in set(itertools.chain(counts.tuples_of(2)))
