"""Reading an Arrow stream that somebody else made.

Arrow's own reader checks the structure of what it reads, but it would also decompress: a few
bytes could ask for gigabytes. Deliveries are therefore uncompressed, and a look at every
message of the stream, before Arrow sees any, makes sure of it. Lengths are bounded by the
bytes that are there; a dictionary, whose one long label many cells can name, is bounded by
what its cells would take if they were written out, and is never written out here. Codes of numbers
and times are read in the one form that owners write (``sherd.tables.coded_columns``) and no other.

What a stream costs to read grows with its bytes and no faster. Each batch costs something, and
each look at a batch may be a look at its whole dictionary: so batches are not tiny, dictionaries
come once, before all records, and are not long beside what names their entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.errors import FormatError, PeerError
from sherd.federation.protocol.reasons import Reason
from sherd.tables.coded_columns import holds_numbers, is_coded
from sherd.verifying.arrow_files import is_plain, written_out
from sherd.verifying.arrow_messages import DICTIONARY, RECORDS, messages

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

    import pyarrow as pa

    from sherd.verifying.arrow_messages import ArrowMessage

MOST_COLUMNS = 10_000
MOST_MESSAGES = 100_000

MOST_PIECES = 1 << 18
"""The most batches times columns: each piece is an object of its own."""

FREE_BATCHES, BATCH_BYTES = 16, 4 << 10
"""The batches that a stream may have whatever its length, and its bytes for each further one.

Owners write 65,536 rows at once, which are 8 KiB of the smallest cells.
"""

FREE_LOOKS, MOST_LOOKS = 16 << 20, 8
"""The most bytes of dictionaries times batches, whatever a stream's length, and for each byte.

It is 4 for each byte where a column has as many values as codes can tell apart.
"""


def _wrong(what: str) -> PeerError:
    return PeerError(
        f"a delivered table cannot be read: {what}",
        must="an uncompressed Arrow stream",
        reason=Reason.VERIFICATION,
    )


def read_table(data: bytes | mmap.mmap, most: int) -> pa.Table:
    """The table in a stream, or PeerError; nothing is decompressed and no code is run.

    ``most`` is how many bytes its cells may take, labels written out.
    """
    import pyarrow as pa

    batches = _inspect(data)
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
            if not 0 < len(stream.schema) <= MOST_COLUMNS:
                raise _wrong("it has no columns, or too many")
            if batches * len(stream.schema) > MOST_PIECES:
                raise _wrong("it has too many batches of so many columns")
            _check_types(stream.schema)
            table = stream.read_all()
        table.validate()
        if _bytes_named(table) > len(data):
            raise _wrong("columns of it lie in the same bytes")
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, PeerError):
            raise
        raise _wrong("it is damaged") from None
    names = table.column_names
    if len(set(names)) != len(names):
        raise _wrong("two columns have one name")
    if written_out(table) > most:
        raise Reason.TOO_LARGE.error()
    for column in table.columns:
        if holds_numbers(column.type) and not is_coded(column):
            raise _wrong("a column's codes are not in the form that deliveries have")
    return table.replace_schema_metadata(None)


def _bytes_named(table: pa.Table) -> int:
    """The bytes of all columns, codes without their dictionaries; structure was validated."""
    import pyarrow as pa

    return sum(
        chunk.indices.nbytes if pa.types.is_dictionary(column.type) else chunk.nbytes
        for column in table.columns
        for chunk in column.chunks
    )


def _check_types(schema: pa.Schema) -> None:
    """Refuse columns that are not plain: no release has nested or extension types."""
    if not all(map(is_plain, schema.types)):
        raise _wrong("a column is of a type that no release has")


def _inspect(data: bytes | mmap.mmap) -> int:
    """Refuse a stream that would cost more than its bytes; how many batches it has."""
    batches, listed = 0, 0
    seen: set[int] = set()
    for message in _messages(data):
        batches += message.kind == RECORDS
        if message.kind != DICTIONARY:
            continue
        if batches or message.delta or message.dictionary in seen:
            raise _wrong("a dictionary does not come once and first")
        seen.add(message.dictionary)
        listed += message.body
    if batches > FREE_BATCHES + len(data) // BATCH_BYTES:
        raise _wrong("its batches are too small")
    if batches * listed > FREE_LOOKS + MOST_LOOKS * len(data):
        raise _wrong("its dictionaries are too long for its batches")
    return batches


def _messages(data: bytes | mmap.mmap) -> Iterator[ArrowMessage]:
    """The stream's messages: whole, known, bounded, uncompressed."""
    try:
        for count, message in enumerate(messages(data), 1):
            if count > MOST_MESSAGES:
                raise _wrong("it has too many messages")
            if message.packed:
                raise _wrong("it is compressed")
            if message.foreign:
                raise _wrong("its numbers are written the other way round")
            yield message
    except FormatError as error:
        raise _wrong(error.what) from None
