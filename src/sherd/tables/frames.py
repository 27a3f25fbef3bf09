"""Any dataframe in, the same kind out.

Inside Sherd a table is a ``pyarrow.Table``. ``to_arrow`` makes one out of whatever a
caller has; ``like`` turns a result back into the caller's kind, each column in the type
it had where its values still fit: labels that were not there before (an interval, a
group) cannot go back into a closed list and stay as they are.

>>> like(pa.table({"a": pa.array([1], pa.int8())}), pa.table({"a": [2]})).schema.field("a").type
DataType(int8)
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sherd.errors import TableError, UsageError
from sherd.tables.conform import check_names

_SHOWN = "the dataframe"


def to_arrow(frame: Any) -> pa.Table:
    """The frame as an Arrow table; a pandas index is dropped, since it tells rows apart."""
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    elif isinstance(frame, pa.RecordBatchReader):
        frame = frame.read_all()
    if not isinstance(frame, pa.Table):
        frame = _foreign(frame)
    check_names(frame.column_names, shown=_SHOWN)
    return pa.table(dict(zip(frame.column_names, frame.columns, strict=True)))  # no metadata


def _foreign(frame: Any) -> pa.Table:
    import narwhals.dependencies as known

    if known.is_pandas_dataframe(frame):
        return _from_pandas(frame)
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
            "the table is of a kind Sherd does not know",
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


def _from_pandas(frame: Any) -> pa.Table:
    names = [str(name) for name in frame.columns]
    check_names(names, shown=_SHOWN)
    columns = []
    for place, name in enumerate(names):
        series = frame.iloc[:, place]
        try:
            column = pa.Array.from_pandas(series)
        except (pa.ArrowException, TypeError, OverflowError):
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
            f"the column '{held[0]}' holds values Sherd cannot treat",
            must="numbers, dates, true or false, or text",
            got="Python objects",
        )
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def like(original: Any, table: pa.Table) -> Any:
    """The table as the kind of frame the original is."""
    import narwhals.dependencies as known

    if isinstance(original, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
        return _like_arrow(original, table)
    if known.is_pandas_dataframe(original):
        return _like_pandas(original, table)
    if known.is_polars_dataframe(original) or known.is_polars_lazyframe(original):
        return _like_polars(original, table)
    if _is_duckdb(original):
        return _like_duckdb(original, table)
    import narwhals as nw

    try:
        wrapped = nw.from_native(original, eager_only=True)
    except TypeError:
        return table
    return nw.from_arrow(table, backend=wrapped.implementation).to_native()


def _like_arrow(original: Any, table: pa.Table) -> Any:
    before = original.schema
    columns = {}
    for name in table.column_names:
        column = table[name]
        if name in before.names:
            kind = before.field(name).type
            labels = None
            if pa.types.is_dictionary(kind) and not isinstance(original, pa.RecordBatchReader):
                labels = _dictionary(original.column(name))
            column = _cast(column, kind, labels)
        columns[name] = column
    table = pa.table(columns)
    if isinstance(original, pa.RecordBatchReader):
        return table.to_reader()
    if isinstance(original, pa.RecordBatch):
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
    return table


def _dictionary(column: pa.Array | pa.ChunkedArray) -> pa.Array | None:
    if isinstance(column, pa.Array):
        return column.dictionary
    chunks = column.unify_dictionaries().chunks
    return chunks[0].dictionary if chunks else None


def _cast(column: pa.ChunkedArray, kind: pa.DataType, labels: pa.Array | None) -> pa.ChunkedArray:
    """The column in a type, or as it is where a value does not fit."""
    if not pa.types.is_dictionary(kind):
        if column.type == kind:
            return column
        try:
            return column.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return column
    try:
        values = column.cast(kind.value_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return column
    if labels is None:
        labels = pc.unique(values).drop_null()
    codes = pc.index_in(values, value_set=labels)
    if codes.null_count != values.null_count:
        return values  # a label that the list does not have
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.cast(kind.index_type), labels, ordered=kind.ordered)
        for chunk in codes.chunks
    ]
    return pa.chunked_array(chunks, type=kind)


def _like_polars(original: Any, table: pa.Table) -> Any:
    import polars as pl

    before = original.collect_schema()
    frame = pl.DataFrame(pl.from_arrow(table))
    columns = []
    for name in frame.columns:
        column = frame.get_column(name)
        kind = before.get(name)
        if kind is not None and column.dtype != kind:
            column = _cast_polars(column, kind)
        columns.append(column)
    frame = pl.DataFrame(columns)
    return frame.lazy() if isinstance(original, pl.LazyFrame) else frame


def _cast_polars(column: Any, kind: Any) -> Any:
    import polars as pl

    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    if column.dtype.is_float() and kind.is_integer() and not (column == column.round()).all():
        return column  # polars would cut the fraction off without a word
    try:
        return column.cast(kind, strict=True)
    except pl.exceptions.PolarsError:
        return column


def _like_duckdb(original: Any, table: pa.Table) -> Any:
    import duckdb

    made: Any = duckdb.from_arrow(table)
    before = {name: str(kind) for name, kind in zip(original.columns, original.types, strict=True)}
    parts = []
    for name, kind in zip(made.columns, made.types, strict=True):
        quoted = '"' + name.replace('"', '""') + '"'
        wanted = before.get(name, str(kind))
        if wanted != str(kind):
            lost = f"{quoted} IS NOT NULL AND TRY_CAST({quoted} AS {wanted}) IS NULL"
            if not made.filter(lost).limit(1).fetchall():
                quoted = f"CAST({quoted} AS {wanted}) AS {quoted}"
        parts.append(quoted)
    return made.project(", ".join(parts))


def _like_pandas(original: Any, table: pa.Table) -> Any:
    import pandas as pd

    labels = {str(label): label for label in original.columns}
    series = []
    for name in table.column_names:
        label = labels.get(name, name)
        column = table[name]
        known = name in labels
        made = _like_series(column, original[label].dtype) if known else column.to_pandas()
        series.append(made.rename(label).reset_index(drop=True))
    if not series:
        return pd.DataFrame(index=range(table.num_rows))
    return pd.concat(series, axis=1)


def _like_series(column: pa.ChunkedArray, dtype: Any) -> Any:
    import pandas as pd

    if isinstance(dtype, pd.CategoricalDtype):
        return _categories(column, dtype)
    if dtype.kind == "O" and not pd.api.types.is_extension_array_dtype(dtype):
        return pd.Series(column.to_pylist(), dtype=object)
    try:
        if pd.api.types.is_extension_array_dtype(dtype) and not isinstance(
            dtype, pd.DatetimeTZDtype
        ):
            return _extension(column, dtype)
        made = column.to_pandas()
        if column.null_count and dtype.kind in "iub":
            # A numpy integer has no way to be missing; pandas' own has.
            nullable = "boolean" if dtype.kind == "b" else str(dtype).replace("i", "I", 1)
            return _extension(column, pd.api.types.pandas_dtype(nullable.replace("u", "U", 1)))
        back = made.astype(dtype)
        if dtype.kind in "iu" and made.dtype.kind == "f" and not (back == made).all():
            return made
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return column.to_pandas()
    return back


def _extension(column: pa.ChunkedArray, dtype: Any) -> Any:
    import pandas as pd

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if hasattr(dtype, "pyarrow_dtype"):
        column = column.cast(dtype.pyarrow_dtype)
    return pd.Series(dtype.__from_arrow__(column), dtype=dtype)


def _categories(column: pa.ChunkedArray, dtype: Any) -> Any:
    import numpy as np
    import pandas as pd

    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    chunks = column.unify_dictionaries().chunks
    labels = chunks[0].dictionary.to_pylist() if chunks else []
    texts = {str(category): category for category in dtype.categories}
    known = set(dtype.categories)
    # Inside Sherd every label is text, also that of a category of numbers.
    labels = [label if label in known else texts.get(label, label) for label in labels]
    fresh = [label for label in labels if label is not None and label not in known]
    if fresh:  # which have no place in the old order
        dtype = pd.CategoricalDtype([*dtype.categories, *fresh], ordered=False)
    places = {category: place for place, category in enumerate(dtype.categories)}
    codes = np.array([places.get(label, -1) for label in labels] + [-1])
    missing = len(labels)
    rows = [codes[pc.fill_null(chunk.indices.cast(pa.int64()), missing)] for chunk in chunks]
    joined = np.concatenate([np.empty(0, dtype=np.int64), *rows])
    return pd.Series(pd.Categorical.from_codes(joined, dtype=dtype))
