"""What of SQL is answered over several fragments: every kind of expression that is known to be.

A query over one fragment is run as it was written. One over several is taken apart and put
together again over weighted rows, and only what is listed here can be: each kind of node with
the parts it may have. Whatever is not listed is refused, so that nothing is dropped unseen.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sherd.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Parts = Mapping[type, frozenset[str]]

_LEAVES = ("Boolean", "Null")
_BOTH = (
    "Add", "Sub", "Mul", "And", "Or", "EQ", "NEQ", "GT", "GTE", "LT", "LTE",
    "NullSafeEQ", "NullSafeNEQ", "Is", "Pow",
)  # fmt: skip
_ONE = ("Paren", "Neg", "Not", "Abs", "Sqrt", "Exp", "Ln")
_COMPUTED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_LEAVES, ()),
    **dict.fromkeys(_BOTH, ("this", "expression")),
    **dict.fromkeys(_ONE, ("this",)),
    "Literal": ("this", "is_string"),
    "Div": ("this", "expression", "typed", "safe"),
    "Between": ("this", "low", "high"),
    "Case": ("this", "ifs", "default"),
    "If": ("this", "true"),
    "Coalesce": ("this", "expressions"),
    "Nullif": ("this", "expression"),
    "Round": ("this", "decimals"),
    "Floor": ("this",),
    "Ceil": ("this",),
    "Greatest": ("this", "expressions", "ignore_nulls"),
    "Least": ("this", "expressions", "ignore_nulls"),
}
"""What may be computed from aggregates, and from cells."""

_OF_CELLS: dict[str, tuple[str, ...]] = {
    "Mod": ("this", "expression"),
    "IntDiv": ("this", "expression"),
    "In": ("this", "expressions"),
    "Like": ("this", "expression"),
    "ILike": ("this", "expression"),
    "DPipe": ("this", "expression", "safe"),
    "Upper": ("this",),
    "Lower": ("this",),
    "Length": ("this",),
    "Substring": ("this", "start", "length"),
    "Year": ("this",),
    "Month": ("this",),
    "Day": ("this",),
    "Cast": ("this", "to", "_type"),
    "TryCast": ("this", "to", "safe", "_type"),
    "DataType": ("this", "nested"),
}
"""What may be computed from cells only: over expected values it would mean something else."""

AGGREGATES: dict[str, tuple[str, ...]] = {
    "Count": ("this", "big_int"),
    "CountIf": ("this",),
    "Sum": ("this",),
    "Avg": ("this",),
    "Min": ("this",),
    "Max": ("this",),
    "Stddev": ("this",),
    "StddevSamp": ("this",),
    "StddevPop": ("this",),
    "Variance": ("this",),
    "VariancePop": ("this",),
    "Corr": ("this", "expression"),
    "CovarSamp": ("this", "expression"),
    "CovarPop": ("this", "expression"),
    "Median": ("this",),
    "Quantile": ("this", "quantile"),
    "PercentileCont": ("this", "expression"),
    "PercentileDisc": ("this", "expression"),
    "Filter": ("this", "expression"),
}
"""Aggregates, with the parts that are understood."""

_CLAUSES: dict[str, tuple[str, ...]] = {
    "Select": (
        "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset",
        "with_",
    ),
    "Alias": ("this", "alias"),
    "With": ("expressions",),
    "CTE": ("this", "alias"),
    "From": ("this",),
    "Where": ("this",),
    "Having": ("this",),
    "Group": ("expressions",),
    "Rollup": ("expressions",),
    "Cube": ("expressions",),
    "GroupingSets": ("expressions",),
    "Tuple": ("expressions",),
    "Order": ("expressions",),
    "Ordered": ("this", "desc", "nulls_first"),
    "Limit": ("expression",),
    "Offset": ("expression",),
    "Table": ("this", "alias"),
    "Subquery": ("this", "alias"),
    "TableAlias": ("this",),
    "Identifier": ("this", "quoted"),
    "Column": ("this", "table"),
    "Join": ("this", "side", "kind", "on", "using"),
    "Star": (),
}  # fmt: skip


@lru_cache(maxsize=1)
def tables() -> tuple[Parts, Parts, Parts, Parts]:
    """The lists above by class: clauses, cells, computed, aggregates."""
    from sqlglot import exp

    def of(*lists: Mapping[str, tuple[str, ...]]) -> Parts:
        return {getattr(exp, name): frozenset(p) for one in lists for name, p in one.items()}

    return of(_CLAUSES), of(_COMPUTED, _OF_CELLS), of(_COMPUTED), of(AGGREGATES)


def check_clause(node: Any) -> None:
    """Raise UsageError where a clause is none that is answered over several fragments."""
    _check(node, tables()[0])


def check_cell(node: Any) -> None:
    """The same for an expression over the cells of one row."""
    _check(node, tables()[1])


def check_computed(node: Any) -> None:
    """The same for an expression over aggregates."""
    _check(node, tables()[2])


def is_aggregate(node: Any) -> bool:
    """Whether a node is an aggregate, one that is answered or another."""
    from sqlglot import exp

    # MAX(x, 3) and the like are aggregates too, and are refused by their parts
    return isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup, exp.IgnoreNulls))


def check_aggregate(node: Any) -> None:
    """Raise UsageError where an aggregate is not answered over several fragments."""
    _check(node, tables()[3])


def parts_of(node: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a node that say something."""
    for name, value in node.args.items():
        if value is not None and value is not False and value != []:
            yield name, value


def _check(node: Any, known: Parts) -> None:
    allowed = known.get(type(node))
    if allowed is None:
        raise refused(node)
    for name, _ in parts_of(node):
        if name not in allowed:
            raise refused(node)


def refused(node: Any) -> UsageError:
    """The refusal of a part of a query, by its own words."""
    words = node.sql(dialect="duckdb") if hasattr(node, "sql") else str(node)
    return UsageError(
        "this part of the query is not answered over several fragments",
        got=words if len(words) <= 80 else words[:77] + "…",
        do="ask one fragment, which is answered as written, or use what the page of `fragment` "
        "lists",
    )
