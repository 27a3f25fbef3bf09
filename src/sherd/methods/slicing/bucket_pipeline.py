"""From coded attributes to buckets: generalise columns, partition tuples, regroup.

``signatures`` lays the records' signatures out for the check of ``incremental_diversity``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sherd.errors import InfeasibleError, InternalError
from sherd.methods.slicing.attribute_codes import Coded, combined
from sherd.methods.slicing.attribute_grouping import discretised, phi_squared
from sherd.methods.slicing.generalise import NOTHING_MORE, BoxPartition, into_cells
from sherd.methods.slicing.group_conditions import Conditions, shares

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.methods.slicing.column_layout import ColumnLayout
    from sherd.methods.slicing.sensitive_values import Sensitive
    from sherd.randomness import Randomness


# ruff: noqa: E741 - l is the field's own name for it


@dataclass(frozen=True, kw_only=True)
class BucketSettings:
    """How tuples are partitioned; the names are the plan's."""

    l: int
    min_frequency: int | None = None
    regroup: bool = False
    scope: str = "any"
    beta: float = 1.0
    tries: int = 50
    conditions: Conditions = NOTHING_MORE


@dataclass(frozen=True, kw_only=True)
class Coarse:
    """The columns as they are released: codes of their values, cells where generalised.

    ``columns`` has one entry for every column of the layout without the sensitive one;
    ``q`` codes the quasi-identifiers in the sensitive column. ``cells`` is in the same
    order, q's last, None where nothing is generalised.
    """

    columns: tuple[Codes, ...]
    q: Codes
    cells: tuple[BoxPartition | None, ...]


def coarse(
    coded: Mapping[str, Coded],
    layout: ColumnLayout,
    n: int,
    min_frequency: int | None,
    randomness: Randomness,
    *,
    need_columns: bool,
) -> Coarse:
    """Column generalisation, where a least frequency is asked for.

    Without it, columns are coded only if ``need_columns``: the check of buckets alone does
    not look at them.
    """
    codes: list[Codes] = []
    cells: list[BoxPartition | None] = []
    for names in (*layout.columns[:-1], layout.beside):
        nothing = np.zeros(0 if names and not need_columns else n, dtype=np.int32), 1
        if not names:
            codes.append(nothing)
            cells.append(None)
        elif min_frequency is not None:
            if min_frequency > n:
                raise InfeasibleError(
                    "the least frequency is above the number of records",
                    got=str(min_frequency),
                    do="lower min_frequency",
                )
            mine = into_cells(
                [coded[name] for name in names],
                k=min_frequency,
                tight=False,
                order=randomness.permutation(n),
            )
            codes.append((mine.of_row, mine.count))
            cells.append(mine)
        elif need_columns or names == layout.beside:
            parts = [coded[name] for name in names]
            codes.append(combined([c.codes for c in parts], [c.size for c in parts]))
            cells.append(None)
        else:
            codes.append(nothing)
            cells.append(None)
    return Coarse(columns=tuple(codes[:-1]), q=codes[-1], cells=tuple(cells))


