"""Individual ranking on a cluster: what the driver does, step by step.

====================  ==================================================  =====================
step                  does                                                commits
====================  ==================================================  =====================
``rows``              reads the source once, draws parts and orders       snapshot, order of rows
``words``             packs position and place, cuts them into spans      –
``clusters``          sorts spans, reduces clusters, keeps the cut ones   sums
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

from sherd.engines.spark_stages import BLOCKS
from sherd.errors import InternalError, PlanError, TableError
from sherd.methods.ranking.column_masking import ColumnJob, noisy_cells
from sherd.methods.ranking.distributed_blocks import (
    Assemble,
    PackWords,
    PutBack,
    ReduceSpans,
    Snapshot,
    Span,
    unpacked,
)
from sherd.methods.ranking.distributed_form import Finish, Form, MaskEach, no_cells, unpack
from sherd.methods.ranking.individual_ranking import Clusters, check_filled, check_grid
from sherd.randomness.tie_breaking import tie_width
from sherd.release.method import Committed, Finding
from sherd.tables.coding import positions
from sherd.tables.treatment import Treated

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.engines.spark_stages import SparkStages
    from sherd.methods.ranking.distributed_blocks import Spans
    from sherd.release.method import Run
    from sherd.tables.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The committed snapshot: how many rows each part has, and what preparing did."""

    frame: Any
    counts: dict[int, int]
    treated: tuple[Treated, ...]

    @property
    def total(self) -> int:
        """How many rows there are."""
        return sum(self.counts.values())

    @property
    def offsets(self) -> dict[int, int]:
        """The place of each part's first row."""
        found, before = {}, 0
        for part in sorted(self.counts):
            found[part] = before
            before += self.counts[part]
        return found


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


def take_rows(frame: Any, schema: Schema, run: Run, stages: SparkStages) -> Rows:
    """Step ``rows``, checked: one attempt of every task, nothing lost."""
    snapshot = Snapshot(schema=schema, parts=stages.parts, shuffle=run.shuffle)
    committed = stages.step("rows", frame, snapshot, rows=True)
    stages.check_attempts(committed)
    told = committed.filter("kind = 'count'").select("block").collect()
    facts = [json.loads(bytes(one.block)) for one in told]
    read = sum(one["read"] for one in facts)
    cells: dict[tuple[str, str, str], int] = {}
    for one in facts:
        for attribute, how, why, count in one["treated"]:
            cells[attribute, how, why] = cells.get((attribute, how, why), 0) + count
    counts = {
        int(part): int(rows)
        for part, rows in committed.filter("kind = 'rows'").groupBy("part").sum("rows").collect()
        if rows
    }
    if not counts:
        raise TableError("the table has no rows", must="at least one row")
    treated = tuple(
        Treated(attribute=a, how=h, why=w, cells=n, of=read) for (a, h, w), n in cells.items()
    )
    by_part = (
        committed.filter("kind = 'rows' AND rows > 0")
        .repartition(max(1, len(counts)), "part")
        .sortWithinPartitions("part", "task", "span")
    )
    return Rows(frame=by_part, counts=counts, treated=treated)


def rank_and_mask(jobs: list[ColumnJob], rows: Rows, form: Form, stages: SparkStages) -> Committed:
    """Steps ``words`` to ``noise``; what is committed then says how it is released."""
    total, depth = rows.total, jobs[0].masking.depth
    for job in jobs:
        check_grid(job.axis, job.k, total)
    bits = max(1, (total - 1).bit_length())
    axes = tuple(job.axis for job in jobs)
    seeds = tuple(job.tie_seed() if job.fair else None for job in jobs)
    ties = tuple(tie_width(job.axis.steps, bits) if job.fair else 0 for job in jobs)
    cuts = _splitters(jobs, rows, bits, ties, spans=len(rows.counts))
    packing = PackWords(
        axes=axes,
        missing_values=jobs[0].missing_values,
        bits=bits,
        offsets=rows.offsets,
        splitters=cuts,
        tie_seeds=seeds,
    )
    words = stages.step("words", rows.frame, packing)
    spans = _spans(jobs, words, total)
    by_span = (
        words.filter("kind = 'words'")
        .repartition(len(rows.counts), "column", "span")
        .sortWithinPartitions("column", "span", "part")
    )
    reducing = ReduceSpans(bits=bits, spans=spans, depth=depth, ties=ties)
    clusters = stages.step("clusters", by_span, reducing)
    made, findings = [], []
    for number, job in enumerate(jobs):
        cells, found = _masked(job, number, spans, clusters)
        made.append(cells)
        findings += found
    cell_frame, artefact = _committed_cells(made, spans, stages)

    def release() -> Any:
        kinds = tuple(cells.dtype.str for cells in made)
        return _put_back(clusters, words, cell_frame, kinds, spans, rows, axes, form, bits, stages)

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
    noisy = stages.step("noise", rows.frame, work)
    sums = noisy.groupBy("part").sum("rows").collect()
    if {int(part): int(count) for part, count in sums} != rows.counts:
        raise InternalError("rows were lost on the way to their noise")

    def release() -> Any:
        frame = noisy if form.shuffled else noisy.repartition(1).sortWithinPartitions("part")
        return stages.step("release", frame, unpack, form.spark())

    return Committed(rows=rows.total, treated=rows.treated, artefact=stages.folder, release=release)


