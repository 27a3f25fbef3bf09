"""The clauses of a SELECT with every name in full and every subquery rewritten.

Only what ``query_language`` lists passes.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Protocol

from sherd.errors import UsageError
from sherd.methods.fragmenting.query_language import (
    check_aggregate,
    check_cell,
    check_clause,
    is_aggregate,
    refused,
)
from sherd.methods.fragmenting.query_names import quoted

if TYPE_CHECKING:
    from sherd.methods.fragmenting.query_names import Scope


class Rewritten(Protocol):
    """What is needed of a subquery once it is rewritten."""

    @property
    def sql(self) -> str:
        """Its SQL."""

    @property
    def weighted(self) -> tuple[int, ...]:
        """The fragments whose combinations its rows are."""


class Inside(Protocol):
    """What rewrites a subquery."""

    def __call__(self, select: Any) -> Rewritten:
        """The subquery by itself: it sees nothing of the query around it."""


class Resolving:
    """Expressions with every name in full and every subquery rewritten."""

    def __init__(self, inside: Inside, scope: Scope) -> None:
        self._inside = inside
        self.scope = scope

    def cell(self, node: Any, *, aggregates: bool = False) -> Any:
        """An expression over rows; with ``aggregates``, over what they add up to as well."""
        from sqlglot import exp

        if isinstance(node, exp.Column):
            check_clause(node)
            return self._column(node, aggregates)
        if isinstance(node, exp.Subquery):
            return self._subquery(node)
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            query = node.args["query"]
            made = exp.In(this=self.cell(node.this, aggregates=aggregates))
            made.set("query", self._subquery(query))
            return made
        if is_aggregate(node):
            if not aggregates:
                raise refused(node)
            return self._aggregate(node)
        check_cell(node)
        return self._below(node, aggregates)

    def _below(self, node: Any, aggregates: bool) -> Any:
        from sqlglot import exp

        made = node.copy()
        for name, value in list(made.args.items()):
            if isinstance(value, exp.DataType):
                check_cell(value)
            elif isinstance(value, exp.Expression):
                made.set(name, self.cell(value, aggregates=aggregates))
            elif isinstance(value, list):
                made.set(name, [self.cell(v, aggregates=aggregates) for v in value])
        return made

    def _aggregate(self, node: Any) -> Any:
        """An aggregate whose arguments are resolved; inside it there is no other."""
        from sqlglot import exp

        check_aggregate(node)
        made = node.copy()
        for name, value in list(made.args.items()):
            if isinstance(value, exp.Where):
                check_clause(value)
                made.set(name, exp.Where(this=self.cell(value.this)))
            elif isinstance(value, exp.Distinct):
                made.set(name, exp.Distinct(expressions=[self.cell(v) for v in value.expressions]))
            elif isinstance(value, exp.Expression) and is_aggregate(value):
                if not isinstance(node, exp.Filter):
                    raise refused(node)
                made.set(name, self._aggregate(value))
            elif isinstance(value, exp.Expression) and not isinstance(value, exp.Star):
                made.set(name, self.cell(value))
        return made

    def _column(self, node: Any, aggregates: bool) -> Any:
        if self.scope.aliases:
            self.scope.one_meaning(node)
        column = self.scope.column(node.name, node.table)
        if column is not None:
            return column
        alias = self.scope.aliases.get(node.name.lower())
        if alias is None or node.table:
            raise self.scope.unknown(node.name)
        if not aggregates and any(is_aggregate(inner) for inner in alias.walk()):
            raise refused(node)
        return alias.copy()

    def _subquery(self, node: Any) -> Any:
        """A subquery by itself: it sees nothing of the query around it."""
        from sqlglot import exp

        if node.args.get("alias") is not None:
            raise refused(node)
        relation = self._inside(node)
        if relation.weighted:
            raise refused(node)
        return exp.Subquery(this=exp.maybe_parse(relation.sql, dialect="duckdb"))


class Clauses:
    """The clauses of a SELECT, resolved in the order in which names are known."""

    def __init__(self, inside: Inside, scope: Scope, select: Any) -> None:
        self.names: list[str] = []
        self.items: list[Any] = []
        self._resolving = resolving = Resolving(inside, scope)
        self._items(select, scope)
        where = select.args.get("where")
        self.condition = ""
        if where is not None:
            check_clause(where)
            self.condition = f" WHERE {resolving.cell(where.this).sql(dialect='duckdb')}"
        self.keys: list[Any] = []
        self.sets: list[tuple[int, ...]] = [()]
        self._group(select)
        having = select.args.get("having")
        self.having: Any = None
        if having is not None:
            check_clause(having)
            self.having = resolving.cell(having.this, aggregates=True)
        self.order: list[Any] = []
        self._ways: list[Any] = []
        self._order(select)
        self.cut = cut_off(select)
        beside = [*self.items, *self.order, *([self.having] if self.having is not None else [])]
        self.aggregates = select.args.get("group") is not None or any(
            is_aggregate(inner) for node in beside for inner in node.walk()
        )

    @property
    def columns(self) -> list[str]:
        """The columns of an ordinary query, each under its name."""
        both = zip(self.items, self.names, strict=True)
        return [f"{node.sql(dialect='duckdb')} AS {quoted(name)}" for node, name in both]

    def _items(self, select: Any, scope: Scope) -> None:
        from sqlglot import exp

        for item in select.expressions:
            bare = item.this if isinstance(item, exp.Alias) else item
            if isinstance(item, exp.Alias):
                check_clause(item)
            if isinstance(bare, exp.Star) or (
                isinstance(bare, exp.Column) and isinstance(bare.this, exp.Star)
            ):
                raise UsageError(
                    "'*' over several fragments has no meaning",
                    must="the attributes you want, by name",
                )
            node = self._resolving.cell(bare, aggregates=True)
            plain = isinstance(item, (exp.Alias, exp.Column))
            name = item.alias_or_name if plain else bare.sql(dialect="duckdb").lower()
            number = sum(name.lower() == n.lower() for n in self.names)
            self.names.append(name if not number else f"{name}_{number}")
            self.items.append(node)
            if isinstance(item, exp.Alias):
                scope.aliases[item.alias.lower()] = node

    def _group(self, select: Any) -> None:
        from sqlglot import exp

        group = select.args.get("group")
        if group is None:
            return
        check_clause(group)
        if not group.expressions:
            raise refused(group)
        sets: list[tuple[int, ...]] = [()]
        for node in group.expressions:
            if isinstance(node, (exp.Rollup, exp.Cube, exp.GroupingSets)):
                check_clause(node)
                choices = self._sets(node)
            else:
                choices = [(self._key(node),)]
            sets = [tuple(dict.fromkeys((*a, *b))) for a in sets for b in choices]
        self.sets = sets

    def _sets(self, node: Any) -> list[tuple[int, ...]]:
        """The sets of keys that ROLLUP, CUBE or GROUPING SETS stand for."""
        from sqlglot import exp

        each = []
        for inner in node.expressions:
            if isinstance(inner, exp.Tuple):
                check_clause(inner)
                each.append(tuple(self._key(one) for one in inner.expressions))
            else:
                each.append((self._key(inner.unnest()),))
        if isinstance(node, exp.GroupingSets):
            return each
        if isinstance(node, exp.Rollup):
            chosen = [each[:size] for size in range(len(each), -1, -1)]
        else:
            chosen = [
                list(some)
                for size in range(len(each), -1, -1)
                for some in itertools.combinations(each, size)
            ]
        return [tuple(key for one in some for key in one) for some in chosen]

    def _key(self, node: Any) -> int:
        """The number of a key: a position, an alias, or an expression."""
        from sqlglot import exp

        if isinstance(node, exp.Literal):
            key = self._selected(node, "GROUP BY")
        else:
            key = self._resolving.cell(node)
        if any(is_aggregate(inner) for inner in key.walk()):
            raise refused(node)
        if key not in self.keys:
            self.keys.append(key)
        return self.keys.index(key)

    def _selected(self, node: Any, clause: str) -> Any:
        if node.is_string or not node.is_int or not 1 <= int(node.name) <= len(self.items):
            raise UsageError(f"{clause} names a column that is not selected", got=node.name)
        return self.items[int(node.name) - 1]

    def _order(self, select: Any) -> None:
        from sqlglot import exp

        order = select.args.get("order")
        if order is None:
            return
        check_clause(order)
        for way in order.expressions:
            check_clause(way)
            if isinstance(way.this, exp.Literal):
                node = self._selected(way.this, "ORDER BY")
            else:
                node = self._resolving.cell(way.this, aggregates=True)
            self.order.append(node)
            self._ways.append(way)

    def ordered(self, texts: list[str]) -> str:
        """ORDER BY these expressions, in the ways that were asked for."""
        if not texts:
            return ""
        pieces = []
        for text, way in zip(texts, self._ways, strict=True):
            nulls = "FIRST" if way.args.get("nulls_first") else "LAST"
            pieces.append(f"{text} {'DESC' if way.args.get('desc') else 'ASC'} NULLS {nulls}")
        return " ORDER BY " + ", ".join(pieces)

    @property
    def grouping(self) -> str:
        """GROUP BY the sets of keys, for an ordinary query."""
        if not self.keys and self.sets == [()]:
            return ""
        texts = [key.sql(dialect="duckdb") for key in self.keys]
        sets = ", ".join(f"({', '.join(texts[at] for at in chosen)})" for chosen in self.sets)
        return f" GROUP BY GROUPING SETS ({sets})"

    @property
    def having_words(self) -> str:
        """HAVING, for an ordinary query."""
        return "" if self.having is None else f" HAVING {self.having.sql(dialect='duckdb')}"


def cut_off(select: Any) -> str:
    """LIMIT and OFFSET, which must be numbers."""
    from sqlglot import exp

    words = ""
    for name in ("limit", "offset"):
        node = select.args.get(name)
        if node is not None:
            check_clause(node)
            number = node.expression
            if not isinstance(number, exp.Literal) or not number.is_int:
                raise refused(node)
            words += f" {name.upper()} {int(number.name)}"
    return words
