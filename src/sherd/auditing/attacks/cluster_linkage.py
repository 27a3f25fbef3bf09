"""Re-identification by row structure: which clusters a row lies in says whose row it is.

Masking by ranking gives all members of a cluster one released value, so that rows with equal
cells shared a cluster in each attribute, whatever the noise. The clusters are cut from the sorted
originals at known places. An attacker who has the originals therefore knows in which cluster of
each attribute a person lies, up to ties; only which released value belongs to which cluster is
hidden by the noise. It is learnt from known pairs (`with known`), or from the release alone by
expectation-maximisation: noise says roughly where a value lies, rows then find their persons,
persons say better where a value lies. A person is then the vector of their clusters.

Notation: c a cluster, g a group of rows with one released value, Q[c, g] the chance that cluster c
was released as g, u a value (or all values inside one cluster), M[u, c] the share of u's records in
cluster c.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from sherd.auditing.attacks.attack import Attack
from sherd.auditing.case.case import take
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.epsilon.mechanism import scales
from sherd.auditing.verdict.measure import Measure, clopper_pearson

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case, Columns
    from sherd.auditing.epsilon.mechanism import Mechanism

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]

KNOWN = 0.05
"""The share of pairs that the seeded attacker knows."""

SCORES = 60_000_000
"""Pairs of a released row and an original that are scored in one pass."""

TABLE = 4_000_000
"""Cells of Q up to which the unseeded attack is run."""

_FLOOR = 1e-6
_SMOOTH = 0.5


@dataclass(frozen=True, kw_only=True)
class Structure:
    """One attribute as the attacker sees it.

    ``unit`` is the row of ``members`` (M) of each original, ``group`` the released value of each
    row; the last of both stands for a missing cell. ``centres`` and ``noise`` are the clusters'
    true means and the noise that the plan gives them.
    """

    unit: Rows
    members: Any
    group: Rows
    values: Floats
    centres: Floats
    noise: Floats

    @property
    def shares(self) -> Floats:
        """The share of rows in each group."""
        counts = np.bincount(self.group, minlength=len(self.values) + 1)[: len(self.values)]
        shares: Floats = counts / max(1, counts.sum())
        return shares


def structure_of(original: Floats, released: Floats, mechanism: Mechanism) -> Structure | None:
    """An attribute's clusters and groups; None where there are no two clusters."""
    present = np.sort(original[~np.isnan(original)])
    k = mechanism.k
    count = len(present) // k
    if count < 2:
        return None
    edges = np.append(np.arange(count) * k, len(present))
    first = np.flatnonzero(np.append(True, present[1:] != present[:-1]))
    values, times = present[first], np.diff(np.append(first, len(present)))
    place = np.searchsorted(edges, first, side="right") - 1
    last = np.searchsorted(edges, first + times - 1, side="right") - 1
    straddles = np.flatnonzero(last > place)
    # Values that lie inside one cluster are that cluster; the others have a row of their own.
    unit_of = place.copy()
    unit_of[straddles] = count + np.arange(len(straddles))
    rows, columns, weights = [np.arange(count)], [np.arange(count)], [np.ones(count)]
    for number, v in enumerate(straddles):
        inside = np.arange(place[v], last[v] + 1)
        low = np.maximum(edges[inside], first[v])
        high = np.minimum(edges[inside + 1], first[v] + times[v])
        rows.append(np.full(len(inside), count + number))
        columns.append(inside)
        weights.append((high - low) / times[v])
    shape = (count + len(straddles), count)
    members = sparse.csr_matrix(
        (np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns))), shape=shape
    )
    unit_of = np.append(unit_of, shape[0]).astype(np.min_scalar_type(shape[0]))
    unit = unit_of[np.searchsorted(values, original)]  # a missing cell is beyond every value
    shown = np.unique(released[~np.isnan(released)])
    group = np.where(np.isnan(released), len(shown), np.searchsorted(shown, released))
    return Structure(
        unit=unit,
        members=members,
        group=group.astype(np.int32),
        values=shown,
        centres=np.add.reduceat(present, edges[:-1]) / np.diff(edges),
        noise=np.maximum(scales(present, mechanism) / np.diff(edges), 1e-9 * mechanism.width),
    )


