"""Whether records of a model were drawn: no more of them are the original's than chance makes.

Records are drawn clique by clique (`sherd.verifying.drawn_records`): among those that agree in what
a clique shares with the attributes drawn before, it is chance which record gets which of the new
values, and among those of one bin, which gets which value within it. So a release whose values are
exchanged by lot in these ways is as likely as the release itself, whatever model and counts are.
What changes is how many records are exactly those of the original: a copy has more of them than
copies whose values were exchanged. Where a copy has other counts than the model, that shows; where
it has the same, and exchanging its values leads to itself, nobody can tell. The test is exact; with
many records it takes fewer exchanges and Student's distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.noise.noise_test import ALPHA, CELLS, FEW, SIMULATIONS
from sherd.auditing.verdict.verdict_points import DRAWING, percent
from sherd.tables.axis import Axis
from sherd.tables.coding import positions
from sherd.verifying.check import Check
from sherd.verifying.drawn_records import Drawing
from sherd.verifying.graphical_models import Stated, check_records, factors_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case
    from sherd.auditing.noise.evidence import Evidence

    Codes = NDArray[np.int64]
    Hashes = NDArray[np.uint64]

ROWS = 50_000
"""Released records that are looked at."""


@dataclass(frozen=True, kw_only=True)
class _Records:
    """Records by the bin and a hash of the value of each attribute."""

    bins: Sequence[Codes]
    hashes: Sequence[Hashes]

    @classmethod
    def of(cls, stated: Stated, table: pa.Table, rows: NDArray[np.int64] | None) -> _Records:
        bins, hashes = [], []
        for place, one in enumerate(stated.document["attributes"]):
            column = table.column(one["name"])
            if rows is not None:
                column = column.take(rows)
            axis = Axis.of(stated.schema[one["name"]])
            at, gaps = positions(column, axis, stated.schema.missing_values)
            cells = np.searchsorted(one["edges"], at, side="right") - 1
            cells[gaps] = len(one["edges"]) - 1
            bins.append(stated.bins[place][cells])
            hashes.append(_mixed(np.where(gaps, -1, at), place))
        return cls(bins=bins, hashes=hashes)

    @property
    def rows(self) -> Hashes:
        """A hash of each record."""
        total: Hashes = np.add.reduce(self.hashes)
        return total


def check_copies(case: Case, evidence: Evidence) -> Check:
    """Refuted where more records are the original's than drawing makes."""
    stated = Stated(
        schema=evidence.schema, plan=evidence.plan, document=evidence.documents["model"]
    )
    rng, data = case.rng("copies"), evidence.tables["data"]
    some = rng.permutation(data.num_rows)[:ROWS] if data.num_rows > ROWS else None
    released = _Records.of(stated, data, some)
    original = _Records.of(stated, evidence.original, None)
    steps = Drawing.of(factors_of(stated), stated.sizes).steps
    known = np.unique(original.rows, return_counts=True)
    cells = len(released.bins) * len(released.bins[0])
    many = SIMULATIONS if cells * SIMULATIONS <= CELLS else FEW

    def copied(records: _Records) -> bool:
        exchanged = [_same(_exchanged(records, stated, steps, rng), known) for _ in range(many)]
        return _stands_out(_same(records.rows, known), np.array(exchanged))

    if copied(released) or not check_records(stated, data).passed:
        detail = f"refuted: the records were not drawn from the model (p ≤ {ALPHA:g})"
        return Check(name=DRAWING, passed=False, detail=detail)
    copy = _Records.of(
        stated, evidence.original, rng.permutation(evidence.original.num_rows)[:ROWS]
    )
    if check_records(stated, evidence.original).passed and not copied(copy):
        detail = "not testable: with so few values, what is drawn from the model is the original"
        return Check(name=DRAWING, passed=None, detail=detail)
    share = _same(released.rows, known) / len(released.bins[0])
    detail = f"consistent with drawing: {percent(share)} of the records are also in the original"
    words = f"{detail}, as chance makes them; a copy would be found"
    return Check(name=DRAWING, passed=True, detail=f"{words} (false alarms: {percent(ALPHA)})")


def _exchanged(
    records: _Records,
    stated: Stated,
    steps: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
    rng: np.random.Generator,
) -> Hashes:
    """Hashes of records whose values were exchanged by lot, as likely as the given ones."""
    bins: dict[int, Codes] = {}
    for kept, new in steps:
        if not kept:
            # Independent of all before: as one group.
            kept_before = kept_now = np.zeros(len(records.bins[0]), np.int64)
        else:
            kept_before = _joined([records.bins[a] for a in kept], [stated.sizes[a] for a in kept])
            kept_now = _joined([bins[a] for a in kept], [stated.sizes[a] for a in kept])
        given, taken = np.argsort(kept_before, kind="stable"), _by_lot(kept_now, rng)
        for a in new:
            bins[a] = np.empty_like(records.bins[a])
            bins[a][taken] = records.bins[a][given]
    total = np.zeros(len(records.bins[0]), np.uint64)
    for a, hashes in enumerate(records.hashes):
        given, taken = np.argsort(records.bins[a], kind="stable"), _by_lot(bins[a], rng)
        total[taken] += hashes[given]
    return total


def _by_lot(group: Codes, rng: np.random.Generator) -> NDArray[np.int64]:
    """The records by their group, in random order within each."""
    order = rng.permutation(len(group))
    return order[np.argsort(group[order], kind="stable")]


def _joined(codes: Sequence[Codes], sizes: Sequence[int]) -> Codes:
    """One number for what records have in several attributes."""
    joined = np.zeros(len(codes[0]), np.int64)
    for code, size in zip(codes, sizes, strict=True):
        joined = joined * size + code
    return joined


def _mixed(values: Codes, salt: int) -> Hashes:
    """Hashes that are added up: values of each attribute are spread over all 64 bits."""
    mixed = values.astype(np.uint64) + np.uint64((salt + 1) * 0x9E3779B97F4A7C15 % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def _same(rows: Hashes, known: tuple[Hashes, NDArray[np.int64]]) -> int:
    """How many records are those of the original, each of these taken once."""
    values, counts = np.unique(rows, return_counts=True)
    place = np.minimum(np.searchsorted(known[0], values), len(known[0]) - 1)
    inside = known[0][place] == values
    return int(np.minimum(counts, known[1][place])[inside].sum())


def _stands_out(seen: int, exchanged: NDArray[np.int64]) -> bool:
    """Whether so many have a chance of at most the stated rate."""
    many = len(exchanged)
    if many >= SIMULATIONS:
        return (1 + int(np.count_nonzero(exchanged >= seen))) / (many + 1) <= ALPHA + 1e-12
    from scipy.special import stdtr

    # Few equal records are counts of rare events: they vary more than a few exchanges may show.
    spread = np.sqrt(max(float(exchanged.var(ddof=1)), float(exchanged.mean()), 4.0))
    z = (seen - float(exchanged.mean())) / spread / np.sqrt(1 + 1 / many)
    return bool(stdtr(many - 1, -z) <= ALPHA)
