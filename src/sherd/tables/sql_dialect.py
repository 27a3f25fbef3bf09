r"""How three databases write names, values and types: DuckDB, PostgreSQL and Spark SQL.

A value that is written into a query may come from a cell: it is always quoted as data.

>>> print(DUCKDB.literal("it's"), SPARK.literal("it's"))
'it''s' 'it\'s'
>>> POSTGRESQL.literal(0.5), DUCKDB.name('a"b'), SPARK.name("a`b")
("CAST('0.5' AS DOUBLE PRECISION)", '"a""b"', '`a``b`')
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sherd.errors import TableError


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What differs between databases, as far as counting needs it.

    ``zoned`` and ``unzoned`` are the words before a literal of a time with and without a zone.
    """

    title: str
    double: str
    zoned: str
    unzoned: str
    quote: str = '"'
    escapes: bool = False

    def name(self, text: str) -> str:
        """A column's name, quoted."""
        return self.quote + text.replace(self.quote, 2 * self.quote) + self.quote

    def literal(self, value: Any) -> str:
        """A value, quoted as data."""
        if isinstance(value, str):
            if self.escapes:  # a backslash means something there
                return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
            return "'" + value.replace("'", "''") + "'"
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int):
            return str(value) if value >= 0 else f"({value})"
        if isinstance(value, float):
            return f"CAST('{_float(value)}' AS {self.double})"
        if isinstance(value, Decimal):
            digits = len(value.as_tuple().digits)
            scale = max(0, -int(value.as_tuple().exponent))
            return f"CAST('{value:f}' AS DECIMAL({max(digits, scale)}, {scale}))"
        if isinstance(value, datetime):
            plain = value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
            if value.tzinfo is None:
                return f"{self.unzoned} '{plain}'"
            return f"{self.zoned} '{plain}+00:00'"
        if isinstance(value, date):
            return f"DATE '{value.isoformat()}'"
        raise TableError(
            "a column holds values that cannot be counted where they are",
            must="numbers, dates, true or false, or text",
            got=f"the type {type(value).__name__}",
            do="choose --engine memory",
        )


def _float(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


DUCKDB = Dialect(title="DuckDB", double="DOUBLE", zoned="TIMESTAMPTZ", unzoned="TIMESTAMP")
POSTGRESQL = Dialect(
    title="PostgreSQL", double="DOUBLE PRECISION", zoned="TIMESTAMPTZ", unzoned="TIMESTAMP"
)
SPARK = Dialect(
    title="Spark", double="DOUBLE", zoned="TIMESTAMP", unzoned="TIMESTAMP_NTZ", quote="`",
    escapes=True,
)  # fmt: skip
