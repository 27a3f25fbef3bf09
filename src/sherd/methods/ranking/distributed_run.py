"""Individual ranking on a cluster: what the driver does, step by step.

====================  ==================================================  =====================
step                  does                                                commits
====================  ==================================================  =====================
``rows``              reads the source once, draws parts and orders       snapshot, order of rows
``ranks``             packs position and place, sorts them span by span   ranks
``clusters``          reduces clusters, keeps those that a span cuts      –
``noise``             on the driver: scales, noise, cells                 the one noise
``release``           every cell to its place                             the release
====================  ==================================================  =====================

Between ``noise`` and ``release`` the ledger is charged: until then nothing that could be
released exists, afterwards nothing is random.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.engines.spark_stages import BLOCKS, in_its_own_partition
from sherd.errors import InternalError, PlanError, TableError
from sherd.methods.ranking.column_masking import ColumnJob, noisy_cells
from sherd.methods.ranking.distributed_blocks import (
    Assemble,
    PackWords,
    PutBack,
    ReduceSpans,
    RowBlock,
    SortSpans,
    Span,
    unpacked,
)
from sherd.methods.ranking.distributed_form import Finish, Form, MaskEach, no_cells, unpack
from sherd.methods.ranking.distributed_snapshot import Snapshot, check_units, numbered
from sherd.methods.ranking.individual_ranking import Clusters, check_filled, check_grid
from sherd.randomness.order import tie_width
from sherd.release.method import Committed
from sherd.tables.coding import numpy_array
from sherd.tables.prepare import Treated

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.engines.spark_stages import SparkStages
    from sherd.methods.ranking.distributed_blocks import Spans
    from sherd.release.method import Run
    from sherd.tables.axis import Axis
    from sherd.tables.schema import Schema

_COLLECTED = 256 << 20
"""Bytes of clusters that come to the driver at once: Spark's own limit is 1 GB."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The committed snapshot: where its blocks lie, how many rows a part has, what was treated.

    Blocks are known by part, task and their number in the task; ``present`` says how many values
    each of the ranked attributes has.
    """

    frame: Any
    blocks: dict[tuple[int, int, int], RowBlock]
    counts: dict[int, int]
    present: tuple[int, ...]
    treated: tuple[Treated, ...]

    @property
    def total(self) -> int:
        """How many rows there are."""
        return sum(self.counts.values())

    @property
    def starts(self) -> NDArray[np.int64]:
        """The place of each part's first row."""
        counts = [self.counts[part] for part in sorted(self.counts)]
        return np.cumsum([0, *counts])[:-1]

    def by_part(self) -> Any:
        """What lies beside the blocks, part by part."""
        beside = self.frame.select("kind", "part", "task", "span", "rows", "beside")
        alone = in_its_own_partition(beside["part"], len(self.counts))
        return beside.repartition(len(self.counts), alone).sortWithinPartitions(
            "part", "task", "span"
        )


def check_plan(plan: Any, seeded: bool) -> None:
    """Refuse what this engine cannot do, before anything is read."""
    refused = {
        "a seed": seeded,
        "the promise 'strict'": plan["guarantee"] == "strict",
        "--domain-from-data": plan["domain_from_data"] is not None,
        "--category-order frequency": plan["category_order"] != "declared",
    }
    for what, asked in refused.items():
        if asked:
            raise PlanError(
                f"the engine spark does not take {what}",
                do="leave it out, or choose the engine memory, columns or duckdb",
            )


