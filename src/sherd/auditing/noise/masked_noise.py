"""Masked values against the plan: clusters, their true sums, and the noise on each.

With the original at hand, clusters, their true sums and the scale of each one's noise follow from
the plan by the audit's own account (`epsilon.mechanism`). What is looked at (`noise_test`):

- with a row map, the distance of each row from the centroid of its original;
- without one, the distance of the sorted released values from the sorted centroids, and of single
  ones from the centroids of the clusters that their rows are recognised by;
- in a strict release, the distance of the ordered centroids from the true ones, and how many of
  them differ.

Group sizes are tested besides: released values must be those of whole clusters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.epsilon.mechanism import Mechanism, scales, sizes, sums
from sherd.auditing.noise.cluster_profiles import ClusterProfiles
from sherd.auditing.noise.noise_test import NoisyColumn, Pairs, judged
from sherd.auditing.verdict.verdict_points import NOISE
from sherd.verifying.check import Check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case
    from sherd.auditing.noise.evidence import Evidence

    Floats = NDArray[np.float64]

SAMPLE = 2_000
"""Values masked one by one that are looked at."""


def check(case: Case, evidence: Evidence) -> list[Check]:
    """Whether the noise on the released values is the plan's."""
    if evidence.by_rows:
        detail = "not testable: each owner made clusters of its own rows"
        return [Check(name=NOISE, passed=None, detail=detail)]
    torn = _torn(case)
    if torn is not None:
        return [torn]
    named = {name: _column(case, name) for name in case.mechanisms}
    columns = [one for one in named.values() if one is not None]
    return [judged(columns, case.rng("noise"), _profiles(case, named))]


def _profiles(case: Case, named: Mapping[str, NoisyColumn | None]) -> ClusterProfiles | None:
    """What recognises clusters by their members, where rows are records and no map is given."""
    clustered = {
        name: one
        for name, one in named.items()
        if one is not None and case.mechanisms[name].clusters
    }
    sizes = {case.mechanisms[name].k for name in clustered}
    if case.order is not None or not case.records or len(sizes) != 1 or case.n != case.n_released:
        return None
    rows = [case.mechanisms[name].positions(case.original[name]) for name in clustered]
    released = [case.mechanisms[name].positions(case.released[name]) for name in clustered]
    rng = case.rng("clusters")
    return ClusterProfiles.of(list(clustered.values()), rows, released, sizes.pop(), rng)


