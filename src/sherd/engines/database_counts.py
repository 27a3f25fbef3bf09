"""Counting records where they are: one GROUP BY for every histogram, and nothing else moves.

A method that needs nothing but counts can leave its table in the database. The database holds
one snapshot while it is asked (a transaction that only reads, of PostgreSQL or DuckDB); Spark has
none, so every answer is checked to count as many records as the first.
"""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from sherd.engines.spark_failures import spark_failures
from sherd.errors import TableError, UsageError
from sherd.tables.conform import check_columns
from sherd.tables.prepare import (
    Treated,
    check_rows,
    missing_treatment,
    outside_treatment,
    too_many_rows,
)
from sherd.tables.sql import open_snapshot
from sherd.tables.sql_cells import MISSING, MOST_DISTINCT, OUTSIDE, Codes, SqlCells, coded_cells
from sherd.tables.sql_scale import DUCKDB, POSTGRESQL, SPARK, Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from sherd.tables.schema import Schema
    from sherd.tables.sql import Address


class AskedHistogram(Protocol):
    """What is asked for: places of attributes, and for each of them the bin of every code."""

    @property
    def attributes(self) -> tuple[int, ...]:
        """Places among the counted attributes."""

    @property
    def bins(self) -> tuple[tuple[int, ...], ...]:
        """The bin of every code, an attribute at a time."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How many bins each attribute has."""


@dataclass(frozen=True, kw_only=True)
class CountedAttribute:
    """An attribute that a method counts, and how it codes the cells of a canonical column."""

    name: str
    codes: Codes


@dataclass(frozen=True, kw_only=True)
class TableInPlace:
    """A table where it is: how to ask about it.

    ``relation`` is what stands behind FROM; ``ask`` answers a query with a table.
    """

    dialect: Dialect
    relation: str
    shown: str
    ask: Callable[[str], pa.Table]


COUNTING = {"duckdb": DUCKDB, "postgresql": POSTGRESQL, "postgres": POSTGRESQL}
"""Databases that can be asked for counts, by the scheme of their addresses."""


@contextlib.contextmanager
def database_source(address: Address) -> Iterator[TableInPlace]:
    """One snapshot of the address's query."""
    dialect = COUNTING.get(address.scheme)
    if dialect is None:
        raise UsageError(
            "this database cannot count records for Sherd",
            must="DuckDB, PostgreSQL or Spark",
            got=address.shown,
            do="choose --engine memory",
        )
    with open_snapshot(address) as ask:
        inner = address.query.strip().rstrip(";")
        yield TableInPlace(dialect=dialect, relation=f"({inner})", shown=address.shown, ask=ask)


@contextlib.contextmanager
def spark_source(frame: Any) -> Iterator[TableInPlace]:
    """A Spark DataFrame under a name of its own."""
    session, name = frame.sparkSession, f"sherd_{secrets.token_hex(8)}"
    frame.createOrReplaceTempView(name)

    def ask(query: str) -> pa.Table:
        with spark_failures():
            return session.sql(query).toArrow()

    try:
        yield TableInPlace(
            dialect=SPARK,
            relation=name,
            shown="the DataFrame",
            ask=ask,
        )
    finally:
        session.catalog.dropTempView(name)


