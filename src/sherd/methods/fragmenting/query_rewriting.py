"""Rewriting a query over several fragments into one over weighted rows.

An association row stands for one tuple; which members of its groups make it up is not
known, each choice having the weight Π 1/|g_i|. So a first SELECT gathers, for every
association row and every value of the GROUP BY keys, the probability that the row belongs
there and the expected sums; a second adds rows up. With p, s, q the sums of w, w·x and
w·x² of one row:

    COUNT(*)   Σp            variance Σ p(1 − p)
    SUM(x)     Σs            variance Σ (q − s²)
    AVG(x)     Σs / Σp = m   variance Σ (q − 2ms + m²p − (s − mp)²) / (Σp)²

Variances take association rows as independent and all pairings within groups as equally
likely. The first mostly overstates them, since no member of a group is taken twice; the
second leaves out what cannot be known from a release: attributes of different fragments that
depend on each other within groups, whose estimates are pulled towards the group's average.

MIN and MAX become bounds: what could be, and what must be by the rows that certainly belong
there. Errors and second bounds are left out where the query joins other tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sherd.errors import UsageError

WEIGHT, ROW = "_weight", "_row"
_LEVEL = "_rows"


@dataclass(frozen=True, kw_only=True)
class Rewritten:
    """The weighted query, and which columns of its answer are errors or bounds."""

    sql: str
    errors: tuple[str, ...]
    bounds: tuple[str, ...]


def rewrite(tree: Any) -> Rewritten:
    """The query over weighted rows that answers ``tree``; raises for what has no meaning."""
    from sqlglot import exp

    tree = tree.copy()
    _refuse(tree)
    keys = _keys(tree)
    inner = _Inner(keys)
    outer = exp.Select()
    errors: list[str] = []
    bounds: list[str] = []
    for item in tree.expressions:
        bare = item.this if isinstance(item, exp.Alias) else item
        plain = isinstance(item, (exp.Alias, exp.Column))
        name = item.alias_or_name if plain else bare.sql(dialect="duckdb").lower()
        outer = outer.select(exp.alias_(inner.outside(bare), name, quoted=True))
        # a join may count a row several times: what a row is worth is then not its weight
        for label, expression in () if tree.args.get("joins") else inner.beside(bare):
            full = f"{name}_{label}"
            (errors if label == "error" else bounds).append(full)
            outer = outer.select(exp.alias_(expression, full, quoted=True))
    outer = outer.from_(_LEVEL)
    if keys:
        outer = outer.group_by(*[exp.column(f"_key{i}") for i in range(len(keys))])
    if (having := tree.args.get("having")) is not None:
        outer = outer.having(inner.outside(having.this))
    for ordered in tree.args["order"].expressions if tree.args.get("order") else ():
        changed = ordered.copy()
        changed.set("this", inner.outside(ordered.this))
        outer = outer.order_by(changed)
    for part in ("limit", "offset"):
        if tree.args.get(part) is not None:
            outer.set(part, tree.args[part].copy())
    source = inner.select(tree)
    return Rewritten(
        sql=outer.with_(_LEVEL, as_=source).sql(dialect="duckdb"),
        errors=tuple(errors),
        bounds=tuple(bounds),
    )


def _refuse(tree: Any) -> None:
    from sqlglot import exp

    if tree.args.get("distinct"):
        raise UsageError(
            "DISTINCT over several fragments has no meaning: which values occur together is "
            "what is hidden",
            do="use GROUP BY with COUNT(*)",
        )
    if tree.find(exp.Window) is not None:
        raise UsageError("window functions over several fragments have no meaning")
    for node in tree.find_all(exp.AggFunc):
        if not isinstance(node, (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)):
            raise UsageError(
                f"{node.sql_name()} over several fragments is not supported",
                must="COUNT, SUM, AVG, MIN or MAX",
            )
        if isinstance(node.this, exp.Distinct):
            raise UsageError(
                "counting distinct values over several fragments has no meaning",
                do="ask one fragment, which is exact",
            )
    if not any(item.find(exp.AggFunc) for item in tree.expressions):
        raise UsageError(
            "single rows over several fragments are not known: which tuples belong together is "
            "what is hidden",
            do="ask for COUNT, SUM or AVG, or for attributes of one fragment",
        )


def _keys(tree: Any) -> list[Any]:
    """The GROUP BY keys as expressions, with positions and aliases looked up."""
    from sqlglot import exp

    group = tree.args.get("group")
    if group is None:
        return []
    aliases = {a.alias.lower(): a.this for a in tree.expressions if isinstance(a, exp.Alias)}
    keys = []
    for key in group.expressions:
        if isinstance(key, exp.Literal) and key.is_int:
            at = int(key.name)
            if not 1 <= at <= len(tree.expressions):
                raise UsageError("GROUP BY names a column that is not selected", got=key.name)
            keys.append(tree.expressions[at - 1].unalias())
        elif isinstance(key, exp.Column) and not key.table:
            keys.append(aliases.get(key.name.lower(), key))
        else:
            keys.append(key)
    if not keys:
        raise UsageError("this kind of GROUP BY is not supported", must="a list of keys")
    return keys


class _Inner:
    """The first SELECT, built up while the second is: one set of sums for each argument."""

    def __init__(self, keys: list[Any]) -> None:
        self.keys = keys
        self.arguments: list[Any] = []

    def outside(self, node: Any) -> Any:
        """A part of the query as it reads over the sums."""
        from sqlglot import exp

        node = node.copy()
        for at, key in enumerate(self.keys):
            if node == key:
                return exp.column(f"_key{at}")
        if isinstance(node, exp.AggFunc):
            return self._sums(node)
        for name, value in list(node.args.items()):
            if isinstance(value, exp.Expression):
                node.set(name, self.outside(value))
            elif isinstance(value, list):
                node.set(
                    name, [self.outside(v) if isinstance(v, exp.Expression) else v for v in value]
                )
        return node

    def beside(self, node: Any) -> list[tuple[str, Any]]:
        """The columns that go with a plain aggregate: its error, or its other bound."""
        from sqlglot import exp, parse_one

        def made(text: str) -> Any:
            return parse_one(text, read="duckdb")

        if isinstance(node, exp.Count):
            p = f"_p{self._argument(node)}"
            return [("error", made(f"SQRT(SUM(GREATEST(0, {p} * (1 - {p}))))"))]
        if isinstance(node, exp.Sum):
            at = self._argument(node)
            return [("error", made(f"SQRT(SUM(GREATEST(0, _q{at} - _s{at} * _s{at})))"))]
        if isinstance(node, exp.Avg):
            at = self._argument(node)
            p, s, q = f"_p{at}", f"_s{at}", f"_q{at}"
            mean = f"(SUM({s}) / NULLIF(SUM({p}), 0))"
            spread = (
                f"SUM({q} - {s} * {s}) - 2 * {mean} * SUM({s} - {s} * {p})"
                f" + {mean} * {mean} * SUM({p} - {p} * {p})"
            )
            return [("error", made(f"SQRT(GREATEST(0, {spread})) / NULLIF(SUM({p}), 0)"))]
        if isinstance(node, exp.Min):
            at = self._argument(node)
            return [("at_most", made(f"MIN(CASE WHEN _all > 0.999999 THEN _high{at} END)"))]
        if isinstance(node, exp.Max):
            at = self._argument(node)
            return [("at_least", made(f"MAX(CASE WHEN _all > 0.999999 THEN _low{at} END)"))]
        return []

    def _argument(self, node: Any) -> int:
        from sqlglot import exp

        argument = node.this if not isinstance(node.this, exp.Star) else exp.Literal.number(1)
        if argument is None:
            argument = exp.Literal.number(1)
        if argument not in self.arguments:
            self.arguments.append(argument)
        return self.arguments.index(argument)

    def _sums(self, node: Any) -> Any:
        from sqlglot import exp, parse_one

        at = self._argument(node)
        text = {
            exp.Count: f"COALESCE(SUM(_p{at}), 0)",
            exp.Sum: f"(CASE WHEN SUM(_p{at}) > 0 THEN SUM(_s{at}) END)",
            exp.Avg: f"(SUM(_s{at}) / NULLIF(SUM(_p{at}), 0))",
            exp.Min: f"MIN(_low{at})",
            exp.Max: f"MAX(_high{at})",
        }[type(node)]
        return parse_one(text, read="duckdb")

    def select(self, tree: Any) -> Any:
        """The first SELECT: one row for every association row and set of keys."""
        from sqlglot import exp, parse_one

        source = exp.Select()
        for at, key in enumerate(self.keys):
            source = source.select(exp.alias_(key.copy(), f"_key{at}"))
        source = source.select(parse_one(f"SUM({WEIGHT}) AS _all"))
        for at, argument in enumerate(self.arguments):
            x = f"({argument.sql(dialect='duckdb')})"
            source = source.select(
                parse_one(f"SUM(CASE WHEN {x} IS NOT NULL THEN {WEIGHT} ELSE 0 END) AS _p{at}",
                          read="duckdb"),
            )  # fmt: skip
            if self._is_summed(tree, argument):
                for letter, term in (("s", f"{WEIGHT} * {x}"), ("q", f"{WEIGHT} * {x} * {x}")):
                    source = source.select(
                        parse_one(f"COALESCE(SUM({term}), 0) AS _{letter}{at}", read="duckdb")
                    )
            for word, function in (("low", "MIN"), ("high", "MAX")):
                source = source.select(parse_one(f"{function}({x}) AS _{word}{at}", read="duckdb"))
        for part in ("from_", "from", "joins", "where"):
            if tree.args.get(part):
                value = tree.args[part]
                source.set(
                    part, [v.copy() for v in value] if isinstance(value, list) else value.copy()
                )
        keys = [exp.column(f"_key{i}") for i in range(len(self.keys))]
        return source.group_by(exp.column(ROW), *keys)

    def _is_summed(self, tree: Any, argument: Any) -> bool:
        from sqlglot import exp

        return any(node.this == argument for node in tree.find_all(exp.Sum, exp.Avg))