def _narrowed(one: Structure, cut: int) -> Structure:
    """The structure with the groups of the rows from ``cut`` on only; all others become one."""
    needed = np.unique(one.group[cut:])
    needed = needed[needed < len(one.values)]
    place = np.full(len(one.values) + 1, len(needed))
    place[needed] = np.arange(len(needed))
    place[-1] = len(needed) + 1
    values = np.append(one.values[needed], np.inf)
    return replace(one, values=values, group=place[one.group])


def _logs(one: Structure, chances: Floats) -> NDArray[np.float32]:
    """Log P(g | u) with a row for every group, the missing cell included on both sides."""
    logs = np.full((len(one.values) + 1, one.members.shape[0] + 1), _FLOOR)
    logs[:-1, :-1] = np.maximum(chances.T, _FLOOR)
    logs[-1, -1] = 1.0
    return np.log(logs).astype(np.float32)


def _scores(structures: Sequence[Structure], logs: Sequence[Any], row: int) -> Any:
    """The log-likelihood of every original for one released row."""
    total = logs[0][structures[0].group[row]].take(structures[0].unit)
    for one, log in zip(structures[1:], logs[1:], strict=True):
        total += log[one.group[row]].take(one.unit)
    return total


def learnt(structures: Sequence[Structure], rows: Rows, truth: Rows) -> list[Any]:
    """Log P(g | u) for each attribute, from pairs of released rows and their originals."""
    tables = []
    for one in structures:
        unit, group = one.unit[truth], one.group[rows]
        kept = (unit < one.members.shape[0]) & (group < len(one.values))
        seen = sparse.csr_matrix(
            (np.ones(int(kept.sum())), (unit[kept], group[kept])),
            shape=(one.members.shape[0], len(one.values)),
        )
        votes = (one.members.T @ seen).toarray()
        votes += _SMOOTH * one.shares
        tables.append(_logs(one, one.members @ (votes / votes.sum(axis=1, keepdims=True))))
    return tables


def _guessed(one: Structure) -> Floats:
    """Q from the noise alone: near values are likely, and every group has its share of clusters."""
    distance = np.abs(one.values[None, :] - one.centres[:, None]) / one.noise[:, None]
    q: Floats = np.exp(-np.minimum(distance - distance.min(axis=1, keepdims=True), 60)) + 1e-9
    wanted = one.shares * len(one.centres)
    for _ in range(20):
        q *= (wanted / q.sum(axis=0))[None, :]
        q /= q.sum(axis=1, keepdims=True)
    return q


def unseeded(structures: Sequence[Structure], rng: np.random.Generator, rounds: int) -> list[Any]:
    """Log P(g | u) for each attribute, by expectation-maximisation over the rows' persons."""
    n = len(structures[0].unit)
    q = [_guessed(one) for one in structures]
    chances = [one.members @ each for one, each in zip(structures, q, strict=True)]
    spare = 10 * SCORES // (4 * n * max(10, len(structures)))
    many = min(len(structures[0].group), max(200, min(1_000, spare)))
    for turn in range(rounds):
        logs = [_logs(one, c) for one, c in zip(structures, chances, strict=True)]
        heat = min(1.0, 0.4 + 0.15 * turn)  # doubtful at first: a wrong start is not fixed
        votes = [np.zeros(c.shape) for c in chances]
        for row in rng.choice(len(structures[0].group), many, replace=False):
            total = heat * _scores(structures, logs, row)
            near = np.flatnonzero(total > total.max() - 8)
            weight = np.exp(total[near] - total.max()).astype(np.float64)
            weight /= weight.sum()
            for one, vote in zip(structures, votes, strict=True):
                group = one.group[row]
                if group < len(one.values):
                    unit = one.unit[near]
                    kept = unit < vote.shape[0]
                    vote[:, group] += np.bincount(unit[kept], weight[kept], vote.shape[0])
        for place, (one, vote) in enumerate(zip(structures, votes, strict=True)):
            shared = one.members.T @ (vote / np.maximum(chances[place], _FLOOR))
            belief = q[place] * shared + _SMOOTH * _mixed(q[place], one.shares)
            q[place] = belief / belief.sum(axis=1, keepdims=True)
            chances[place] = one.members @ q[place]
    return [_logs(one, c) for one, c in zip(structures, chances, strict=True)]


def _mixed(q: Floats, shares: Floats) -> Floats:
    """The belief where nothing was seen: half the former one, half the groups' shares."""
    return 0.5 * q + 0.5 * shares[None, :]


