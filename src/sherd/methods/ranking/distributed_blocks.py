"""Individual ranking on a cluster: what executors do, from blocks to blocks.

Notation: a *part* is a share of the released rows, a *span* a range of one attribute's words
(position and place, packed as in ``individual_ranking``). Rows are drawn into parts, words go
to spans, cells come back to parts. Ranks are exact: a span knows how many words lie before it.

A row's *place* is its number among all rows as the snapshot holds them, part after part; in
which order a part's rows are released is drawn with them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.engines.spark_stages import RECORD
from sherd.errors import InternalError
from sherd.methods.ranking.individual_ranking import Ranking, reduce
from sherd.randomness.order import WIDTH, TieBits, tie_width
from sherd.tables.coding import arrow_array, nulls, numpy_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from sherd.tables.axis import Axis

ORDER = "sherd order"
"""The column that holds a row's random order in its part."""

GATHERED = 1 << 20
"""Rows a task gathers before it works on them."""

_PACKING = "lz4"
"""How sorted positions are packed: they are runs of nearly the same bytes."""


def record(kind: str, rows: int, block: Any = None, **fields: Any) -> pa.RecordBatch:
    """One record, as a batch of its own."""
    nothing = {f.name: -1 if pa.types.is_integer(f.type) else None for f in RECORD}
    row = nothing | {"kind": kind, "rows": rows, "block": block, **fields}
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


