"""How far an attack stands above chance: the one place that decides it.

The risk of a verdict, its headline, the mark of each of its lines and the colour of a bar all
ask `standing`, so that none of them can contradict another. It looks at the lower end of the
95 % interval, as a share of what was possible above chance: *serious* from a fifth,
*noticeable* from a twentieth, *slight* from anything above zero. Below that an attack does no
better than chance, but is *unsure* where its estimate alone would be noticeable: more trials
could show it.

Originals that came through are no guesses: with them it is serious that most cells are
unchanged, and far more than shuffled rows would have in common.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sherd.auditing.verdict.measure import Measure

SERIOUS, NOTICEABLE = 0.2, 0.05

STRUCTURE = ("cluster-linkage-known", "cluster-linkage")
"""Attacks on which rows share a cluster: no release of records in clusters is safe without."""

OUTSIDERS = (
    *STRUCTURE,
    "linkage",
    "linkage-known",
    "singling-out",
    "linkability",
    "inference",
    "membership",
    "membership-match",
    "homogeneity",
    "insider",
)
"""Attacks that need no knowledge of all other records."""

JUDGED = (*STRUCTURE, "unchanged", *OUTSIDERS[len(STRUCTURE) :])
"""What the risk of a verdict rests on."""

SHARES = (*JUDGED, "background", "least-confidence", "reconstruction", "co-cluster", "interval")
"""Everything an attacker achieves that is a share of successes."""


class Standing(IntEnum):
    """Where an attack stands against chance, from harmless to worst."""

    CHANCE = 0
    UNSURE = 1
    SLIGHT = 2
    NOTICEABLE = 3
    SERIOUS = 4

    @property
    def counts(self) -> bool:
        """Whether the attack counts as a success."""
        return self >= Standing.NOTICEABLE

    @property
    def tone(self) -> str:
        """How a line about the attack is marked: good, plain or bad."""
        return "bad" if self.counts else "good" if self is Standing.CHANCE else "plain"


def sure_gain(one: Measure) -> float:
    """Success above the baseline at the lower end of the interval."""
    low = one.value if one.low is None else one.low
    return max(0.0, low - (one.baseline or 0.0))


def cautious_excess(one: Measure) -> float:
    """The sure gain as a share of what was possible above the baseline."""
    return sure_gain(one) / max(1e-9, 1 - (one.baseline or 0.0))


def standing(one: Measure) -> Standing:
    """Where an attack stands.

    >>> from sherd.auditing.catalogue import CATALOGUE
    >>> from sherd.auditing.verdict.measure import Measure
    >>> found = Measure(
    ...     spec=CATALOGUE["inference"], value=0.46, low=0.44, high=0.48, baseline=0.42, basis=""
    ... )
    >>> standing(found).name
    'SLIGHT'
    """
    estimate = (one.excess or 0.0) >= NOTICEABLE
    if one.code == "unchanged":
        if one.value > 0.5 and (one.excess or 0.0) >= SERIOUS:
            return Standing.SERIOUS
        return Standing.SLIGHT if estimate else Standing.CHANCE
    surely = cautious_excess(one)
    if surely >= SERIOUS:
        return Standing.SERIOUS
    if surely >= NOTICEABLE:
        return Standing.NOTICEABLE
    if surely > 0:
        return Standing.SLIGHT
    return Standing.UNSURE if estimate else Standing.CHANCE


def worst_excess(measures: Mapping[str, Measure]) -> tuple[str, float] | None:
    """The attack that surely succeeds most, and by how much above its baseline.

    Originals that came through count where they are serious: elsewhere they are no attack's
    success, and alone they say nothing.
    """
    excesses = {code: cautious_excess(measures[code]) for code in OUTSIDERS if code in measures}
    same = measures.get("unchanged")
    if same is not None and standing(same) is Standing.SERIOUS:
        excesses["unchanged"] = same.excess or 0.0
    if not excesses:
        return None
    worst = max(excesses, key=lambda code: excesses[code])
    return worst, excesses[worst]


def risk_level(measures: Mapping[str, Measure]) -> str:
    """The risk that attacks show: low, noticeable, serious, or unknown where none was run."""
    tried = [code for code in JUDGED if code in measures]
    worst = max((standing(measures[code]) for code in tried), default=Standing.CHANCE)
    if worst.counts:
        return worst.name.lower()
    return "unknown" if tried in ([], ["unchanged"]) else "low"
