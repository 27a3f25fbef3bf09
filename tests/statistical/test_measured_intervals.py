"""Intervals of answers from measured counts cover the truth as often as they say.

The truth is asked of DuckDB over the table itself; every query is answered from many seeded
releases. A query fails where fewer intervals cover than 95 % of them would with a probability
of 1e-5; with some twenty queries the false-alarm rate is below 0.1 %. Power: noise that is 30 %
larger than declared makes the same test fail.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.methods.graphical import learning
from sherd.methods.graphical.dp_graph import code, design_of
from sherd.methods.graphical.measured_answers import answer
from sherd.methods.graphical.measuring import Noise, NoisyCounts
from sherd.methods.graphical.model_document import document
from sherd.methods.graphical.noise_intervals import QUANTILES
from sherd.randomness import Randomness

duckdb = pytest.importorskip("duckdb")
pytestmark = pytest.mark.statistical

RUNS = 50
MANY = pytest.param(400, marks=pytest.mark.slow)
RNG = np.random.default_rng(4)
N = 1500
_GROUP = RNG.choice(4, N, p=[0.6, 0.25, 0.12, 0.03])
TABLE = pa.table(
    {
        "age": np.clip(RNG.normal(35 + 5 * _GROUP, 10), 0, 79).astype(np.int64),
        "town": pa.array(
            [None if i % 19 == 0 else "abcd"[g] for i, g in enumerate(_GROUP)], pa.string()
        ),
        "wage": RNG.gamma(2, 300, N).round(0).clip(0, 5000),
        "member": RNG.random(N) < 0.2 + 0.2 * _GROUP,
    }
)
SCHEMA = sherd.Schema.from_data(
    {
        "missing": "refuse",
        "attributes": {
            "age": {"type": "integer", "domain": ["0", "79"]},
            "town": {"type": "category", "values": list("abcd"), "missing": "keep"},
            "wage": {"type": "number", "domain": ["0", "5000"], "grid": "1"},
            "member": {"type": "boolean"},
        },
    }
)
QUERIES = (
    "SELECT COUNT(*) AS n FROM release WHERE member",
    "SELECT town, COUNT(*) AS n FROM release GROUP BY town",
    "SELECT COUNT(town) AS n FROM release WHERE age BETWEEN 30 AND 44",
    "SELECT COUNT(*) AS n FROM release WHERE wage < 317 AND NOT (town = 'a' OR member)",
    "SELECT SUM(age) AS n FROM release",
    "SELECT member, SUM(wage) AS n FROM release GROUP BY member",
    "SELECT AVG(age) AS n FROM release",
    "SELECT member, AVG(age) AS n FROM release WHERE age > 20 GROUP BY member",
    "SELECT AVG(wage) AS n FROM release WHERE town IN ('a', 'b')",
)
TIGHT = (0, 1, 4, 6)
"""The queries whose cells are as fine as the question: nothing but noise makes intervals wide."""


def documents(delta: float | None, epsilon: float = 2.0, runs: int = RUNS) -> list[dict[str, Any]]:
    """What seeded releases of the table measured."""
    workload = [["age", "member"], ["age", "town"], ["town", "wage", "member"]]
    plan = sherd.Plan(
        method="dp-graph", epsilon=epsilon, delta=delta, choice="workload", workload=workload
    )
    design = design_of(plan, SCHEMA)
    source = code(TABLE, SCHEMA, design)
    return [
        document(learning.learn(design, NoisyCounts(source, one), None))
        for one in Randomness.seeded(3).spawn(runs)
    ]


@pytest.fixture(autouse=True)
def _unfitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit no step: answers come from what was measured."""
    monkeypatch.setattr("sherd.methods.graphical.fitting.MOST_WORK", 0)


def truths(sql: str) -> dict[Any, float]:
    """The answer of the table itself, group by group; groups that it lacks count as 0."""
    with duckdb.connect() as connection:
        connection.register("release", TABLE)
        rows = connection.sql(sql).fetchall()
    return {row[:-1]: float(row[-1]) for row in rows}


def covered(sql: str, found: list[dict[str, Any]]) -> tuple[int, int]:
    """How many of all groups' intervals cover, and how many there are in one release."""
    true, hits, groups = truths(sql), 0, 0
    for one in found:
        rows = answer({}, {"schema": SCHEMA.as_data()}, sql, documents={"model": one}).table
        groups = rows.num_rows
        names = [name for name in rows.column_names if not name.startswith("n")]
        for row in rows.to_pylist():
            value = true.get(tuple(row[name] for name in names), 0.0)
            hits += row["n_low"] - 1e-6 <= value <= row["n_high"] + 1e-6
    return hits, groups


def least_hits(trials: int) -> int:
    """Hits below which 95 % are refuted, wrongly with a probability of 1e-5."""
    from scipy.stats import binom

    return int(binom.ppf(1e-5, trials, 0.95))


@pytest.mark.parametrize("runs", [RUNS, MANY])
@pytest.mark.parametrize("delta", [None, 1e-6], ids=["laplace", "gaussian"])
def test_intervals_cover_the_truth(delta: float | None, runs: int) -> None:
    """Every query, every group; where nothing but noise is open they are not wider than needed."""
    found = documents(delta, runs=runs)
    for place, sql in enumerate(QUERIES):
        hits, groups = covered(sql, found)
        assert hits >= least_hits(runs * groups), sql
        if place in TIGHT and runs > RUNS:
            assert hits <= 0.985 * runs * groups, sql


@pytest.mark.parametrize(("delta", "runs"), [(None, 600), (1e-6, 60)], ids=["laplace", "gaussian"])
def test_noise_larger_than_declared_is_found(
    delta: float | None, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test has power: 30 % more noise than the document says.

    Laplace's long tails take more runs: 91 % of the intervals still cover.
    """
    right = Noise.draw
    monkeypatch.setattr(
        Noise,
        "draw",
        lambda self, randomness, n: right(
            dataclasses.replace(self, scale=self.scale * Fraction(13, 10)), randomness, n
        ),
    )
    found = documents(delta, runs=runs)
    hits, groups = covered(QUERIES[1], found)
    assert hits < least_hits(runs * groups)


@pytest.mark.parametrize("delta", [None, 1e-6], ids=["laplace", "gaussian"])
def test_intervals_cover_where_noise_is_smaller_than_a_record(delta: float | None) -> None:
    """A large ε: noise is mostly 0, and an interval of 1.96 deviations would miss single steps."""
    found = documents(delta, epsilon=60.0, runs=40)
    for sql in QUERIES[:2]:
        hits, groups = covered(sql, found)
        assert hits >= least_hits(40 * groups), sql


def test_no_mixture_of_laplace_noise_exceeds_the_quantile_of_one() -> None:
    """Sums of Laplace draws with any two or three weights: exact tails by their partial fractions.

    A sum with scales b_i that all differ has P(|X| > t) = Σ c_i e^(−t/b_i), where
    c_i = Π_{j≠i} b_i²/(b_i² − b_j²).
    """
    steps = np.linspace(0.0137, 0.9931, 60)
    for second in steps:
        for third in (0.0, 0.31, 0.77):
            scales = np.array([1.0, second, *([third * second] if third else [])])
            square = scales**2
            apart = square[:, None] / (square[:, None] - square[None, :] + np.eye(len(scales)))
            np.fill_diagonal(apart, 1.0)
            reach = QUANTILES["laplace"] * np.sqrt(2 * square.sum())
            tail = float((apart.prod(axis=1) * np.exp(-reach / scales)).sum())
            assert tail <= 0.05 + 1e-12