def bucketed(
    coded: Mapping[str, Coded],
    layout: ColumnLayout,
    parts: Coarse,
    sensitive: Sensitive,
    settings: BucketSettings,
    randomness: Randomness,
) -> NDArray[np.int64]:
    """The bucket of every row, from 0. Every row takes part; l must be feasible."""
    from sherd.methods.slicing.condition_kernels import merged
    from sherd.methods.slicing.joint_grouping import regrouped
    from sherd.methods.slicing.tuple_partitioning import finest, partition

    n = len(sensitive.codes)
    names = list(dict.fromkeys(name for column in layout.columns for name in column))
    names = [name for name in names if name not in layout.sensitive]
    # Equal spans are split in the order of the dimensions: let chance decide it.
    dims = [coded[names[place]] for place in randomness.permutation(len(names))]
    sizes = np.array([dim.size for dim in dims], dtype=np.int32)
    scales = 1.0 / np.maximum(sizes - 1, 1)
    if settings.regroup:
        # Rows that end up in one group should agree in what the sensitive values depend on.
        scales *= [relevance(dim, sensitive) + 1e-9 for dim in dims]
    q, n_q = parts.q
    pairs, n_pairs = sensitive.pairs(q, n_q)
    ids = randomness.permutation(n)
    rows = np.empty((n, len(dims) + 1 + len(pairs)), dtype=np.int32)
    for place, column in enumerate([*(dim.codes for dim in dims), q, *pairs]):
        rows[:, place] = column[ids]
    wanted = settings.conditions.with_l(settings.l)
    values, heads = sensitive.elements()
    overall = shares(values, heads)
    if settings.scope == "records":
        starts = _by_records(
            rows, ids, sizes, scales, coded, layout, parts, sensitive, pairs, n_pairs, settings
        )
    elif settings.regroup and values.shape[1] > 1 and not settings.conditions.asked():
        # Several values a row are easier to tell apart in the whole table than in tight buckets.
        starts = np.zeros(1, dtype=np.int64)
    else:
        starts = partition(
            rows, ids, len(dims), sizes, scales, n_q, n_pairs, settings.l, settings.tries,
            values, heads, overall, settings.conditions.limits(),
        )  # fmt: skip
    lengths = np.diff(np.append(starts, n))
    group = np.repeat(np.arange(len(starts), dtype=np.int64), lengths)
    if settings.regroup and wanted.distinct > 1 and not wanted.follow_the_table:
        finest(rows, ids, len(dims), sizes, scales, starts)
        mine = np.ascontiguousarray(values[ids])
        smaller, _ = regrouped(rows, len(dims), starts, int(heads[-1]), mine, wanted.distinct)
        if settings.conditions.asked():
            places = group * n_q + rows[:, len(dims)]
            smaller = merged(places, smaller, mine, heads, overall, wanted.limits())
        group = smaller
    buckets = np.empty(n, dtype=np.int64)
    buckets[ids] = group
    if settings.scope == "any":
        check_buckets(buckets, q, n_q, sensitive, wanted)
    return buckets


def neighbour_order(dims: Sequence[Coded], randomness: Randomness) -> NDArray[np.int64]:
    """All rows in Mondrian's order, without any check: similar ones lie near each other."""
    from sherd.methods.slicing.tuple_partitioning import finest

    ids = randomness.permutation(len(dims[0].codes))
    rows = np.empty((len(ids), len(dims)), dtype=np.int32)
    for place, dim in enumerate(dims):
        rows[:, place] = dim.codes[ids]
    sizes = np.array([dim.size for dim in dims], dtype=np.int32)
    scales = 1.0 / np.maximum(sizes - 1, 1)
    finest(rows, ids, len(dims), sizes, scales, np.zeros(1, dtype=np.int64))
    return ids


