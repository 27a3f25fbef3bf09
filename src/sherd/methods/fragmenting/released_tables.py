"""The tables of a release made of fragments: group identifiers, and rows in random order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.methods.fragmenting.sealed_cells import TABLE as SEALED_TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from sherd.methods.fragmenting.association import Association
    from sherd.randomness import Randomness

    Groups = npt.NDArray[np.int32]

GROUP = "group_"
"""How a fragment's column of group identifiers begins; its number follows."""


def number_groups(
    groups: Groups,
    rows: npt.NDArray[np.int64],
    made: Association,
    used: tuple[int, ...],
    randomness: Randomness,
) -> tuple[int, ...]:
    """Give the groups made for some rows identifiers that were never used, in random order."""
    after = []
    for f in range(len(groups)):
        placed = made.place[f] >= 0  # associations over other fragments may lack other tuples
        own, dense = np.unique(made.place[f, placed], return_inverse=True)
        fresh = used[f] + randomness.permutation(len(own)).astype(np.int32)
        groups[f, rows[placed]] = fresh[dense]
        after.append(used[f] + len(own))
    return tuple(after)


def first_groups(made: Association, randomness: Randomness) -> Groups:
    """The identifiers of a first release, -1 for tuples that are left out."""
    groups = np.full_like(made.place, -1)
    number_groups(groups, np.arange(groups.shape[1]), made, (0,) * len(groups), randomness)
    return groups


def released_tables(
    groups: Groups,
    table: pa.Table,
    fragments: Sequence[Sequence[str]],
    randomness: Randomness,
    *,
    shuffle: bool = True,
    projections: Any = None,
    seal: Callable[[list[npt.NDArray[np.int64]]], pa.Table] | None = None,
) -> dict[str, pa.Table]:
    """Fragments with group identifiers, and the association or projections of it.

    Every table is in the order of its group identifiers and at random within them, so that
    it says nothing about the others; as it came where ``shuffle`` is off. Where a part was
    withdrawn, its place in the association is empty. ``seal`` makes the table of ciphertext from
    the tuples behind every fragment's rows.
    """
    import pyarrow as pa

    names = [f"{GROUP}{f}" for f in range(1, len(fragments) + 1)]
    tables: dict[str, pa.Table] = {}
    orders = []
    for f, attributes in enumerate(fragments):
        rows = _ordered(groups[f], groups[f] >= 0, randomness, shuffle)
        orders.append(rows)
        part = table.select(list(attributes)).take(pa.array(rows))
        tables[f"fragment-{f + 1}"] = part.append_column(names[f], pa.array(groups[f][rows]))
    wanted = [tuple(p) for p in projections] if projections else [tuple(range(1, len(names) + 1))]
    for chosen in wanted:
        shown = np.asarray((groups[[f - 1 for f in chosen]] >= 0).any(axis=0))
        rows = _ordered(groups[chosen[0] - 1], shown, randomness, shuffle)
        columns = {names[f - 1]: groups[f - 1][rows] for f in chosen}
        label = "association" if not projections else "association-" + "-".join(map(str, chosen))
        tables[label] = pa.table(
            {name: pa.array(column, mask=column < 0) for name, column in columns.items()}
        )
    if seal is not None:
        tables[SEALED_TABLE] = seal(orders)
    return tables


def _ordered(
    column: Groups, shown: npt.NDArray[np.bool_], randomness: Randomness, shuffle: bool
) -> npt.NDArray[np.int64]:
    rows = np.flatnonzero(shown)
    if not shuffle:
        return rows
    rows = rows[randomness.permutation(len(rows))]
    return rows[np.argsort(column[rows], kind="stable")]
