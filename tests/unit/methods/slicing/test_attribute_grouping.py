"""Which attributes share a column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import MissingPartError, PlanError
from sherd.methods.slicing import attribute_grouping as grouping
from sherd.methods.slicing.attribute_codes import Coded, encode
from sherd.methods.slicing.attribute_grouping import (
    clustered,
    discretised,
    grouped_layout,
    phi_squared,
)
from sherd.randomness import Randomness
from sherd.tables.schema import Attribute, Type


def coded(name: str, values: Any, kind: Type = Type.INTEGER) -> Coded:
    """Codes of a column."""
    return encode(pa.chunked_array([pa.array(values)]), Attribute(name=name, type=kind))


def test_phi_squared_of_the_papers_table_is_two_thirds() -> None:
    """Paper 003, Table 1: φ²(Sex, Disease) = 2/3."""
    sex = np.array([0, 1, 1, 1, 0, 0, 0, 1], dtype=np.int32)
    ill = np.array([0, 1, 1, 2, 1, 0, 0, 2], dtype=np.int32)
    assert phi_squared(sex, 2, ill, 3) == pytest.approx(2 / 3)


def test_phi_squared_is_one_for_copies_and_zero_for_constants() -> None:
    """Empty codes do not count, and a constant depends on nothing."""
    one = np.array([0, 2, 5, 0], dtype=np.int32)
    assert phi_squared(one, 9, one, 9) == pytest.approx(1.0)
    assert phi_squared(one, 9, np.zeros(4, dtype=np.int32), 1) == 0.0


def test_discretisation_by_width_and_by_frequency() -> None:
    """Ten bins of equal width, or of about equal size; missing keeps a bin of its own."""
    values = [None, *range(99), 10_000]
    width, n_width = discretised(coded("x", values), "width")
    assert n_width == 11
    assert width[0] == 0
    assert set(width[1:-1]) == {1}
    assert width[-1] == 10
    frequency, _ = discretised(coded("x", values), "frequency")
    assert np.bincount(frequency)[1:].min() >= 9


def test_pam_and_clara_find_the_two_families() -> None:
    """Attributes at distance 0 from each other share a column, by either algorithm."""
    family = np.arange(130) % 2
    distance = (family[:, None] != family[None, :]).astype(float)
    for how in ("pam", "clara", "auto"):
        place = clustered(distance, 2, Randomness.seeded(1), how)
        assert len(set(place[family == 0])) == len(set(place[family == 1])) == 1
        assert place[0] != place[1]


def test_dependent_attributes_share_a_column_and_alpha_moves_the_nearest() -> None:
    """Copies cluster; the sensitive column takes the attribute most correlated with it."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 4, 400), rng.integers(0, 4, 400)
    table = {
        "a1": coded("a1", a), "a2": coded("a2", a), "b1": coded("b1", b), "b2": coded("b2", b),
        "s1": coded("s1", (a + b) % 3),
    }  # fmt: skip
    sensitive = [(((a + b) % 3).astype(np.int32), 3)]
    options: dict[str, Any] = {
        "discretise": "width", "clustering": "auto", "randomness": Randomness.seeded(1),
    }  # fmt: skip
    layout = grouped_layout(table, list(table), ["s"], sensitive, n_columns=3, alpha=2, **options)
    assert layout.columns[-1] == ("s1", "s")
    assert set(layout.columns[:-1]) == {("a1", "a2"), ("b1", "b2")}
    alone = grouped_layout(table, list(table), ["s"], sensitive, n_columns=6, alpha=1, **options)
    assert [len(column) for column in alone.columns] == [1] * 6


def test_many_rows_and_pairs_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a bound the correlations come from a sample, and the columns are the same."""
    monkeypatch.setattr(grouping, "_CELLS", 3000)
    a = np.random.default_rng(3).integers(0, 4, 4000)
    table = {"a1": coded("a1", a), "a2": coded("a2", a), "b": coded("b", a[::-1].copy())}
    layout = grouped_layout(
        table,
        list(table),
        ["s"],
        [(a.astype(np.int32), 4)],
        n_columns=3,
        alpha=1,
        discretise="width",
        clustering="auto",
        randomness=Randomness.seeded(2),
    )
    assert ("a1", "a2") in layout.columns


@pytest.mark.parametrize(("columns", "alpha"), [(2, 3), (4, 1), (3, 2)])
def test_too_few_attributes_for_the_columns(columns: int, alpha: int) -> None:
    """Two quasi-identifiers do not fill more than two columns, or leave none outside."""
    with pytest.raises(PlanError):
        grouping.check_numbers(columns, alpha, 2)


def test_without_kmedoids_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing optional part is named with its remedy."""
    monkeypatch.setitem(__import__("sys").modules, "kmedoids", None)
    with pytest.raises(MissingPartError, match="kmedoids"):
        clustered(np.ones((4, 4)), 2, Randomness.seeded(1), "pam")
