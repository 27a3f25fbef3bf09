"""The verdict: what a person must know first, in words, from the numbers.

Risk follows where the attacks stand against chance (`significance`). Usefulness is
*high* where pairs of attributes are off by at most 0.10, *fair* up to 0.25, *poor* beyond (total
variation, what honest sampling costs taken off).

What was not tried is not safe: where an attack that the risk rests on was left out for want of
something, a low risk is *low in part*, and the verdict names the attacks and what they lacked.
Attacks that have no meaning for a release (linkage without records) are no gap.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sherd.auditing.case.case import OwnFindings
from sherd.auditing.verdict.significance import (
    JUDGED,
    NOTICEABLE,
    OUTSIDERS,
    SERIOUS,
    STRUCTURE,
    Standing,
    risk_level,
    standing,
    sure_gain,
)
from sherd.auditing.verdict.verdict_points import (
    FAIR,
    GOOD,
    Point,
    percent,
    promise_points,
    worth_points,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sherd.auditing.verdict.measure import Measure, Skipped
    from sherd.verifying.check import Check

_ATTACKS = {
    "cluster-linkage-known": "row structure",
    "cluster-linkage": "row structure",
    "unchanged": "unchanged cells",
    "linkage": "linkage",
    "linkage-known": "linkage",
    "reconstruction": "reconstruction",
    "co-cluster": "closeness",
    "interval": "interval disclosure",
    "singling-out": "singling out",
    "linkability": "linkability",
    "inference": "inference",
    "membership": "membership inference",
    "membership-match": "membership by matching",
    "homogeneity": "homogeneous groups",
    "background": "background knowledge",
    "least-confidence": "best guesses",
    "insider": "a curious owner",
}
"""Every attack that can be left out, by the word it is called in a verdict."""

_LACKED = {
    "pairs": "no row map",
    "control": "nobody to compare with: no hold-out",
    "matched": "no row map, and the plan cannot be run again",
}

_SAID = {
    "cluster-linkage-known": "knowing 5 % of the records, an attacker finds {value} of the others "
    "by the clusters their cells share",
    "cluster-linkage": "knowing nobody's row, an attacker finds {value} of the records by the "
    "clusters their cells share",
    "unchanged": "{value} of protected cells are unchanged originals",
    "linkage": "somebody who knows a person's true values finds their record in {value} of cases",
    "linkage-known": "knowing 5 % of the records, an attacker finds {value} of the others by "
    "distance",
    "singling-out": "{value} of the predicates made from the release isolate one real person",
    "linkability": "the release joins two databases about a person in {value} of cases",
    "inference": "a person's missing attribute is guessed right in {value} of cases",
    "membership": "telling who is in the release succeeds with an advantage of {value}",
    "membership-match": "telling who is in the release by matching its parts succeeds with an "
    "advantage of {value}",
    "homogeneity": "{value} of the people are in a group whose records all have one secret",
    "insider": "a participating owner recovers {value} of the others' cells",
}

_FIRST = ("cluster-linkage-known", "unchanged", "linkage")
"""Those that everybody must know: said even where they do no better than chance."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is protected and what not, how useful the release is, whether the promise holds.

    ``risk`` is low, low in part, noticeable, serious or unknown; ``usefulness`` high, fair or
    poor; ``promise`` holds, fails, untested or none. ``untried`` are the attacks that were
    left out, by what they lacked.
    """

    headline: str
    risk: str
    usefulness: str
    promise: str
    points: tuple[Point, ...]
    untried: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def as_data(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return {
            "headline": self.headline,
            "risk": self.risk,
            "usefulness": self.usefulness,
            "promise": self.promise,
            "points": [asdict(point) for point in self.points],
            "not_tried": [
                {"attacks": list(attacks), "reason": reason} for reason, attacks in self.untried
            ],
        }


def decide(
    measures: Mapping[str, Measure],
    checks: Sequence[Check],
    guarantee: Mapping[str, Any],
    stamps: Sequence[str] = (),
    skipped: Sequence[Skipped] = (),
    artefact: Sequence[Check] = (),
    own: OwnFindings | None = None,
) -> Verdict:
    """The verdict on a release.

    ``skipped`` is what was left out, ``artefact`` how the released values stand to the plan,
    ``own`` what the method itself found: the verdict is never better than that.
    """
    own = own or OwnFindings()
    missing = gaps(skipped)
    untested = bool({one.spec.code for one in missing} & set(STRUCTURE))
    refuted = any(check.passed is False for check in (*checks, *artefact))
    risk, worse = _risk(measures, missing, untested or refuted, own)
    untried = tuple(
        (reason, tuple(dict.fromkeys(_ATTACKS[g.spec.code] for g in missing if g.lacks == lacks)))
        for lacks, reason in _LACKED.items()
        if any(gap.lacks == lacks for gap in missing)
    )
    usefulness = _usefulness(measures)
    promise, promised = promise_points(measures, checks, guarantee, artefact, own.spent)
    points = [
        *(
            Point(tone="plain", text=f"Not tried: {', '.join(attacks)} ({reason}).")
            for reason, attacks in untried
        ),
        *attack_points(measures),
        *([_own_point(own)] if own.risk >= NOTICEABLE else []),
        *promised,
        *worth_points(measures),
    ]
    points += [Point(tone="bad", text=f"Stamped: {stamp}.") for stamp in stamps]
    return Verdict(
        headline=headline(
            risk,
            usefulness,
            max(surely_ahead(measures), own.risk if worse else 0.0),
            but=not_tried(untried) if untried else "",
            unknown=_REFUTED if refuted else _UNTESTED if untested else "",
        ),
        risk=risk,
        usefulness=usefulness,
        promise=promise,
        points=tuple(points),
        untried=untried,
    )


_SUCCEED = ("noticeable", "serious")
_UNTESTED = "What the structure of the rows gives away was not tried"
_REFUTED = (
    "The release is not what plan and manifest say, and copies by the plan tell nothing of it"
)


def _risk(
    measures: Mapping[str, Measure],
    missing: Sequence[Skipped],
    untested: bool,
    own: OwnFindings,
) -> tuple[str, bool]:
    """The level of risk, and whether it is the method's own account that decides it."""
    risk = risk_level(measures)
    if risk == "low" and any(one.spec.code in OUTSIDERS for one in missing):
        risk = "low in part"
    if risk.startswith("low") and untested:
        # What no noise hides was not tried, or the release is not what the plan says, so that a
        # shadow release by the plan does not stand for it: nothing else makes up for that.
        risk = "unknown"
    if own.risk >= SERIOUS and risk != "serious":
        return "serious", True
    if own.risk >= NOTICEABLE and risk not in _SUCCEED:
        return "noticeable", True
    return risk, False