def take_rows(
    frame: Any, schema: Schema, run: Run, stages: SparkStages, axes: tuple[Axis, ...]
) -> Rows:
    """Step ``rows``, checked: one attempt of every task, nothing lost."""
    names, source = tuple(frame.columns), numbered(frame)
    units: tuple[int, int] | None = None
    if schema.unit is not None:
        source, units = check_units(source, names.index(schema.unit), schema)
    snapshot = Snapshot(
        schema=schema, axes=axes, parts=stages.parts, shuffle=run.shuffle, names=names
    )
    committed = stages.step("rows", source, snapshot, rows=True)
    committed_facts = stages.facts(committed)
    facts = [json.loads(one.note) for one in committed_facts if one.kind == "count"]
    read = sum(one["read"] for one in facts)
    if units is not None and units != (read, sum(one["units"] for one in facts)):
        raise TableError(
            "the table changed while it was read",
            must="the same rows whenever it is read: nobody may have more of them than declared",
            do="protect a snapshot: files that nobody writes to, without random numbers",
        )
    cells: dict[tuple[str, str, str], int] = {}
    for one in facts:
        for attribute, how, why, count in one["treated"]:
            cells[attribute, how, why] = cells.get((attribute, how, why), 0) + count
    counts: dict[int, int] = {}
    blocks: dict[tuple[int, int, int], RowBlock] = {}
    blocks_of_rows = sorted(
        (o.part, o.task, o.span, int(o.rows))
        for o in committed_facts
        if o.kind == "rows" and o.rows
    )
    start = 0
    for number, (part, task, span, rows) in enumerate(blocks_of_rows):
        blocks[part, task, span] = RowBlock(number=number, start=start)
        counts[part] = counts.get(part, 0) + rows
        start += rows
    if not counts:
        raise TableError("the table has no rows", must="at least one row")
    treated = tuple(
        Treated(attribute=a, how=h, why=w, cells=n, of=read) for (a, h, w), n in cells.items()
    )
    filled = committed.filter("kind = 'rows' AND rows > 0")
    present = tuple(map(sum, zip(*(one["present"] for one in facts), strict=True)))
    return Rows(frame=filled, blocks=blocks, counts=counts, present=present, treated=treated)


def rank_and_mask(jobs: list[ColumnJob], rows: Rows, form: Form, stages: SparkStages) -> Committed:
    """Steps ``words`` to ``noise``; what is committed then says how it is released."""
    total, depth = rows.total, jobs[0].masking.depth
    for job in jobs:
        check_grid(job.axis, job.k, total)
    bits = max(1, (total - 1).bit_length())
    axes = tuple(job.axis for job in jobs)
    seeds = tuple(job.tie_seed() if job.fair else None for job in jobs)
    ties = tuple(tie_width(job.axis.steps, bits) if job.fair else 0 for job in jobs)
    cuts = _splitters(axes, rows, bits, ties, spans=len(rows.counts))
    packing = PackWords(axes=axes, bits=bits, blocks=rows.blocks, splitters=cuts, tie_seeds=seeds)
    ranks = _ranks(packing, rows, SortSpans(bits=bits, ties=ties), stages)
    spans = spans_of(jobs, ranks, rows)
    made, findings = [], []
    for job, clusters in zip(jobs, _clusters(jobs, spans, ranks, depth, stages), strict=True):
        cells, found = noisy_cells(job, clusters) if len(clusters.sums) else (no_cells(job), [])
        made.append(cells)
        findings += found
    cell_frame, artefact = _committed_cells(made, spans, stages)

    def release() -> Any:
        kinds = tuple(cells.dtype.str for cells in made)
        return _put_back(ranks, cell_frame, kinds, spans, rows, axes, form, bits, stages)

    present = {
        job.axis.name: sum(span.count for (at, _), span in spans.items() if at == number)
        for number, job in enumerate(jobs)
    }
    return Committed(
        rows=total,
        treated=rows.treated,
        findings=tuple(findings),
        present=present,
        artefact=artefact,
        release=release,
    )


def mask_each(jobs: list[ColumnJob], rows: Rows, form: Form, stages: SparkStages) -> Committed:
    """For methods that mask every value by itself: noise in the tasks, and its commit."""
    # The driver's own source of noise stays here: a task takes its own from the system.
    nobody: Any = None
    work = MaskEach(jobs=tuple(replace(job, randomness=nobody) for job in jobs), form=form)
    noisy = stages.step("noise", rows.by_part(), work)
    sums = noisy.groupBy("part").sum("rows").collect()
    if {int(part): int(count) for part, count in sums} != rows.counts:
        raise InternalError("rows were lost on the way to their noise")

    def release() -> Any:
        frame = noisy if form.shuffled else noisy.repartition(1).sortWithinPartitions("part")
        return stages.step("release", frame, unpack, form.spark())

    return Committed(rows=rows.total, treated=rows.treated, artefact=stages.folder, release=release)


