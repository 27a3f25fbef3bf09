"""Whether a released file is, byte for byte, what writing its own cells gives.

A file has places that no reader looks at: padding, bytes between its parts, a second page or piece,
a comment in a header, the choice of how a number is spelled or a cell is quoted. Writing the cells
again leaves no room for any of them. Text is the same from every version of every library; other
files are compared where the library that wrote them is the one at hand.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import math
import mmap
import zlib
from typing import IO, TYPE_CHECKING, Any, cast

from sherd.verifying.parquet_columns import (
    BoundedParquet,
    TextsTooLongError,
    joined,
    most_bytes,
    opened,
)
from sherd.verifying.stored_table import arrow_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

BYTES = "it is not byte for byte what writing its cells gives"
LONG = "its texts are too long to be written again in little memory"
PIECES = "it is compressed in more than one piece, or its header says more than it must"

_ROOM = 64 << 20  # of a row group's cells in memory
_BLOCKS = (1 << 22, 1 << 26)  # of a text, tried in turn
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


def oddity(path: Path, kinds: Mapping[str, str]) -> str | None:
    """What a file of a release says besides its cells, in words; None where nothing.

    ``kinds`` are the types of the cells of each attribute. Files are read and written again a piece
    at a time, so that their size does not matter.
    """
    form = path.name.partition(".")[2]
    if form.startswith("csv"):
        return _odd_text(path, form, kinds)
    with path.open("rb") as file:
        stated = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        return None if _hash_again(path, form) == stated else BYTES
    except TextsTooLongError:
        return LONG


def _hash_again(path: Path, form: str) -> str | None:
    """The hash of the file that its cells give; None where they lie in other pieces."""
    import pyarrow as pa

    from sherd.tables.write import rows_of_piece, write_pieces

    again, rows = _Digest(), rows_of_piece(path.name)
    with contextlib.ExitStack() as stack:
        if form == "parquet":
            schema, pieces = stack.enter_context(_row_groups(path, rows))
        else:
            schema, batches = stack.enter_context(arrow_batches(path))
            pieces = (pa.Table.from_batches([batch]) for batch in batches)
        try:
            bare = pa.schema([(field.name, field.type) for field in schema])
            pieces = (part.cast(bare) for part in _in_pieces(pieces, bare, rows))
            write_pieces(pieces, bare, cast("IO[bytes]", again), path.name)
        except _OtherPiecesError:
            return None
    return again.hash.hexdigest()


class _OtherPiecesError(Exception):
    """A file's cells do not lie in pieces of as many rows as those of every file."""


