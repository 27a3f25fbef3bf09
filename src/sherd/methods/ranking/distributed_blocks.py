"""Individual ranking on a cluster: what executors do, from blocks to blocks.

Notation: a *part* is a share of the released rows, a *span* a range of one attribute's words
(position and place, packed as in ``individual_ranking``). Rows are drawn into parts, words go
to spans, cells come back to parts. Ranks are exact: a span knows how many words lie before it.
"""

from __future__ import annotations

import itertools
import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.engines.spark_stages import failure
from sherd.errors import InternalError, SherdError
from sherd.methods.ranking.individual_ranking import Ranking, reduce
from sherd.randomness import Randomness
from sherd.randomness.tie_breaking import WIDTH, TieBits, tie_width
from sherd.tables.coding import arrow_array, positions
from sherd.tables.conform import conform
from sherd.tables.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from sherd.tables.axis import Axis
    from sherd.tables.schema import Schema

ORDER = "sherd order"
"""The column that holds a row's random order in its part."""

RECORD = pa.schema(
    [
        ("kind", pa.string()),
        ("task", pa.int32()),
        ("attempt", pa.string()),
        ("part", pa.int32()),
        ("column", pa.int32()),
        ("span", pa.int32()),
        ("rows", pa.int64()),
        ("block", pa.binary()),
    ]
)
_GATHERED = 1 << 20
"""Rows a task gathers before it draws parts for them."""


def record(kind: str, rows: int, block: Any = None, **fields: Any) -> pa.RecordBatch:
    """One record, as a batch of its own."""
    values = {"task": -1, "attempt": "", "part": -1, "column": -1, "span": -1, **fields}
    row = {"kind": kind, "rows": rows, "block": block, **values}
    return pa.RecordBatch.from_pydict({n: [row[n]] for n in RECORD.names}, schema=RECORD)


def packed(table: pa.Table) -> bytes:
    """A table as the bytes of an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def unpacked(block: Any) -> pa.Table:
    """The table in a block."""
    return pa.ipc.open_stream(block).read_all()


def groups(
    batches: Iterable[pa.RecordBatch], *keys: str
) -> Iterator[tuple[tuple[int, ...], list[dict[str, Any]]]]:
    """Records with equal keys, which follow each other, together."""
    current: tuple[int, ...] | None = None
    held: list[dict[str, Any]] = []
    for batch in batches:
        names = batch.schema.names
        for at in range(batch.num_rows):
            one = {
                n: batch.column(n)[at].as_buffer()
                if pa.types.is_binary(batch.schema.field(n).type)
                or pa.types.is_large_binary(batch.schema.field(n).type)
                else batch.column(n)[at].as_py()
                for n in names
            }
            key = tuple(one[k] for k in keys)
            if current is not None and key != current:
                yield current, held
                held = []
            current = key
            held.append(one)
    if current is not None:
        yield current, held


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Step ``rows``: read the source once, draw a part and an order for every row."""

    schema: Schema
    parts: int
    shuffle: bool
    gathered: int = _GATHERED

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks of rows by part, and at the end what was counted."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else int(context.partitionId())
        own = {"task": task, "attempt": secrets.token_hex(8)}
        read, kept, seq = 0, 0, 0
        treated: dict[tuple[str, str, str], int] = {}
        try:
            for table in _gathered(batches, self.gathered):
                ready = prepare(
                    conform(table, self.schema, shown="the table"), self.schema, part=True
                )
                read += table.num_rows
                for one in ready.treated:
                    key = (one.attribute, one.how, one.why)
                    treated[key] = treated.get(key, 0) + one.cells
                for part, rows in self._drawn(_plain(ready.table), task, kept):
                    block = packed(rows)
                    yield record("rows", rows.num_rows, block, part=part, span=seq, **own)
                kept += ready.table.num_rows
                seq += 1
        except SherdError as error:
            yield record("failed", 0, failure(error), **own)
            return
        facts = {"read": read, "treated": [[*key, cells] for key, cells in treated.items()]}
        yield record("count", kept, json.dumps(facts).encode(), **own)

    def _drawn(self, table: pa.Table, task: int, before: int) -> Iterator[tuple[int, pa.Table]]:
        rows = table.num_rows
        if not self.shuffle:
            order = arrow_array(np.arange(before, before + rows).astype(np.uint64))
            yield task, table.append_column(ORDER, order)
            return
        # Taken from the system in the task: forked workers share no state of a generator.
        words = Randomness.from_system()
        part = words.below(self.parts, rows).astype(np.int64)
        table = table.append_column(ORDER, arrow_array(words.words(rows)))
        by_part = np.argsort(part, kind="stable")
        table = table.take(arrow_array(by_part))
        counts = np.bincount(part, minlength=self.parts)
        start = 0
        for number, count in enumerate(counts.tolist()):
            if count:
                yield number, table.slice(start, count)
            start += count


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


