"""Reading a query: which attributes of the view ``release`` it asks about.

>>> attributes_of("SELECT educ, AVG(pay) FROM release WHERE age > 30 GROUP BY educ")
('educ', 'pay', 'age')
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

VIEW = "release"
"""The one view a query is written against."""


def parse(sql: str) -> Any:
    """The query as a tree, or UsageError where it is not one SELECT."""
    import sqlglot
    from sqlglot import exp

    try:
        statements = sqlglot.parse(sql, read="duckdb")
    except sqlglot.errors.SqlglotError as error:
        first = str(error).splitlines()[0] if str(error) else "no reason given"
        raise UsageError("the query cannot be read", must="SQL", got=first) from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise UsageError(
            "the query is not a single SELECT",
            must="SELECT … FROM release …",
            do="send one at a time",
        )
    return statements[0]


def attributes_of(sql: str) -> tuple[str, ...]:
    """The columns a query names, each once, in order of appearance."""
    from sqlglot import exp

    tree = parse(sql)
    named = {
        alias.alias
        for alias in tree.expressions
        if isinstance(alias, exp.Alias) and not alias.find(exp.Column)
    }
    # sqlglot walks breadth first; a reader's order is the order of the text
    columns = [column.name for column in tree.find_all(exp.Column, bfs=False)]
    return tuple(name for name in dict.fromkeys(columns) if name not in named)


def attributes_named(tree: Any, known: Mapping[str, str]) -> set[str]:
    """Every attribute that a query could mean, in its own spelling (``known`` by lower case)."""
    from sqlglot import exp

    columns = {column.name.lower() for column in tree.find_all(exp.Column)}
    for join in tree.find_all(exp.Join):
        columns |= {shared.name.lower() for shared in join.args.get("using") or ()}
    return {known[name] for name in columns if name in known}


def check_cut_off(tree: Any) -> None:
    """Raise where a query inside another takes the first rows of no order: chance made theirs."""
    from sqlglot import exp

    for inner in tree.find_all(exp.Query):
        cut = inner.args.get("limit") or inner.args.get("offset")
        if cut is not None and inner.parent is not None and inner.args.get("order") is None:
            raise UsageError(
                "a query inside another is cut off without an order",
                must="ORDER BY beside LIMIT or OFFSET",
                got=cut.sql(dialect="duckdb").strip(),
                do="say which rows are meant: their order in a release is chance",
            )


_STRUCTURE = {
    "Select": (
        "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset",
        "with_", "distinct", "qualify", "windows",
    ),
    "Table": ("this", "alias"),
    "Join": ("this", "side", "kind", "on", "using"),
    "Subquery": ("this", "alias", "with_"),
    "With": ("expressions",),
    "CTE": ("this", "alias"),
}  # fmt: skip
_CHANCE = ("random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "setseed")


def check_as_written(tree: Any, tables: Collection[str]) -> None:
    """Raise where a query, run as written over one fragment, would not mean the whole release.

    Every table is a known one, nothing stands for "all columns", which a fragment has fewer of,
    and nothing is left to chance.
    """
    from sqlglot import exp

    named = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for node in tree.walk():
        kind = type(node).__name__
        if kind in _STRUCTURE:
            for name, value in node.args.items():
                if value and name not in _STRUCTURE[kind]:
                    raise _refused(node)
        if isinstance(node, exp.Table) and (
            not isinstance(node.this, exp.Identifier)
            or node.name.lower() not in {VIEW, *tables, *named}
        ):
            raise UsageError(
                "the query cannot be answered: it names an unknown table",
                got=node.sql(dialect="duckdb"),
                must=f"'{VIEW}' or a table of your own",
            )
        star = isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count)
        if star or isinstance(node, (exp.Columns, exp.Pivot)):
            raise UsageError(
                "'*' has no meaning over fragments: each holds some of the attributes",
                must="the attributes you want, by name",
            )
        by_chance = isinstance(node, (exp.TableSample, exp.Rand, exp.Uuid)) or (
            isinstance(node, exp.Anonymous) and node.name.lower() in _CHANCE
        )
        if by_chance or isinstance(node, (exp.Lateral, exp.Unnest)):
            raise _refused(node)


def _refused(node: Any) -> UsageError:
    text = node.sql(dialect="duckdb")
    return UsageError(
        "this part of the query is not answered over fragments",
        got=text if len(text) <= 80 else text[:77] + "…",
    )
