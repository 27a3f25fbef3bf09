"""Reading a query: which attributes of the view ``release`` it asks about.

>>> attributes_of("SELECT educ, AVG(pay) FROM release WHERE age > 30 GROUP BY educ")
('educ', 'pay', 'age')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sherd.errors import UsageError, did_you_mean

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
            "the query is not one SELECT", must="SELECT … FROM release …", do="send one at a time"
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
    found = [column.name for column in tree.find_all(exp.Column, bfs=False)]
    return tuple(name for name in dict.fromkeys(found) if name not in named)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A query, what it calls the view, and the attributes of it that it names."""

    tree: Any
    called: str
    attributes: tuple[str, ...]
    everything: bool


def read_query(
    sql: str, fragments: tuple[tuple[str, ...], ...], withheld: tuple[str, ...]
) -> Reading:
    """What a query asks of the released attributes; raises for what has no meaning."""
    from sqlglot import exp

    tree = parse(sql)
    sources = [
        table
        for table in tree.find_all(exp.Table)
        if table.name.lower() == VIEW and not table.args.get("db")
    ]
    if not sources:
        raise UsageError(f"the query does not ask the view '{VIEW}'", must=f"FROM {VIEW}")
    if len(sources) > 1:
        raise UsageError(
            f"the query names the view '{VIEW}' more than once",
            must="one SELECT over it; joins to your own tables are fine",
        )
    if sources[0].find_ancestor(exp.Select) is not tree:
        raise UsageError(f"the query asks the view '{VIEW}' in a subquery", must="the outer FROM")
    called = sources[0].alias_or_name
    found = _named(tree, sources[0], fragments, {name.lower() for name in withheld})
    stars = [star for star in tree.find_all(exp.Star) if not star.find_ancestor(exp.Count)]
    return Reading(tree=tree, called=called, attributes=found, everything=bool(stars))


def _named(
    tree: Any, view: Any, fragments: tuple[tuple[str, ...], ...], withheld: set[str]
) -> tuple[str, ...]:
    """The released attributes a query names, in their own spelling."""
    from sqlglot import exp

    known = {name.lower(): name for fragment in fragments for name in fragment}
    aliases = {a.alias.lower() for a in tree.expressions if isinstance(a, exp.Alias)}
    others = {t.alias_or_name.lower() for t in tree.find_all(exp.Table) if t is not view}
    found: dict[str, None] = {}
    for column in tree.find_all(exp.Column, bfs=False):
        if column.table and column.table.lower() != view.alias_or_name.lower():
            if column.table.lower() not in others:
                raise UsageError("the query names a table it does not use", got=column.table)
            continue
        name = column.name.lower()
        if name in withheld:
            raise UsageError(f"the attribute '{column.name}' is withheld from the release")
        if name in known:
            found[known[name]] = None
        elif column.table or (not others and name not in aliases and column.name != "*"):
            raise UsageError(
                f"the release has no attribute '{column.name}'",
                must="one of " + ", ".join(known.values()),
                do=did_you_mean(column.name, known.values()) or None,
            )
    for join in tree.args.get("joins") or ():
        for shared in join.args.get("using") or ():
            if shared.name.lower() in known:
                found[known[shared.name.lower()]] = None
    return tuple(found)