def _column(case: Case, name: str) -> NoisyColumn | None:
    """An attribute as it is tested; None where the plan does not say enough."""
    mechanism = case.mechanisms[name]
    if mechanism.step <= 0:
        return None
    scaled = mechanism.in_steps()
    original = mechanism.positions(case.original[name])
    if mechanism.single:
        return _each_value(case, name, original, scaled)
    present = np.sort(original[~np.isnan(original)])
    if len(present) < 2 * mechanism.k:
        return None
    column = NoisyColumn(
        name=name,
        sums=sums(present, scaled),
        sizes=sizes(len(present), mechanism.k),
        scales=scales(present, scaled),
        high=scaled.high,
        ascends=not case.rows,
        places=np.arange(len(present) // mechanism.k) * mechanism.k + mechanism.k // 2,
    )
    if not case.rows:
        return _ordered(case, name, column, mechanism)
    released = mechanism.positions(case.released[name])
    if case.order is None:
        sorted_rows = np.sort(released[~np.isnan(released)])
        return replace(column, observed=(column.distance_at(sorted_rows[column.places]),))
    values, expected, weights, pairs = _paired(present, column)
    before = original[case.order]
    both = ~(np.isnan(before) | np.isnan(released))
    place = np.searchsorted(values, before[both])
    centre, weight = expected[place], weights[place]
    rows = Pairs(place, centre, weight, np.ones(len(place)))
    observed = rows.shape(released[both] - centre)
    return replace(column, places=None, pairs=pairs, observed=observed)


def _paired(present: Floats, column: NoisyColumn) -> tuple[Floats, Floats, Floats, Pairs]:
    """Every value's expected centroid and weight, and how many of its rows lie in which cluster."""
    count = len(column.sizes)
    cluster = np.repeat(np.arange(count), column.sizes)
    values, place = np.unique(present, return_inverse=True)
    times = np.bincount(place)
    expected, weights = (
        np.bincount(place, weights=each[cluster]) / times
        for each in (column.centres, column.weights)
    )
    keys, rows = np.unique(place * count + cluster, return_counts=True)
    # Values inside one cluster expect its centroid: they are looked at as one. So do equal values
    # of several clusters, but what they count is the mean over clusters that differ in noise.
    inside = expected[keys // count] == column.centres[keys % count]
    inside &= np.isclose(weights[keys // count], column.weights[keys % count], rtol=1e-9, atol=0)
    whole = np.bincount(keys[inside] % count, weights=rows[inside], minlength=count)
    kept = np.flatnonzero(whole)
    across = keys[~inside]
    each = np.concatenate([whole[kept], rows[~inside]])
    pairs = Pairs(
        np.concatenate([kept, across % count]),
        np.concatenate([column.centres[kept], expected[across // count]]),
        np.concatenate([column.weights[kept], weights[across // count]]) * each,
        each,
    )
    return values, expected, weights, pairs


def _each_value(case: Case, name: str, original: Floats, scaled: Mechanism) -> NoisyColumn | None:
    """Values masked one by one: a sample of pairs, or all values where nobody said which."""
    released = case.mechanisms[name].positions(case.released[name])
    if case.order is None:
        x, y = (np.sort(v[~np.isnan(v)]) for v in (original, released))
        if len(x) != len(y) or len(x) < 2:
            return None
        places = np.unique(np.linspace(0, len(x) - 1, min(len(x), SAMPLE)).astype(np.int64))
        shown = y[places]
    else:
        before = original[case.order]
        rows = np.flatnonzero(~(np.isnan(before) | np.isnan(released)))
        rows = case.rng(f"noise {name}").permutation(rows)[:SAMPLE]
        x, places = before[rows], None
        if len(x) < 2:
            return None
        shown = released[rows]
    reach = np.full(len(x), scaled.width)
    if scaled.reach == "local":
        reach = np.maximum(scaled.high - x, x - scaled.low)
    column = NoisyColumn(
        name=name,
        sums=x,
        sizes=np.ones(len(x), np.int64),
        scales=reach / scaled.epsilon,
        high=scaled.high,
        places=places,
    )
    if places is not None:
        return replace(column, observed=(column.distance_at(shown),))
    column = replace(column, pairs=Pairs(np.arange(len(x)), x, column.weights, np.ones(len(x))))
    return replace(column, observed=column.look(shown))


def _ordered(
    case: Case, name: str, column: NoisyColumn, mechanism: Mechanism
) -> NoisyColumn | None:
    """The ordered centroids of a strict release."""
    import pyarrow.compute as pc

    table = getattr(case.drawable, "table", None)
    if table is None or "attribute" not in table.column_names:
        return None
    part = table.filter(pc.equal(table.column("attribute"), name)).sort_by("cluster")
    values = part.column("value").to_numpy()
    if len(values) != len(column.sums):
        return None
    shown = (values - mechanism.low) / mechanism.step
    count = len(column.sums)
    rows = column.sizes.astype(np.float64)
    pairs = Pairs(np.arange(count), column.centres, rows * column.weights, rows)
    made = replace(column, places=None, pairs=pairs)
    return replace(made, observed=made.look(shown))


def _torn(case: Case) -> Check | None:
    """Refuted where released values are not those of whole clusters."""
    for name, mechanism in case.mechanisms.items():
        if not (case.rows and mechanism.clusters):
            continue
        present = case.released[name][~np.isnan(case.released[name])]
        _, counts = np.unique(present, return_counts=True)
        left = counts % mechanism.k
        if left.sum() != len(present) % mechanism.k or np.count_nonzero(left) > 1:
            detail = f"refuted: the rows of '{name}' are not made of clusters of {mechanism.k}"
            return Check(name=NOISE, passed=False, detail=detail)
    return None
