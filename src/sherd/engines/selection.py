"""Choosing an engine: by name, or by what the table needs and what the machine has."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sherd.engines.engine import ENGINES, LEAST_MEMORY, Engine, InMemory
from sherd.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLES_IN_MEMORY = 2.5
"""How many times its own size a table takes in memory: itself, the release, work in progress."""

COLUMN_BYTES = 28
"""What one column takes while it is worked on, a row: word, cell, place, and the shuffle."""

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """An engine's name, the memory it may use, and why it was chosen."""

    name: str
    memory: int
    why: str

    def make(self, scratch: Path | None = None) -> Engine:
        """The engine itself; its files lie in ``scratch``."""
        if self.name in ("memory", "database"):
            return InMemory()
        if self.name == "columns":
            from sherd.engines.mapped_columns import MappedColumns

            return MappedColumns(scratch)
        from sherd.engines.external_sort import ExternalSort

        return ExternalSort(scratch, memory=self.memory)


def choose(
    name: str = "auto",
    *,
    memory: int | None = None,
    rows: int | None = None,
    column_bytes: Sequence[int] = (),
    counts_in: str | None = None,
    only_memory: str | None = None,
) -> Choice:
    """The engine of that name, or for ``auto`` the lightest that the table fits.

    ``rows`` and ``column_bytes`` (bytes a row of each column) say how large the table is, as
    far as that is known without reading it. ``counts_in`` names a database that holds the
    table, where the method needs nothing but counts; ``only_memory`` says why ``auto`` has no
    other choice than memory.

    >>> choose("auto", memory=1 << 30, rows=1_000_000, column_bytes=[8] * 10).name
    'memory'
    >>> choose("auto", memory=1 << 30, rows=20_000_000, column_bytes=[8] * 10).name
    'columns'
    >>> choose("auto", memory=1 << 30, rows=100_000_000, column_bytes=[8]).name
    'duckdb'
    """
    known = ("auto", *ENGINES, "database")
    if name not in known:
        must = "one of " + ", ".join((*known, "spark"))
        raise UsageError("the engine is unknown", must=must, got=repr(name))
    room = available_memory() if memory is None else memory
    whole, column = (n * (rows or 0) for n in (TABLES_IN_MEMORY * sum(column_bytes), COLUMN_BYTES))
    if name != "auto" or (only_memory is not None and counts_in is None):
        name = "memory" if name == "auto" else name
        needed = {"memory": whole, "columns": column, "duckdb": LEAST_MEMORY}.get(name, 0)
        more = f", although that needs about {in_words(needed)} of {in_words(room)}"
        why = (only_memory or "as asked for") + (more if needed > room else "")
        return Choice(name=name, memory=room, why=why)
    if counts_in is not None:
        why = f"the method needs nothing but counts, and {counts_in} can count"
        return Choice(name="database", memory=room, why=why)
    if rows is None:
        return Choice(name="memory", memory=room, why="the table's size is not known beforehand")
    if whole <= room:
        why = f"the table needs about {in_words(whole)} of {in_words(room)}"
        return Choice(name="memory", memory=room, why=why)
    if column <= room:
        why = (
            f"the table needs about {in_words(whole)} of {in_words(room)}, "
            f"one column {in_words(column)}"
        )
        return Choice(name="columns", memory=room, why=why)
    why = f"one column alone needs about {in_words(column)} of {in_words(room)}"
    if room < LEAST_MEMORY:
        why += f", although that takes {in_words(LEAST_MEMORY)} at least"
    return Choice(name="duckdb", memory=room, why=why)


def available_memory() -> int:
    """The bytes this process may still take: the machine's, or its control group's limit."""
    free = int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_AVPHYS_PAGES"))
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) << 10
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        if limit.isdigit():
            free = min(free, int(limit))
    except OSError:
        pass  # not Linux, or no control group: what the machine says will do
    return free


def parse_size(text: str) -> int:
    """A number of bytes as people write it.

    >>> parse_size("2.5GB"), parse_size("512 MiB"), parse_size("1048576")
    (2684354560, 536870912, 1048576)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    if match is None or not (size := int(float(match[1]) * _UNITS[match[2].lower()])):
        raise UsageError(
            "the size of memory cannot be read", must="a size such as 2.5GB or 512MB", got=text
        )
    return size


def in_words(size: float) -> str:
    """A number of bytes in words.

    >>> in_words(2.5 * 2**30), in_words(300 * 2**20)
    ('2.5 GB', '300 MB')
    """
    return f"{size / 2**30:.3g} GB" if size >= 1 << 30 else f"{size / 2**20:.3g} MB"
