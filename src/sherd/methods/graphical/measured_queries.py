"""Reading a query over measured counts: aggregates, groups, conditions, and nothing else.

Accepted is ``SELECT attributes and COUNT, SUM, AVG FROM release WHERE … GROUP BY attributes
ORDER BY … LIMIT …``. Whatever else SQL has is refused, not guessed at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sherd.errors import UsageError
from sherd.methods.fragmenting.query_parsing import VIEW, parse
from sherd.methods.graphical.cell_conditions import CellColumn, Truth, decide, named
from sherd.tables.schema import Type

if TYPE_CHECKING:
    from collections.abc import Mapping

_PARTS = {"expressions", "from_", "where", "group", "order", "limit"}
_MOST_ROWS = 10**9


@dataclass(frozen=True, kw_only=True)
class MeasuredAggregate:
    """COUNT, SUM or AVG of an attribute; ``attribute`` is None for COUNT(*)."""

    name: str
    kind: Literal["count", "sum", "avg"]
    attribute: str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredQuery:
    """What is asked; ``groups`` are pairs of a column's heading and its attribute."""

    groups: tuple[tuple[str, str], ...]
    aggregates: tuple[MeasuredAggregate, ...]
    conditions: tuple[Truth, ...]
    order: tuple[tuple[str, Literal["ascending", "descending"]], ...] = ()
    limit: int | None = None

    def arranged(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answer's rows in the wanted order, missing values last, as many as are wanted."""
        for name, way in reversed(self.order):
            known = sorted(
                (row for row in rows if row[name] is not None),
                key=lambda row: row[name],
                reverse=way == "descending",
            )
            rows = known + [row for row in rows if row[name] is None]
        return rows if self.limit is None else rows[: self.limit]


def read_query(sql: str, columns: Mapping[str, CellColumn]) -> MeasuredQuery:
    """The query that a text asks, checked against the attributes of a release."""
    tree = parse(sql)
    for part, value in tree.args.items():
        if value and part not in _PARTS:
            raise _unknown(part.strip("_").upper())
    _check_view(tree)
    groups, aggregates = _selected(tree, columns)
    where = tree.args.get("where")
    headings = [shown for shown, _ in groups] + [one.name for one in aggregates]
    if len({h.lower() for h in headings}) < len(headings):
        raise UsageError("two columns of the answer have the same name", do="name them with AS")
    return MeasuredQuery(
        groups=groups,
        aggregates=aggregates,
        conditions=() if where is None else _conditions(where.this, columns),
        order=_order(tree.args.get("order"), headings),
        limit=_limit(tree.args.get("limit")),
    )


def _unknown(what: str) -> UsageError:
    return UsageError(
        "this part of the query is not answered from measured counts",
        must="SELECT attributes and COUNT, SUM, AVG … WHERE … GROUP BY … ORDER BY … LIMIT",
        got=what,
    )


def _check_view(tree: Any) -> None:
    from sqlglot import exp

    source = tree.args.get("from_")
    table = None if source is None else source.this
    if (
        not isinstance(table, exp.Table)
        or not isinstance(table.this, exp.Identifier)
        or table.name.lower() != VIEW
        or table.args.get("joins")
    ):
        raise UsageError(f"the query does not ask the view '{VIEW}'", must=f"FROM {VIEW}")


def _conditions(tree: Any, columns: Mapping[str, CellColumn]) -> tuple[Truth, ...]:
    """The parts of a condition that must all hold."""
    from sqlglot import exp

    if isinstance(tree, exp.Paren):
        return _conditions(tree.this, columns)
    if isinstance(tree, exp.And):
        return _conditions(tree.left, columns) + _conditions(tree.right, columns)
    return (decide(tree, columns),)


def _selected(
    tree: Any, columns: Mapping[str, CellColumn]
) -> tuple[tuple[tuple[str, str], ...], tuple[MeasuredAggregate, ...]]:
    from sqlglot import exp

    group = tree.args.get("group")
    if group is not None and any(v for k, v in group.args.items() if k != "expressions"):
        raise _unknown(group.sql(dialect="duckdb"))
    by = [_grouping(one, columns) for one in (group.expressions if group else [])]
    groups: list[tuple[str, str]] = []
    aggregates: list[MeasuredAggregate] = []
    for one in tree.expressions:
        inner = one.this if isinstance(one, exp.Alias) else one
        if isinstance(inner, exp.Column):
            name = _grouping(inner, columns)
            if name not in by:
                raise UsageError(
                    "single records are not answered from measured counts",
                    must="every attribute in GROUP BY",
                    got=name,
                )
            groups.append((one.alias or name, name))
        else:
            aggregates.append(_aggregate(inner, one.alias, columns))
    if not aggregates:
        raise _unknown("no COUNT, SUM or AVG")
    hidden = [name for name in by if name not in [attribute for _, attribute in groups]]
    if hidden or len(groups) > len(by):
        raise UsageError(
            "grouping attributes and selected ones differ",
            must="every attribute of GROUP BY selected once",
        )
    return tuple(groups), tuple(aggregates)


def _grouping(node: Any, columns: Mapping[str, CellColumn]) -> str:
    from sqlglot import exp

    if not isinstance(node, exp.Column):
        raise _unknown(node.sql(dialect="duckdb"))
    column = named(node, columns)
    if column.labels() is None:
        raise UsageError(
            f"'{column.name}' is counted in intervals and cannot be grouped by",
            must="an attribute with labels, a boolean, or a whole number of few values",
            do="ask with WHERE and BETWEEN instead",
        )
    return column.name


def _aggregate(node: Any, alias: str, columns: Mapping[str, CellColumn]) -> MeasuredAggregate:
    from sqlglot import exp

    kinds: dict[Any, Literal["count", "sum", "avg"]] = {
        exp.Count: "count",
        exp.Sum: "sum",
        exp.Avg: "avg",
    }
    kind = kinds.get(type(node))
    text = node.sql(dialect="duckdb")
    if kind is None or node.args.get("expressions"):
        raise _unknown(text)
    if isinstance(node.this, exp.Star) and kind == "count":
        return MeasuredAggregate(name=alias or "count", kind=kind, attribute=None)
    if not isinstance(node.this, exp.Column):
        raise _unknown(text)
    column = named(node.this, columns)
    if kind != "count" and column.kind not in (Type.NUMBER, Type.INTEGER):
        raise UsageError(f"'{column.name}' cannot be summed", must="a number or an integer")
    return MeasuredAggregate(
        name=alias or f"{kind}_{column.name}", kind=kind, attribute=column.name
    )


def _order(
    node: Any, headings: list[str]
) -> tuple[tuple[str, Literal["ascending", "descending"]], ...]:
    found: list[tuple[str, Literal["ascending", "descending"]]] = []
    by_lower = {heading.lower(): heading for heading in headings}
    for one in node.expressions if node is not None else []:
        name = one.this.name.lower()
        if name not in by_lower:
            raise UsageError(
                "the answer cannot be ordered by this",
                must="one of its columns: " + ", ".join(headings),
                got=one.this.sql(dialect="duckdb"),
            )
        found.append((by_lower[name], "descending" if one.args.get("desc") else "ascending"))
    return tuple(found)


def _limit(node: Any) -> int | None:
    if node is None:
        return None
    text = node.expression.sql(dialect="duckdb")
    if not text.isdecimal() or int(text) > _MOST_ROWS:
        raise UsageError("LIMIT is not valid", must="a whole number", got=text)
    return int(text)
