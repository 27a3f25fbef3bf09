"""What an Arrow file or stream takes to read, told by its messages before any is unpacked.

As with Parquet (``parquet_pages``): a batch of some kilobytes can say that it has 200 million
rows, and one long label can be named by many cells. Both are added up before they are written out.

Arrow hands a batch on whose cells lie behind its bytes, and leaves it to whoever computes with them
to look: so every batch is looked at once, when it is known to be small enough.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from sherd.errors import FormatError
from sherd.tables.coded_columns import holds_numbers
from sherd.verifying.arrow_messages import (
    DICTIONARY,
    RECORDS,
    block_messages,
    footer_of,
    is_file,
    messages,
)
from sherd.verifying.check import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from sherd.verifying.arrow_messages import ArrowMessage, Raw

MOST_ROWS = 1 << 20
"""Rows of a record batch; those of a release have 65,536."""

MOST_BYTES = 1 << 30
"""Bytes of a record batch, unpacked: those of 65,536 rows and 2,000 columns of numbers."""

MOST_LISTED = 64 << 20
"""Bytes of all dictionaries, unpacked; where they are not compressed, they may be more."""


def too_large(path: Path) -> str:
    """What of an Arrow file is too large to be read in little memory; empty where nothing is.

    An empty file takes nothing: whoever reads it is told so.
    """
    if not path.stat().st_size:
        return ""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        try:
            wrong = _too_large(raw)
        except FormatError as error:
            return f"the headers of its messages cannot be read: {error.what}"
    return wrong or _wrong_cells(path)


def _too_large(raw: Raw) -> str:
    unpacked = stored = 0
    for message in _messages(raw):
        if message.kind not in (DICTIONARY, RECORDS):
            continue
        size = message.unpacked(raw)
        lengths = message.nodes[:, 0]
        longest = max(message.rows, int(lengths.max(initial=0)))
        if min(message.rows, int(lengths.min(initial=0))) < 0:
            raise FormatError("a batch is of negative length", must="a whole Arrow file")
        if longest > MOST_ROWS:
            return f"it has a batch of more than {MOST_ROWS:,} rows"
        if message.kind == RECORDS and size > MOST_BYTES:
            return f"it has a batch that unpacks to more than {MOST_BYTES >> 20} MB"
        if message.kind == DICTIONARY:
            unpacked += size if message.packed else 0
            stored += 0 if message.packed else size
        if unpacked > MOST_LISTED or stored > len(raw):
            return f"its dictionaries unpack to more than {MOST_LISTED >> 20} MB"
    return ""


def _messages(raw: Raw) -> Iterator[ArrowMessage]:
    return block_messages(raw, footer_of(raw)) if is_file(raw) else messages(raw)


def _wrong_cells(path: Path) -> str:
    """Whether cells lie outside of their batch, or take too much with their labels written out."""
    import pyarrow as pa

    from sherd.verifying.stored_table import arrow_batches

    try:
        with arrow_batches(path) as (schema, batches):
            # Views and lists can name the same bytes in each of their cells.
            if not all(map(is_plain, schema.types)):
                return "a column of it is of a type that no release has"
            for batch in batches:
                batch.validate(full=True)
                if written_out(pa.Table.from_batches([batch])) > MOST_BYTES:
                    return f"it has a batch whose labels take more than {MOST_BYTES >> 20} MB"
    except MemoryError:  # Arrow's own is one of its exceptions too
        raise
    except (*UNREADABLE, pa.ArrowException, OSError):
        return "its batches cannot be read"
    return ""


def is_plain(kind: pa.DataType) -> bool:
    """Whether a column's cells, or those that its codes stand for, lie in its bytes one by one.

    >>> import pyarrow as pa
    >>> [is_plain(kind) for kind in (pa.date32(), pa.string(), pa.list_(pa.string()))]
    [True, True, False]
    """
    import pyarrow as pa

    test = pa.types
    kind = kind.value_type if test.is_dictionary(kind) else kind
    return bool(
        test.is_integer(kind)
        or test.is_floating(kind)
        or test.is_decimal(kind)
        or test.is_boolean(kind)
        or test.is_date(kind)
        or test.is_timestamp(kind)
        or test.is_string(kind)
        or test.is_large_string(kind)
    )


def written_out(table: pa.Table) -> int:
    """How many bytes a table's cells take, labels and other values written out.

    The table was validated, so that every code is one of its list.
    """
    return sum(_bytes_of(column) for column in table.columns)


def _bytes_of(column: pa.ChunkedArray) -> int:
    """How many bytes a column's cells take, labels written out."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from sherd.tables.coding import nulls, numpy_array

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    if holds_numbers(column.type):
        return len(column) * -(-int(column.type.value_type.bit_width) // 8)
    total = 0
    for chunk in column.chunks:
        if not len(chunk.dictionary):
            continue
        lengths = numpy_array(pc.fill_null(pc.binary_length(chunk.dictionary), 0))
        times = np.bincount(numpy_array(chunk.indices)[~nulls(chunk.indices)])
        total += int(times.astype(object) @ lengths[: len(times)].astype(object))
    return total + 4 * len(column)
