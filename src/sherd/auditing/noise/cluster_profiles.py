"""Clusters recognised by their members: how far each one's released value lies from its centroid.

Without a row map the sorted values alone say little of the noise: where it moves a value past many
others, nobody sees by how much. But the rows of one released value are the members of one cluster,
and what they hold in the other attributes is seen too. Each group of exactly k rows is taken for
the cluster whose members have the most similar values there, and its own value for what the noise
made of that cluster's centroid. Some are taken wrongly; simulated releases go through the same.

Notation: a profile is, for each other attribute, the sorted values of a cluster's members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.auditing.noise.noise_test import NoisyColumn

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]

CELLS = 300_000
"""Released cells up to which clusters are recognised; more of them need no such help."""

SUBJECTS = 2
"""Attributes whose clusters are recognised: those with the most values of one cluster alone."""

GROUPS = 300
"""Released values of an attribute that are looked at."""

FEWEST = 8
"""Values of single clusters below which an attribute says nothing."""


@dataclass(frozen=True, kw_only=True)
class ClusterProfiles:
    """The originals' rows in positions, column by column, and what the release shows of them.

    ``rows`` and ``released`` hold a missing cell as NaN; ``spreads`` make columns comparable.
    """

    columns: Sequence[NoisyColumn]
    rows: Sequence[Floats]
    released: Sequence[Floats]
    spreads: Sequence[float]
    k: int
    subjects: tuple[int, ...] = ()
    profiles: tuple[Floats, ...] = ()

    @classmethod
    def of(
        cls,
        columns: Sequence[NoisyColumn],
        rows: Sequence[Floats],
        released: Sequence[Floats],
        k: int,
        rng: np.random.Generator,
    ) -> ClusterProfiles | None:
        """What can be recognised; None where nothing can, or where there are too many cells."""
        if len(columns) < 2 or len(columns) * len(rows[0]) > CELLS:
            return None
        spreads = [float(np.nanstd(one)) or 1.0 for one in rows]
        bare = cls(columns=columns, rows=rows, released=released, spreads=spreads, k=k)
        # Which attributes are looked at follows from plan and original, never from the release.
        drawn = bare.simulated([one.noisy(rng) for one in columns], rng)
        single = [len(_groups(shown, k)[0]) for shown in drawn]
        best = sorted(range(len(columns)), key=lambda i: -single[i])[:SUBJECTS]
        subjects = tuple(i for i in best if single[i] >= FEWEST)
        if not subjects:
            return None
        true = bare.simulated([one.centres for one in columns], rng)
        numbers = [np.arange(len(one.sums), dtype=np.float64) for one in columns]
        clusters = bare.simulated(numbers, rng)
        profiles = tuple(bare._profiles(true, _members(clusters[i], k), i) for i in subjects)
        return cls(
            columns=columns, rows=rows, released=released, spreads=spreads, k=k,
            subjects=subjects, profiles=profiles,
        )  # fmt: skip

    def simulated(self, values: Sequence[Floats], rng: np.random.Generator) -> list[Floats]:
        """Rows of a release whose clusters have these values; equal originals are put by lot."""
        rows = []
        for one, column, value in zip(self.rows, self.columns, values, strict=True):
            order = np.argsort(one + rng.random(len(one)) / 2)[: int(column.sizes.sum())]
            shown = np.full(len(one), np.nan)
            shown[order] = np.repeat(value, column.sizes)
            rows.append(shown)
        return rows

    def look(self, shown: Sequence[Floats]) -> tuple[float, ...]:
        """The mean distance of recognised values from their centroids, in units of noise."""
        return tuple(
            self._distance(shown, i, profiles)
            for i, profiles in zip(self.subjects, self.profiles, strict=True)
        )

    def _distance(self, shown: Sequence[Floats], i: int, profiles: Floats) -> float:
        values, members = _groups(shown[i], self.k)
        if len(values) < FEWEST:
            return 1.0
        some = np.unique(np.linspace(0, len(values) - 1, GROUPS).astype(np.int64))
        seen = self._profiles(shown, members[some], i)
        apart = np.square(profiles).sum(axis=1) - 2 * np.einsum("ij,kj->ik", seen, profiles)
        cluster = apart.argmin(axis=1)
        column = self.columns[i]
        noise = np.maximum((column.scales / column.sizes)[cluster], 0.5)
        return float(np.mean(np.abs(values[some] - column.centres[cluster]) / noise))

    def _profiles(self, shown: Sequence[Floats], members: Rows, i: int) -> Floats:
        """What the members of each cluster hold in the attributes other than i."""
        parts = []
        for j, (column, spread) in enumerate(zip(shown, self.spreads, strict=True)):
            if j != i:
                # A missing cell stands one deviation below the least value.
                held = np.nan_to_num(column[members], nan=-spread)
                parts.append(np.sort(held, axis=1) / spread)
        return np.hstack(parts)


def _groups(shown: Floats, k: int) -> tuple[Floats, Rows]:
    """The released values of exactly k rows, and those rows."""
    values, counts = np.unique(shown[~np.isnan(shown)], return_counts=True)
    order = np.argsort(shown, kind="stable")
    first = np.cumsum(counts) - counts
    single = counts == k
    return values[single], order[first[single][:, None] + np.arange(k)]


def _members(clusters: Floats, k: int) -> Rows:
    """So many rows of each cluster, given the number of the cluster that each row lies in."""
    order = np.argsort(clusters, kind="stable")
    count = int(np.nanmax(clusters)) + 1
    members: Rows = order[np.arange(count)[:, None] * k + np.arange(k)]
    return members
