"""Ordered centroids as something to draw from: a strict release has no rows.

Each attribute is drawn by itself, every centroid as often as its cluster is large; nothing
ties attributes together, so a draw shuffles each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.auditing.case.record_drawing import data_of
from sherd.tables.schema import Schema
from sherd.verifying.label_meaning import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sherd.auditing.case.record_drawing import CountQuery
    from sherd.randomness import Randomness


def centroids(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> CentroidRelease:
    """A strict release as something to draw from."""
    schema = Schema.from_data(manifest["schema"])
    return CentroidRelease(table=data_of(tables), schema=schema)


def _value(cell: Any, kind: str) -> Any:
    """A cell in the attribute's own kind: texts stand for truth values, dates and times."""
    return parsed(cell, kind) if isinstance(cell, str) else cell


@dataclass(frozen=True, kw_only=True)
class CentroidRelease:
    """A table of attribute, cluster, size, value and text."""

    table: pa.Table
    schema: Schema

    def _columns(self) -> dict[str, pa.Array]:
        found = {}
        for name in pc.unique(self.table.column("attribute")).to_pylist():
            part = self.table.filter(pc.equal(self.table.column("attribute"), name))
            field = "value" if self.schema[name].type.value in ("number", "integer") else "text"
            times = np.repeat(np.arange(part.num_rows), part.column("size").to_numpy())
            found[name] = part.column(field).combine_chunks().take(pa.array(times))
        return found

    def draw(self, randomness: Randomness, n_draws: int) -> Iterator[pa.Table]:
        """Tables of independent columns, each with its centroids in random rows."""
        columns = self._columns()
        for _ in range(n_draws):
            yield pa.table(
                {
                    name: column.take(pa.array(randomness.permutation(len(column))))
                    for name, column in columns.items()
                }
            )

    def count(self, query: CountQuery) -> float:
        """The expected count: the product of the shares of each condition."""
        columns = self._columns()
        rows = len(next(iter(columns.values())))
        share = 1.0
        for name, condition in query.where.items():
            kind = self.schema[name].type.value
            listed = columns[name].value_counts().to_pylist()
            share *= sum(
                one["counts"] for one in listed if condition.holds(_value(one["values"], kind))
            )
            share /= rows
        return share * rows
