"""Queries at random: none over several fragments is answered wrongly without a word."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
import sqlglot
from sqlglot import exp

from sherd.errors import UsageError
from sherd.methods.fragmenting.query import answer

from . import random_queries as made

if TYPE_CHECKING:
    import pyarrow as pa


def _numbers(rows: int, seed: int, largest: int) -> tuple:  # type: ignore[type-arg]
    rng = random.Random(seed)  # noqa: S311 - which queries are asked is no secret
    original = made.table(rng, rows)
    return rng, original, made.released(rng, original, largest)


def compare_with_duckdb(queries: int, seed: int) -> Counter[str]:
    """Where every group holds one tuple, answers are DuckDB's own over the whole table."""
    seen: Counter[str] = Counter()
    for number in range(queries):
        if number % 50 == 0:
            rng, original, tables = _numbers(rows=23, seed=seed + number, largest=1)
        sql = made.free_query(rng)
        real = made.over_original(original, sql)
        try:
            found = answer(tables, made.manifest(), sql)
        except UsageError:
            seen["refused"] += 1
            continue
        assert real is not None, f"answered what DuckDB refuses: {sql}"
        beside = {*found.errors, *found.bounds}
        names = [name for name in found.table.column_names if name not in beside]
        rows = [tuple(row[name] for name in names) for row in found.table.to_pylist()]
        whole = [tuple(row.values()) for row in real.to_pylist()]
        if not made.same_rows(rows, whole):
            assert _without_rounding(original, tables, sql), f"{sql}\n{rows}\n{whole}"
            seen["rounded at a tie"] += 1
            continue
        seen["exact" if found.exact else "estimated"] += 1
        _within(found.table.to_pylist(), found.bounds)
    return seen


def _without_rounding(original: pa.Table, tables: dict[str, pa.Table], sql: str) -> bool:
    """Whether answers differ only because ROUND met a number half way between two others.

    The order of additions decides the last bit of a sum, and ROUND makes a tenth of it.
    """
    if "ROUND(" not in sql:
        return False
    tree = sqlglot.parse_one(sql, dialect="duckdb")
    bare = tree.transform(lambda node: node.this if isinstance(node, exp.Round) else node)
    text = bare.sql(dialect="duckdb")
    real = made.over_original(original, text)
    assert real is not None
    found = answer(tables, made.manifest(), text)
    names = [n for n in found.table.column_names if n not in {*found.errors, *found.bounds}]
    rows = [tuple(row[name] for name in names) for row in found.table.to_pylist()]
    return made.same_rows(rows, [tuple(row.values()) for row in real.to_pylist()])


def _within(rows: list, bounds: tuple[str, ...]) -> None:  # type: ignore[type-arg]
    for name in {bound.rsplit("_", 1)[0] for bound in bounds}:
        for row in rows:
            value, low, high = row[name], row[f"{name}_least"], row[f"{name}_most"]
            if (
                isinstance(value, (int, float))
                and not math.isnan(value)
                and None not in (low, high)
            ):
                assert low - 1e-7 <= value <= high + 1e-7, (name, row)


def compare_with_weights(queries: int, seed: int) -> Counter[str]:
    """Where groups hold several, answers are the weighted ones, and bounds hold the truth."""
    seen: Counter[str] = Counter()
    for number in range(queries):
        if number % 20 == 0:
            rng, original, tables = _numbers(rows=11, seed=seed + number, largest=3)
        query = made.asked(rng)
        sql = query.sql(rng)
        found = answer(tables, made.manifest(), sql)
        n_keys = len(query.keys)
        names = [f"k{at}" for at in range(n_keys)]
        names += [f"a{at}" for at in range(len(query.aggregates))]
        rows = [tuple(row[name] for name in names) for row in found.table.to_pylist()]
        expected = made.reference(tables, query)
        assert made.same_rows(rows, expected), f"{sql}\n{rows}\n{expected}"
        assert query.part is None or [r[:n_keys] for r in rows] == [r[:n_keys] for r in expected]
        seen["exact" if found.exact else "estimated"] += 1
        if found.exact or query.sets or query.part or query.having is not None:
            continue
        real = made.over_original(original, sql)
        assert real is not None
        by_key = {tuple(r[k] for k in names[:n_keys]): r for r in found.table.to_pylist()}
        for true in real.to_pylist():
            mine = by_key[tuple(true[k] for k in names[:n_keys])]
            for name in names[n_keys:]:
                low, high = mine[f"{name}_least"], mine[f"{name}_most"]
                if true[name] is None or math.isnan(true[name]):
                    continue
                if low is not None:
                    assert low - 1e-7 <= true[name], (sql, name, true, mine)
                if high is not None:
                    assert true[name] <= high + 1e-7, (sql, name, true, mine)
                    seen["bounds"] += 1
    return seen


def test_answers_over_groups_of_one_are_duckdbs() -> None:
    """Hundreds of queries: answered as over the whole table, or refused; most are answered."""
    seen = compare_with_duckdb(200, seed=1)
    assert seen["estimated"] > 100
    assert seen["refused"] > 10
    assert seen["exact"] > 5


def test_answers_over_larger_groups_are_the_weighted_ones() -> None:
    """Hundreds of queries: equal to fractions summed over all combinations; bounds hold."""
    seen = compare_with_weights(120, seed=1)
    assert seen["estimated"] > 80
    assert seen["bounds"] > 200


PIECES = 20
"""The ten thousand are asked in pieces, so that each ends within minutes."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("piece", range(PIECES))
def test_ten_thousand_queries(piece: int) -> None:
    """None is silently wrong; with ``-s`` a line for each piece says what was asked."""
    free, weighted = 7000 // PIECES, 3200 // PIECES
    seeds = 10_000 + piece * free, 50_000 + piece * weighted
    whole = compare_with_duckdb(free, seed=seeds[0])
    assert sum(whole.values()) == free
    grouped = compare_with_weights(weighted, seed=seeds[1])
    assert grouped["exact"] + grouped["estimated"] == weighted
    print(f"\npiece {piece + 1} of {PIECES}, seeds {seeds}: {dict(whole)}, {dict(grouped)}")  # noqa: T201 - how far a long run is
