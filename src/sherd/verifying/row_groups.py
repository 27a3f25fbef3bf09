"""Groups of a released table's rows, in arrays that lie in files where they are long.

An array as long as the table is mapped from a temporary file without a name: the system writes its
pages out when memory is short, and takes the file away when the process ends, however it ends.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.tables.coding import numpy_array
from sherd.verifying.stored_table import PIECE, StoredTable, pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

WINDOW = PIECE
"""Places of an array that are looked at together."""

SMALL = 1 << 20
"""Bytes of an array that is held in memory."""

_ODD = np.uint64(0x9E3779B97F4A7C15)
NOWHERE = np.iinfo(np.int64).min
"""The group of a row that is in none."""


def scratch(length: int, kind: Any) -> NDArray[Any]:
    """Room for so many numbers, mapped from a file where they are many."""
    size = length * np.dtype(kind).itemsize
    if size <= SMALL:
        return np.zeros(length, kind)
    with tempfile.TemporaryFile() as file:
        # A full disk is told here, as an error; later it would end the process.
        os.posix_fallocate(file.fileno(), 0, size)
        return np.memmap(file, kind, "r+", shape=(length,))


def windows(length: int) -> Iterator[slice]:
    """An array's places, some at a time."""
    for start in range(0, length, WINDOW):
        yield slice(start, min(start + WINDOW, length))


def sorted_distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """Every number once, in order."""
    ordered = scratch(len(numbers), numbers.dtype)
    ordered[:] = numbers
    ordered.sort()
    kept = 0
    last: Any = None
    for here in windows(len(ordered)):
        part = np.array(ordered[here])
        new = np.ones(len(part), np.bool_)
        new[1:] = part[1:] != part[:-1]
        new[0] = last is None or part[0] != last
        last = part[-1]
        part = part[new]
        ordered[kept : kept + len(part)] = part
        kept += len(part)
    return ordered[:kept]


def ranked(numbers: NDArray[Any], among: NDArray[Any]) -> Ints:
    """The place of every number among those sorted."""
    places = scratch(len(numbers), np.int64)
    for here in windows(len(numbers)):
        places[here] = np.searchsorted(among, numbers[here])
    return places


def placed(numbers: Ints, groups: int) -> tuple[Ints, Ints, Ints]:
    """Places by group: all of them, group after group; each group's size, and where it starts."""
    size, cursor = scratch(groups, np.int64), scratch(groups, np.int64)
    for here in windows(len(numbers)):
        groups_here, times = np.unique(numbers[here], return_counts=True)
        size[groups_here] += times
    start = scratch(groups, np.int64)
    np.cumsum(size, out=start)
    start -= size
    cursor[:] = start
    members = scratch(len(numbers), np.int64)
    for here in windows(len(numbers)):
        part = numbers[here]
        order = np.argsort(part, kind="stable")
        groups_here, first, times = np.unique(part[order], return_index=True, return_counts=True)
        within = np.arange(len(part)) - np.repeat(first, times)
        members[cursor[part[order]] + within] = here.start + order
        cursor[groups_here] += times
    return members, size, start


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """The members of every group of one table, groups numbered from 0 in the order of ids."""

    ids: Ints
    of_tuple: Ints
    members: Ints
    size: Ints
    start: Ints

    @classmethod
    def of(cls, table: pa.Table | StoredTable, column: str, *, filled: bool = False) -> Grouping:
        """By a column of group ids; with ``filled``, of the rows that have one."""
        raw = scratch(table.num_rows, np.int64)
        at = 0
        for piece in pieces(table, column):
            cells = piece.column(column).combine_chunks()
            cells = cells.drop_null() if filled else cells
            part = numpy_array(pc.fill_null(cells.cast(pa.int64()), NOWHERE))
            raw[at : at + len(part)] = part
            at += len(part)
        raw = raw[:at]
        ids = sorted_distinct(raw)
        of_tuple = ranked(raw, ids)
        members, size, start = placed(of_tuple, len(ids))
        return cls(ids=ids, of_tuple=of_tuple, members=members, size=size, start=start)

    def number(self, ids: NDArray[Any]) -> Ints:
        """The numbers of groups, by their ids."""
        return np.searchsorted(self.ids, ids).astype(np.int64)

    def counts_as(self, other: Grouping) -> bool:
        """Whether both have the same ids, each as often."""
        return len(self.ids) == len(other.ids) and all(
            (self.ids[here] == other.ids[here]).all()
            and (self.size[here] == other.size[here]).all()
            for here in windows(len(self.ids))
        )

    def expand(self, groups: Ints) -> tuple[Ints, Ints]:
        """For every entry, all members of its group: which entry, which tuple."""
        size = self.size[groups]
        entry = np.repeat(np.arange(len(groups)), size)
        within = np.arange(len(entry)) - np.repeat(np.cumsum(size) - size, size)
        return entry, self.members[self.start[groups][entry] + within]


