"""dp-graph by columns and by cells: who holds what, which plans are refused, what is learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import ks_2samp

from sherd.errors import PlanError, SchemaError, TableError
from sherd.methods.graphical.dp_graph import code, design_of
from sherd.methods.graphical.fragment_numbers import own_codes
from sherd.methods.graphical.joint_cells import (
    check_cells,
    held_cells,
    holders_of,
    insiders_cost,
    learn_jointly,
    release_of,
    shared_hash,
)
from sherd.methods.graphical.learning import learn
from sherd.methods.graphical.measuring import NoisyCounts
from sherd.methods.graphical.secure_measuring import EVERYBODY
from sherd.randomness import Randomness
from sherd.release.plan import Plan
from sherd.secure.engine.interface import PlainEngine
from sherd.tables.schema import Schema

DATA: dict[str, Any] = {
    "missing": "refuse",
    "attributes": {
        "age": {"type": "integer", "domain": [0, 9]},
        "colour": {"type": "category", "values": ["red", "green", "blue"]},
        "tall": {"type": "boolean"},
    },
}
SCHEMA = Schema.from_data(DATA)
PLAN = Plan(method="dp-graph", epsilon=2.0, delta=1e-6, choice="all")


def table(rows: int = 500) -> pa.Table:
    """Records whose attributes go together."""
    rng = np.random.default_rng(5)
    age = rng.integers(0, 10, rows)
    colour = np.array(["red", "green", "blue"])[(age + rng.integers(0, 2, rows)) % 3]
    return pa.table({"age": age, "colour": pa.array(colour), "tall": pa.array(age > 4)})


def learned_by(parts: list[pa.Table], seed: int, plan: Plan = PLAN) -> Any:
    """What parties in one process learn, with the holders that they agree on."""
    design = check_cells(plan, SCHEMA)
    codes = [own_codes(part, SCHEMA, design) for part in parts]
    holders = holders_of([held_cells(one) for one in codes], design)
    sources = [Randomness.seeded(seed * 100 + p) for p in range(len(parts))]
    engine = PlainEngine([Randomness.seeded(seed * 100 + 50 + p) for p in range(len(parts))])
    return holders, learn_jointly(
        engine,
        design,
        holders,
        parts[0].num_rows,
        dict(enumerate(codes)),
        lambda party: lambda noise, n: noise.draw(sources[party], n),
        len(parts),
    )


def by_cells(whole: pa.Table, parties: int) -> list[pa.Table]:
    """Every cell of the first two columns at one of the parties, the third at the last."""
    rng = np.random.default_rng(1)
    holder = rng.integers(0, parties, (whole.num_rows, 2))
    return [
        pa.table(
            {
                "age": pa.array(whole["age"].to_numpy(), mask=holder[:, 0] != p),
                "colour": pa.array(whole["colour"].to_pylist(), mask=holder[:, 1] != p),
                **({"tall": whole["tall"]} if p == parties - 1 else {}),
            }
        )
        for p in range(parties)
    ]


def test_columns_and_cells_are_counted_alike() -> None:
    """Residuals of both, beside one owner's: the stated noise and nothing else.

    About 400 residuals each; false alarm 1 in 10,000. Twice the noise would be found.
    """
    whole, design = table(), design_of(PLAN, SCHEMA)
    exact = code(whole, SCHEMA, design)
    splits = {
        "columns": [whole.select(["age"]), whole.select(["colour", "tall"])],
        "cells": by_cells(whole, 3),
    }

    def residuals(learned: Any) -> list[float]:
        return [
            float(apart) / float(one.request.noise.scale)
            for one in (*learned.fine, *learned.measured)
            for apart in (one.counts - exact.histogram(one.request.marginal)).ravel()
        ]

    alone = [
        apart
        for seed in range(6)
        for apart in residuals(learn(design, NoisyCounts(exact, Randomness.seeded(seed)), None))
    ]
    for name, parts in splits.items():
        joint: list[float] = []
        for seed in range(6):
            holders, learned = learned_by(parts, seed)
            joint += residuals(learned)
        assert holders == ([0, 1, 1] if name == "columns" else [None, None, 2])
        assert ks_2samp(joint, alone).pvalue > 1e-4
        assert ks_2samp([2 * one for one in joint], alone).pvalue < 1e-4
        assert insiders_cost(learned, 2) == 2 * learned.spent <= 2 * design.total


def test_release_is_the_same_at_every_party() -> None:
    """What is drawn follows from the model and the run's name."""
    whole = table()
    _, learned = learned_by([whole.select(["age"]), whole.select(["colour", "tall"])], 1)
    one, two = (release_of(learned, SCHEMA, "ab" * 32) for _ in range(2))
    assert one.tables["data"].equals(two.tables["data"])
    assert not one.tables["data"].equals(release_of(learned, SCHEMA, "cd" * 32).tables["data"])
    assert one.tables["data"].num_rows == 500


def test_cell_with_two_holders_or_none_is_refused() -> None:
    """On shares, one bit tells that the fragments do not make a whole table."""
    parts = by_cells(table(), 2)
    twice = pa.table({**{n: parts[1][n] for n in parts[1].column_names}, "age": parts[0]["age"]})
    with pytest.raises(TableError, match="whole table"):
        learned_by([parts[0], twice], 1)
    nobody = parts[0].set_column(0, "age", pa.nulls(500, pa.int64()))
    with pytest.raises(TableError, match="whole table"):
        learned_by([nobody, parts[1]], 1)


def test_holders_as_parties_state_them() -> None:
    """One holder, several, everybody; two that say all, or none that says anything, is refused."""
    design = design_of(PLAN, SCHEMA)
    told = [["all", "some", "all"], ["none", "some", "all"]]
    assert holders_of(told, design) == [0, None, EVERYBODY]
    for wrong in (
        [["all", "all", "all"], ["some", "none", "none"]],
        [["none", "all", "all"], ["none", "none", "none"]],
        [["all", "all", "all"], ["all", "none", "none"], ["none", "none", "none"]],
    ):
        with pytest.raises(TableError, match="'age' does not lie"):
            holders_of(wrong, design)
    codes = own_codes(table(), SCHEMA, design)
    other = (codes[0], codes[1], 1 - codes[2])
    assert shared_hash(codes, [0, 1, EVERYBODY]) != shared_hash(other, [0, 1, EVERYBODY])
    assert shared_hash(codes, [0, 1, 1]) == shared_hash(other, [0, 1, 1])


def test_plans_that_parties_cannot_carry_out() -> None:
    """Pure ε, trees and dropped records are refused, with words that say what to do."""
    for parameters, words in (
        ({"choice": "all"}, "noise of pure epsilon"),
        ({"delta": 1e-6}, "do not choose a tree"),
    ):
        with pytest.raises(PlanError, match=words):
            check_cells(Plan(method="dp-graph", epsilon=1.0, **parameters), SCHEMA)
    for policy in ("missing", "outside"):
        dropping = Schema.from_data({**DATA, policy: "drop"})
        with pytest.raises(SchemaError, match="would be dropped"):
            check_cells(PLAN, dropping)