def _in_pieces(parts: Iterable[pa.Table], schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    """The parts of a file, where each but the last has so many rows; an empty one for none."""
    last: int | None = None
    for part in parts:
        if last not in (None, rows) or part.num_rows > rows:
            raise _OtherPiecesError
        last = part.num_rows
        yield part.combine_chunks()
    if last is None:
        yield schema.empty_table()


@contextlib.contextmanager
def _row_groups(path: Path, rows: int) -> Iterator[tuple[pa.Schema, Iterator[pa.Table]]]:
    """The schema of a Parquet file and its row groups, one by one."""
    bounded = BoundedParquet(path=path)
    with opened(path) as file:

        def groups() -> Iterator[pa.Table]:
            for at in range(file.num_row_groups):
                if file.metadata.row_group(at).num_rows > rows:
                    raise _OtherPiecesError
                yield _row_group(bounded, file, at)

        yield file.schema_arrow, groups()


def _row_group(bounded: BoundedParquet, file: Any, group: int) -> pa.Table:
    """A row group, whose columns are mapped from files of their own once there is no more room."""
    import pyarrow as pa

    room = _ROOM
    columns = []
    for name in file.schema_arrow.names:
        columns.append(joined(bounded, file, name, group, room))
        room -= min(room, most_bytes(bounded, file, name, group))
    return pa.table(columns, names=file.schema_arrow.names)


class _Hashed(io.RawIOBase):
    """A file that is read once, and the hash of what was read."""

    def __init__(self, source: Any) -> None:
        self.hash = hashlib.sha256()
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        block = self._source.read(len(room))
        room[: len(block)] = block
        self.hash.update(block)
        return len(block)


def _odd_text(path: Path, form: str, kinds: Mapping[str, str]) -> str | None:
    """Cells are compared as text, so that no guess at their types takes part."""
    import pyarrow as pa

    if not _is_one_piece(path, form):
        return PIECES
    for block in _BLOCKS:
        # A row that is longer than a block needs a longer one.
        with contextlib.suppress(pa.ArrowInvalid):
            return _odd_cells(path, form, kinds, block)
    return _odd_cells(path, form, kinds, path.stat().st_size * _BLOCKS[0])


def _odd_cells(path: Path, form: str, kinds: Mapping[str, str], block: int) -> str | None:
    import pyarrow as pa

    from sherd.tables.write import csv_blocks

    with _unpacked(path, form) as source:
        names = _reader(source, block, {}).schema.names
    spelled = {name: _Spelling(kinds.get(name, "")) for name in names}
    again = hashlib.sha256(next(csv_blocks(pa.table({name: [] for name in names}))))
    with _unpacked(path, form) as source:
        hashed = _Hashed(source)
        for batch in _reader(hashed, block, dict.fromkeys(names, pa.string())):
            for piece in csv_blocks(pa.Table.from_batches([batch]), header=False):
                again.update(piece)
            for name, column in zip(names, batch.columns, strict=True):
                spelled[name].add(column)
        while hashed.read(_BLOCKS[0]):
            pass
    if again.digest() != hashed.hash.digest():
        return BYTES
    for name, spelling in spelled.items():
        if not spelling.usual:
            return f"numbers of the column '{name}' are not spelled as they are written"
    return None


def _reader(source: Any, block: int, kinds: Mapping[str, pa.DataType]) -> Any:
    """The cells as they stand there; an empty one is missing unless it is quoted."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    return pacsv.open_csv(
        pa.PythonFile(source, "r"),
        read_options=pacsv.ReadOptions(block_size=block, use_threads=False),
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            column_types=kinds,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )


@contextlib.contextmanager
def _unpacked(path: Path, form: str) -> Iterator[Any]:
    """The text of a file, compressed or not."""
    import pyarrow as pa

    with contextlib.ExitStack() as stack:
        file: Any = stack.enter_context(path.open("rb"))
        if form == "csv.gz":
            file = stack.enter_context(gzip.GzipFile(fileobj=file))
        elif form == "csv.zst":
            file = stack.enter_context(pa.CompressedInputStream(file, "zstd"))
        yield file


def _is_one_piece(path: Path, form: str) -> bool:
    """Whether a compressed file is one plain piece, with nothing in its header or behind it."""
    with path.open("rb") as file:
        if form == "csv.zst":
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
                return _end_of_frame(raw) == len(raw)
        if form != "csv.gz":
            return True
        if file.read(len(_GZIP)) != _GZIP:
            return False
        file.seek(0)
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            block = member.unconsumed_tail or file.read(_BLOCKS[0])
            if not member.decompress(block, _BLOCKS[0]) and not block:
                return False  # it was cut
        return not member.unused_data and not file.read(1)


class _Spelling:
    """Whether texts that are numbers of a type are spelled as that type's numbers are."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._numbers = self._canonical = self._plain = True

    def add(self, column: pa.Array) -> None:
        """Look at some more texts."""
        import pyarrow as pa
        import pyarrow.compute as pc

        target = {"int64": pa.int64(), "double": pa.float64()}.get(self._kind)
        if target is None:
            return
        texts = pc.unique(column.drop_null())
        try:
            back = texts.cast(target).cast(pa.string())
        except pa.ArrowInvalid:
            self._numbers = False
        else:
            if pc.all(pc.equal(back, texts), min_count=0).as_py():
                return
            self._canonical = False
        self._plain = self._plain and all(map(_is_plain, texts.to_pylist()))

    @property
    def usual(self) -> bool:
        """Ranges and other labels have books; a number among them has one of its spellings."""
        return self._canonical if self._numbers else self._plain


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


def _end_of_frame(raw: bytes | mmap.mmap) -> int:
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
