"""The form in which a cluster releases a table, and the steps that depend on nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.methods.ranking.column_masking import ColumnJob, each_value
from sherd.methods.ranking.distributed_blocks import groups, packed, record, rows_of_part, unpacked
from sherd.randomness import Randomness
from sherd.tables.canonical_form import cell_type
from sherd.tables.coding import arrow_array, storage, wrap
from sherd.tables.released_form import released_form

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sherd.release.method import Run
    from sherd.tables.schema import Attribute, Schema


@dataclass(frozen=True, kw_only=True)
class MaskEach:
    """Step ``noise`` without ranking: a part's rows, every value with its own noise."""

    jobs: tuple[ColumnJob, ...]
    form: Form

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A part's masked rows as one block."""
        for (part,), blocks in groups(batches, "part"):
            table, places = rows_of_part(blocks)
            back = arrow_array(np.argsort(places))
            columns = {n: table.column(n).take(back) for n in self.form.names}
            for job in self.jobs:
                own = {
                    "column": table.column(job.axis.name),
                    "randomness": Randomness.from_system(),
                }
                columns[job.axis.name] = each_value(replace(job, **own), places)
            yield record("part", len(places), packed(self.form.made(columns)), part=part)


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in blocks."""
    for _part, blocks in groups(batches, "part"):
        for one in blocks:
            yield from unpacked(one["block"]).to_batches()


@dataclass(frozen=True, kw_only=True)
class Form:
    """The form of the release: names and types, which the schema alone decides."""

    names: tuple[str, ...]
    schema: pa.Schema
    kinds: dict[str, pa.DataType]
    shuffled: bool

    @classmethod
    def of(cls, names: tuple[str, ...], jobs: list[ColumnJob], schema: Schema, run: Run) -> Form:
        """The form that an empty table would have."""
        columns = {n: pa.array([], kind_of(schema[n])) for n in names}
        for job in jobs:
            columns[job.axis.name] = wrap(job.axis, no_cells(job), None, job.column.type)
        return cls(
            names=names,
            schema=released_form(pa.table(columns)).schema,
            kinds={job.axis.name: job.column.type for job in jobs},
            shuffled=run.shuffle,
        )

    def made(self, columns: dict[str, Any]) -> pa.Table:
        """These columns in the form of the release."""
        return pa.table([columns[n] for n in self.names], names=self.names).cast(self.schema)

    def spark(self) -> Any:
        """The form as Spark's own types."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(self.schema, True)


def kind_of(attribute: Attribute) -> pa.DataType:
    """The type of an attribute's column on the cluster: the schema's, labels as plain text."""
    kind = cell_type(attribute)
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def no_cells(job: ColumnJob) -> NDArray[Any]:
    """No cell, in the storage of the job's column."""
    return storage(job.axis, np.zeros(0, np.int64), 1, job.column.type)


@dataclass(frozen=True, kw_only=True)
class Finish:
    """Cells in storage form as the columns of the release."""

    axes: dict[str, Any]
    types: dict[str, pa.DataType]

    def __call__(
        self, name: str, cells: NDArray[Any], missing: NDArray[np.bool_] | None
    ) -> pa.Array:
        """One attribute's column."""
        return wrap(self.axes[name], cells, missing, self.types[name])
