"""Attacks with a control group: singling out, linkability, inference, membership.

The first three follow Anonymeter (Giomi et al. 2023): what works on people in the release
counts only as far as it works better than on people who took no part. They are written
independently, to work on the audit's own columns, all guesses against all records at once, and
to need no further library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.attacks.attack import Attack
from sherd.auditing.attacks.matching import groups_of, matches
from sherd.auditing.case.case import Columns, Space, height, pick
from sherd.auditing.case.nearest import nearest
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Measure, beside_control, clopper_pearson

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case, Control

NEAR = 5
"""Neighbours among which the linkability attack looks for a common one."""

TOLERANCE = 0.05
"""A number is inferred when it is off by at most this share of the range."""


def _group(case: Case, purpose: str) -> tuple[Control, Columns, Columns]:
    """The control, and equally many members and outsiders to attack."""
    assert case.control is not None
    control = case.control
    rng = case.rng(purpose)
    many = min(height(control.members), height(control.outsiders), case.limits.attacked // 2)
    rows = [pick(rng, height(columns), many) for columns in (control.members, control.outsiders)]
    return (
        control,
        {n: c[rows[0]] for n, c in control.members.items()},
        {n: c[rows[1]] for n, c in control.outsiders.items()},
    )


def _measure(
    code: str,
    hits: float,
    base: float,
    trials: int,
    control: Control,
    parts: dict[str, float] | None = None,
) -> Measure:
    low, high = beside_control(hits * trials, base * trials, trials)
    return Measure(
        spec=CATALOGUE[code],
        value=hits,
        low=low,
        high=high,
        basis=f"{trials:,} persons; {control.words}",
        baseline=base,
        against="the same attack on people not in the release",
        parts=parts or {},
        sampled=True,
    )


def linkability(case: Case) -> list[Measure]:
    """Join two halves of a person's attributes through the release."""
    names = list(case.names)
    if len(names) < 2:
        return []
    control, members, outsiders = _group(case, "linkability")
    order = case.rng("linkability halves").permutation(len(names))
    halves = [[names[i] for i in order[::2]], [names[i] for i in order[1::2]]]
    shares = []
    for group in (members, outsiders):
        measures = []
        for half in halves:
            space = Space.of(case.original, half)
            measures.append(nearest(space.points(group), control.released, space, NEAR)[1])
        shared = (measures[0][:, :, None] == measures[1][:, None, :]).any(axis=(1, 2))
        shares.append(float(shared.mean()))
    return [_measure("linkability", shares[0], shares[1], height(members), control)]


def inference(case: Case) -> list[Measure]:
    """Guess each attribute from the released record nearest in all the others."""
    if len(case.names) < 2:
        return []
    control, members, outsiders = _group(case, "inference")
    parts, base = {}, []
    rng = case.rng("secrets")
    secrets = pick(rng, len(case.protected), case.limits.secrets)
    for secret in (case.protected[i] for i in secrets):
        space = Space.of(case.original, [name for name in case.names if name != secret])
        shares = []
        for group in (members, outsiders):
            _, where = nearest(space.points(group), control.released, space)
            guess = control.released[secret][where[:, 0]]
            shares.append(_right(case, secret, guess, group[secret]))
        parts[secret] = shares[0]
        base.append(shares[1])
    value = float(np.mean(list(parts.values())))
    chance = float(np.mean(base))
    return [_measure("inference", value, chance, height(members), control, parts)]


