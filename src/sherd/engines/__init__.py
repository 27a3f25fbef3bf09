"""Where the heavy work of a release runs: in memory, column by column, or by an external sorter.

A ranking method needs four things that grow with the table: the places of the rows in the
release, words to sort, cells to fill, and finished columns to keep until they are written.
An engine decides where these lie and how words are sorted. Everything else (ranks, sums,
noise, ties, remainders) is computed by the same code on every engine, so that results are
the same to the bit where no noise is drawn.
"""

from __future__ import annotations

from sherd.engines.engine import ENGINES, Engine, InMemory
from sherd.engines.selection import Choice, choose, parse_size

__all__ = ["ENGINES", "Choice", "Engine", "InMemory", "choose", "parse_size"]