def _splitters(
    jobs: list[ColumnJob], rows: Rows, bits: int, ties: tuple[int, ...], spans: int
) -> tuple[NDArray[np.uint64], ...]:
    """Words that cut every attribute into spans of about equal length, from one part's rows.

    Any words give exact ranks; these give even spans, among equal values, too.
    """
    table = unpacked(rows.frame.select("block").limit(1).collect()[0].block)
    found = []
    for job, width in zip(jobs, ties, strict=True):
        sample, gaps = positions(table.column(job.axis.name), job.axis, job.missing_values)
        sample = np.sort(sample[~gaps])
        # Places run up to the number of rows, random bits before them through all they can be.
        ends = 1 << (bits + width) if width else rows.total
        below = (np.arange(len(sample)) / max(1, len(sample)) * ends).astype(np.uint64)
        words = (sample.view(np.uint64) << np.uint64(bits + width)) | below
        words.sort()
        at = np.arange(1, spans) * len(words) // spans
        found.append(words[at] if len(words) else np.empty(0, np.uint64))
    return tuple(found)


def _spans(jobs: list[ColumnJob], words: Any, total: int) -> Spans:
    """How many words every span has, and how many lie before it."""
    told = words.filter("kind = 'words'").groupBy("column", "span").sum("rows").collect()
    counts = {(int(column), int(span)): int(rows) for column, span, rows in told}
    found: Spans = {}
    for number, job in enumerate(jobs):
        own = sorted(key for key in counts if key[0] == number)
        present = sum(counts[key] for key in own)
        check_filled(job.axis, job.k, present, total)
        before = 0
        for key in own:
            found[key] = Span(start=before, count=counts[key], total=present, k=job.k)
            before += counts[key]
    return found


def _masked(
    job: ColumnJob, number: int, spans: Spans, committed: Any
) -> tuple[NDArray[Any], list[Finding]]:
    """The cells of an attribute's clusters: the noise is drawn here, once."""
    own = [span for (at, _), span in spans.items() if at == number]
    if not own:
        return no_cells(job), []
    mine = committed.filter(f"column = {number}")
    sums = mine.filter("kind = 'sums'").select("rows", "block").collect()
    edges = mine.filter("kind = 'edge'").select("rows", "block").collect()
    total = own[0].total
    clusters = gathered(
        total,
        job.k,
        job.masking.depth,
        [(int(one.rows), unpacked(one.block)) for one in sums],
        [(int(one.rows), np.frombuffer(one.block, np.int64)) for one in edges],
    )
    return noisy_cells(job, clusters)


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
    sizes[-1] += total - count * k
    made = Clusters(
        sizes=sizes,
        sums=np.zeros(count, np.int64),
        low=tuple(np.zeros(count, np.int64) for _ in range(depth)),
        high=tuple(np.zeros(count, np.int64) for _ in range(depth)),
    )
    seen = np.zeros(count, np.int64)
    for first, table in sums:
        here = slice(first, first + table.num_rows)
        made.sums[here] = table.column("sums")
        for i in range(depth):
            made.low[i][here] = table.column(f"low{i}")
            made.high[i][here] = table.column(f"high{i}")
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
        made.sums[number] = values.sum()
        for i in range(depth if len(values) == sizes[number] else 0):
            made.low[i][number] = values[i]
            made.high[i][number] = values[-1 - i]
    if (seen != sizes).any():
        raise InternalError("a cluster lacks words, or has some twice; nothing was released")
    return made


def _committed_cells(
    made: list[NDArray[Any]], spans: Spans, stages: SparkStages
) -> tuple[Any, str]:
    """Every span's cells in a committed frame, and their fingerprint."""
    records, whole = [], hashlib.sha256()
    for (number, at), span in sorted(spans.items()):
        first, last = span.touched()
        block = made[number][first:last].tobytes()
        whole.update(f"{number} {at} {len(block)}\n".encode() + block)
        records.append(("noise", -1, "", -1, number, at, first, bytearray(block)))
    frame = stages.session.createDataFrame(records, BLOCKS)
    return stages.commit("noise", frame), whole.hexdigest()


def _put_back(
    clusters: Any,
    words: Any,
    cells: Any,
    kinds: tuple[str, ...],
    spans: Spans,
    rows: Rows,
    axes: tuple[Any, ...],
    form: Form,
    bits: int,
    stages: SparkStages,
) -> Any:
    """Step ``release``: cells to their places, columns to rows."""
    parts = tuple(sorted(rows.counts))
    starts = np.array([rows.offsets[part] for part in parts], np.int64)
    put = PutBack(bits=bits, spans=spans, starts=starts, parts=parts, kinds=kinds)
    noise = cells.select("column", "span", cells["block"].alias("cells"))
    joined = (
        clusters.filter("kind = 'sorted'")
        .select("column", "span", "block")
        .join(noise, ["column", "span"])
    )
    rest = words.filter("kind IN ('rest', 'gaps')")
    sent = rest.unionByName(joined.mapInArrow(put, BLOCKS))
    by_part = sent.repartition(len(parts) if form.shuffled else 1, "part").sortWithinPartitions(
        "part", "kind", "column", "span"
    )
    finish = Finish(axes={axis.name: axis for axis in axes}, types=form.kinds)
    assemble = Assemble(axes=axes, kinds=kinds, finish=finish, names=form.names, form=form.schema)
    return stages.step("release", by_part, assemble, form.spark())
