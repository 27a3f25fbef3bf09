r"""Columns' values for databases: on a line that can be searched, and as SQL of three dialects.

All values of a column's type lie on a line (``ColumnScale``), on which the least one with a
property can be found.

>>> from sherd.tables.coding import numpy_array
>>> numbers = _floats(DUCKDB)
>>> least_keys(numbers, lambda keys, at: numpy_array(numbers.column(keys)) > at, np.array([1.0]))
[4607182418800017409]
>>> numbers.literal(4607182418800017409)
"CAST('1.0000000000000002' AS DOUBLE)"

A ``Dialect`` is how DuckDB, PostgreSQL or Spark SQL writes names, values and types. A value that
is written into a query may come from a cell: it is always quoted as data.

>>> print(DUCKDB.literal("it's"), SPARK.literal("it's"))
'it''s' 'it\'s'
>>> POSTGRESQL.literal(0.5), DUCKDB.name('a"b'), SPARK.name("a`b")
("CAST('0.5' AS DOUBLE PRECISION)", '"a""b"', '`a``b`')
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.errors import TableError
from sherd.tables.attribute import Attribute, Type
from sherd.tables.coding import arrow_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


_LARGEST = float(np.finfo(np.float64).max)
_FIRST_DAY, _LAST_DAY = date(1, 1, 1), date(9999, 12, 31)
_EPOCH = date(1970, 1, 1)


class UncountableError(TableError):
    """A column cannot be counted where it is; in memory it can be read."""


@dataclass(frozen=True, kw_only=True)
class ColumnScale:
    """All values of a column's type as keys: whole numbers in the same order.

    ``column`` turns keys into a column of that type, ``literal`` one key into SQL; ``cast`` is
    how the column is read in SQL, ``finite`` a condition that its values must meet.
    """

    low: int
    high: int
    column: Callable[[NDArray[np.int64]], pa.Array]
    literal: Callable[[int], str]
    cast: str = "{}"
    finite: str = ""

    def keys(self, numbers: Sequence[int]) -> NDArray[Any]:
        """Numbers as keys; those of long decimals fit into no word."""
        return np.array(numbers, np.int64 if self.high < 1 << 63 else object)

    @classmethod
    def of(
        cls, kind: pa.DataType, attribute: Attribute, dialect: Dialect, *, number: bool
    ) -> ColumnScale | None:
        """The scale of a column, None where its values must be listed."""
        test, wanted = pa.types, attribute.type
        if number and wanted is Type.INTEGER:
            # Read, they are texts: those with a fraction are refused, and all digits count.
            raise UncountableError(
                f"the whole numbers of '{attribute.name}' cannot be counted where they are",
                must="a column of integers, of numbers with double precision, or of a fixed scale",
                got="numbers of any length and scale",
                do="cast the column in the query, or choose --engine memory",
            )
        if wanted in (Type.NUMBER, Type.INTEGER):
            if test.is_floating(kind) or number:
                return _floats(dialect)
            if test.is_integer(kind) and not test.is_uint64(kind):
                return _integers(dialect)
            if test.is_decimal(kind):
                return _decimals(kind, dialect)
        if wanted is Type.DATE and test.is_date(kind):
            return _days(dialect)
        if wanted is Type.DATETIME and test.is_timestamp(kind) and kind.unit == "us":
            return _times(kind, dialect)
        return None


def _floats(dialect: Dialect) -> ColumnScale:
    top = int(np.float64(_LARGEST).view(np.int64))

    def numbers(keys: NDArray[np.int64]) -> NDArray[np.float64]:
        # The bits of a float rise with it above zero, and with its negative below.
        bits = np.where(keys >= 0, keys, np.iinfo(np.int64).min - keys)
        return bits.view(np.float64)

    def literal(key: int) -> str:
        return dialect.literal(float(numbers(np.array([key], np.int64))[0]))

    ends = f"{literal(-top)} AND {literal(top)}"
    return ColumnScale(
        low=-top,
        high=top,
        column=lambda keys: arrow_array(numbers(keys)),
        literal=literal,
        cast=f"CAST({{}} AS {dialect.double})",
        finite=f"BETWEEN {ends}",
    )


def _integers(dialect: Dialect) -> ColumnScale:
    most = 2**63 - 1
    return ColumnScale(
        low=-most,
        high=most,
        column=arrow_array,
        literal=dialect.literal,
        cast="CAST({} AS BIGINT)",
    )


def _decimals(kind: pa.DataType, dialect: Dialect) -> ColumnScale:
    most = 10**kind.precision - 1
    enough = Context(prec=kind.precision + 1)

    def exact(key: int) -> Decimal:
        return Decimal(int(key)).scaleb(-kind.scale, enough)

    return ColumnScale(
        low=-most,
        high=most,
        column=lambda keys: pa.array([exact(key) for key in keys.tolist()], kind),
        literal=lambda key: dialect.literal(exact(key)),
    )


def _days(dialect: Dialect) -> ColumnScale:
    return ColumnScale(
        low=(_FIRST_DAY - _EPOCH).days,
        high=(_LAST_DAY - _EPOCH).days,
        column=lambda keys: arrow_array(keys.astype(np.int32)).view(pa.date32()),
        literal=lambda key: dialect.literal(_EPOCH + timedelta(days=key)),
    )


def _times(kind: pa.DataType, dialect: Dialect) -> ColumnScale:
    start = datetime(1970, 1, 1, tzinfo=UTC if kind.tz is not None else None)
    day = 86_400 * 10**6
    return ColumnScale(
        low=(_FIRST_DAY - _EPOCH).days * day,
        high=(_LAST_DAY - _EPOCH).days * day,
        column=lambda keys: arrow_array(keys).view(kind),
        literal=lambda key: dialect.literal(start + timedelta(microseconds=key)),
    )


def least_keys(
    scale: ColumnScale,
    meets: Callable[[NDArray[np.int64], NDArray[Any]], NDArray[np.bool_]],
    wanted: NDArray[Any],
) -> list[int | None]:
    """For each thing wanted the least key that meets it and every greater key does; None: none."""
    if not len(wanted):
        return []
    low, high = (scale.keys([end] * len(wanted)) for end in (scale.low, scale.high))
    never = ~meets(high, wanted)
    while (low < high).any():
        middle = (low >> 1) + (high >> 1) + (low & high & 1)  # no sum overflows
        yes = meets(middle, wanted)
        high = np.where(yes, middle, high)
        low = np.where(yes, low, np.minimum(middle + 1, high))
    return [None if gone else int(key) for gone, key in zip(never, low, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What differs between databases, as far as counting needs it.

    ``zoned`` and ``unzoned`` are the words before a literal of a time with and without a zone.
    ``hexadecimal`` writes the bytes of a text (of {}) as digits: texts are compared by these, as
    a column's own collation may call different texts equal. ``endless`` is a condition on a day
    or time {} that the driver cannot read: an infinity wraps around to the other end.
    """

    title: str
    double: str
    zoned: str
    unzoned: str
    hexadecimal: str
    endless: str = ""
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
            "a column holds values that cannot be counted inside the database",
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


DUCKDB = Dialect(
    title="DuckDB",
    double="DOUBLE",
    zoned="TIMESTAMPTZ",
    unzoned="TIMESTAMP",
    hexadecimal="hex(encode(CAST({} AS VARCHAR)))",
)
POSTGRESQL = Dialect(
    title="PostgreSQL",
    endless="{} IN ('infinity', '-infinity')",
    double="DOUBLE PRECISION",
    zoned="TIMESTAMPTZ",
    unzoned="TIMESTAMP",
    # A cast to text would take off the spaces that fill up a char(n), and concat makes NULL ''.
    hexadecimal="CASE WHEN {0} IS NULL THEN NULL "
    "ELSE upper(encode(convert_to(concat({0}), 'UTF8'), 'hex')) END",
)
SPARK = Dialect(
    title="Spark",
    double="DOUBLE",
    zoned="TIMESTAMP",
    unzoned="TIMESTAMP_NTZ",
    hexadecimal="hex(CAST({} AS BINARY))",
    quote="`",
    escapes=True,
)