def _right(case: Case, name: str, guess: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    present = ~np.isnan(truth)
    if not present.any():
        return 0.0
    guess, truth = guess[present], truth[present]
    if case.scales[name].labels is not None:
        return float(np.mean(guess == truth))
    whole = case.original[name]
    width = float(np.nanmax(whole) - np.nanmin(whole))
    return float(np.mean(np.abs(guess - truth) <= TOLERANCE * width))


def membership(case: Case) -> list[Measure]:
    """Tell members by their distance to the nearest released record; and distance ratios."""
    control, members, outsiders = _group(case, "membership")
    space = Space.of(case.original, case.names)
    near = [nearest(space.points(g), control.released, space, 2)[0] for g in (members, outsiders)]
    return [_advantage(near[0][:, 0], near[1][:, 0], control), _ratio(near[0], near[1], control)]


def matching(case: Case) -> list[Measure]:
    """Tell members by how many released records they match, parts put together again."""
    assert case.control is not None
    groups = groups_of(case.control.source)
    if groups is None or not groups.parts:
        return []
    control, members, outsiders = _group(case, "matching")
    scores = [-matches(case, people, groups) for people in (members, outsiders)]
    return [_advantage(scores[0], scores[1], control, "membership-match")]


def _advantage(
    inside: NDArray[np.float64],
    outside: NDArray[np.float64],
    control: Control,
    code: str = "membership",
) -> Measure:
    """A threshold chosen on the even persons, tested on the odd ones."""
    thresholds = np.unique(np.concatenate([inside[::2], outside[::2]]))
    rates = [
        np.searchsorted(np.sort(group[::2]), thresholds, side="right") / len(group[::2])
        for group in (inside, outside)
    ]
    best = thresholds[int(np.argmax(rates[0] - rates[1]))]
    tested = [group[1::2] <= best for group in (inside, outside)]
    hits = [int(np.count_nonzero(called)) for called in tested]
    trials = [len(called) for called in tested]
    bounds = [clopper_pearson(h, t, alpha=0.025) for h, t in zip(hits, trials, strict=True)]
    return Measure(
        spec=CATALOGUE[code],
        value=hits[0] / trials[0] - hits[1] / trials[1],
        low=bounds[0][0] - bounds[1][1],
        high=bounds[0][1] - bounds[1][0],
        basis=f"{hits[0]:,} of {trials[0]:,} members and {hits[1]:,} of {trials[1]:,} others "
        f"called members; {control.words}",
        baseline=0.0,
        against="guessing",
        sampled=True,
    )


def _ratio(inside: NDArray[np.float64], outside: NDArray[np.float64], control: Control) -> Measure:
    from sherd.auditing.verdict.measure import median_interval

    ratios = []
    for group in (inside, outside):
        second = np.where(np.isfinite(group[:, 1]), group[:, 1], group[:, 0])
        ratios.append(np.where(second > 0, group[:, 0] / np.where(second > 0, second, 1), 1.0))
    low, high = median_interval(ratios[0])
    return Measure(
        spec=CATALOGUE["nearest-ratio"],
        value=float(np.median(ratios[0])),
        low=low,
        high=high,
        basis=f"{len(inside):,} persons; {control.words}",
        baseline=float(np.median(ratios[1])),
        against="people not in the release",
        sampled=True,
    )


LINKABILITY = Attack(
    name="linkability",
    title="Linkability",
    knows="two databases, each with half of the attributes of the same persons",
    does="looks for a released record among the 5 nearest of both halves",
    wins="when there is one",
    source="Giomi et al. 2023 (Anonymeter)",
    run=linkability,
)
INFERENCE = Attack(
    name="inference",
    title="Attribute inference",
    knows="all attributes of a person but one",
    does="takes the missing one from the nearest released record",
    wins="when a label is right, or a number within 5 % of the range",
    source="Giomi et al. 2023 (Anonymeter)",
    run=inference,
)
MEMBERSHIP = Attack(
    name="membership",
    title="Membership inference",
    codes=("membership", "nearest-ratio"),
    knows="all true values of a person",
    does="calls the person a member when the nearest released record is near enough",
    wins="by the difference between its rates of true and of false alarms",
    source="Chen et al. 2020; threshold chosen on held-out persons",
    run=membership,
)
MATCHING = Attack(
    name="membership-match",
    title="Membership inference by matching",
    knows="all true values of a person",
    does="counts the released records that the person could be, with slices, buckets, fragments or "
    "classes put together again in every way that the release allows",
    wins="by the difference between its rates of true and of false alarms",
    source="Li et al. 2012 (slicing), section 5; threshold chosen on held-out persons",
    run=matching,
)
