"""Groups of equal quasi-identifiers: prosecutor, journalist and marketer risk (El Emam 2013).

They take released values for true. Where values are masked they say how distinctive released
rows look, not how often a match would be right: for that see the linkage attacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.attacks.attack import Attack
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Measure
from sherd.tables.schema import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case, Columns

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def keys(columns: Columns, names: Sequence[str]) -> NDArray[np.uint64]:
    """A 64-bit fingerprint of each row; two different rows of a million share one never."""
    found = np.zeros(len(columns[names[0]]), np.uint64)
    for name in names:
        bits = np.where(np.isnan(columns[name]), np.nan, columns[name] + 0.0).view(np.uint64)
        found ^= bits + _MULTIPLIER + (found << np.uint64(6)) + (found >> np.uint64(2))
        found *= _MULTIPLIER
        found ^= found >> np.uint64(29)
    return found


def uniqueness(case: Case) -> list[Measure]:
    """Shares and chances from the sizes of groups of equal quasi-identifiers."""
    if not case.rows:
        return _generalised(case)
    names = [n for n in case.names if case.schema[n].role is Role.QUASI_IDENTIFIER]
    names = names or list(case.protected) or list(case.names)
    found, sizes = np.unique(keys(case.released, names), return_counts=True)
    basis = f"{case.n_released:,} released records, {len(found):,} groups by {len(names)} "
    basis += "attributes, exact"
    return [
        *_by_size(sizes, basis),
        _journalist(case, names, found, sizes, basis),
    ]


def _by_size(sizes: NDArray[np.int64], basis: str) -> list[Measure]:
    n, alone = int(sizes.sum()), int(np.count_nonzero(sizes == 1))
    return [
        Measure(spec=CATALOGUE["unique"], value=alone / n, basis=f"{alone:,} of {basis}"),
        Measure(spec=CATALOGUE["prosecutor"], value=1 / int(sizes.min()), basis=basis),
        Measure(spec=CATALOGUE["marketer"], value=len(sizes) / n, basis=basis),
    ]


def _journalist(
    case: Case,
    names: Sequence[str],
    found: NDArray[np.uint64],
    sizes: NDArray[np.int64],
    basis: str,
) -> Measure:
    real = keys(case.original, names)
    population = real
    if case.holdout is not None:
        population = np.concatenate([real, keys(case.holdout, names)])
    known, counts = np.unique(population, return_counts=True)
    place = np.searchsorted(known, found)
    place[place == len(known)] = 0
    matches = np.where(known[place] == found, counts[place], 0)
    chance = np.where(matches > 0, 1 / np.maximum(matches, 1), 0.0)
    alone = float(np.mean(np.unique(real, return_counts=True)[1] == 1))
    return Measure(
        spec=CATALOGUE["journalist"],
        value=float((chance * sizes).sum() / sizes.sum()),
        basis=f"{basis}; {alone:.1%} of the originals' groups are single records",
    )


def _generalised(case: Case) -> list[Measure]:
    """The same for a generalised table, whose released labels are the groups."""
    from sherd.auditing.case.record_drawing import GeneralisedRelease
    from sherd.auditing.utility.coarseness import groups

    if not isinstance(case.drawable, GeneralisedRelease):
        return []
    sizes = groups(case.drawable, case).astype(np.int64)
    return _by_size(
        sizes, f"{int(sizes.sum()):,} generalised records, {len(sizes):,} groups, exact"
    )


UNIQUENESS = Attack(
    name="uniqueness",
    title="Prosecutor, journalist and marketer",
    codes=("unique", "prosecutor", "marketer", "journalist"),
    knows="the quasi-identifiers of a person (prosecutor), of everybody (marketer), or a register "
    "of the population (journalist)",
    does="matches exactly on released quasi-identifiers",
    wins="by one over the size of the matching group",
    source="El Emam 2013",
    run=uniqueness,
    whole=True,
)