def _splitters(
    axes: tuple[Axis, ...], rows: Rows, bits: int, ties: tuple[int, ...], spans: int
) -> tuple[NDArray[np.uint64], ...]:
    """Words that cut every attribute into spans of about equal length, from one block's rows.

    Any words give exact ranks; these give even spans, among equal values, too.
    """
    codes = unpacked(rows.frame.select("block").limit(1).collect()[0].block)
    cuts = []
    for axis, width in zip(axes, ties, strict=True):
        sample = np.sort(numpy_array(codes.column(axis.name).drop_null().combine_chunks()))
        # Places run up to the number of rows, random bits before them through all they can be.
        ends = 1 << (bits + width) if width else rows.total
        below = (np.arange(len(sample)) / max(1, len(sample)) * ends).astype(np.uint64)
        words = (sample.astype(np.uint64) << np.uint64(bits + width)) | below
        words.sort()
        at = np.arange(1, spans) * len(words) // spans
        cuts.append(words[at] if len(words) else np.empty(0, np.uint64))
    return tuple(cuts)


def _ranks(packing: PackWords, rows: Rows, sorting: SortSpans, stages: SparkStages) -> Any:
    """Step ``ranks``: words to their spans, every span sorted."""
    words = rows.frame.select("part", "task", "span", "block").mapInArrow(packing, BLOCKS)
    words, spans = words.select("column", "span", "block"), len(rows.counts)
    place = in_its_own_partition(words["column"] * spans + words["span"], spans)
    by_span = words.repartition(spans, place).sortWithinPartitions("column", "span")
    return stages.step("ranks", by_span, sorting)


def spans_of(jobs: list[ColumnJob], ranks: Any, rows: Rows) -> Spans:
    """How many words every span has, and how many lie before it."""
    counted = ranks.select("column", "span", "rows").collect()
    counts = {(int(one.column), int(one.span)): int(one.rows) for one in counted}
    spans: Spans = {}
    for number, job in enumerate(jobs):
        own = sorted(key for key in counts if key[0] == number)
        present = sum(counts[key] for key in own)
        if present != rows.present[number] or len(counts) != len(counted):
            raise InternalError("ranks were lost or made twice; nothing was released")
        check_filled(job.axis, job.k, present, rows.total)
        before = 0
        for key in own:
            spans[key] = Span(start=before, count=counts[key], total=present, k=job.k)
            before += counts[key]
    return spans


def _clusters(
    jobs: list[ColumnJob], spans: Spans, ranks: Any, depth: int, stages: SparkStages
) -> Iterator[Clusters]:
    """Step ``clusters``: every attribute's, several attributes at once where they are small."""
    total = dict.fromkeys(range(len(jobs)), 0)
    for (number, _at), span in spans.items():
        total[number] = span.total
    held: list[list[int]] = []
    room = 0
    for number, job in enumerate(jobs):
        size = total[number] // job.k * 8 * (1 + 2 * depth)
        if size > room:
            held.append([])
            room = _COLLECTED
        held[-1].append(number)
        room -= size
    beside = ranks.select("column", "span", "rows", "beside")
    frames = [beside.filter(f"column IN ({', '.join(map(str, numbers))})") for numbers in held]
    reducing = ReduceSpans(spans=spans, depth=depth)
    for numbers, told in zip(held, stages.collect("clusters", frames, reducing), strict=True):
        for number in numbers:
            own = [one for one in told if one.column == number]
            yield gathered(
                total[number],
                jobs[number].k,
                depth,
                [(int(one.rows), unpacked(one.block)) for one in own if one.kind == "sums"],
                [
                    (int(one.rows), np.frombuffer(one.block, np.int64))
                    for one in own
                    if one.kind == "edge"
                ],
            )