def rows_of_part(blocks: Sequence[dict[str, Any]]) -> tuple[pa.Table, NDArray[np.int64]]:
    """A part's rows as they came, and where in the part each row stands."""
    table = pa.concat_tables([unpacked(one["block"]) for one in blocks])
    order = np.argsort(np.asarray(table.column(ORDER)), kind="stable")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return table.drop_columns([ORDER]), places


@dataclass(frozen=True, kw_only=True)
class PackWords:
    """Step ``words``: pack positions and places, and cut them into spans."""

    axes: tuple[Axis, ...]
    missing_values: tuple[str, ...]
    bits: int
    offsets: dict[int, int]
    splitters: tuple[NDArray[np.uint64], ...]
    tie_seeds: tuple[NDArray[np.uint64] | None, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks of words by attribute and span, and what else belongs to a part."""
        for (part,), blocks in groups(batches, "part"):
            table, places = rows_of_part(blocks)
            masks = {}
            for number, axis in enumerate(self.axes):
                words, gaps = self._packed(table.column(axis.name), number, places, part)
                if gaps.any():
                    mask = np.zeros(len(places), np.bool_)
                    mask[places] = gaps
                    masks[axis.name] = arrow_array(mask)
                cuts = [0, *np.searchsorted(words, self.splitters[number]).tolist(), len(words)]
                for span, (start, stop) in enumerate(itertools.pairwise(cuts)):
                    if stop > start:
                        block = words[start:stop].tobytes()
                        fields = {"part": part, "column": number, "span": span}
                        yield record("words", stop - start, block, **fields)
            rest = table.drop_columns([axis.name for axis in self.axes])
            back = np.empty(len(places), np.int64)
            back[places] = np.arange(len(places))
            if rest.num_columns:
                rest = rest.take(arrow_array(back))
            yield record("rest", len(places), packed(rest), part=part)
            yield record("gaps", len(places), packed(pa.table(masks)), part=part)

    def _packed(
        self, column: pa.ChunkedArray, number: int, places: NDArray[np.int64], part: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        axis, seed = self.axes[number], self.tie_seeds[number]
        found, gaps = positions(column, axis, self.missing_values)
        place = (places + self.offsets[part]).astype(np.uint64)
        width = 0 if seed is None else tie_width(axis.steps, self.bits)
        words = (found.view(np.uint64) << np.uint64(self.bits + width)) | place
        if seed is not None and width:
            # The seed was drawn by the driver: a task that is tried again draws the same bits.
            drawn = TieBits(seed, part).take(len(words)) >> np.uint16(WIDTH - width)
            words |= drawn.astype(np.uint64) << np.uint64(self.bits)
        words = words[~gaps] if gaps.any() else words
        words.sort()
        return words, gaps


@dataclass(frozen=True, kw_only=True)
class Span:
    """Where a span lies among an attribute's ranks: from ``start``, of ``count`` in ``total``."""

    start: int
    count: int
    total: int
    k: int

    @property
    def clusters(self) -> int:
        """How many clusters the attribute has."""
        return self.total // self.k

    def whole(self) -> tuple[int, int]:
        """The clusters that lie in the span with all their words, the last one never."""
        first = -(-self.start // self.k)
        last = min((self.start + self.count) // self.k, self.clusters - 1)
        return (first, last) if last > first else (first, first)

    def touched(self) -> tuple[int, int]:
        """The clusters that have any word in the span."""
        last = min((self.start + self.count - 1) // self.k, self.clusters - 1)
        return min(self.start // self.k, self.clusters - 1), last + 1


Spans = dict[tuple[int, int], Span]


@dataclass(frozen=True, kw_only=True)
class ReduceSpans:
    """Step ``clusters``: sort every span, reduce whole clusters, keep the edges as they are."""

    bits: int
    spans: Spans
    depth: int
    ties: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Sorted words, sums and edges of every span."""
        for (column, number), blocks in groups(batches, "column", "span"):
            words = np.concatenate([np.frombuffer(one["block"], np.uint64) for one in blocks])
            words.sort()
            span = self.spans[column, number]
            if len(words) != span.count:
                raise InternalError("a span holds another number of words than were sent to it")
            fields = {"column": column, "span": number}
            yield record("sorted", len(words), words.tobytes(), **fields)
            first, last = span.whole()
            start, stop = first * span.k - span.start, last * span.k - span.start
            edges = [(span.start, words)]
            if last > first:
                inside = Ranking(
                    words=words[start:stop],
                    bits=self.bits,
                    k=span.k,
                    missing=np.empty(0, np.uint32),
                    ties=self.ties[column],
                )
                made = reduce(inside, self.depth)
                table = pa.table({"sums": made.sums, **_extremes(made.low, made.high)})
                yield record("sums", first, packed(table), **fields)
                edges = [(span.start, words[:start]), (span.start + stop, words[stop:])]
            for rank, raw in edges:
                if len(raw):
                    cells = (raw >> np.uint64(self.bits + self.ties[column])).tobytes()
                    yield record("edge", rank, cells, **fields)


def _extremes(low: Sequence[Any], high: Sequence[Any]) -> dict[str, Any]:
    return {f"low{i}": a for i, a in enumerate(low)} | {f"high{i}": a for i, a in enumerate(high)}


@dataclass(frozen=True, kw_only=True)
class PutBack:
    """The first half of step ``release``: every word's cell, sent to the part of its place."""

    bits: int
    spans: Spans
    starts: NDArray[np.int64]
    parts: tuple[int, ...]
    kinds: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks of places and cells by part and attribute."""
        mask = np.uint64((1 << self.bits) - 1)
        for (column, number), (one,) in groups(batches, "column", "span"):
            span = self.spans[column, number]
            cells = np.frombuffer(one["cells"], self.kinds[column])
            first, _last = span.touched()
            rank = np.arange(span.start, span.start + span.count) // span.k
            cluster = np.minimum(rank, span.clusters - 1) - first
            place = (np.frombuffer(one["block"], np.uint64) & mask).astype(np.int64)
            home = (np.searchsorted(self.starts, place, "right") - 1).astype(np.uint16)
            by_home = np.argsort(home, kind="stable")
            place, value = place[by_home], cells[cluster[by_home]]
            cuts = np.searchsorted(home[by_home], np.arange(len(self.parts) + 1))
            for at, (start, stop) in enumerate(itertools.pairwise(cuts)):
                if stop > start:
                    local = (place[start:stop] - self.starts[at]).astype(np.uint32)
                    yield record(
                        "cells",
                        int(stop - start),
                        local.tobytes() + value[start:stop].tobytes(),
                        part=self.parts[at],
                        column=column,
                        span=number,
                    )


@dataclass(frozen=True, kw_only=True)
class Assemble:
    """The second half of step ``release``: a part's columns out of cells, gaps and the rest."""

    axes: tuple[Axis, ...]
    kinds: tuple[str, ...]
    finish: Callable[[str, NDArray[Any], NDArray[np.bool_] | None], pa.Array]
    names: tuple[str, ...]
    form: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The released rows, part after part."""
        for _part, blocks in groups(batches, "part"):
            yield from self._part(blocks).to_batches()

    def _part(self, blocks: Sequence[dict[str, Any]]) -> pa.Table:
        rest = next(unpacked(one["block"]) for one in blocks if one["kind"] == "rest")
        gaps = next(unpacked(one["block"]) for one in blocks if one["kind"] == "gaps")
        rows = next(int(one["rows"]) for one in blocks if one["kind"] == "gaps")
        columns = {name: rest.column(name) for name in rest.column_names}
        for number, axis in enumerate(self.axes):
            missing = None
            if axis.name in gaps.column_names:
                missing = np.asarray(gaps.column(axis.name))
            out = np.zeros(rows, self.kinds[number])
            filled = np.zeros(rows, np.bool_) if missing is None else missing.copy()
            for one in blocks:
                if one["kind"] == "cells" and one["column"] == number:
                    count = int(one["rows"])
                    place = np.frombuffer(one["block"], np.uint32, count)
                    if filled[place].any():
                        raise InternalError("a cell was sent to its place twice")
                    filled[place] = True
                    out[place] = np.frombuffer(one["block"], self.kinds[number], count, 4 * count)
            if not filled.all():
                raise InternalError("a cell did not reach its place")
            columns[axis.name] = self.finish(axis.name, out, missing)
        return pa.table([columns[n] for n in self.names], names=self.names).cast(self.form)