class DatabaseCounts:
    """Exact counts of a table in a database, coded and prepared as the schema says.

    The number of records, what was treated and whether anything is refused is found out once,
    in the order in which preparing a table finds it.
    """

    def __init__(
        self, source: TableInPlace, schema: Schema, attributes: Sequence[CountedAttribute]
    ) -> None:
        self._source, self._schema = source, schema
        kinds = source.ask(f"SELECT * FROM {source.relation} AS t LIMIT 0").schema  # noqa: S608
        check_columns(kinds.names, schema, shown=source.shown)
        self._check_units()
        self._columns = [
            self._cells(one, kinds.field(one.name), f"x{place}")
            for place, one in enumerate(attributes)
        ]
        self._counted: dict[tuple[object, object], NDArray[np.int64]] = {}
        self.rows, self.treated = self._prepared()

    def histogram(self, marginal: AskedHistogram) -> NDArray[np.int64]:
        """The exact number of records of every combination of bins."""
        key = (marginal.attributes, marginal.bins)
        if key not in self._counted:
            self._counted[key] = self._histogram(marginal)
        return self._counted[key]

    def _cells(self, attribute: CountedAttribute, field: pa.Field, alias: str) -> SqlCells:
        told = (field.metadata or {}).get(b"ADBC:postgresql:typname", b"")
        self._check_days(field)
        return coded_cells(
            self._schema[attribute.name],
            self._schema,
            attribute.codes,
            field.type,
            self._source.dialect,
            alias=alias,
            number=told == b"numeric",
            distinct=lambda value: self._source.ask(
                f"SELECT DISTINCT {value} AS v FROM {self._source.relation} AS t "  # noqa: S608
                f"LIMIT {MOST_DISTINCT + 1}"
            ).column(0),
        )

    def _check_days(self, field: pa.Field) -> None:
        """Refuse days and times that the database's driver reads as others."""
        dialect = self._source.dialect
        if dialect.endless and (pa.types.is_date(field.type) or pa.types.is_timestamp(field.type)):
            condition = dialect.endless.format(dialect.name(field.name))
            query = f"SELECT COUNT(*) FROM {self._source.relation} AS t WHERE {condition}"  # noqa: S608
            if self._number(query):
                raise TableError(
                    f"the attribute '{field.name}' has infinite days or times",
                    must="days and times from the year 1 to the year 9999",
                    do="leave those rows out in the query, or make them NULL there",
                )

    def _check_units(self) -> None:
        if self._schema.unit is None:
            return
        unit = self._source.dialect.name(self._schema.unit)
        most = self._number(
            f"SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM {self._source.relation} AS t "  # noqa: S608
            f"GROUP BY {unit}) AS u"
        )
        if most > self._schema.rows_per_unit:
            raise too_many_rows(self._schema)

    def _prepared(self) -> tuple[int, tuple[Treated, ...]]:
        """The number of records that are kept, and what was done to cells."""
        asked = ["COUNT(*)", f"SUM(CASE WHEN {self._kept()} THEN 1 ELSE 0 END)"]
        for one in self._columns:
            asked += [
                f"SUM(CASE WHEN ({one.state()}) = {state} THEN 1 ELSE 0 END)"
                for state in (MISSING, OUTSIDE)
            ]
        names = ", ".join(f"{text} AS n{place}" for place, text in enumerate(asked))
        answer = self._source.ask(f"SELECT {names} FROM {self._inner(self._columns)} AS s")  # noqa: S608
        counts = [int(column[0].as_py() or 0) for column in answer.columns]
        rows, kept = counts[:2]
        check_rows(rows)
        treated = []
        for one, missing, outside in zip(self._columns, counts[2::2], counts[3::2], strict=True):
            for cells, treatment in (
                (missing, missing_treatment),
                (outside, outside_treatment),
            ):
                if cells:
                    how, why = treatment(one.attribute, self._schema)
                    name = one.attribute.name
                    treated.append(Treated(attribute=name, how=how, why=why, cells=cells, of=rows))
        check_rows(rows, left=kept)
        return kept, tuple(treated)

    def _kept(self) -> str:
        """A condition: the row is not dropped."""
        gone = [text for one in self._columns if (text := one.dropped()) is not None]
        return f"NOT ({' OR '.join(gone)})" if gone else "1 = 1"

    def _inner(self, columns: Sequence[SqlCells]) -> str:
        """The columns' values under their short names; each is read once a row."""
        values = ", ".join(f"{one.value} AS {one.alias}" for one in columns) or "1 AS nothing"
        return f"(SELECT {values} FROM {self._source.relation} AS t)"  # noqa: S608

    def _histogram(self, marginal: AskedHistogram) -> NDArray[np.int64]:
        place, parts = "0", []
        for at, bins, size in zip(marginal.attributes, marginal.bins, marginal.shape, strict=True):
            place = f"({place}) * {size} + ({self._columns[at].binned(bins)})"
            parts.append(self._columns[at])
        needed = [one for one in self._columns if one in parts or one.dropped() is not None]
        answer = self._source.ask(
            f"SELECT place, COUNT(*) AS n FROM (SELECT {place} AS place "  # noqa: S608
            f"FROM {self._inner(needed)} AS s WHERE {self._kept()}) AS c GROUP BY place"
        )
        histogram = np.zeros(marginal.shape, np.int64)
        places = [cell.as_py() for cell in answer.column(0)]
        counts = [int(cell.as_py()) for cell in answer.column(1)]
        if any(one is None for one in places) or sum(counts) != self.rows:
            raise TableError(
                "the table changed while it was counted",
                must="the same rows for every query",
                got=self._source.shown,
                do="count a snapshot: a table that nobody writes to, without random numbers",
            )
        histogram.reshape(-1)[np.array(places, np.int64)] = counts
        return histogram

    def _number(self, query: str) -> int:
        return int(self._source.ask(query).column(0)[0].as_py() or 0)
