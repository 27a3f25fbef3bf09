"""The snapshot of a table on a cluster: its rows, read once, in an order that is drawn once."""

from __future__ import annotations

import itertools
import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.engines.spark_failures import spark_failures
from sherd.engines.spark_stages import failure
from sherd.errors import SherdError
from sherd.methods.ranking.distributed_blocks import GATHERED, ORDER, packed, record
from sherd.randomness import Randomness
from sherd.tables.coding import arrow_array, numpy_array, positions
from sherd.tables.conform import conform
from sherd.tables.prepare import prepare, too_many_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sherd.tables.axis import Axis
    from sherd.tables.schema import Schema


UNIT = "unit"
"""The column with a hash of each row's unit, beside columns that are named by their place."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Step ``rows``: read the source once, draw a part and an order for every row.

    What is ranked goes into a record as positions on its axis, the rest beside it, with a column
    that says which of the positions are missing where some are.
    """

    schema: Schema
    axes: tuple[Axis, ...]
    parts: int
    shuffle: bool
    names: tuple[str, ...] | None = None
    gathered: int = GATHERED

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks of rows by part, and at the end what was counted."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else int(context.partitionId())
        own = {"task": task, "attempt": secrets.token_hex(8)}
        read, kept, seq, units = 0, 0, 0, 0
        treated: dict[tuple[str, str, str], int] = {}
        present = [0] * len(self.axes)
        try:
            for table in _gathered(batches, self.gathered):
                if UNIT in table.column_names:
                    units += _sum(table.column(UNIT))
                given = self._named(table)
                ready = prepare(
                    conform(given, self.schema, shown="the table"), self.schema, part=True
                )
                read += table.num_rows
                for one in ready.treated:
                    key = (one.attribute, one.how, one.why)
                    treated[key] = treated.get(key, 0) + one.cells
                for part, codes, rest in self._drawn(_plain(ready.table), task, kept):
                    fields = {"part": part, "span": seq, "beside": packed(rest), **own}
                    yield record("rows", rest.num_rows, packed(codes), **fields)
                    for number, column in enumerate(codes.columns):
                        present[number] += len(column) - column.null_count
                kept += ready.table.num_rows
                seq += 1
        except SherdError as error:
            yield record("failed", 0, note=failure(error), **own)
            return
        facts = {
            "read": read,
            "treated": [[*key, cells] for key, cells in treated.items()],
            "present": present,
            "units": units,
        }
        yield record("count", kept, note=json.dumps(facts), **own)

    def _named(self, table: pa.Table) -> pa.Table:
        """The columns of the source under their own names."""
        if self.names is None:
            return table
        return table.select(list(range(len(self.names)))).rename_columns(list(self.names))

    def _drawn(
        self, table: pa.Table, task: int, before: int
    ) -> Iterator[tuple[int, pa.Table, pa.Table]]:
        """For every part its rows: positions of what is ranked, and the rest with its order."""
        rows = table.num_rows
        codes = pa.table({axis.name: self._coded(table, axis) for axis in self.axes})
        rest = table.drop_columns(codes.column_names)
        for name in codes.column_names:
            if codes.column(name).null_count:
                rest = rest.append_column(name, codes.column(name).is_null())
        if not self.shuffle:
            order = arrow_array(np.arange(before, before + rows).astype(np.uint64))
            yield task, codes, rest.append_column(ORDER, order)
            return
        # Taken from the system in the task: forked workers share no state of a generator. One
        # word decides both, so that the release is in the order of these words.
        words = Randomness.from_system().words(rows)
        part = ((words >> np.uint64(32)) * np.uint64(self.parts) >> np.uint64(32)).astype(np.uint16)
        by_part = arrow_array(np.argsort(part, kind="stable"))
        codes = codes.take(by_part)
        rest = rest.append_column(ORDER, arrow_array(words)).take(by_part)
        cuts = np.cumsum([0, *np.bincount(part, minlength=self.parts)]).tolist()
        for number, (start, stop) in enumerate(itertools.pairwise(cuts)):
            if stop > start:
                yield number, codes.slice(start, stop - start), rest.slice(start, stop - start)

    def _coded(self, table: pa.Table, axis: Axis) -> pa.Array:
        """An attribute's positions in as few bytes as its axis allows; missing ones are null."""
        found, gaps = positions(table.column(axis.name), axis, self.schema.missing_values)
        small = found.astype(np.min_scalar_type(axis.steps))
        return arrow_array(small, gaps if gaps.any() else None)


def numbered(frame: Any) -> Any:
    """The frame with columns that are named by their place.

    Spark takes a dot in a column's name for a field of a structure, and a backtick for a quote.
    """
    return frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))


def check_units(frame: Any, unit: int, schema: Schema) -> tuple[Any, tuple[int, int]]:
    """Refuse a numbered frame in which somebody has more rows than the schema allows.

    It comes back with a column that holds a hash of each row's unit, and with it the number of rows
    and the sum of these hashes. Whoever reads the frame afterwards compares: a source may have
    changed between the two readings.
    """
    from pyspark.sql import functions as spark

    hashed = frame.withColumn(UNIT, spark.xxhash64(f"c{unit}"))
    counts = hashed.groupBy(f"c{unit}", UNIT).agg(spark.count("*").alias("n"))
    weighed = spark.sum(spark.col(UNIT).cast("decimal(20,0)") * spark.col("n"))
    with spark_failures():
        most, rows, total = counts.agg(spark.max("n"), spark.sum("n"), weighed).collect()[0]
    if most is not None and int(most) > schema.rows_per_unit:
        raise too_many_rows(schema)
    return hashed, (int(rows or 0), int(total or 0))


def _sum(words: pa.ChunkedArray) -> int:
    """The exact sum of words of 64 bits."""
    whole = numpy_array(words.combine_chunks())
    return (int((whole >> 32).sum()) << 32) + int((whole & 0xFFFFFFFF).sum())


def _gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            count += batch.num_rows
        if count >= rows:
            yield pa.Table.from_batches(held)
            held, count = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _plain(table: pa.Table) -> pa.Table:
    """The table without dictionaries, which differ from block to block."""
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(field.type.value_type))
    return table