def records(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Every record by itself, its blocks as they lie in memory."""
    for batch in batches:
        binary = {f.name for f in batch.schema if f.type in (pa.binary(), pa.large_binary())}
        for at in range(batch.num_rows):
            yield {
                name: batch.column(name)[at].as_buffer()
                if name in binary
                else batch.column(name)[at].as_py()
                for name in batch.schema.names
            }


def groups(
    batches: Iterable[pa.RecordBatch], *keys: str
) -> Iterator[tuple[tuple[int, ...], list[dict[str, Any]]]]:
    """Records with equal keys, which follow each other, together."""
    for key, group in itertools.groupby(records(batches), lambda one: tuple(one[k] for k in keys)):
        yield key, list(group)


def rows_of_part(blocks: Sequence[dict[str, Any]]) -> tuple[pa.Table, NDArray[np.int64]]:
    """What lies beside a part's blocks, as it came, and where in the part each row is released."""
    table = pa.concat_tables([unpacked(one["beside"]) for one in blocks], promote_options="default")
    order = np.argsort(np.asarray(table.column(ORDER)), kind="stable")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return table.drop_columns([ORDER]), places


@dataclass(frozen=True, kw_only=True)
class RowBlock:
    """Where a block of the snapshot lies: its number, and the place of its first row."""

    number: int
    start: int


@dataclass(frozen=True, kw_only=True)
class PackWords:
    """The first half of step ``ranks``: pack positions and places, and cut them into spans."""

    axes: tuple[Axis, ...]
    bits: int
    blocks: dict[tuple[int, int, int], RowBlock]
    splitters: tuple[NDArray[np.uint64], ...]
    tie_seeds: tuple[NDArray[np.uint64] | None, ...]
    gathered: int = GATHERED

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks of words by attribute and span."""
        held: list[tuple[RowBlock, pa.Table]] = []
        for one in records(batches):
            block = self.blocks[one["part"], one["task"], one["span"]]
            held.append((block, unpacked(one["block"])))
            if sum(codes.num_rows for _block, codes in held) >= self.gathered:
                yield from self._cut(held)
                held = []
        if held:
            yield from self._cut(held)

    def _cut(self, held: list[tuple[RowBlock, pa.Table]]) -> Iterator[pa.RecordBatch]:
        for number in range(len(self.axes)):
            words = np.concatenate([self._packed(codes, number, block) for block, codes in held])
            words.sort()
            cuts = [0, *np.searchsorted(words, self.splitters[number]).tolist(), len(words)]
            for span, (start, stop) in enumerate(itertools.pairwise(cuts)):
                if stop > start:
                    block = words[start:stop].tobytes()
                    yield record("words", stop - start, block, column=number, span=span)

    def _packed(self, codes: pa.Table, number: int, block: RowBlock) -> NDArray[np.uint64]:
        axis, seed = self.axes[number], self.tie_seeds[number]
        column = codes.column(number).combine_chunks()
        width = 0 if seed is None else tie_width(axis.steps, self.bits)
        words = numpy_array(column).astype(np.uint64) << np.uint64(self.bits + width)
        words |= np.arange(block.start, block.start + len(words), dtype=np.uint64)
        if seed is not None and width:
            # The seed was drawn by the driver: a task that is tried again draws the same bits.
            drawn = TieBits(seed, block.number).take(len(words)) >> np.uint16(WIDTH - width)
            words |= drawn.astype(np.uint64) << np.uint64(self.bits)
        return words[~nulls(column)] if column.null_count else words


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


def place_type(bits: int) -> Any:
    """The numbers that places of so many bits are kept in."""
    return np.uint32 if bits <= 32 else np.uint64


@dataclass(frozen=True, kw_only=True)
class SortSpans:
    """The second half of step ``ranks``: sort every span; places, and positions beside them."""

    bits: int
    ties: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A record for every span."""
        mask = np.uint64((1 << self.bits) - 1)
        for (column, span), blocks in groups(batches, "column", "span"):
            words = np.concatenate([np.frombuffer(one["block"], np.uint64) for one in blocks])
            words.sort()
            places = (words & mask).astype(place_type(self.bits)).tobytes()
            words >>= np.uint64(self.bits + self.ties[column])
            beside = pa.compress(words.tobytes(), codec=_PACKING, asbytes=True)
            fields = {"column": column, "span": span, "beside": beside}
            yield record("ranks", len(words), places, **fields)


@dataclass(frozen=True, kw_only=True)
class ReduceSpans:
    """Step ``clusters``: reduce whole clusters of a span, keep its edges as they are."""

    spans: Spans
    depth: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Sums and edges of every span."""
        for one in records(batches):
            column, number = one["column"], one["span"]
            span = self.spans[column, number]
            if one["rows"] != span.count:
                raise InternalError("a span holds another number of words than were counted")
            raw = pa.decompress(one["beside"], 8 * span.count, codec=_PACKING)
            words = np.frombuffer(raw, np.uint64)
            fields = {"column": column, "span": number}
            first, last = span.whole()
            start, stop = first * span.k - span.start, last * span.k - span.start
            edges = [(span.start, words)]
            if last > first:
                inside = Ranking(
                    words=words[start:stop], bits=0, k=span.k, missing=np.empty(0, np.uint32)
                )
                made = reduce(inside, self.depth)
                table = pa.table({"sums": made.sums, **_extremes(made.low, made.high)})
                yield record("sums", first, packed(table), **fields)
                edges = [(span.start, words[:start]), (span.start + stop, words[stop:])]
            for rank, cut in edges:
                if len(cut):
                    yield record("edge", rank, cut.tobytes(), **fields)


def _extremes(low: Sequence[Any], high: Sequence[Any]) -> dict[str, Any]:
    return {f"low{i}": a for i, a in enumerate(low)} | {f"high{i}": a for i, a in enumerate(high)}


@dataclass(frozen=True, kw_only=True)
class PutBack:
    """The first half of step ``release``: every word's cell, sent to the part of its place.

    A cluster's words in a part follow each other, so that its cell is sent once for all of them.
    """

    bits: int
    spans: Spans
    starts: NDArray[np.int64]
    parts: tuple[int, ...]
    kinds: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks of places by part and attribute, and beside them how many have which cell."""
        for one in records(batches):
            column, number = one["column"], one["span"]
            span = self.spans[column, number]
            cells = np.frombuffer(one["cells"], self.kinds[column])
            first, _last = span.touched()
            rank = np.arange(span.start, span.start + span.count) // span.k
            cluster = np.minimum(rank, span.clusters - 1) - first
            place = np.frombuffer(one["block"], place_type(self.bits))
            home = (np.searchsorted(self.starts, place, "right") - 1).astype(np.uint16)
            by_home = np.argsort(home, kind="stable")
            place, cluster = place[by_home], cluster[by_home]
            cuts = np.cumsum([0, *np.bincount(home, minlength=len(self.parts))]).tolist()
            for at, (start, stop) in enumerate(itertools.pairwise(cuts)):
                if stop > start:
                    local = (place[start:stop] - self.starts[at]).astype(np.uint32)
                    here = cluster[start:stop]
                    runs = np.flatnonzero(np.diff(here, prepend=-1))
                    lengths = np.diff(runs, append=len(here)).astype(np.uint32)
                    yield record(
                        "cells",
                        stop - start,
                        local.tobytes(),
                        beside=lengths.tobytes() + cells[here[runs]].tobytes(),
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
        rest, released = rows_of_part([one for one in blocks if one["kind"] == "rows"])
        order = np.empty(len(released), np.int64)
        order[released] = np.arange(len(released))
        columns = {}
        for number, axis in enumerate(self.axes):
            missing = None
            if axis.name in rest.column_names:
                gaps = rest.column(axis.name).combine_chunks().fill_null(False)
                missing = numpy_array(gaps)[order]
            sent = [one for one in blocks if one["kind"] == "cells" and one["column"] == number]
            cells = self._column(number, sent, released, missing)
            columns[axis.name] = self.finish(axis.name, cells, missing)
        back = arrow_array(order)
        for name in self.names:
            if name not in columns:
                columns[name] = rest.column(name).take(back)
        return pa.table([columns[n] for n in self.names], names=self.names).cast(self.form)

    def _column(
        self,
        number: int,
        sent: Sequence[dict[str, Any]],
        released: NDArray[np.int64],
        missing: NDArray[np.bool_] | None,
    ) -> NDArray[Any]:
        """A part's cells of one attribute, every one of which must come once."""
        kind = np.dtype(self.kinds[number])
        out = np.zeros(len(released), kind)
        filled = np.zeros(len(released), np.bool_) if missing is None else missing.copy()
        lacking = len(filled) - int(filled.sum())
        for one in sent:
            place = released[np.frombuffer(one["block"], np.uint32)]
            runs = len(one["beside"]) // (4 + kind.itemsize)
            lengths = np.frombuffer(one["beside"], np.uint32, runs)
            out[place] = np.repeat(np.frombuffer(one["beside"], kind, runs, 4 * runs), lengths)
            filled[place] = True
            lacking -= len(place)
        if lacking > 0:
            raise InternalError("a cell did not reach its place")
        if lacking < 0 or not filled.all():
            raise InternalError("a cell was sent to its place twice")
        return out
