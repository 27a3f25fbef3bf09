"""Rewriting a query over several fragments into one over weighted combinations.

Every SELECT is taken by itself, from the inside out. One that needs a single fragment of each
release it reads is an ordinary query over it. One that needs several reads their join through the
association, in which every possible combination has its weight; if it aggregates, it becomes an
ordinary table of expected values, and if not, it can only be the source of one that does.
Whatever surrounds a table of expected values takes them as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sherd.errors import UsageError
from sherd.methods.fragmenting.query_aggregates import MEMBER, ROW, WEIGHT, Sums, one_set
from sherd.methods.fragmenting.query_clauses import Clauses, Resolving
from sherd.methods.fragmenting.query_language import (
    check_clause,
    check_computed,
    is_aggregate,
    parts_of,
    refused,
)
from sherd.methods.fragmenting.query_names import Scope, Source, by_lower, quoted
from sherd.methods.fragmenting.query_parsing import VIEW

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Joined(Protocol):
    """The release as a query can read it."""

    @property
    def attributes(self) -> Sequence[str]:
        """Every released attribute."""

    @property
    def withheld(self) -> Sequence[str]:
        """Attributes that are not released."""

    def needed(self, names: Sequence[str]) -> tuple[int, ...]:
        """The fragments that hold some attributes."""

    def view(self, fragments: tuple[int, ...], names: Sequence[str]) -> str:
        """SQL for the combinations of fragments, with weights where there are several."""

    def whole(self, fragments: tuple[int, ...]) -> int:
        """What the combinations of one tuple weigh together."""


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A SELECT rewritten: its SQL and columns, and what it is made of.

    ``weighted`` holds the fragments whose combinations its rows are; it is empty for an
    ordinary table. ``estimated`` says that expected values went into it.
    """

    sql: str
    columns: tuple[str, ...]
    weighted: tuple[int, ...] = ()
    estimated: bool = False
    fragments: frozenset[int] = frozenset()
    errors: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()


def rewrite(tree: Any, release: Joined, own: Mapping[str, Sequence[str]]) -> Relation:
    """The query that answers ``tree``; raises for what has no meaning or is not known."""
    tables = {
        name.lower(): Relation(sql=f"SELECT * FROM {quoted(name)}", columns=tuple(columns))  # noqa: S608
        for name, columns in own.items()
    }
    relation = Block(release, tables).relation(tree, outermost=True)
    if relation.weighted:
        raise UsageError(
            "single rows over several fragments are not known: which tuples belong together is "
            "what is hidden",
            do="ask for COUNT, SUM or AVG, or for attributes of one fragment",
        )
    return relation


