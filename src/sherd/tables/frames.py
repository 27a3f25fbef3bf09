"""Any dataframe in, the same kind out.

Inside Sherd a table is a ``pyarrow.Table``. ``to_arrow`` makes one out of whatever a caller
has; ``like`` turns a result back into the caller's kind of frame. The types of its columns are
those of the result, which come from the schema: the types and categories of the caller's
frame can depend on a single row, and must not be seen in what is released.

>>> like(pa.table({"a": pa.array([1], pa.int8())}), pa.table({"a": [2]})).schema.field("a").type
DataType(int64)
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sherd.errors import TableError, UsageError
from sherd.tables.canonical_form import are_plain, mixed_texts
from sherd.tables.conform import check_names

_SHOWN = "the dataframe"


def to_arrow(frame: Any, *, lenient: bool = False, declared: bool = False) -> pa.Table:
    """The frame as an Arrow table; a pandas index is dropped, since it tells rows apart.

    Values of several kinds in a column are refused, unless what they mean is ``declared``: then
    they become texts for the schema to judge. With ``lenient``, nothing is refused.
    """
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    elif isinstance(frame, pa.RecordBatchReader):
        frame = frame.read_all()
    if not isinstance(frame, pa.Table):
        frame = _foreign(frame, lenient=lenient, declared=declared)
    check_names(frame.column_names, shown=_SHOWN)
    return pa.table(dict(zip(frame.column_names, frame.columns, strict=True)))  # no metadata


def _foreign(frame: Any, *, lenient: bool, declared: bool) -> pa.Table:
    import narwhals.dependencies as known

    if known.is_pandas_dataframe(frame):
        return _from_pandas(frame, lenient=lenient, declared=declared)
    if known.is_polars_lazyframe(frame):
        frame = frame.collect()
    if known.is_polars_dataframe(frame):
        return _from_polars(frame)
    if _is_duckdb(frame):
        return frame.to_arrow_table()
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    import narwhals as nw

    try:
        wrapped = nw.from_native(frame)
    except TypeError:
        raise UsageError(
            "Sherd does not know this kind of table",
            must="a pandas, polars or DuckDB table, an Arrow table, or one with __arrow_c_stream__",
            got=f"{type(frame).__module__}.{type(frame).__qualname__}",
        ) from None
    if isinstance(wrapped, nw.LazyFrame):
        wrapped = wrapped.collect("pyarrow")
    return wrapped.to_arrow()


def _is_duckdb(frame: Any) -> bool:
    import narwhals.dependencies as known

    duckdb = known.get_duckdb()
    return duckdb is not None and isinstance(frame, duckdb.DuckDBPyRelation)


def _from_pandas(frame: Any, *, lenient: bool, declared: bool) -> pa.Table:
    names = [str(name) for name in frame.columns]
    check_names(names, shown=_SHOWN)
    columns = []
    for place, name in enumerate(names):
        series = frame.iloc[:, place]
        try:
            column = pa.Array.from_pandas(series)
        except (pa.ArrowException, TypeError, OverflowError):
            if lenient or (declared and are_plain(series)):
                columns.append(mixed_texts(series))
                continue
            raise TableError(
                f"the column '{name}' holds values of several kinds",
                must="one kind of values in a column",
                got=f"the pandas type {series.dtype}",
                do="convert it first, for example with astype",
            ) from None
        columns.append(column)
    return pa.table(dict(zip(names, columns, strict=True)))


def _from_polars(frame: Any) -> pa.Table:
    import polars as pl

    # Arrow has no integer of 128 bits; a decimal without places is the same number.
    wide = [name for name, kind in frame.schema.items() if kind == pl.Int128]
    if wide:
        frame = frame.with_columns(pl.col(name).cast(pl.Decimal(38, 0)) for name in wide)
    held = [name for name, kind in frame.schema.items() if kind == pl.Object]
    if held:  # which polars would hand over as bare addresses in memory
        raise TableError(
            f"the column '{held[0]}' holds values that Sherd cannot handle",
            must="numbers, dates, true or false, or text",
            got="Python objects",
        )
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def like(original: Any, table: pa.Table) -> Any:
    """The table as the kind of frame the original is."""
    import narwhals.dependencies as known

    if isinstance(original, pa.RecordBatchReader):
        return table.to_reader()
    if isinstance(original, pa.RecordBatch):
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
    if isinstance(original, pa.Table):
        return table
    if known.is_pandas_dataframe(original):
        return _like_pandas(original, table)
    if known.is_polars_dataframe(original) or known.is_polars_lazyframe(original):
        import polars as pl

        frame = pl.DataFrame(pl.from_arrow(table))
        return frame.lazy() if isinstance(original, pl.LazyFrame) else frame
    if _is_duckdb(original):
        import duckdb

        return duckdb.from_arrow(table)
    import narwhals as nw

    try:
        wrapped = nw.from_native(original, eager_only=True)
    except TypeError:
        return table
    return nw.from_arrow(table, backend=wrapped.implementation).to_native()


def _like_pandas(original: Any, table: pa.Table) -> Any:
    import pandas as pd

    names = {str(label): label for label in original.columns}
    series = {name: to_series(table.column(name)) for name in table.column_names}
    frame = pd.DataFrame(series, index=range(table.num_rows))
    frame.columns = pd.Index([names.get(name, name) for name in table.column_names])
    return frame


def to_series(column: pa.ChunkedArray) -> Any:
    """A column as pandas' own type for it, the same whether or not a cell is missing."""
    import pandas as pd

    nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}.get(column.type)
    if nullable is None:
        return column.to_pandas()
    return pd.Series(nullable.__from_arrow__(column), dtype=nullable)
