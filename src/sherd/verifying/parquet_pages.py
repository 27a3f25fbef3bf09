"""What a Parquet file takes to read, told by its pages' own headers before any of them is unpacked.

A file can claim what it likes: a few bytes that unpack to gigabytes, a text of a megabyte that a
million rows repeat, a row group of a billion rows. The headers lie unpacked in the file, so they
can be added up in no memory at all; a file with larger pieces than a release has is not read.

Notation of the format (parquet.thrift): a column's share of a row group is a *chunk*, written as
pages; each page has a header in the compact protocol of Thrift, which says how long the page is.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Raw = mmap.mmap | memoryview

MOST_ROWS = 1 << 20
"""Rows of a row group: as many as those of a release have, but for the last."""

MOST_BYTES = 64 << 20
"""Bytes of a page, unpacked: a release's pages end at one megabyte or 1,024 longer texts."""

MOST_FOOTER = 16 << 20
"""Bytes of what the file says of itself: 100,000 chunks and more."""

_TYPE, _UNPACKED, _PACKED, _DATA, _DICTIONARY, _DATA_2 = 1, 2, 3, 5, 7, 8
_ABOUT = (_DATA, _DATA_2, _DICTIONARY)
_DICTIONARY_PAGE = 2
_CODED = (2, 8)
_DEEPEST = 16


def too_large(path: Path) -> str:
    """What of a file is too large to be read in little memory; empty where nothing is.

    A file that is no Parquet at all takes nothing: whoever reads it is told so.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.name.endswith(".parquet") or not path.stat().st_size:
        return ""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        footer = int.from_bytes(raw[-8:-4], "little")
        if MOST_FOOTER < footer < len(raw):
            return "what it says of itself is longer than in any release"
        try:
            with pq.ParquetFile(path) as parquet:
                metadata = parquet.metadata
        except (pa.ArrowException, OSError):
            return ""
        try:
            return _too_large(raw, metadata)
        except (FormatError, LookupError, TypeError, ValueError):
            return "the headers of its pages cannot be read"


def _too_large(raw: mmap.mmap, metadata: Any) -> str:
    for group in range(metadata.num_row_groups):
        if not 0 <= metadata.row_group(group).num_rows <= MOST_ROWS:
            return f"it has a row group of more than {MOST_ROWS:,} rows"
        for place in range(metadata.num_columns):
            for page in pages(raw, metadata.row_group(group).column(place)):
                if not 0 <= page.unpacked <= MOST_BYTES:
                    return f"it has a page that unpacks to more than {MOST_BYTES >> 20} MB"
    return ""


def row_bytes(path: Path, metadata: Any, group: int, place: int) -> int:
    """How many bytes a row of a chunk of texts takes at most, once it is unpacked."""
    chunk = metadata.row_group(group).column(place)
    most = 1
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        for page in pages(raw, chunk):
            if page.is_dictionary:
                most = max(most, _longest(_unpacked(raw, page, chunk.compression), page.values))
            else:
                most = max(most, -(-page.unpacked // max(1, page.values)))
    return most


def coded_rows(path: Path, metadata: Any, group: int, place: int) -> int:
    """How many values of a chunk are given by their place in its dictionary, which comes first."""
    chunk = metadata.row_group(group).column(place)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        coded = [
            page.values
            for page in pages(raw, chunk)
            if page.encoding in _CODED and not page.is_dictionary
        ]
    return sum(coded)


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page: its kind, how many values it says it has, their encoding, and where its bytes lie.

    The encoding is -1 where the header names none.
    """

    is_dictionary: bool
    values: int
    encoding: int
    start: int
    packed: int
    unpacked: int


def pages(raw: Raw, chunk: Any) -> Iterator[Page]:
    """The pages of a chunk, one behind the other."""
    starts = (chunk.dictionary_page_offset, chunk.data_page_offset)
    at = min(one for one in starts if one)
    end = at + chunk.total_compressed_size
    while at < end:
        fields, at = _struct(raw, at)
        told = [fields.get(name) for name in (_TYPE, _UNPACKED, _PACKED)]
        if not all(isinstance(one, int) for one in told):
            raise FormatError("a page's header cannot be read", must="a whole Parquet file")
        kind, unpacked, packed = (int(one) for one in told)  # type: ignore[arg-type]
        about: dict[int, Any] = next(
            (fields[name] for name in _ABOUT if isinstance(fields.get(name), dict)), {}
        )
        values, encoding = about.get(1, 0), about.get(4 if _DATA_2 in fields else 2, -1)
        if packed < 0 or at + packed > end:
            raise FormatError("a page is longer than its column", must="a whole Parquet file")
        yield Page(
            is_dictionary=kind == _DICTIONARY_PAGE,
            values=values if isinstance(values, int) else 0,
            encoding=encoding if isinstance(encoding, int) else -1,
            start=at,
            packed=packed,
            unpacked=unpacked,
        )
        at += packed


def _unpacked(raw: Raw, page: Page, codec: str) -> bytes:
    import pyarrow as pa

    packed = bytes(raw[page.start : page.start + page.packed])
    if codec == "UNCOMPRESSED":
        return packed
    return bytes(pa.decompress(packed, page.unpacked, codec=codec.lower(), asbytes=True))


def _longest(dictionary: bytes, values: int) -> int:
    """The bytes of the longest text in a dictionary: each is its length, then itself."""
    at = longest = 0
    for _ in range(values):
        if at >= len(dictionary):
            break
        length = int.from_bytes(dictionary[at : at + 4], "little")
        longest, at = max(longest, length), at + 4 + length
    return longest


def _varint(raw: Raw, at: int) -> tuple[int, int]:
    """An unsigned number and where it ends."""
    value = shift = 0
    while shift < 70:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7
    raise FormatError("a page's header cannot be read", must="a whole Parquet file")


def _struct(raw: Raw, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """A structure's numbers and structures by their fields, and where it ends."""
    fields: dict[int, Any] = {}
    name = 0
    while True:
        head = raw[at]
        at += 1
        if not head:
            return fields, at
        if head >> 4:
            name += head >> 4
        else:
            name, at = _varint(raw, at)
            name = (name >> 1) ^ -(name & 1)
        fields[name], at = _value(raw, at, head & 0x0F, depth)


def _value(raw: Raw, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """A field's value, None for those that do not matter, and where it ends."""
    if kind in (1, 2):  # true and false take no room
        return None, at
    if kind == 3:
        return None, at + 1
    if kind in (4, 5, 6):
        value, at = _varint(raw, at)
        return (value >> 1) ^ -(value & 1), at
    if kind == 7:
        return None, at + 8
    if kind == 8:
        length, at = _varint(raw, at)
        return None, at + length
    if kind == 12 and depth < _DEEPEST:
        return _struct(raw, at, depth + 1)
    raise FormatError("a page's header cannot be read", must="a whole Parquet file")
