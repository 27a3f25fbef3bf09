"""Masking one column: rank, reduce, add noise, put back; or value by value for k = 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.engines import InMemory
from sherd.methods.ranking.allocation import Scales
from sherd.methods.ranking.individual_ranking import Clusters, Ranking, put_back, rank, reduce
from sherd.methods.ranking.sensitivity import loss
from sherd.randomness.order import SEED_WORDS, TieBits
from sherd.release.method import Finding
from sherd.tables.coded_columns import Coding
from sherd.tables.coding import encode, storage, wrap
from sherd.tables.released_form import released_form

if TYPE_CHECKING:
    from fractions import Fraction

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.engines import Engine
    from sherd.methods.ranking.masking import Masking
    from sherd.randomness import Randomness
    from sherd.tables.axis import Axis


@dataclass(frozen=True, kw_only=True)
class ColumnJob:
    """One attribute to mask, with everything that takes part in it.

    ``floor`` is the least scale of the noise on a centroid, in steps; ``enlarge`` asks for
    scales that cover clusters recomputed; ``fair`` that equal values are ranked at random;
    ``coded`` for codes where the column is delivered in them.
    """

    column: pa.ChunkedArray
    axis: Axis
    epsilon: Fraction
    k: int
    masking: Masking
    enlarge: bool
    floor: Fraction
    missing_values: tuple[str, ...]
    randomness: Randomness
    fair: bool = True
    coded: bool = False

    def ties(self) -> TieBits | None:
        """What ranks equal values; None where that is their place."""
        return TieBits(self.tie_seed()) if self.fair else None

    def tie_seed(self) -> NDArray[np.uint64]:
        """Words of a stream of their own: the noise is the same with ties or without."""
        return self.randomness.spawn(1)[0].words(SEED_WORDS)


def scales_of(job: ColumnJob, clusters: Clusters) -> Scales:
    """The scale of the noise on every cluster's sum."""
    sensitivity = job.masking.sensitivity(clusters, job.axis.steps)
    scales = Scales.laplace(sensitivity, job.epsilon)
    if job.floor:
        scales = scales.at_least(job.floor, clusters.sizes)
    if job.enlarge and job.masking.shifts is not None:
        scales = scales.covering(job.masking.shifts(clusters, job.axis.steps), job.epsilon)
    return scales


def mask_column(
    job: ColumnJob,
    places: NDArray[np.uint32],
    engine: Engine,
    words: NDArray[np.uint64] | None = None,
) -> tuple[pa.Array, list[Finding]]:
    """The masked column with each row at its place, and what the owner should know of it.

    ``words`` is memory to sort in, a word a row, free again afterwards.
    """
    if not job.masking.least_k:
        return _each_value(job, places, engine)
    ranking = rank(
        job.column, job.axis, job.k, places, job.missing_values, words, engine.sort, job.ties()
    )
    kind = job.column.type
    missing = None
    if ranking.missing.size:
        missing = np.zeros(len(places), np.bool_)
        missing[ranking.missing] = True
    findings: list[Finding] = []
    cells = np.empty(0, storage(job.axis, np.zeros(1, np.int64), 1, kind).dtype)
    if ranking.clusters:
        cells, findings = noisy_cells(job, reduce(ranking, job.masking.depth))
        if job.coded and (column := _as_codes(job, ranking, cells, missing)) is not None:
            return column, findings
    out = engine.array(len(places), cells.dtype)
    if ranking.clusters:
        put_back(ranking, cells, out)
    return wrap(job.axis, out, missing, kind), findings


def _as_codes(
    job: ColumnJob, ranking: Ranking, cells: NDArray[Any], missing: NDArray[np.bool_] | None
) -> pa.Array | None:
    """The masked column as codes: which row has which value is known; None where it stays plain."""
    import pyarrow as pa

    each = pa.table({"cells": wrap(job.axis, cells, None, job.column.type)})
    rows = len(job.column)
    coding = Coding.of(released_form(each)["cells"].combine_chunks(), rows)
    if coding is None:
        return None
    codes = np.zeros(rows, coding.codes.dtype)
    put_back(ranking, coding.codes, codes)
    return coding.column(codes, missing)


def noisy_cells(job: ColumnJob, clusters: Clusters) -> tuple[NDArray[Any], list[Finding]]:
    """Every cluster's cell with its noise, and what the owner should know of it."""
    scales = scales_of(job, clusters)
    findings = _accounts(job, clusters, scales)
    noisy = job.masking.sums(clusters) + scales.draw(job.randomness)
    return storage(job.axis, noisy, clusters.sizes, job.column.type), findings


def each_value(job: ColumnJob, places: NDArray[np.int64]) -> pa.Array:
    """A column masked value by value in memory, each row at its place."""
    return _each_value(job, places, InMemory())[0]


def _each_value(
    job: ColumnJob, places: NDArray[np.uint32] | NDArray[np.int64], engine: Engine
) -> tuple[pa.Array, list[Finding]]:
    """Every value is a cluster of its own: no ranking, noise block by block."""
    kind = job.column.type
    out = engine.array(len(places), storage(job.axis, np.zeros(1, np.int64), 1, kind).dtype)
    gone: NDArray[np.bool_] | None = None
    for start, positions, missing in encode(job.column, job.axis, job.missing_values):
        values = Clusters(
            sizes=np.ones(len(positions), np.int64),
            sums=positions,
            low=(positions,),
            high=(positions,),
        )
        noisy = positions + scales_of(job, values).draw(job.randomness)
        place = places[start : start + len(positions)]
        out[place] = storage(job.axis, noisy, 1, kind)
        if missing is not None:
            gone = np.zeros(len(places), np.bool_) if gone is None else gone
            gone[place] = missing
    return wrap(job.axis, out, gone, kind), []


def _accounts(job: ColumnJob, clusters: Clusters, scales: Scales) -> list[Finding]:
    """What this attribute really costs, for the owner alone."""
    findings = []
    values = scales.values()
    if job.masking.shifts is not None:
        spent = loss(job.masking.shifts(clusters, job.axis.steps), values)
        meaning = (
            "exact privacy loss of this attribute's ordered centroids, clusters recomputed, as a "
            "multiple of its share of epsilon"
        )
        if not values.any():
            # Frozen scales would call it free: nothing moves where nothing has noise.
            spent, meaning = float("inf"), "published as it is: no ε"
        findings.append(
            Finding(
                name="loss factor",
                attribute=job.axis.name,
                value=spent / float(job.epsilon),
                meaning=meaning,
            )
        )
    still = clusters.sizes[values == 0].sum() / clusters.sizes.sum()
    findings.append(
        Finding(
            name="share without noise",
            attribute=job.axis.name,
            value=float(still),
            meaning="share of this attribute's cells that were published without any noise",
        )
    )
    return findings
