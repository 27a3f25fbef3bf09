"""Large tables: what is sampled, what is not, and the error that a sample adds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.auditing.attacks import ATTACKS
from sherd.auditing.case.case import Case, Limits
from sherd.auditing.case.row_sample import note, sampled, with_error
from sherd.auditing.utility.moments import associations, marginals

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.auditing.case.case import Columns

ROWS = 3_000


def columns(seed: int) -> Columns:
    """Five numbers and a label, as the cases of this room have them."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=ROWS)
    found = {f"x{i}": shared + rng.normal(size=ROWS) for i in range(5)}
    return found | {"c": np.clip(np.rint(1.5 + shared), 0, 3)}


def whole(make_case: Callable[..., Case], **more: object) -> Case:
    """A case whose released row i stands for original order[i]."""
    original = columns(0)
    order = np.random.default_rng(1).permutation(ROWS)
    released = {name: column[order] for name, column in original.items()}
    case = make_case(original, released, order=order)
    return replace(case, limits=Limits(rows=1_000, triples=5), **more)  # type: ignore[arg-type]


def test_a_sample_keeps_pairs_together(make_case: Callable[..., Case]) -> None:
    """The same persons on both sides, each once; how many there are is not forgotten."""
    case = whole(make_case)
    some = sampled(case)
    assert (some.n, some.n_released) == (1_000, 1_000)
    assert (some.table_rows, some.release_rows) == (ROWS, ROWS)
    for name in case.names:
        before, after = some.paired(name)
        assert np.array_equal(before, after)
    assert len(np.unique(some.original["x0"])) == 1_000


def test_without_pairs_each_side_is_sampled_by_itself(make_case: Callable[..., Case]) -> None:
    """And a hold-out too; a small case stays as it is."""
    case = whole(make_case, holdout=columns(2), order=None)
    some = sampled(case)
    assert some.order is None
    assert some.holdout is not None
    assert {len(c) for c in (*some.original.values(), *some.holdout.values())} == {1_000}
    small = replace(case, limits=Limits(rows=ROWS))
    assert sampled(small) is small


def test_the_error_of_the_sample_is_the_one_that_is_shown(make_case: Callable[..., Case]) -> None:
    """Over 40 samples the value of all records lies in the interval nearly always."""
    case = whole(make_case)
    case = replace(case, released=case.released | {"x0": case.released["x0"] + 0.5})

    def measured(one: Case) -> list[sherd.auditing.verdict.measure.Measure]:
        return [*associations(one)[0], *marginals(one)[:1]]

    truth = {one.code: one.value for one in measured(case)}
    inside = dict.fromkeys(truth, 0)
    for seed in range(40):
        for one in with_error(sampled(replace(case, seed=seed)), measured):
            assert one.low is not None
            assert one.high is not None
            assert one.low < one.high
            inside[one.code] += one.low <= truth[one.code] <= one.high
    assert min(inside.values()) >= 34, inside
    assert with_error(replace(case, limits=Limits()), measured)[0].low is None


def test_the_note_states_the_error_of_a_share(make_case: Callable[..., Case]) -> None:
    """1.96 √(¼ (1 − 1/3) / 1,000) by hand."""
    assert "1,000 of 3,000 records" in note(sampled(whole(make_case)))
    assert "at most 2.53 points" in note(sampled(whole(make_case)))


@pytest.fixture(scope="module")
def large() -> tuple[sherd.Audit, sherd.Audit]:
    """One release by ranking, audited by a sample and by every record."""
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(4)]
    table = pa.table({n: rng.integers(0, 1_001, ROWS) for n in names})
    one = {"type": "integer", "domain": ["0", "1000"]}
    schema = sherd.Schema.from_data({"attributes": dict.fromkeys(names, one)})
    made = sherd.protect(table, schema, sherd.Plan(method="dp-um", epsilon=4.0, k=20), ledger=None)
    few = Limits(attacked=400, runs=50, modelled=200, queries=10, compared=200, rounds=1)
    by_sample, by_all = (
        sherd.audit(table, made, alternatives=False, limits=replace(few, rows=rows))
        for rows in (1_000, ROWS)
    )
    return by_sample, by_all


def test_what_a_sample_would_flatter_uses_every_record(
    large: tuple[sherd.Audit, sherd.Audit],
) -> None:
    """The same numbers, to the bit, as without a sample; clusters of a sample are not whole."""
    by_sample, by_all = large
    codes = [code for attack in ATTACKS if attack.whole for code in attack.codes]
    codes += ["mean-sse", "il1s", "means", "variances", "quantiles", "loss-factor"]
    compared = [code for code in codes if code in by_all]
    assert {"cluster-linkage-known", "unchanged", "reconstruction", "unique"} <= set(compared)
    for code in compared:
        assert by_sample[code] == by_all[code], code
    assert [c.detail for c in by_sample.artefact] == [c.detail for c in by_all.artefact]
    assert (by_sample.rows, by_sample.released_rows) == (ROWS, ROWS)


def test_every_number_of_a_sample_says_so(large: tuple[sherd.Audit, sherd.Audit]) -> None:
    """In its basis, by an interval, and in a line of the verdict."""
    by_sample, by_all = large
    for code in ("marginals-1", "marginals-2", "associations", "linkage", "interval"):
        one = by_sample[code]
        assert one.sampled
        assert "1,000 of 3,000 records at random" in one.basis
        assert one.low is not None
    assert "shadow" not in by_sample["cluster-linkage"].basis
    assert "on so large a table, the same plan run on" in by_sample["cluster-linkage"].basis
    assert "at random, were looked at" in by_sample.verdict.points[-1].text
    assert not any("were looked at" in point.text for point in by_all.verdict.points)
    # Among fewer originals a person is found at least as often.
    assert by_sample["linkage"].value >= (by_all["linkage"].low or 0.0)