def relevance(dim: Coded, sensitive: Sensitive) -> float:
    """The largest φ² of a dimension with a sensitive attribute, from a hundred thousand rows."""
    some = slice(None, None, max(len(dim.codes) // 100_000, 1))
    codes, size = discretised(dim, "width")
    return max(
        phi_squared(codes[some], size, sensitive.codes[some, place], n_values)
        for place, n_values in enumerate(sensitive.sizes)
    )


def _by_records(
    rows: NDArray[np.int32],
    ids: NDArray[np.int64],
    sizes: NDArray[np.int32],
    scales: NDArray[np.float64],
    coded: Mapping[str, Coded],
    layout: ColumnLayout,
    parts: Coarse,
    sensitive: Sensitive,
    pairs: list[NDArray[np.int32]],
    n_pairs: int,
    settings: BucketSettings,
) -> NDArray[np.int64]:
    """Tuple partitioning with the incremental check on the records' own tuples."""
    from sherd.methods.slicing.incremental_diversity import from_scratch, partition_records

    shared: list[Codes | None] = []
    for names in layout.separators:
        mine = [coded[name] for name in names]
        shared.append(combined([c.codes for c in mine], [c.size for c in mine]) if mine else None)
    signs = signatures(
        parts.columns, shared, parts.q, sensitive, pairs, n_pairs, beta=settings.beta
    )
    n_dims = len(sizes)
    rows[:, n_dims] = signs.of_row[ids]
    state = from_scratch(
        rows, n_dims, np.zeros(1, dtype=np.int64), signs.parts, signs.n_plus, signs.n_values,
        signs.heads, signs.members, signs.pair_of, n_pairs, int(signs.blocks[-1]), signs.power,
    )  # fmt: skip
    # That the root itself is diverse, ``sensitive.feasible`` has said: with one bucket p(t, s)
    # is the share of s among the records with the same q.
    starts = partition_records(
        rows, ids, n_dims, sizes, scales, signs.parts, signs.n_plus, signs.n_values, signs.heads,
        signs.members, signs.pair_of, n_pairs, signs.blocks, signs.power, settings.l,
        settings.tries, state,
    )  # fmt: skip
    rows[:, n_dims] = parts.q[0][ids]
    return starts


def check_buckets(
    buckets: NDArray[np.int64],
    q: NDArray[np.int32],
    n_q: int,
    sensitive: Sensitive,
    wanted: Conditions,
) -> None:
    """Count again what was made: every bucket, and each q in it, meets what is promised."""
    from sherd.methods.slicing.condition_kernels import unmet

    values, heads = sensitive.elements()
    places = buckets * n_q + q
    if unmet(places, values, heads, shares(values, heads), wanted.limits()):
        raise InternalError("a bucket was made that is not diverse enough")


def subset(coded: Mapping[str, Coded], rows: NDArray[np.int64]) -> dict[str, Coded]:
    """The same attributes for some of the rows."""
    return {name: replace(one, codes=one.codes[rows]) for name, one in coded.items()}


Codes = tuple["NDArray[np.int32]", int]
"""One code for every row, and how many codes there are."""


@dataclass(frozen=True, kw_only=True)
class RowSignatures:
    """Distinct signatures of a table's rows; ``incremental_diversity`` says what each part is."""

    of_row: NDArray[np.int32]
    parts: NDArray[np.int32]
    n_plus: int
    n_values: int
    heads: NDArray[np.int64]
    members: NDArray[np.int32]
    pair_of: NDArray[np.int64]
    n_pairs: int
    blocks: NDArray[np.int64]
    power: float


def signatures(
    columns: Sequence[Codes],
    separators: Sequence[Codes | None],
    q: Codes,
    sensitive: Sensitive,
    pairs: Sequence[NDArray[np.int32]],
    n_pairs: int,
    *,
    beta: float,
) -> RowSignatures:
    """The signatures of all rows.

    ``columns`` are those without the sensitive one; ``separators`` has one entry for every
    column, the sensitive one last, None where it shares nothing with earlier columns.
    """
    shared = [codes for codes in separators if codes is not None]
    placed: list[NDArray[np.int64]] = []
    total = 0
    for codes, size in [*columns, *shared, q]:
        placed.append(codes.astype(np.int64) + total)
        total += size
    ordered = [*placed[: len(columns)], placed[-1], *placed[len(columns) : -1]]
    of_row, count = combined(
        [codes for codes, _ in [*columns, q]], [size for _, size in [*columns, q]]
    )
    first = np.zeros(count, dtype=np.int64)
    first[of_row] = np.arange(len(of_row))
    parts = np.column_stack([codes[first] for codes in ordered]).astype(np.int32)
    n_plus = len(columns) + 1
    flat = parts[:, :n_plus].ravel()
    heads = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=total))])
    members = (np.argsort(flat, kind="stable") // n_plus).astype(np.int32)
    blocks = np.concatenate([[0], np.cumsum(sensitive.sizes)]).astype(np.int64)
    pair_of = np.full((q[1], int(blocks[-1])), -1, dtype=np.int64)
    for place, pair in enumerate(pairs):
        pair_of[q[0], blocks[place] + sensitive.codes[:, place]] = pair
    return RowSignatures(
        of_row=of_row,
        parts=parts,
        n_plus=n_plus,
        n_values=total,
        heads=heads.astype(np.int64),
        members=members,
        pair_of=pair_of,
        n_pairs=n_pairs,
        blocks=blocks,
        power=beta - sum(codes is None for codes in separators),
    )
