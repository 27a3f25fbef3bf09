"""Queries over a released fragmentation: ordinary SQL against one view called ``release``.

A query that needs one fragment is run on it as it was written and is exact over the released
tuples. Any other is rewritten (see ``query_rewriting``) over the join of fragments and
association, in which every combination of tuples has its probability as a weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sherd.errors import MissingPartError, UsageError
from sherd.methods.fragmenting.query_aggregates import MEMBER, ROW, WEIGHT
from sherd.methods.fragmenting.query_names import by_lower, quoted
from sherd.methods.fragmenting.query_parsing import (
    VIEW,
    attributes_named,
    check_as_written,
    check_cut_off,
    parse,
)
from sherd.methods.fragmenting.query_rewriting import rewrite
from sherd.methods.fragmenting.query_row_order import check_row_order, may_hang_on_row_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from sherd.release.private_files import CellKey

_EXACT = 2**40
"""The largest common denominator of weights that are summed up as whole numbers."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A query's result and what it is worth.

    ``exact`` says that the answer is the true one over the released tuples; ``missing`` how
    many tuples were left out of the release, unless it ``follows`` an earlier one, which does
    not say; ``opened`` that the owner's key put the tuples together; ``errors`` and ``bounds``
    name the columns that hold standard errors, and the least and greatest values that the
    release allows.
    """

    table: pa.Table
    exact: bool
    fragments: tuple[int, ...]
    missing: int
    follows: bool = False
    opened: bool = False
    errors: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()

    def words(self) -> str:
        """What the answer is worth, in a sentence or two."""
        several = ", ".join(map(str, self.fragments))
        if self.opened:
            text = "Exact over the released tuples, which your key put together again."
        elif self.exact and len(self.fragments) == 1:
            text = f"Exact over the released tuples: fragment {several} has all of it."
        elif self.exact:
            text = f"Exact over the released tuples: each part needs one of fragments {several}."
        else:
            text = f"Estimated over fragments {several}: expected values, if all pairings within "
            text += "groups are equally likely."
            if self.errors:
                text += (
                    " Columns called …_error are standard errors on that assumption. A dependence "
                    "that shows only within groups is averaged out; no error column knows of it."
                )
            if self.bounds:
                text += (
                    " Whatever the pairings, each number lies between …_least and …_most; these "
                    "are outer bounds, and MIN and MAX are the least and greatest that could be."
                )
            else:
                text += " No bounds are known for a query of this form."
        if self.missing:
            text += f" {self.missing} tuples were left out of the release and are not counted."
        if self.follows:
            text += (
                " The release follows an earlier one: tuples that were held back or withdrawn "
                "are not counted, and it does not say how many."
            )
        return text

    def as_data(self) -> dict[str, object]:
        """The answer as plain data."""
        return {
            "rows": self.table.to_pylist(),
            "exact": self.exact,
            "fragments": list(self.fragments),
            "missing": self.missing,
            "errors": list(self.errors),
            "bounds": list(self.bounds),
            "words": self.words(),
        }


def answer(
    tables: Mapping[str, pa.Table],
    manifest: Mapping[str, Any],
    sql: str,
    *,
    own: Mapping[str, Any] | None = None,
    key: CellKey | None = None,
) -> Answer:
    """Answer a query over a release; ``own`` are the analyst's tables, by name.

    With the owner's ``key`` of the ciphertext, all of it is answered exactly.
    """
    from sherd.tables.frames import to_arrow

    facts = manifest.get("facts", {})
    try:
        import duckdb
    except ImportError:
        raise MissingPartError(
            "queries need DuckDB and sqlglot", do="pip install 'sherd[fragments]'"
        ) from None
    release = _fragmented(tables, manifest, key)
    mine = {name: to_arrow(table) for name, table in (own or {}).items()}
    if any(name.lower() == VIEW for name in mine):
        raise UsageError(f"a table of yours is called '{VIEW}'", do="give it another name")
    tree = parse(sql)
    _check_asked(tree, sql)
    with duckdb.connect() as connection:
        # a query reads what is handed to it: no files, no network, no variables of ours
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET enable_external_access = false")
        for name, table in mine.items():
            connection.register(name, table)
        worth: dict[str, Any] = {
            "missing": int(facts.get("suppressed", 0)),
            "follows": "after" in facts,
            "opened": key is not None,
        }
        result, how = _answered(connection, release, tree, sql, mine)
        if may_hang_on_row_order(tree):
            check_row_order(
                tree,
                sql,
                release.tables,
                lambda other, text, tables: _answered(
                    connection, replace(release, tables=tables), other, text, mine
                )[0],
            )
    return Answer(table=result, **how, **worth)


def _answered(
    connection: Any, release: Fragmented, tree: Any, sql: str, own: Mapping[str, pa.Table]
) -> tuple[pa.Table, dict[str, Any]]:
    """The rows of an answer, and how they came about."""
    needed = release.needed(sorted(attributes_named(tree, by_lower(release.attributes))))
    if len(needed) == 1:
        check_as_written(tree, {name.lower() for name in own})
        release.check_names(tree, own)
        connection.register(VIEW, release.tables[f"fragment-{needed[0]}"])
        return _run(connection, sql), {"exact": True, "fragments": needed}
    relation = rewrite(tree, release, {name: table.column_names for name, table in own.items()})
    for name, table in release.registered.items():
        connection.register(name, table)
    result = _run(connection, relation.sql)
    names = [name.lower() for name in result.column_names]
    twice = [n for n in (*relation.errors, *relation.bounds) if names.count(n.lower()) > 1]
    if twice:
        raise UsageError(
            "two columns of the answer have one name, and one of them says how sure another is",
            got=twice[0],
            do="give each number an alias of its own that ends in none of _error, _least and _most",
        )
    return result, {
        "exact": not relation.estimated,
        "fragments": tuple(sorted(relation.fragments)),
        "errors": relation.errors,
        "bounds": relation.bounds,
    }


def _fragmented(
    tables: Mapping[str, pa.Table], manifest: Mapping[str, Any], key: CellKey | None
) -> Fragmented:
    """A release as queries read it, put together where there is a key."""
    facts = manifest.get("facts", {})
    if "fragments" not in facts:
        raise UsageError(
            "this release is not made of fragments", do="open its data file with any SQL tool"
        )
    release = Fragmented(
        tables=tables,
        fragments=tuple(tuple(f) for f in facts["fragments"]),
        withheld=tuple(facts.get("withheld", ())),
    )
    return release if key is None else release.put_together(manifest, key)


def _check_asked(tree: Any, sql: str) -> None:
    """Raise unless the view is asked, in what DuckDB too reads as one SELECT."""
    import duckdb
    from sqlglot import exp

    check_cut_off(tree)
    if not any(table.name.lower() == VIEW for table in tree.find_all(exp.Table)):
        raise UsageError(f"the query does not ask the view '{VIEW}'", must=f"FROM {VIEW}")
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        first = str(error).splitlines()[0]
        raise UsageError("the query cannot be read", must="SQL", got=first) from None
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise UsageError(
            "the query is not a single SELECT",
            must="SELECT … FROM release …",
            do="send one at a time",
        )


@dataclass(frozen=True, kw_only=True)
class Fragmented:
    """A release as queries read it: its fragments, and the tables that the views are made of."""

    tables: Mapping[str, pa.Table]
    fragments: tuple[tuple[str, ...], ...]
    withheld: tuple[str, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        """Every released attribute."""
        return tuple(name for fragment in self.fragments for name in fragment)

    @cached_property
    def registered(self) -> dict[str, pa.Table]:
        """The tables of the views, filled as views are asked for."""
        return {}

    def put_together(self, manifest: Mapping[str, Any], key: CellKey) -> Fragmented:
        """The same with all attributes in one fragment, which the key opens."""
        from sherd.methods.fragmenting.sealed_cells import put_together
        from sherd.tables.schema import Schema

        schema = Schema.from_data(manifest["schema"])
        whole = put_together(self.tables, manifest["facts"], schema, key)
        return Fragmented(
            tables={"fragment-1": whole}, fragments=(tuple(whole.column_names),), withheld=()
        )

    def needed(self, names: Sequence[str]) -> tuple[int, ...]:
        """The fragments, from 1, that hold some attributes; the first where there are none."""
        held = [at for at, f in enumerate(self.fragments, 1) if set(f).intersection(names)]
        return tuple(held) or (1,)

    def check_names(self, tree: Any, own: Mapping[str, pa.Table]) -> None:
        """Raise where a name is no attribute, no column of another table and no alias."""
        from sqlglot import exp

        from sherd.methods.fragmenting.query_names import Scope, Source

        known = {name.lower() for name in self.attributes}
        known |= {c.lower() for table in own.values() for c in table.column_names}
        for node in tree.find_all(exp.Alias, exp.TableAlias, exp.CTE):
            known.add(node.alias.lower() if not isinstance(node, exp.TableAlias) else node.name)
            known |= {c.name.lower() for c in node.args.get("columns") or ()}
        tables = {t.alias_or_name.lower() for t in tree.find_all(exp.Table, exp.Subquery)}
        scope = Scope([Source(alias=VIEW, columns=by_lower(self.attributes))], self.withheld)
        for column in tree.find_all(exp.Column):
            if column.table and column.table.lower() not in tables:
                raise UsageError("the query names a table it does not use", got=column.table)
            if column.name.lower() not in known:
                raise scope.unknown(column.name)

    def whole(self, fragments: tuple[int, ...]) -> int:
        """What the combinations of one tuple weigh together: the common denominator."""
        product = math.prod(self._denominator(f) for f in fragments)
        return product if product <= _EXACT else 1

    def _denominator(self, f: int) -> int:
        import numpy as np

        groups = self.tables[f"fragment-{f}"].column(f"group_{f}").to_numpy()
        sizes = np.unique(np.unique(groups, return_counts=True)[1])
        return math.lcm(*(int(size) for size in sizes)) if len(sizes) else 1

    def view(self, fragments: tuple[int, ...], names: Sequence[str]) -> str:
        """SQL for one fragment, or for the combinations of several with their weights."""
        if len(fragments) == 1:
            wanted = [quoted(name) for name in names] or ["1 AS __one"]
            self.registered[f"__fragment_{fragments[0]}"] = self._part(fragments[0], 1)
            return f"SELECT {', '.join(wanted)} FROM __fragment_{fragments[0]}"  # noqa: S608
        exact = self.whole(fragments) > 1 or all(self._denominator(f) == 1 for f in fragments)
        self.registered["__association"] = self._association(fragments)
        selected, joins = [], []
        for f in fragments:
            self.registered[f"__fragment_{f}"] = self._part(f, self._denominator(f) if exact else 1)
            selected += [f"f{f}.{quoted(n)}" for n in self.fragments[f - 1] if n in names]
            selected.append(f"f{f}.{MEMBER}{f}")
            joins.append(f"JOIN __fragment_{f} AS f{f} USING (group_{f})")
        weight = " * ".join(f"f{f}.__share" for f in fragments)
        return (
            f"SELECT {', '.join(selected)}, {weight} AS {WEIGHT}, a.{ROW} "  # noqa: S608
            f"FROM __association AS a {' '.join(joins)}"
        )

    def _part(self, f: int, denominator: int) -> pa.Table:
        """A fragment with the number of every tuple and its share of its group."""
        import numpy as np
        import pyarrow as pa

        part = self.tables[f"fragment-{f}"]
        groups = part.column(f"group_{f}").to_numpy()
        _, place, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        part = part.append_column(f"{MEMBER}{f}", pa.array(np.arange(len(groups))))
        return part.append_column("__share", pa.array(denominator / sizes[place].astype(float)))

    def _association(self, fragments: tuple[int, ...]) -> pa.Table:
        import numpy as np
        import pyarrow as pa

        columns = [f"group_{f}" for f in fragments]
        for name, table in self.tables.items():
            if name.startswith("association") and set(columns) <= set(table.column_names):
                return table.select(columns).append_column(ROW, pa.array(np.arange(len(table))))
        raise UsageError(
            "the release does not associate the fragments this query needs",
            got="fragments " + ", ".join(map(str, fragments)),
        )


def _run(connection: Any, sql: str) -> pa.Table:
    import duckdb

    try:
        table: pa.Table = connection.sql(sql).to_arrow_table()
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        first = str(error).splitlines()[0]  # about the query's words; no row was read
        raise UsageError("the query cannot be answered", got=first) from None
    except duckdb.Error as error:
        raise UsageError(
            "the query cannot be answered",
            got=f"DuckDB's {type(error).__name__}, whose text could quote a cell",
            do="look for a conversion or a computation that some rows do not allow",
        ) from None
    return table
