"""What an owner of rows, or a party with cells, makes of its own fragment before it shares.

Counts leave here with the owner's part of the noise; codes of cells leave for the secure
computation, which shares them out. Beside the modules of one owner this is the only one that is
given a fragment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.methods.graphical.row_sums import sharing_of
from sherd.tables.coding import nulls

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.methods.graphical.learning import Design
    from sherd.methods.graphical.measuring import CodedTable
    from sherd.methods.graphical.row_questions import HistogramQuestion
    from sherd.randomness import Randomness
    from sherd.release.summed_rows import RowOwners
    from sherd.tables.schema import Schema

    Numbers = NDArray[np.int64]
    Codes = tuple[Numbers, ...]


def own_counts(
    table: CodedTable, among: RowOwners, question: HistogramQuestion, randomness: Randomness
) -> Numbers:
    """One owner's noisy counts, one histogram after the other."""
    sharing = sharing_of(among)
    answers: list[Numbers] = []
    for one in question.requests:
        counts = table.histogram(one.marginal).ravel()
        part = sharing.part(one.noise, one.marginal.cells)
        answers.append(counts + part.draw(randomness, counts.size))
    return np.concatenate(answers)


def own_codes(table: pa.Table, schema: Schema, design: Design) -> Codes:
    """The fine code of every cell that this party holds, −1 elsewhere.

    An empty cell, or a column that is not there, is another party's.
    """
    codes = []
    for grid in design.grids:
        if grid.name not in table.column_names:
            codes.append(np.full(table.num_rows, -1, np.int64))
            continue
        column = table.column(grid.name)
        held = ~nulls(column.combine_chunks())
        if not held.any():
            codes.append(np.full(table.num_rows, -1, np.int64))
            continue
        mine = grid.codes(column, schema.missing_values).astype(np.int64)
        codes.append(np.where(held, mine, -1))
    return tuple(codes)
