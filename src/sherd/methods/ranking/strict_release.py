"""Strict releases: the ordered noisy centroids of each attribute, and no rows.

With declared bounds and category orders, inputs clamped and rounded to the public grid and
noise on whole sums, this is ε-differential privacy: the sums of consecutive clusters move by
amounts that telescope to at most R when one record is substituted (see ``sensitivity``), the
noise of scale R/ε_a covers that, attributes compose sequentially, and all that follows is
post-processing: dividing by the public sizes, making the centroids ascend, clamping.

Isotonic regression: the nearest ascending sequence to a noisy one.

Centroids of consecutive clusters ascend before the noise; making the noisy ones ascend
again is post-processing, costs no privacy and removes much of the noise.

>>> ascending(np.array([1.0, 3.0, 2.0]), np.array([1, 1, 1])).tolist()
[1.0, 2.5, 2.5]
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.methods.ranking.column_masking import scales_of
from sherd.methods.ranking.individual_ranking import WORDS_AT_ONCE, rank, reduce
from sherd.release.method import Outcome, Run
from sherd.tables.coding import arrow_array, storage, text_array, wrap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.engines import Engine
    from sherd.methods.ranking.column_masking import ColumnJob


def ordered_centroids(jobs: list[ColumnJob], run: Run) -> Outcome:
    """One row a cluster: attribute, cluster, size, place on the axis, value as text."""
    rows, engine = len(jobs[0].column), run.engine
    places = engine.array(rows, np.uint32 if rows <= 1 << 32 else np.uint64)
    for start in range(0, rows, WORDS_AT_ONCE):
        places[start : start + WORDS_AT_ONCE] = np.arange(start, min(start + WORDS_AT_ONCE, rows))
    workers = min(run.threads, engine.columns_at_once or run.threads)
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        parts = []
        works = pool.map(lambda job: _centroids(job, places, engine), jobs)
        for done, part in enumerate(works, 1):
            parts.append(part)
            run.progress("masking", done, len(jobs))
    clusters = {job.axis.name: part.num_rows for job, part in zip(jobs, parts, strict=True)}
    return Outcome(
        tables={"data": pa.concat_tables(parts)},
        facts={"rows": rows, "clusters": clusters, "form": "ordered-centroids"},
    )


def _centroids(job: ColumnJob, places: NDArray[Any], engine: Engine) -> pa.Table:
    words = engine.array(len(places), np.uint64)
    ranking = rank(job.column, job.axis, job.k, places, job.missing_values, words, engine.sort)
    clusters = reduce(ranking, job.masking.depth)
    noisy = clusters.sums + scales_of(job, clusters).draw(job.randomness)
    fitted = ascending(noisy / clusters.sizes, clusters.sizes)
    inside = np.clip(fitted, 0, job.axis.steps)
    position = inside + job.axis.low
    value = position * float(job.axis.step.numerator) / float(job.axis.step.denominator)
    # Rounded to a millionth of a step: far below the noise, and exact in 64 bits.
    fine = np.rint(inside * 2.0**20).astype(np.int64)
    cells = storage(job.axis, fine, 1 << 20, job.column.type)
    text = wrap(job.axis, cells, None, job.column.type)
    if pa.types.is_dictionary(text.type):
        text = text.cast(text.type.value_type)
    count = len(clusters.sizes)
    return pa.table(
        {
            "attribute": text_array([job.axis.name] * count),
            "cluster": arrow_array(np.arange(1, count + 1)),
            "size": arrow_array(clusters.sizes),
            "value": arrow_array(value),
            "text": text.cast(pa.string()),
        }
    )


def ascending(values: NDArray[Any], weights: NDArray[Any]) -> NDArray[np.float64]:
    """Weighted least-squares fit that never descends (pool adjacent violators, O(n))."""
    means: list[float] = []
    masses: list[float] = []
    lengths: list[int] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, mass, length = float(value), float(weight), 1
        while means and means[-1] > mean:
            before = masses.pop()
            mean = (means.pop() * before + mean * mass) / (before + mass)
            mass += before
            length += lengths.pop()
        means.append(mean)
        masses.append(mass)
        lengths.append(length)
    return np.repeat(np.array(means, np.float64), lengths)
