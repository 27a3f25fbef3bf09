"""How loose released associations are, by counting combinations and their probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sherd.verifying.row_groups import Grouping, placed, scratch
from sherd.verifying.stored_table import parts, pieces

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from sherd.verifying.stored_table import StoredTable

    Ints = npt.NDArray[np.int64]

_CHUNK = 1024


@dataclass(frozen=True, kw_only=True)
class Reached:
    """Over all groups: fewest combinations, groups that reach one twice, greatest probability."""

    fewest: int
    repeated: int
    likeliest: float


ENTRIES = 1 << 18
"""Combinations of an association that are looked at together, about."""


def direct(
    groupings: Mapping[int, Grouping],
    association: pa.Table | StoredTable,
    columns: Mapping[int, str],
    codes: Mapping[int, Ints],
) -> Reached:
    """The looseness of one constraint under one association that covers it.

    A row with an empty place has a share in the group it comes from, but leads nowhere.
    ``groupings`` and ``codes`` are of the fragments that hold a part of the constraint.
    """
    highest = {f: int(values.max(initial=0)) for f, values in codes.items()}
    reached = Reached(fewest=association.num_rows + 1, repeated=0, likeliest=0.0)
    for source in codes:
        others = [f for f in codes if f != source]
        each = math.prod(max(1, len(codes[f]) // max(1, len(groupings[f].ids))) for f in others)
        count = 1 + association.num_rows * each // ENTRIES
        names = [columns[f] for f in codes]
        for part in parts(association, [columns[source]], names, count):
            whole = part.drop_null()
            rows = {f: groupings[f].number(whole.column(columns[f]).to_numpy()) for f in codes}
            reached = _reached(source, rows, groupings, codes, highest, reached)
    return reached


def _reached(
    source: int,
    rows: Mapping[int, Ints],
    groupings: Mapping[int, Grouping],
    codes: Mapping[int, Ints],
    highest: Mapping[int, int],
    before: Reached,
) -> Reached:
    """What the groups of one fragment lead to, by all the association's rows that they have."""
    groups, own = np.unique(rows[source], return_inverse=True)
    entry = np.arange(len(own))
    combination = np.zeros(len(entry), np.int64)
    weight = 1.0 / groupings[source].size[rows[source]]
    for f in codes:
        if f == source:
            continue
        further, tuples = groupings[f].expand(rows[f][entry])
        weight = weight[further] / groupings[f].size[rows[f][entry[further]]]
        combination = combination[further] * (highest[f] + 1) + codes[f][tuples]
        combination = np.unique(combination, return_inverse=True)[1].astype(np.int64)
        entry = entry[further]
    pairs, which, times = np.unique(
        own[entry] * (combination.max(initial=0) + 1) + combination,
        return_inverse=True,
        return_counts=True,
    )
    of_pair = pairs // (combination.max(initial=0) + 1)
    distinct = np.bincount(of_pair, minlength=len(groups))
    distinct[np.bincount(own, minlength=len(groups)) < groupings[source].size[groups]] = 0
    likeliest = float(np.bincount(which, weights=weight).max(initial=0.0))
    return Reached(
        fewest=min(before.fewest, int(distinct[distinct > 0].min(initial=before.fewest))),
        repeated=before.repeated + len(np.unique(of_pair[times > 1])),
        likeliest=max(before.likeliest, likeliest),
    )


@dataclass(frozen=True, kw_only=True)
class Link:
    """An association's rows without an empty place: the group that each names in a fragment."""

    groupings: Mapping[int, Grouping]
    rows: Mapping[int, Ints]

    @classmethod
    def of(
        cls,
        association: pa.Table | StoredTable,
        columns: Mapping[int, str],
        groupings: Mapping[int, Grouping],
    ) -> Link:
        """An association over fragments, by the columns that name their groups."""
        rows = {f: scratch(association.num_rows, np.int64) for f in columns}
        at = 0
        for piece in pieces(association, *columns.values()):
            # without rows that have an empty place the rest looks likelier, never less likely
            whole = piece.drop_null()
            for f, name in columns.items():
                numbers = groupings[f].number(whole.column(name).to_numpy())
                rows[f][at : at + len(numbers)] = numbers
            at += whole.num_rows
        return cls(groupings=groupings, rows={f: held[:at] for f, held in rows.items()})

    def entered(self, fragment: int) -> tuple[Ints, Ints, Ints]:
        """The rows by the groups of a fragment, each group's number of them, where they start."""
        return placed(self.rows[fragment], len(self.groupings[fragment].ids))


def linked(associations: Sequence[Link], codes: Mapping[int, Ints]) -> float | None:
    """The likeliest combination through several associations, None where nothing links them.

    From a tuple of one fragment, probabilities pass through an association to the tuples of
    its other fragments, and on from those through the next.
    """
    worst: float | None = None
    for source in codes:
        path = _path(source, set(codes), associations)
        if path is None:
            continue
        steps = [(associations[at], enter, associations[at].entered(enter)) for at, enter in path]
        for low in range(0, len(codes[source]), _CHUNK):
            tuples = np.arange(low, min(low + _CHUNK, len(codes[source])))
            worst = max(worst or 0.0, _walk(tuples, source, steps, codes))
    return worst


def _path(
    source: int,
    wanted: set[int],
    associations: Sequence[Link],
) -> list[tuple[int, int]] | None:
    """Associations to pass, each with the fragment it is entered from; None where cut off."""
    reached, path = {source}, []
    grew = True
    while grew and not wanted <= reached:
        grew = False
        for at, association in enumerate(associations):
            entry = reached.intersection(association.rows)
            if entry and not reached.issuperset(association.rows):
                path.append((at, min(entry)))
                reached.update(association.rows)
                grew = True
                break
    return path if wanted <= reached else None


def _walk(
    tuples: Ints,
    source: int,
    steps: Sequence[tuple[Link, int, tuple[Ints, Ints, Ints]]],
    codes: Mapping[int, Ints],
) -> float:
    """The likeliest combination of the constraint's other parts for any of the tuples."""
    at = {source: tuples}
    origin = np.arange(len(tuples))
    weight = np.ones(len(tuples))
    for association, enter, (order, count, start) in steps:
        groupings, rows = association.groupings, association.rows
        group = groupings[enter].of_tuple[at[enter]]
        entry = np.repeat(np.arange(len(group)), count[group])
        within = np.arange(len(entry)) - np.repeat(
            np.cumsum(count[group]) - count[group], count[group]
        )
        row = order[start[group][entry] + within]
        weight = weight[entry] / count[group][entry]
        origin = origin[entry]
        at = {f: t[entry] for f, t in at.items()}
        for f in rows:
            if f in at:
                continue
            entry, members = groupings[f].expand(rows[f][row])
            weight = weight[entry] / groupings[f].size[rows[f][row[entry]]]
            origin, row = origin[entry], row[entry]
            at = {g: t[entry] for g, t in at.items()}
            at[f] = members
    combination = np.zeros(len(origin), np.int64)
    for f, values in codes.items():
        if f != source:
            combination = combination * (values.max() + 1) + values[at[f]]
            combination = np.unique(combination, return_inverse=True)[1].astype(np.int64)
    pair = np.unique(origin * (combination.max(initial=0) + 1) + combination, return_inverse=True)[
        1
    ]
    return float(np.bincount(pair, weights=weight).max(initial=0.0))
