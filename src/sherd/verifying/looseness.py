"""How loose released associations are, by counting combinations and their probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_CHUNK = 1024


@dataclass(frozen=True, kw_only=True)
class Found:
    """Over all groups: fewest combinations, groups that reach one twice, greatest probability."""

    fewest: int
    repeated: int
    likeliest: float


def value_codes(table: pa.Table, names: Sequence[str]) -> Ints:
    """One number for every combination of values; missing is a value."""
    total = np.zeros(table.num_rows, np.int64)
    for name in names:
        column = table.column(name).combine_chunks()
        if not pa.types.is_dictionary(column.type):
            column = pc.dictionary_encode(column)
        # a dictionary may list a value twice: what counts is the value
        same = np.unique(np.asarray(column.dictionary.cast(pa.string())), return_inverse=True)[1]
        indices = pc.fill_null(column.indices.cast(pa.int64()), len(same)).to_numpy()
        codes = np.append(same, len(same))[indices]
        total = np.unique(total * (len(same) + 1) + codes, return_inverse=True)[1]
    return total.astype(np.int64)


class _Grouping:
    """The members of every group of one fragment, groups numbered from 0."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self.ids, self.of_tuple = np.unique(column.to_numpy(), return_inverse=True)
        self.members = np.argsort(self.of_tuple, kind="stable")
        self.size = np.bincount(self.of_tuple, minlength=len(self.ids))
        self.start = np.cumsum(self.size) - self.size

    def number(self, ids: npt.NDArray[Any]) -> Ints:
        return np.searchsorted(self.ids, ids).astype(np.int64)


def _expand(groups: Ints, grouping: _Grouping) -> tuple[Ints, Ints]:
    """For every entry, all members of its group: which entry, which tuple."""
    size = grouping.size[groups]
    entry = np.repeat(np.arange(len(groups)), size)
    within = np.arange(len(entry)) - np.repeat(np.cumsum(size) - size, size)
    return entry, grouping.members[grouping.start[groups][entry] + within]


def direct(
    fragments: Sequence[pa.Table],
    association: pa.Table,
    columns: Mapping[int, str],
    parts: Mapping[int, tuple[str, ...]],
) -> Found:
    """The looseness of one constraint under one association that covers it.

    A row with an empty place has a share in the group it comes from, but leads nowhere.
    """
    groupings = {f: _Grouping(fragments[f].column(columns[f])) for f in parts}
    wanted = association.select([columns[f] for f in parts])
    whole = wanted.drop_null()
    rows = {f: groupings[f].number(whole.column(columns[f]).to_numpy()) for f in parts}
    codes = {f: value_codes(fragments[f], names) for f, names in parts.items()}
    fewest, repeated, likeliest = association.num_rows + 1, 0, 0.0
    for source in parts:
        entry = np.arange(whole.num_rows)
        combination = np.zeros(len(entry), np.int64)
        weight = 1.0 / groupings[source].size[rows[source]]
        for f in parts:
            if f == source:
                continue
            further, tuples = _expand(rows[f][entry], groupings[f])
            weight = weight[further] / groupings[f].size[rows[f][entry[further]]]
            combination = combination[further] * (codes[f].max() + 1) + codes[f][tuples]
            combination = np.unique(combination, return_inverse=True)[1].astype(np.int64)
            entry = entry[further]
        group = rows[source][entry]
        pairs, which, times = np.unique(
            group * (combination.max(initial=0) + 1) + combination,
            return_inverse=True,
            return_counts=True,
        )
        likeliest = max(likeliest, float(np.bincount(which, weights=weight).max(initial=0.0)))
        of_pair = pairs // (combination.max(initial=0) + 1)
        distinct = np.bincount(of_pair, minlength=len(groupings[source].ids))
        distinct[np.bincount(rows[source], minlength=len(distinct)) < groupings[source].size] = 0
        fewest = min(fewest, int(distinct[distinct > 0].min(initial=fewest)))
        repeated += len(np.unique(of_pair[times > 1]))
    return Found(fewest=fewest, repeated=repeated, likeliest=likeliest)


def linked(
    fragments: Sequence[pa.Table],
    associations: Sequence[Mapping[int, tuple[str, pa.ChunkedArray]]],
    parts: Mapping[int, tuple[str, ...]],
) -> float | None:
    """The likeliest combination through several associations, None where nothing links them.

    From a tuple of one fragment, probabilities pass through an association to the tuples of
    its other fragments, and on from those through the next.
    """
    codes = {f: value_codes(fragments[f], names) for f, names in parts.items()}
    worst: float | None = None
    for source in parts:
        path = _path(source, set(parts), associations)
        if path is None:
            continue
        for low in range(0, fragments[source].num_rows, _CHUNK):
            tuples = np.arange(low, min(low + _CHUNK, fragments[source].num_rows))
            found = _walk(tuples, source, path, fragments, associations, codes)
            worst = max(worst or 0.0, found)
    return worst


def _path(
    source: int,
    wanted: set[int],
    associations: Sequence[Mapping[int, tuple[str, pa.ChunkedArray]]],
) -> list[tuple[int, int]] | None:
    """Associations to pass, each with the fragment it is entered from; None where cut off."""
    reached, path = {source}, []
    grew = True
    while grew and not wanted <= reached:
        grew = False
        for at, association in enumerate(associations):
            entry = reached.intersection(association)
            if entry and not reached.issuperset(association):
                path.append((at, min(entry)))
                reached.update(association)
                grew = True
                break
    return path if wanted <= reached else None


def _walk(
    tuples: Ints,
    source: int,
    path: Sequence[tuple[int, int]],
    fragments: Sequence[pa.Table],
    associations: Sequence[Mapping[int, tuple[str, pa.ChunkedArray]]],
    codes: Mapping[int, Ints],
) -> float:
    """The likeliest combination of the constraint's other parts for any of the tuples."""
    at = {source: tuples}
    origin = np.arange(len(tuples))
    weight = np.ones(len(tuples))
    for which, enter in path:
        association = associations[which]
        groupings = {
            f: _Grouping(fragments[f].column(name)) for f, (name, _) in association.items()
        }
        rows = {f: groupings[f].number(ids.to_numpy()) for f, (_, ids) in association.items()}
        order = np.argsort(rows[enter], kind="stable")
        count = np.bincount(rows[enter], minlength=len(groupings[enter].ids))
        start = np.cumsum(count) - count
        group = groupings[enter].of_tuple[at[enter]]
        entry = np.repeat(np.arange(len(group)), count[group])
        within = np.arange(len(entry)) - np.repeat(
            np.cumsum(count[group]) - count[group], count[group]
        )
        row = order[start[group][entry] + within]
        weight = weight[entry] / count[group][entry]
        origin = origin[entry]
        at = {f: t[entry] for f, t in at.items()}
        for f in association:
            if f in at:
                continue
            entry, members = _expand(rows[f][row], groupings[f])
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
