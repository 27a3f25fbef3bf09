"""Singling out: predicates made from the release that isolate one real person.

A predicate starts from a random released record and a few of its attributes. Two kinds: *cells*
ask for values nearer to the record's than to any other released value (labels: equal), *tails*
for values at least as extreme as the record's, as Anonymeter does. Only predicates that are
true for exactly one released record are used; each counts when it is true for exactly one
person. The report takes the kind that works better.

Groups of equal quasi-identifiers: prosecutor, journalist and marketer risk (El Emam 2013).

All of these take released values for true. Where values are masked they say how distinctive
released rows look, not how often a match would be right: for that see the linkage attacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.attacks.attack import Attack
from sherd.auditing.case.case import height
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Measure, beside_control
from sherd.tables.schema import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case, Columns


MOST_ATTRIBUTES = 6
_TRIES = 6  # candidates drawn for each predicate wanted


def singling_out(case: Case) -> list[Measure]:
    """Success on the people in the release, beside the same predicates on the control group."""
    assert case.control is not None
    control = case.control
    size = min(height(control.members), height(control.outsiders))
    work = max(1, height(control.released) + 2 * size)
    wanted = int(np.clip(2e8 / work, 100, 500))
    outcome = {}
    for kind in ("cells", "tails"):
        rng = case.rng(f"singling out {kind}")
        coded = _cells(case) if kind == "cells" else _tails(case)
        outcome[kind] = _play(coded, wanted, rng)
    best = max(outcome, key=lambda kind: outcome[kind][1] / max(1, outcome[kind][0]))
    trials, hits, base = outcome[best]
    low, high = beside_control(hits, base, trials)
    parts = {kind: h / max(1, t) for kind, (t, h, _) in outcome.items()}
    return [
        Measure(
            spec=CATALOGUE["singling-out"],
            value=hits / max(1, trials),
            low=low,
            high=high,
            basis=f"{hits:,} of {trials:,} predicates ({best}); {control.words}",
            baseline=base / max(1, trials),
            against="the same predicates on people not in the release",
            parts=parts,
            sampled=True,
        )
    ]


_Groups = list["NDArray[np.int64] | NDArray[np.float64]"]


def _cells(case: Case) -> tuple[list[_Groups], bool]:
    """Per attribute the number of the nearest released value: released, members, outsiders."""
    assert case.control is not None
    groups: list[_Groups] = []
    for name in case.names:
        values = np.unique(case.control.released[name])
        values = values[~np.isnan(values)]
        middles = (values[1:] + values[:-1]) / 2
        groups.append([_nearest(column[name], middles) for column in _three(case)])
    return groups, True


def _nearest(column: NDArray[np.float64], middles: NDArray[np.float64]) -> NDArray[np.int64]:
    place = np.searchsorted(middles, column)
    place[np.isnan(column)] = -1
    return place


def _tails(case: Case) -> tuple[list[_Groups], bool]:
    """Per attribute the value itself; each predicate decides which end is the extreme one."""
    columns: list[_Groups] = [[column[name] for column in _three(case)] for name in case.names]
    return columns, False


def _three(case: Case) -> tuple[Columns, Columns, Columns]:
    assert case.control is not None
    control = case.control
    size = min(height(control.members), height(control.outsiders))
    members = {name: column[:size] for name, column in control.members.items()}
    outsiders = {name: column[:size] for name, column in control.outsiders.items()}
    return control.released, members, outsiders


def _play(
    coded: tuple[list[_Groups], bool], wanted: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """Predicates used, true for one member, true for one outsider."""
    columns, equal = coded
    n = len(columns[0][0])
    most = min(MOST_ATTRIBUTES, len(columns))
    medians = [float(np.nanmedian(c[0])) if not np.isnan(c[0]).all() else 0.0 for c in columns]
    used = hits = base = 0
    known: set[tuple[int, ...]] = set()
    for _ in range(wanted * _TRIES):
        if used == wanted:
            break
        row = int(rng.integers(n))
        chosen = rng.choice(len(columns), int(rng.integers(1, most + 1)), replace=False)
        predicate = (row, *sorted(chosen.tolist()))
        if predicate in known:  # twice the same is no second trial
            continue
        known.add(predicate)
        counts = []
        for group in range(3):
            held: NDArray[np.bool_] | None = None
            for i in chosen:
                at = columns[i][0][row]
                one = _true(columns[i][group], at, equal, above=at >= medians[i])
                held = one if held is None else held & one
            assert held is not None
            counts.append(int(np.count_nonzero(held)))
            if group == 0 and counts[0] != 1:
                break
        if len(counts) < 3:
            continue
        used += 1
        hits += counts[1] == 1
        base += counts[2] == 1
    return used, hits, base


def _true(
    column: NDArray[np.int64] | NDArray[np.float64], at: float, equal: bool, *, above: bool
) -> NDArray[np.bool_]:
    if equal:
        true: NDArray[np.bool_] = column == at
        return true
    if np.isnan(at):
        return np.isnan(column)
    return column >= at if above else column <= at


SINGLING_OUT = Attack(
    name="singling-out",
    title="Singling out",
    knows="nothing but the release",
    does="builds predicates that are true for exactly one released record",
    wins="when a predicate is true for exactly one person",
    source="Giomi et al. 2023 (Anonymeter); cells: sherd",
    run=singling_out,
)


_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def keys(columns: Columns, names: Sequence[str]) -> NDArray[np.uint64]:
    """A 64-bit fingerprint of each row, so long that no two of a million rows share one."""
    mixed = np.zeros(len(columns[names[0]]), np.uint64)
    for name in names:
        bits = np.where(np.isnan(columns[name]), np.nan, columns[name] + 0.0).view(np.uint64)
        mixed ^= bits + _MULTIPLIER + (mixed << np.uint64(6)) + (mixed >> np.uint64(2))
        mixed *= _MULTIPLIER
        mixed ^= mixed >> np.uint64(29)
    return mixed


def uniqueness(case: Case) -> list[Measure]:
    """Shares and chances from the sizes of groups of equal quasi-identifiers."""
    if not case.rows:
        return _generalised(case)
    names = [n for n in case.names if case.schema[n].role is Role.QUASI_IDENTIFIER]
    names = names or list(case.protected) or list(case.names)
    known, sizes = np.unique(keys(case.released, names), return_counts=True)
    basis = f"{case.n_released:,} released records, {len(known):,} groups by {len(names)} "
    basis += "attributes, exact"
    return [
        *_by_size(sizes, basis),
        _journalist(case, names, known, sizes, basis),
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
    groups: NDArray[np.uint64],
    sizes: NDArray[np.int64],
    basis: str,
) -> Measure:
    real = keys(case.original, names)
    population = real
    if case.holdout is not None:
        population = np.concatenate([real, keys(case.holdout, names)])
    known, counts = np.unique(population, return_counts=True)
    place = np.searchsorted(known, groups)
    place[place == len(known)] = 0
    matches = np.where(known[place] == groups, counts[place], 0)
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
