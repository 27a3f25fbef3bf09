"""Queries over a released fragmentation: ordinary SQL against one view called ``release``.

A query that needs one fragment is run on it as it stands and is exact over the released
tuples. One that needs several is rewritten (see ``rewriting``) over the join of fragments
and association, in which every combination of tuples has its probability as a weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import MissingPartError, UsageError
from sherd.methods.fragmenting.query_parsing import VIEW, Reading, read_query
from sherd.methods.fragmenting.query_rewriting import ROW, WEIGHT, rewrite

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A query's result and what it is worth.

    ``exact`` says that the answer is the true one over the released tuples; ``missing`` how
    many tuples were left out of the release, unless it ``follows`` an earlier one, which does
    not say; ``errors`` and ``bounds`` name the columns that
    hold standard errors and the other ends of bounds.
    """

    table: pa.Table
    exact: bool
    fragments: tuple[int, ...]
    missing: int
    follows: bool = False
    errors: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()

    def words(self) -> str:
        """What the answer is worth, in a sentence or two."""
        if self.exact:
            text = f"Exact over the released tuples: fragment {self.fragments[0]} has all of it."
        else:
            several = ", ".join(map(str, self.fragments))
            text = (
                f"Estimated over fragments {several}: counts, sums and averages are expected values"
            )
            text += (
                "; columns called …_error are their standard errors if all pairings within "
                "groups are equally likely. A dependence that shows only within groups is "
                "averaged out, and no error column knows of it."
                if self.errors
                else "."
            )
            if self.bounds:
                text += (
                    " MIN and MAX are the least and greatest that could be; …_at_most and "
                    "…_at_least bound them from the other side."
                )
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
) -> Answer:
    """Answer a query over a release; ``own`` are the analyst's tables, by name."""
    facts = manifest.get("facts", {})
    if "fragments" not in facts:
        raise UsageError(
            "this release is not made of fragments", do="open its data file with any SQL tool"
        )
    try:
        import duckdb
    except ImportError:
        raise MissingPartError(
            "queries need DuckDB and sqlglot", do="pip install 'sherd[fragments]'"
        ) from None
    fragments = tuple(tuple(f) for f in facts["fragments"])
    reading = read_query(sql, fragments, tuple(facts.get("withheld", ())))
    needed = _needed(reading, fragments)
    missing = int(facts.get("suppressed", 0))
    follows = "after" in facts
    with duckdb.connect() as connection:
        # a query reads what is handed to it: no files, no network, no variables of ours
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET enable_external_access = false")
        for name, table in (own or {}).items():
            if name.lower() == VIEW:
                raise UsageError(f"a table of yours is called '{VIEW}'", do="give it another name")
            connection.register(name, table)
        if len(needed) == 1:
            connection.register(VIEW, tables[f"fragment-{needed[0]}"])
            found = _run(connection, reading.tree.sql(dialect="duckdb"))
            return Answer(
                table=found, exact=True, fragments=needed, missing=missing, follows=follows
            )
        rewritten = rewrite(reading.tree)
        _join(connection, tables, fragments, needed, reading.attributes)
        found = _run(connection, rewritten.sql)
    return Answer(
        table=found,
        exact=False,
        fragments=needed,
        missing=missing,
        follows=follows,
        errors=rewritten.errors,
        bounds=rewritten.bounds,
    )


def _needed(reading: Reading, fragments: tuple[tuple[str, ...], ...]) -> tuple[int, ...]:
    """The fragments, from 1, that hold what a query asks about."""
    if reading.everything:
        raise UsageError(
            "'*' over several fragments has no meaning", must="the attributes you want, by name"
        )
    held = [at for at, f in enumerate(fragments, 1) if set(f).intersection(reading.attributes)]
    return tuple(held) or (1,)


def _run(connection: Any, sql: str) -> pa.Table:
    import duckdb

    try:
        found: pa.Table = connection.sql(sql).to_arrow_table()
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        first = str(error).splitlines()[0]  # about the query's words; no row was read
        raise UsageError("the query cannot be answered", got=first) from None
    except duckdb.Error as error:
        raise UsageError(
            "the query cannot be answered",
            got=f"DuckDB's {type(error).__name__}, whose text could quote a cell",
            do="look for a conversion or a computation that some rows do not allow",
        ) from None
    return found


def _join(
    connection: Any,
    tables: Mapping[str, pa.Table],
    fragments: tuple[tuple[str, ...], ...],
    needed: tuple[int, ...],
    attributes: tuple[str, ...],
) -> None:
    """Make the view: every combination of associated tuples, with its weight."""
    columns = [f"group_{f}" for f in needed]
    association = next(
        (
            table
            for name, table in tables.items()
            if name.startswith("association") and set(columns) <= set(table.column_names)
        ),
        None,
    )
    if association is None:
        raise UsageError(
            "the release does not associate the fragments this query needs",
            got="fragments " + ", ".join(map(str, needed)),
        )
    connection.register("_association", association.select(columns))
    parts, selected, weights = [], [], []
    for f in needed:
        connection.register(f"_fragment_{f}", tables[f"fragment-{f}"])
        wanted = [_quoted(name) for name in fragments[f - 1] if name in attributes]
        selected += [f"f{f}.{name}" for name in wanted]
        weights.append(f"f{f}._share")
        inside = ", ".join([f"group_{f}", *wanted])
        parts.append(
            f"JOIN (SELECT {inside}, 1.0::DOUBLE / COUNT(*) OVER (PARTITION BY group_{f}) "  # noqa: S608
            f"AS _share FROM _fragment_{f}) f{f} USING (group_{f})"
        )
    connection.execute(
        f"CREATE TEMP VIEW {VIEW} AS SELECT {', '.join(selected)}, "  # noqa: S608 - our own names
        f"{' * '.join(weights)} AS {WEIGHT}, a.{ROW} FROM "
        f"(SELECT *, ROW_NUMBER() OVER () AS {ROW} FROM _association) a {' '.join(parts)}"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