def hits(
    structures: Sequence[Structure],
    logs: Sequence[Any],
    rows: Rows,
    truth: Rows,
    barred: NDArray[np.bool_] | None = None,
) -> Floats:
    """Each row's chance that a most likely original, ties drawn by lot, is its own."""
    won = np.zeros(len(rows))
    for place, row in enumerate(rows):
        total = _scores(structures, logs, row)
        if barred is not None:
            total[barred] = -np.inf
        best = total.max() - 1e-4
        if total[truth[place]] >= best:
            won[place] = 1 / np.count_nonzero(total >= best)
    return won


def _structures(case: Case, original: Columns, released: Columns) -> Iterator[Structure]:
    for name, mechanism in case.mechanisms.items():
        if mechanism.clusters and name in released:
            one = structure_of(original[name], released[name], mechanism)
            if one is not None:
                yield one


def with_known(case: Case) -> list[Measure]:
    """Link released rows by their clusters, knowing 5 % of the pairs."""
    matched = case.matched()
    if matched is None or not case.clustered:
        return []
    original, released, order = matched
    shuffled = case.rng("cluster-linkage-known").permutation(len(order))
    cut = max(2, int(KNOWN * len(order)))
    known, rows = shuffled[:cut], shuffled[cut:]
    rows = rows[: _bounded(case, len(order))]
    shown = take(released, np.concatenate([known, rows]))
    structures = [_narrowed(one, cut) for one in _structures(case, original, shown)]
    if not structures or not rows.size:
        return []
    barred = np.zeros(len(order), np.bool_)
    barred[order[known]] = True
    logs = learnt(structures, np.arange(cut), order[known])
    won = hits(structures, logs, cut + np.arange(len(rows)), order[rows], barred)
    return [_measure(case, "cluster-linkage-known", won, len(order), cut)]


def alone(case: Case) -> list[Measure]:
    """The same from the release and the originals alone."""
    matched = case.matched()
    if matched is None or not case.clustered or not case.limits.rounds:
        return []
    original, released, order = matched
    rng = case.rng("cluster-linkage")
    structures = list(_structures(case, original, released))
    cells = [one.members.shape[0] * (len(one.values) + 1) for one in structures]
    structures = [one for one, size in zip(structures, cells, strict=True) if size <= TABLE]
    if not structures:
        return []
    logs = unseeded(structures, rng, case.limits.rounds)
    rows = rng.permutation(len(order))[: _bounded(case, len(order))]
    return [
        _measure(case, "cluster-linkage", hits(structures, logs, rows, order[rows]), len(order))
    ]


def _bounded(case: Case, n: int) -> int:
    """How many rows are attacked: a wide table has more to compare for each."""
    width = max(10, len(case.mechanisms))
    return max(20, min(case.limits.attacked, 10 * SCORES // (n * width)))


def _measure(case: Case, code: str, won: Floats, n: int, known: int = 0) -> Measure:
    low, high = clopper_pearson(float(won.sum()), len(won))
    whose = ""
    if case.control is not None and (case.order is None or case.whole is not None):
        why = "without a row map" if case.order is None else "on so large a table"
        whose = f"; {why}, {case.control.words.partition(';')[0]}"
    return Measure(
        spec=CATALOGUE[code],
        value=float(won.mean()),
        low=low,
        high=high,
        basis=f"{won.sum():,.1f} of {len(won):,} released records against {n - known:,} "
        f"originals{whose}",
        baseline=1 / max(1, n - known),
        against="a random guess",
        sampled=len(won) < n - known,
    )


_DOES = "takes rows with equal cells for members of one cluster in each attribute, "
CLUSTERS_KNOWN = Attack(
    name="cluster-linkage-known",
    title="Linkage by row structure with known records",
    knows="all true values of every person in the release, the plan, and which released row "
    "belongs to 5 % of the persons",
    does=_DOES + "learns from the known pairs which released value is which cluster, and links "
    "each row to the person who lies in its clusters",
    wins="when the most likely original is the record's own (ties drawn by lot)",
    source="sherd",
    run=with_known,
    whole=True,
)
CLUSTERS_ALONE = Attack(
    name="cluster-linkage",
    title="Linkage by row structure alone",
    knows="all true values of every person in the release, and the plan",
    does=_DOES + "starts from where the noise makes a cluster likely, and lets rows and persons "
    "tell each other by expectation-maximisation",
    wins="when the most likely original is the record's own (ties drawn by lot)",
    source="sherd",
    run=alone,
)
