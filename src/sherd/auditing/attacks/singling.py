"""Singling out: predicates made from the release that isolate one real person.

A predicate starts from a random released record and a few of its attributes. Two kinds: *cells*
ask for values nearer to the record's than to any other released value (labels: equal), *tails*
for values at least as extreme as the record's, as Anonymeter does. Only predicates that are
true for exactly one released record are used; each counts when it is true for exactly one
person. The report takes the kind that works better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.attacks.attack import Attack
from sherd.auditing.case.case import height
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.confidence_intervals import clopper_pearson
from sherd.auditing.verdict.measure import Measure

if TYPE_CHECKING:
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
    low, high = clopper_pearson(hits, trials)
    # The control group is as small a sample: what it leaves open is not the release's doing.
    low = max(0.0, low - (clopper_pearson(base, trials)[1] - base / max(1, trials)))
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
    found: list[_Groups] = []
    for name in case.names:
        values = np.unique(case.control.released[name])
        values = values[~np.isnan(values)]
        middles = (values[1:] + values[:-1]) / 2
        found.append([_nearest(column[name], middles) for column in _three(case)])
    return found, True


def _nearest(column: NDArray[np.float64], middles: NDArray[np.float64]) -> NDArray[np.int64]:
    place = np.searchsorted(middles, column)
    place[np.isnan(column)] = -1
    return place


def _tails(case: Case) -> tuple[list[_Groups], bool]:
    """Per attribute the value itself, turned so that larger is more extreme is decided later."""
    found: list[_Groups] = [[column[name] for column in _three(case)] for name in case.names]
    return found, False


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
        found: NDArray[np.bool_] = column == at
        return found
    if np.isnan(at):
        return np.isnan(column)
    return column >= at if above else column <= at


SINGLING_OUT = Attack(
    name="singling-out",
    title="Singling out",
    codes=("singling-out",),
    knows="nothing but the release",
    does="builds predicates that are true for exactly one released record",
    wins="when a predicate is true for exactly one person",
    source="Giomi et al. 2023 (Anonymeter); cells: sherd",
    run=singling_out,
)