def gathered(
    total: int,
    k: int,
    depth: int,
    sums: list[tuple[int, pa.Table]],
    edges: list[tuple[int, NDArray[np.int64]]],
) -> Clusters:
    """Clusters out of those that were reduced whole (by number) and raw edges (by rank)."""
    count = total // k
    sizes = np.full(count, k, np.int64)
    sizes[-1:] += total - count * k
    clusters = Clusters(
        sizes=sizes,
        sums=np.zeros(count, np.int64),
        low=tuple(np.zeros(count, np.int64) for _ in range(depth)),
        high=tuple(np.zeros(count, np.int64) for _ in range(depth)),
    )
    seen = np.zeros(count, np.int64)
    for first, table in sums:
        here = slice(first, first + table.num_rows)
        clusters.sums[here] = table.column("sums")
        for i in range(depth):
            clusters.low[i][here] = table.column(f"low{i}")
            clusters.high[i][here] = table.column(f"high{i}")
        seen[here] += k
    held: dict[int, list[NDArray[np.int64]]] = {}
    for rank, raw in sorted(edges, key=lambda one: one[0]):
        cluster = np.minimum((rank + np.arange(len(raw))) // k, count - 1)
        bounds = np.flatnonzero(np.diff(cluster, prepend=-1, append=count))
        for start, stop in itertools.pairwise(bounds):
            held.setdefault(int(cluster[start]), []).append(raw[start:stop])
    for number, pieces in held.items():
        values = np.concatenate(pieces)
        seen[number] += len(values)
        clusters.sums[number] = values.sum()
        for i in range(depth if len(values) == sizes[number] else 0):
            clusters.low[i][number] = values[i]
            clusters.high[i][number] = values[-1 - i]
    if (seen != sizes).any():
        raise InternalError("a cluster lacks words, or has some twice; nothing was released")
    return clusters


def _committed_cells(
    made: list[NDArray[Any]], spans: Spans, stages: SparkStages
) -> tuple[Any, str]:
    """Every span's cells in a committed frame, and their fingerprint."""
    records, whole = [], hashlib.sha256()
    for (number, at), span in sorted(spans.items()):
        first, last = span.touched()
        block = made[number][first:last].tobytes()
        whole.update(f"{number} {at} {len(block)}\n".encode() + block)
        records.append(("noise", -1, "", -1, number, at, first, None, bytearray(block), None))
    frame = stages.session.createDataFrame(records, BLOCKS)
    return stages.commit("noise", frame), whole.hexdigest()


def _put_back(
    ranks: Any,
    cells: Any,
    kinds: tuple[str, ...],
    spans: Spans,
    rows: Rows,
    axes: tuple[Axis, ...],
    form: Form,
    bits: int,
    stages: SparkStages,
) -> Any:
    """Step ``release``: cells to their places, columns to rows."""
    parts = tuple(sorted(rows.counts))
    put = PutBack(bits=bits, spans=spans, starts=rows.starts, parts=parts, kinds=kinds)
    noise = cells.select("column", "span", cells["block"].alias("cells"))
    joined = ranks.select("column", "span", "block").join(noise, ["column", "span"])
    fields = ("kind", "part", "task", "column", "span", "block", "beside")
    sent = joined.mapInArrow(put, BLOCKS).select(*fields)
    nothing = "CAST(NULL AS BINARY) AS block"
    rest = rows.frame.selectExpr(*(nothing if name == "block" else name for name in fields))
    together, count = rest.unionByName(sent), len(parts) if form.shuffled else 1
    by_part = together.repartition(
        count, in_its_own_partition(together["part"], count)
    ).sortWithinPartitions("part", "kind", "task", "span")
    finish = Finish(axes={axis.name: axis for axis in axes}, types=form.kinds)
    assemble = Assemble(axes=axes, kinds=kinds, finish=finish, names=form.names, form=form.schema)
    return stages.step("release", by_part, assemble, form.spark())
