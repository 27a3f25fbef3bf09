"""Whether a released file is, byte for byte, what writing its own cells gives.

A file has places that no reader looks at: padding, bytes between its parts, a second page or piece,
a comment in a header, the choice of how a number is spelled or a cell is quoted. Writing the cells
again leaves no room for any of them. Text is the same from every version of every library; other
files are compared where the library that wrote them is the one at hand.
"""

from __future__ import annotations

import hashlib
import io
import math
import zlib
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

BYTES = "it is not byte for byte what writing its cells gives"
PIECES = "it is compressed in more than one piece, or its header says more than it must"

_GZIP = b"\x1f\x8b\x08" + bytes(5)  # no name, no comment, no time
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SIZES = (0, 1, 2, 4), (0, 2, 4, 8)  # of a dictionary's number, of the content's size


class _Digest(io.RawIOBase):
    """A file that keeps only the hash of what is written to it."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, block: Any) -> int:
        view = memoryview(block)
        self.hash.update(view)
        self._size += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._size

    def opened(self, _path: Path) -> IO[bytes]:
        """Itself, wherever it should be."""
        return cast("IO[bytes]", self)


def oddity(path: Path, kinds: Mapping[str, str]) -> str | None:
    """What a file of a release says besides its cells, in words; None where nothing.

    ``kinds`` are the types of the cells of each attribute.
    """
    form = path.name.partition(".")[2]
    if form.startswith("csv"):
        return _odd_text(path.read_bytes(), form, kinds)
    with path.open("rb") as file:
        stated = hashlib.file_digest(file, "sha256").hexdigest()
    return None if stated in _hashes_again(path, form) else BYTES


def _hashes_again(path: Path, form: str) -> Iterator[str]:
    """The hash of what writing a file's cells gives; of wide tables also by earlier versions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sherd.tables.write import MOST_GROUP_ROWS, group_rows, write

    with path.open("rb") as file:
        if form == "parquet":
            table = pq.ParquetFile(file).read()
        elif file.read(6) == b"ARROW1":
            table = pa.ipc.open_file(file).read_all()
        else:
            file.seek(0)
            table = pa.ipc.open_stream(file).read_all()
    ways: list[int | None] = [None]
    if form == "parquet" and table.num_rows > group_rows(table.num_columns) < MOST_GROUP_ROWS:
        ways.append(MOST_GROUP_ROWS)
    for rows in ways:
        again = _Digest()
        write(table, path, opened=again.opened, rows_at_once=rows)
        yield again.hash.hexdigest()


def _odd_text(raw: bytes, form: str, kinds: Mapping[str, str]) -> str | None:
    """Cells are compared as text, so that no guess at their types takes part."""
    import pyarrow as pa

    from sherd.tables.write import csv_blocks

    if form == "csv.gz":
        member = zlib.decompressobj(wbits=31)
        inside = member.decompress(raw)
        if raw[: len(_GZIP)] != _GZIP or member.unused_data or not member.eof:
            return PIECES
        raw = inside
    elif form == "csv.zst":
        if _end_of_frame(raw) != len(raw):
            return PIECES
        raw = pa.CompressedInputStream(pa.BufferReader(raw), "zstd").read()
    table = _texts(raw)
    if b"".join(bytes(block) for block in csv_blocks(table)) != raw:
        return BYTES
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not _is_spelled(column, kinds.get(name, "")):
            return f"numbers of the column '{name}' are not spelled as they are written"
    return None


def _texts(raw: bytes) -> pa.Table:
    """The cells as they stand there; an empty one is missing unless it is quoted."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    options = pacsv.ParseOptions(newlines_in_values=True)
    read = pacsv.ReadOptions(block_size=max(1 << 20, len(raw)))
    head = pacsv.open_csv(pa.BufferReader(raw), read_options=read, parse_options=options)
    kinds = {field.name: pa.string() for field in head.schema}
    table = pacsv.read_csv(
        pa.BufferReader(raw),
        read_options=read,
        parse_options=options,
        convert_options=pacsv.ConvertOptions(
            column_types=kinds,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
    return table.combine_chunks()


def _is_spelled(column: pa.ChunkedArray, kind: str) -> bool:
    """Whether texts that are numbers of a type are spelled as that type's numbers are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    target = {"int64": pa.int64(), "double": pa.float64()}.get(kind)
    if target is None:
        return True
    texts = pc.unique(column.drop_null())
    try:
        numbers = texts.cast(target)
    except pa.ArrowInvalid:
        # Ranges and other labels, which books explain; a number among them has its one spelling.
        return all(_is_plain(text) for text in texts.to_pylist())
    return bool(pc.all(pc.equal(numbers.cast(pa.string()), texts)).as_py() in (True, None))


def _is_plain(text: str) -> bool:
    """Whether a text is no number, or one in a usual spelling.

    >>> [_is_plain(text) for text in ("[2, 5]", "-5", "2.5", "+5", "2.50", "007")]
    [True, True, True, False, False, False]
    """
    try:
        number = float(text)
    except ValueError:
        return True
    whole = str(int(number)) if math.isfinite(number) else ""
    return text in (repr(number), f"{number:g}", whole)


def _end_of_frame(raw: bytes) -> int:
    """Where the first frame of a zstd file ends; −1 where it is not a plain one.

    RFC 8878, section 3.1.1: magic, header, blocks that tell their length, perhaps a checksum.
    """
    if raw[:4] != _ZSTD or len(raw) < 6:
        return -1
    told = raw[4]
    single, check = told >> 5 & 1, told >> 2 & 1
    size = _ZSTD_SIZES[1][told >> 6] or single
    place = 5 + (not single) + _ZSTD_SIZES[0][told & 3] + size
    while place + 3 <= len(raw):
        block = int.from_bytes(raw[place : place + 3], "little")
        repeated = block >> 1 & 3 == 1  # one byte, to be repeated
        place += 3 + (1 if repeated else block >> 3)
        if block & 1:
            return place + 4 * check
    return -1