def value_codes(table: pa.Table | StoredTable, names: Sequence[str]) -> Ints:
    """One number for every combination of values; missing is a value.

    Of a table in its file values are known by a hash of 64 bits. Two that share one are taken for
    the same, which can only make a release look less loose than it is: within a group that reaches
    a thousand values it happens once in 10^13 groups.
    """
    if isinstance(table, StoredTable):
        words = scratch(table.num_rows, np.uint64)
        at = 0
        for piece in pieces(table, *names):
            mixed = np.zeros(piece.num_rows, np.uint64)
            for name in names:
                mixed = (mixed ^ _hashes(piece.column(name).combine_chunks())) * _ODD
                mixed ^= mixed >> np.uint64(29)
            words[at : at + len(mixed)] = mixed
            at += len(mixed)
        return ranked(words, sorted_distinct(words))
    total = np.zeros(table.num_rows, np.int64)
    for name in names:
        column = table.column(name).combine_chunks()
        if not pa.types.is_dictionary(column.type):
            column = pc.dictionary_encode(column)
        # a dictionary may list a value twice: what counts is the value
        same = np.unique(np.asarray(column.dictionary.cast(pa.string())), return_inverse=True)[1]
        indices = pc.fill_null(column.indices.cast(pa.int64()), len(same)).to_numpy()
        codes = np.append(same, len(same))[indices]
        total = np.unique(total * (len(same) + 1) + codes, return_inverse=True)[1]
    return total.astype(np.int64)


def _hashes(column: pa.Array) -> NDArray[np.uint64]:
    """A number for every cell by its text, the same for equal texts of any piece."""
    encoded = column.dictionary_encode()
    words = [_hash(text) for text in encoded.dictionary.cast(pa.string()).to_pylist()]
    places = pc.fill_null(encoded.indices.cast(pa.int64()), len(words)).to_numpy()
    hashed: NDArray[np.uint64] = np.array([*words, _hash(None)], np.uint64)[places]
    return hashed


def _hash(text: str | None) -> int:
    given = b"" if text is None else b"=" + text.encode()
    return int.from_bytes(hashlib.blake2b(given, digest_size=8).digest(), "big")


def alike(table: pa.Table | StoredTable) -> bool:
    """Whether two of a table's cells are the same text, in whichever columns."""
    words = scratch(table.num_rows * table.num_columns, np.uint64)
    at = 0
    for name in table.column_names:
        for piece in pieces(table, name):
            part = _hashes(piece.column(name).combine_chunks())
            words[at : at + len(part)] = part
            at += len(part)
    words = words[:at]
    words.sort()
    twice: set[int] = set()
    for here in windows(len(words)):
        part = np.array(words[max(0, here.start - 1) : here.stop])
        twice.update(part[1:][part[1:] == part[:-1]].tolist())
        if len(twice) > WINDOW:
            return True  # so many hashes of 64 bits are not shared by chance
    seen: set[str | None] = set()
    for name in table.column_names if twice else ():
        for piece in pieces(table, name):
            column = piece.column(name).combine_chunks()
            shared = np.isin(_hashes(column), np.array(sorted(twice), np.uint64))
            for cell in column.filter(pa.array(shared)).to_pylist():
                if cell in seen:
                    return True
                seen.add(cell)
    return False