def _own_point(own: OwnFindings) -> Point:
    """What the method found itself, in a line."""
    text = f"By the method's own account{own.basis}: {own.name} {percent(own.risk)}."
    return Point(tone="bad", text=text)


def _usefulness(measures: Mapping[str, Measure]) -> str:
    one = measures.get("marginals-2") or measures.get("marginals-1")
    if one is None:
        return "unknown"
    off = one.value - (one.baseline or 0.0)
    return "high" if off <= GOOD else "fair" if off <= FAIR else "poor"


def in_points(gain: float) -> str:
    """A difference of two shares as a person reads it.

    >>> in_points(0.0431), in_points(0.0002), in_points(0.517)
    ('4.3 points', 'less than 0.1 points', '51.7 points')
    """
    if 0 < gain < 0.001:
        return "less than 0.1 points"
    return f"{100 * gain:.1f} points"


def headline(
    risk: str,
    usefulness: str,
    ahead: float,
    *,
    ran: str = "we ran",
    on: str = "this release",
    but: str = "",
    unknown: str = "",
) -> str:
    """The verdict in a sentence; ``ahead`` is what the attacks surely win.

    ``ran`` says which attacks are meant, ``on`` on what, ``but`` what a low risk leaves open, and
    ``unknown`` why a risk is not known.
    """
    calm = (
        f"The attacks {ran} do little better than chance (at least {in_points(ahead)} better)"
        if ahead
        else f"The attacks {ran} do no better than chance"
    )
    first = {
        "serious": "Not safe to publish: attacks on this release succeed",
        "noticeable": "Some attacks on this release do better than chance, by at least "
        f"{in_points(ahead)}",
        "low": calm,
        "low in part": f"{calm}, but {but}",
        "unknown": unknown or f"No attack could be run on {on}",
    }[risk]
    second = {
        "high": "it keeps most of what the data says",
        "fair": "it keeps part of what the data says",
        "poor": "it keeps little of what the data says",
        "unknown": "how useful it is could not be measured",
    }[usefulness]
    joint = ", but " if risk == "low" and usefulness == "poor" else "; "
    return f"{first}{joint}{second}."


def not_tried(untried: Sequence[tuple[str, tuple[str, ...]]]) -> str:
    """What was not tried, in half a sentence: the attacks everybody knows, or all of them."""
    main = [a for a in ("linkage", "reconstruction") if any(a in names for _, names in untried)]
    missing = main or [name for _, names in untried for name in names]
    return f"{listed(missing)} {'was' if len(missing) == 1 else 'were'} not tried"


def listed(names: Sequence[str]) -> str:
    """Names as a person lists them.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def surely_ahead(measures: Mapping[str, Measure]) -> float:
    """What the best attack of an outsider surely wins above chance."""
    return max((sure_gain(measures[code]) for code in OUTSIDERS if code in measures), default=0.0)


def gaps(skipped: Sequence[Skipped]) -> list[Skipped]:
    """Attacks that were left out for want of something, not for want of meaning."""
    return [one for one in skipped if one.spec.code in _ATTACKS and one.lacks in _LACKED]


def lacked(one: Skipped) -> str:
    """What an attack lacked, in words; nothing where it has no meaning for the release."""
    return _LACKED.get(one.lacks, "")


def word_of(code: str) -> str:
    """What an attack is called in a verdict."""
    return _ATTACKS[code]


def attack_points(measures: Mapping[str, Measure]) -> list[Point]:
    """The attacks that everybody must know, and the others that do better than chance."""
    points = []
    for code in JUDGED:
        if code not in measures:
            continue
        stands = standing(measures[code])
        if code in _FIRST or stands is not Standing.CHANCE:
            points.append(Point(tone=stands.tone, text=said_of(measures[code])))
    return points


def said_of(one: Measure) -> str:
    """What an attack achieves and would by chance, in a sentence."""
    stands = standing(one)
    value = _most(one.value) if one.code in _FIRST else percent(max(0.0, one.value))
    said = _SAID[one.code].format(value=value)
    beside = f"by chance {percent(one.baseline or 0)}"
    if stands >= Standing.SLIGHT and one.code != "unchanged":
        beside += f": at least {in_points(sure_gain(one))} better"
    elif stands is Standing.UNSURE:
        beside += "; too few were tried to tell the two apart"
    return f"{said[0].upper()}{said[1:]} ({beside})."


def _most(share: float) -> str:
    return f"most ({percent(share)})" if share > 0.5 else percent(share)