class Block:
    """One SELECT, with the tables that it can name."""

    def __init__(self, release: Joined, tables: Mapping[str, Relation]) -> None:
        self.release = release
        self.tables = dict(tables)
        self.fragments: set[int] = set()
        self.estimated = False

    def relation(self, select: Any, *, outermost: bool = False) -> Relation:
        """The SELECT as a relation."""
        from sqlglot import exp

        if isinstance(select, exp.Subquery) and not select.alias:
            check_clause(select)
            select = select.this
        if not isinstance(select, exp.Select):
            raise refused(select)
        if select.args.get("distinct") and len(list(parts_of(select.args["distinct"]))) == 0:
            distinct, select = True, select.copy()
            select.set("distinct", None)
        else:
            distinct = False
        check_clause(select)
        self._name_subqueries(select)
        reading = self._reading(select)
        scope = Scope([source for source, _ in reading], self.release.withheld)
        # joins first: USING settles which table's column a bare name means
        joins = [(source, self._join(node, scope)) for source, node in reading]
        parts = Clauses(self.inside, scope, select)
        weighted = self._weighted(reading)
        if not weighted:
            return self._plain(parts, joins, distinct)
        if distinct:
            raise UsageError(
                "DISTINCT over several fragments has no meaning: which values occur together is "
                "what is hidden",
                do="use GROUP BY with COUNT(*)",
            )
        if parts.aggregates:
            return self._aggregated(parts, joins, weighted, outermost)
        return self._projected(parts, joins, weighted)

    def _name_subqueries(self, select: Any) -> None:
        """Take in the tables that WITH names, each seeing those before it."""
        with_ = select.args.get("with_")
        if with_ is None:
            return
        check_clause(with_)
        for cte in with_.expressions:
            check_clause(cte)
            check_clause(cte.args["alias"])
            if cte.alias.lower() == VIEW:
                raise UsageError(f"a table of yours is called '{VIEW}'", do="give it another name")
            self.tables[cte.alias.lower()] = self.inside(cte.this)

    def inside(self, select: Any) -> Relation:
        """A subquery as a relation; what it reads, the block reads."""
        relation = Block(self.release, self.tables).relation(select)
        self.fragments |= relation.fragments
        self.estimated |= relation.estimated
        return relation

    def _reading(self, select: Any) -> list[tuple[Source, Any]]:
        """What is read, each with its join (None for the first)."""
        start = select.args.get("from_")
        if start is None:
            return []
        check_clause(start)
        sources = [(self._source(start.this), None)]
        for join in select.args.get("joins") or ():
            check_clause(join)
            sources.append((self._source(join.this), join))
        return sources

    def _source(self, node: Any) -> Source:
        from sqlglot import exp

        check_clause(node)
        if node.args.get("alias") is not None:
            check_clause(node.args["alias"])
        if isinstance(node, exp.Subquery):
            relation = self.inside(node.this)
        elif node.name.lower() in self.tables:
            relation = self.tables[node.name.lower()]
        elif node.name.lower() == VIEW:
            return Source(alias=node.alias_or_name, columns=by_lower(self.release.attributes))
        else:
            raise UsageError("the query cannot be answered: it names an unknown table",
                             got=node.name, must=f"'{VIEW}' or a table of your own")  # fmt: skip
        self.fragments |= relation.fragments
        self.estimated |= relation.estimated
        return Source(
            alias=node.alias_or_name or "__unnamed",
            columns=by_lower(relation.columns),
            sql=relation.sql,
            weighted=relation.weighted,
        )

    def _join(self, node: Any, scope: Scope) -> tuple[str, str]:
        """How a source is joined: the words before it, and the condition after it."""
        if node is None:
            return "", ""
        side, kind = str(node.args.get("side") or ""), str(node.args.get("kind") or "")
        if side not in ("", "LEFT") or kind not in ("", "INNER", "CROSS", "OUTER"):
            raise refused(node)
        words = f"{side} {'CROSS ' if kind == 'CROSS' else ''}JOIN ".lstrip()
        condition = node.args.get("on")
        using = node.args.get("using") or []
        if using:
            # the joined column is found in both; which one is meant is the same
            left, right = (
                scope.sources[0],
                next(
                    s for s in scope.sources if s.alias == (node.this.alias_or_name or "__unnamed")
                ),
            )
            pairs = [_shared(left, right, name.name) for name in using]
            return words, " ON " + " AND ".join(pairs)
        if condition is None:
            return ("CROSS JOIN " if not side else words), ""
        resolved = Resolving(self.inside, scope).cell(condition)
        return words, f" ON {resolved.sql(dialect='duckdb')}"

    def _weighted(self, reading: list[tuple[Source, Any]]) -> tuple[int, ...]:
        """The fragments whose combinations the block reads; gives every source its SQL."""
        weighted: list[tuple[int, ...]] = []
        for source, node in reading:
            if source.sql is None:
                names = list(source.named)
                needed = self.release.needed(names)
                source.sql = self.release.view(needed, names)
                source.weighted = needed if len(needed) > 1 else ()
                self.fragments |= set(needed)
            if source.weighted:
                weighted.append(source.weighted)
                if node is not None and node.args.get("side"):
                    raise refused(node)
        if len(weighted) > 1:
            raise UsageError(
                "the query joins the release to itself over several fragments",
                must="one of them over a single fragment",
            )
        return weighted[0] if weighted else ()

    def _from(self, joins: list[tuple[Source, tuple[str, str]]]) -> str:
        pieces = [
            f"{words}({s.sql}) AS {quoted(s.alias)}{condition}" for s, (words, condition) in joins
        ]
        return " FROM " + " ".join(pieces) if pieces else ""

    def _plain(
        self, parts: Clauses, joins: list[tuple[Source, tuple[str, str]]], distinct: bool
    ) -> Relation:
        """An ordinary query, over fragments or over tables of expected values."""
        sql = (
            f"SELECT {'DISTINCT ' if distinct else ''}{', '.join(parts.columns)}{self._from(joins)}"
        )
        sql += parts.condition + parts.grouping + parts.having_words
        sql += parts.ordered([node.sql(dialect="duckdb") for node in parts.order]) + parts.cut
        return Relation(
            sql=sql,
            columns=tuple(parts.names),
            estimated=self.estimated,
            fragments=frozenset(self.fragments),
        )

    def _projected(
        self,
        parts: Clauses,
        joins: list[tuple[Source, tuple[str, str]]],
        weighted: tuple[int, ...],
    ) -> Relation:
        """Combinations chosen and computed with, for a SELECT around it that aggregates."""
        if parts.order or parts.cut or len(joins) > 1:
            raise UsageError(
                "single rows over several fragments are not known: they can be neither ordered, "
                "cut off nor joined",
                do="aggregate them in the same SELECT",
            )
        passed = [WEIGHT, ROW, *(f"{MEMBER}{f}" for f in weighted)]
        sql = f"SELECT {', '.join([*parts.columns, *passed])}{self._from(joins)}{parts.condition}"
        return Relation(
            sql=sql,
            columns=tuple(parts.names),
            weighted=weighted,
            estimated=True,
            fragments=frozenset(self.fragments),
        )

    def _aggregated(
        self,
        parts: Clauses,
        joins: list[tuple[Source, tuple[str, str]]],
        weighted: tuple[int, ...],
        outermost: bool,
    ) -> Relation:
        """Expected values; in the outermost SELECT with their errors and bounds beside them."""
        told = outermost and len(joins) == 1  # a join may count a unit several times
        sums = Sums(self.release.whole(weighted), 1 + len(weighted) if told else 1)
        keys = parts.keys
        outside = _Outside(sums, keys)
        columns: list[tuple[str, str]] = []
        errors, bounds = [], []
        for name, node in zip(parts.names, parts.items, strict=True):
            columns.append((name, outside.sql(node)))
            if told and is_aggregate(node):
                one = sums.add(node)
                if one.has_error:
                    errors.append(f"{name}_error")
                    columns.append((errors[-1], sums.error(one)))
                for word, text in zip(("least", "most"), sums.bounds(one), strict=True):
                    bounds.append(f"{name}_{word}")
                    columns.append((bounds[-1], text))
        order = [outside.sql(node) for node in parts.order]
        having = f" HAVING {outside.sql(parts.having)}" if parts.having is not None else ""
        units = [ROW, *(f"{MEMBER}{f}" for f in weighted)] if told else [ROW]
        cells = self._cells(parts, joins, sums, units)
        selects, tables = [], [f"__cells AS ({cells})"]
        for number, chosen in enumerate(parts.sets):
            made, sql = one_set(number, chosen, len(keys), sums, units, columns, order, having)
            tables += made
            selects.append(sql)
        outputs = ", ".join(f"__c{at} AS {quoted(name)}" for at, (name, _) in enumerate(columns))
        sql = f"WITH {', '.join(tables)} SELECT {outputs} FROM ({' UNION ALL '.join(selects)})"  # noqa: S608
        sql += parts.ordered([f"__o{at}" for at in range(len(order))]) + parts.cut
        return Relation(
            sql=sql,
            columns=tuple(name for name, _ in columns),
            estimated=True,
            fragments=frozenset(self.fragments),
            errors=tuple(errors),
            bounds=tuple(bounds),
        )

    def _cells(
        self,
        parts: Clauses,
        joins: list[tuple[Source, tuple[str, str]]],
        sums: Sums,
        units: list[str],
    ) -> str:
        """Every combination with its keys and arguments."""
        items = [WEIGHT, *units]
        items += [f"({k.sql(dialect='duckdb')}) AS __k{at}" for at, k in enumerate(parts.keys)]
        items += [f"({text}) AS __x{at}" for at, text in enumerate(sums.arguments)]
        cells = f"SELECT {', '.join(items)}{self._from(joins)}{parts.condition}"
        centres = [f"AVG(__x{at}) OVER () AS __centre{at}" for at in sums.centred()]
        return f"SELECT *, {', '.join(centres)} FROM ({cells})" if centres else cells  # noqa: S608


