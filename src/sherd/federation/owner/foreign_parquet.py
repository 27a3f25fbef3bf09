"""How much memory the columns of a stranger's Parquet file take, before Arrow reads them.

A page of a few hundred bytes may say that it unfolds to two gigabytes, and texts that are written
as changes of the one before may each be as long as the first. The footer's sums are what its
writer says; what counts is in the head of every page, a Thrift struct in compact form.

Columns that Sherd releases are written plainly or through a list of their values.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow.parquet as pq

MOST_HEAD = 1 << 16
"""The most bytes of a page's head."""

MOST_PAGES = 1 << 20

_PLAIN = frozenset({0, 2, 3, 8})
"""Plain, runs of equal numbers, and the two names of places in a list of values."""

_HEADS = {5: 2, 7: 2, 8: 4}
"""The field of each kind of page, and in it that of the encoding."""


class _Compact:
    """Reads a struct in Thrift's compact form; ValueError for what is none."""

    def __init__(self, data: bytes) -> None:
        self._data, self.place = data, 0

    def _byte(self) -> int:
        if self.place >= len(self._data):
            raise ValueError
        self.place += 1
        return self._data[self.place - 1]

    def _number(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return (value >> 1) ^ -(value & 1)
        raise ValueError

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """A struct's fields by their numbers."""
        if depth > 8:
            raise ValueError
        fields: dict[int, Any] = {}
        last = 0
        while head := self._byte():
            last = last + (head >> 4) if head >> 4 else self._number()
            fields[last] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._number()
        if kind in (7, 8):
            size = 8 if kind == 7 else self._number_unsigned()
            self.place += size
            if self.place > len(self._data):
                raise ValueError
            return None
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError  # no head of a page has lists

    def _number_unsigned(self) -> int:
        signed = self._number()
        return signed << 1 if signed >= 0 else (-signed << 1) - 1


def unfolded(file: pq.ParquetFile, raw: memoryview, columns: Collection[str]) -> int:
    """The bytes that these columns' pages unfold to; ValueError where a page is none of ours."""
    total = pages = 0
    for group in range(file.metadata.num_row_groups):
        for number in range(file.metadata.num_columns):
            column = file.metadata.row_group(group).column(number)
            if column.path_in_schema not in columns:
                continue
            starts = (column.dictionary_page_offset, column.data_page_offset)
            place = min(start for start in starts if start)
            end = place + column.total_compressed_size
            while place < end <= len(raw):
                unfolds, place = _page(raw, place)
                total, pages = total + unfolds, pages + 1
                if pages > MOST_PAGES:
                    raise ValueError
            if place != end:
                raise ValueError
    return total


def _page(raw: memoryview, place: int) -> tuple[int, int]:
    """How many bytes a page unfolds to, and where the next one begins."""
    reader = _Compact(bytes(raw[place : place + MOST_HEAD]))
    try:
        head = reader.struct()
        unfolds, stored = head[2], head[3]
        kinds = [number for number in _HEADS if number in head]
        encodings = [head[number][_HEADS[number]] for number in kinds]
    except (LookupError, TypeError, struct.error):
        raise ValueError from None
    if unfolds < 0 or stored < 0 or not kinds or not _PLAIN.issuperset(encodings):
        raise ValueError
    return unfolds, place + reader.place + stored
