"""Rows of a table by groups, whatever its length: equal keys come together, part by part.

A table in memory is one part. A stored one is read once; its rows go to a temporary file by a hash
of their keys, from which one part at a time is read back.
"""

from __future__ import annotations

import tempfile
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sherd.tables.coding import arrow_array, nulls, numpy_array
from sherd.verifying.stored_table import StoredTable, pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

CELLS = 1 << 20
"""Cells of a part at most, about."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


def part_count(*tables: pa.Table | StoredTable) -> int:
    """In how many parts tables are looked at together."""
    cells = sum(t.num_rows * t.num_columns for t in tables if isinstance(t, StoredTable))
    return 1 + cells // CELLS


def parts(
    table: pa.Table | StoredTable,
    keys: Sequence[str],
    names: Sequence[str],
    count: int,
    *,
    empty: bool = False,
) -> Iterator[pa.Table]:
    """These columns in ``count`` parts; rows with equal keys are in the same one.

    Of several parts those without rows are left out, unless asked for.
    """
    wanted = list(dict.fromkeys([*keys, *names]))
    if count == 1:
        found = list(pieces(table, *wanted)) if isinstance(table, StoredTable) else [table]
        yield pa.concat_tables([part.select(wanted) for part in found], promote_options="default")
        return
    places: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    schema: pa.Schema | None = None
    with tempfile.TemporaryFile() as file:
        for piece in pieces(table, *wanted):
            schema = piece.schema if schema is None else schema
            number = _numbers(piece, keys, count)
            order = np.argsort(number, kind="stable")
            sorted_piece = piece.cast(schema).take(arrow_array(order)).combine_chunks()
            cuts = np.searchsorted(number[order], np.arange(count + 1)).tolist()
            for part in range(count):
                rows = sorted_piece.slice(cuts[part], cuts[part + 1] - cuts[part])
                for batch in rows.to_batches():
                    block = batch.serialize()
                    places[part].append((file.tell(), block.size))
                    file.write(block)
        assert schema is not None, "a table that fills several parts has rows"
        for held in (blocks for blocks in places if blocks or empty):
            batches = []
            for start, size in held:
                file.seek(start)
                batches.append(pa.ipc.read_record_batch(pa.py_buffer(file.read(size)), schema))
            yield pa.Table.from_batches(batches, schema)


def _numbers(piece: pa.Table, keys: Sequence[str], count: int) -> NDArray[np.int64]:
    """The part of every row, by its keys alone."""
    found = np.zeros(piece.num_rows, np.uint64)
    for key in keys:
        found = (found ^ _hashes(piece.column(key).combine_chunks())) * _ODD
    mixed = (found ^ (found >> np.uint64(31))) * _ODD
    parts_of: NDArray[np.int64] = ((mixed >> np.uint64(33)) % np.uint64(count)).astype(np.int64)
    return parts_of


def _hashes(column: pa.Array) -> NDArray[np.uint64]:
    """A number for every cell, the same for equal cells of any piece."""
    if pa.types.is_integer(column.type):
        whole: NDArray[np.uint64] = numpy_array(column).astype(np.uint64)
        return np.where(nulls(column), _ODD, whole) if column.null_count else whole
    encoded = column.dictionary_encode(null_encoding="encode")
    values = [zlib.crc32(repr(value).encode()) for value in encoded.dictionary.to_pylist()]
    hashed: NDArray[np.uint64] = np.array(values, np.uint64)[np.asarray(encoded.indices)]
    return hashed


def distinct(table: pa.Table | StoredTable, name: str) -> pa.ChunkedArray:
    """Every value of a column once, nulls left out."""
    if isinstance(table, pa.Table):
        return table.column(name)
    found: pa.Array | None = None
    for piece in pieces(table, name):
        column = piece.column(name).unique().drop_null()
        found = column if found is None else pa.concat_arrays([found, column.cast(found.type)])
        found = found.unique()
    return pa.chunked_array([pa.array([], pa.null()) if found is None else found])