def _shared(left: Source, right: Source, name: str) -> str:
    one, two = left.find(name), right.find(name)
    if one is None or two is None:
        raise UsageError("USING names a column that is not in both tables", got=name)
    # named without a table, the column is the left one's
    right.columns = {key: value for key, value in right.columns.items() if key != name.lower()}
    return f"{quoted(left.alias)}.{quoted(one)} = {quoted(right.alias)}.{quoted(two)}"


class _Outside:
    """Parts of a query as they read over the sums of units."""

    def __init__(self, sums: Sums, keys: list[Any]) -> None:
        self.sums = sums
        self.keys = keys

    def sql(self, node: Any) -> str:
        """An expression over keys and aggregates."""
        return str(self._node(node).sql(dialect="duckdb"))

    def _node(self, node: Any) -> Any:
        from sqlglot import exp

        if node in self.keys:
            return exp.column(f"__k{self.keys.index(node)}", table="__units")
        if is_aggregate(node):
            text = self.sums.estimate(self.sums.add(node))
            return exp.maybe_parse(text, dialect="duckdb")
        if isinstance(node, exp.Column):
            raise UsageError(
                f"'{node.name}' is neither grouped by nor aggregated",
                must="in GROUP BY, or inside COUNT, SUM, AVG and the like",
            )
        if isinstance(node, exp.Subquery):
            return node.copy()
        check_computed(node)
        made = node.copy()
        for name, value in list(made.args.items()):
            if isinstance(value, exp.Expression):
                made.set(name, self._node(value))
            elif isinstance(value, list):
                made.set(name, [self._node(v) for v in value])
        return made
