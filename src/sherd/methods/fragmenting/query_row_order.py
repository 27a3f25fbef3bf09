"""Whether an answer hangs on the order of rows, which in a release is chance.

FIRST, LIST without ORDER BY, ROW_NUMBER among equals, or the first rows of a query inside another
are answered by whatever row comes first. A query that could be such a one is answered several
times, over rows in other orders: where the answers differ, none of them is given. What LIMIT takes
at the very end is left alone: the first of equal rows may be any of them.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from sherd.errors import UsageError
from sherd.randomness import Randomness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

_ORDERS = 8
_ANY_ORDER = frozenset({
    "Count", "Sum", "Avg", "Min", "Max", "Stddev", "StddevPop", "StddevSamp", "Variance",
    "VariancePop", "Corr", "CovarPop", "CovarSamp", "Median", "Quantile", "PercentileCont",
    "PercentileDisc", "CountIf", "LogicalAnd", "LogicalOr",
})  # fmt: skip
"""Aggregates, as the parser calls them, that say the same of rows in any order."""


def may_hang_on_row_order(tree: Any) -> bool:
    """Whether a query has a part for which the order of rows could matter."""
    from sqlglot import exp

    for node in tree.walk():
        if isinstance(node, exp.Window) or (isinstance(node, exp.Distinct) and node.args.get("on")):
            return True
        # what the parser does not know may be an aggregate
        aggregate = isinstance(node, (exp.AggFunc, exp.Anonymous))
        if aggregate and type(node).__name__ not in _ANY_ORDER:
            return True
        inside = node is not tree and isinstance(node, exp.Query)
        if inside and (node.args.get("limit") or node.args.get("offset")):
            return True
    return False


def check_row_order(
    tree: Any,
    sql: str,
    tables: Mapping[str, pa.Table],
    ask: Callable[[Any, str, Mapping[str, pa.Table]], pa.Table],
) -> None:
    """Raise where a query has another answer once the rows of the release lie in another order."""
    if tree.args.get("limit") or tree.args.get("offset"):
        tree = tree.copy()
        tree.set("limit", None)
        tree.set("offset", None)
        sql = tree.sql(dialect="duckdb")
    first = _sorted(ask(tree, sql, tables))
    for other in _reordered(tables):
        again = _sorted(ask(tree, sql, other))
        if len(first) != len(again) or not all(map(_alike, first, again)):
            raise UsageError(
                "the answer hangs on the order of rows, which in a release is chance",
                must="the same in any order of rows",
                do="order by so many attributes that no two rows are equal, or leave out what "
                "takes the first of them (FIRST, LIST, ROW_NUMBER, LAG, LIMIT inside a query …)",
            )


def _reordered(tables: Mapping[str, pa.Table]) -> Iterator[Mapping[str, pa.Table]]:
    """The tables with their rows from the last to the first, and in some other orders."""
    import numpy as np

    yield {
        name: table.take(np.arange(table.num_rows)[::-1].copy()) for name, table in tables.items()
    }
    for at in range(_ORDERS - 1):
        shuffled = Randomness.seeded(at)
        yield {
            name: table.take(shuffled.permutation(table.num_rows)) for name, table in tables.items()
        }


def _sorted(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in table.columns]
    return sorted(zip(*columns, strict=True), key=_sort_key)


def _sort_key(value: Any) -> Any:
    """Something to sort by in which numbers that differ by rounding are alike."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return tuple(map(_sort_key, value))
    return repr(value)


def _alike(one: Any, two: Any) -> bool:
    """Whether two cells, or rows of them, are equal but for the rounding of sums."""
    if isinstance(one, float) and isinstance(two, float):
        both_nan = math.isnan(one) and math.isnan(two)
        return both_nan or math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)):
        return len(one) == len(two) and all(itertools.starmap(_alike, zip(one, two, strict=True)))
    return bool(one == two)
