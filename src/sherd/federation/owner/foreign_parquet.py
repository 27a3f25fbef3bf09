"""How much memory the columns of a stranger's Parquet file take, before Arrow reads them.

A page of a few hundred bytes may say that it unfolds to two gigabytes, and texts that are written
as changes of the one before may each be as long as the first. The footer's sums are what its
writer says; what counts is in the header of every page (``sherd.verifying.parquet_pages``).

Columns that Sherd releases are written plainly or through a list of their values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.verifying.parquet_pages import pages

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow.parquet as pq

MOST_PAGES = 1 << 20

_PLAIN = frozenset({0, 2, 3, 8})
"""Plain, runs of equal numbers, and the two names of places in a list of values."""


def unfolded(file: pq.ParquetFile, raw: memoryview, columns: Collection[str]) -> int:
    """The bytes that these columns' pages unfold to; ValueError where a page is none of ours."""
    total = seen = 0
    for group in range(file.metadata.num_row_groups):
        for number in range(file.metadata.num_columns):
            column = file.metadata.row_group(group).column(number)
            if column.path_in_schema not in columns:
                continue
            try:
                for page in pages(raw, column):
                    total, seen = total + page.unpacked, seen + 1
                    if page.unpacked < 0 or page.encoding not in _PLAIN or seen > MOST_PAGES:
                        raise ValueError
            except (LookupError, TypeError):
                raise ValueError from None
    return total
