"""The verdict: what a person must know first, in words, from the numbers.

Risk follows where the attacks stand against chance (`significance`). Usefulness is
*high* where pairs of attributes are off by at most 0.10, *fair* up to 0.25, *poor* beyond (total
variation, what honest sampling costs taken off).

What was not tried is not safe: where an attack that the risk rests on was left out for want of
something, a low risk is *low in part*, and the verdict names the attacks and what they lacked.
Attacks that have no meaning for a release (linkage without records) are no gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.auditing.verdict.significance import (
    JUDGED,
    OUTSIDERS,
    STRUCTURE,
    Standing,
    risk_level,
    standing,
    sure_gain,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sherd.auditing.verdict.measure import Measure, Skipped
    from sherd.verifying.check import Check

GOOD, FAIR = 0.10, 0.25

NOISE = "noise of the release"
"""The check that compares released values with what the plan says of their noise."""

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
    "linkage-known": "knowing 5 % of the records, an attacker finds {value} of the others",
    "singling-out": "{value} of the predicates made from the release isolate one real person",
    "linkability": "the release joins two databases about a person in {value} of cases",
    "inference": "a person's missing attribute is guessed right in {value} of cases",
    "membership": "telling who is in the release succeeds with an advantage of {value}",
    "insider": "a participating owner recovers {value} of the others' cells",
}

_FIRST = ("cluster-linkage-known", "unchanged", "linkage")
"""Those that everybody must know: said even where they do no better than chance."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One line of the verdict: ``tone`` is good, bad or plain."""

    tone: str
    text: str


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
            "points": [{"tone": p.tone, "text": p.text} for p in self.points],
            "not_tried": [
                {"attacks": list(attacks), "reason": reason} for reason, attacks in self.untried
            ],
        }


def percent(share: float) -> str:
    """A share as a person reads it.

    >>> percent(0.8712), percent(0.00012), percent(0.0), percent(0.9999)
    ('87 %', 'less than 0.1 %', '0 %', 'more than 99.9 %')
    """
    if share == 0 or share == 1:
        return f"{share:.0%}".replace("%", " %")
    if share < 0.001:
        return "less than 0.1 %" if share > 0 else f"{share:.1%}".replace("%", " %")
    if share > 0.999:
        return "more than 99.9 %"
    digits = 0 if 0.1 <= share <= 0.9 else 1
    return f"{share:.{digits}%}".replace("%", " %")


def decide(
    measures: Mapping[str, Measure],
    checks: Sequence[Check],
    guarantee: Mapping[str, Any],
    stamps: Sequence[str] = (),
    skipped: Sequence[Skipped] = (),
    artefact: Sequence[Check] = (),
) -> Verdict:
    """The verdict on a release.

    ``skipped`` is what was left out, ``artefact`` how the released values stand to the plan.
    """
    missing = gaps(skipped)
    risk = risk_level(measures)
    if risk == "low" and any(one.spec.code in OUTSIDERS for one in missing):
        risk = "low in part"
    untested = {one.spec.code for one in missing} & set(STRUCTURE)
    if risk.startswith("low") and untested:
        # What no noise hides was not tried: nothing else makes up for that.
        risk = "unknown"
    untried = tuple(
        (reason, tuple(dict.fromkeys(_ATTACKS[g.spec.code] for g in missing if g.lacks == lacks)))
        for lacks, reason in _LACKED.items()
        if any(gap.lacks == lacks for gap in missing)
    )
    usefulness = _usefulness(measures)
    promise, promised = _promise(measures, checks, guarantee, artefact)
    points = [
        *(
            Point(tone="plain", text=f"Not tried: {', '.join(attacks)} ({reason}).")
            for reason, attacks in untried
        ),
        *attack_points(measures),
        *promised,
        *_worth(measures),
    ]
    points += [Point(tone="bad", text=f"Stamped: {stamp}.") for stamp in stamps]
    return Verdict(
        headline=headline(
            risk,
            usefulness,
            surely_ahead(measures),
            but=not_tried(untried) if untried else "",
            unknown="What the structure of the rows gives away was not tried" if untested else "",
        ),
        risk=risk,
        usefulness=usefulness,
        promise=promise,
        points=tuple(points),
        untried=untried,
    )


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
        f"The attacks {ran} do little better than chance (surely by {in_points(ahead)})"
        if ahead
        else f"The attacks {ran} do no better than chance"
    )
    first = {
        "serious": "Not safe to publish: attacks on this release succeed",
        "noticeable": "Some attacks on this release do better than chance, surely by "
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
    """The two attacks everybody understands, then the others that do not stand at chance."""
    found = []
    for code in JUDGED:
        if code not in measures:
            continue
        stands = standing(measures[code])
        if code in _FIRST or stands is not Standing.CHANCE:
            found.append(Point(tone=stands.tone, text=said_of(measures[code])))
    return found


def said_of(one: Measure) -> str:
    """What an attack achieves and would by chance, in a sentence."""
    stands = standing(one)
    value = _most(one.value) if one.code in _FIRST else percent(max(0.0, one.value))
    said = _SAID[one.code].format(value=value)
    beside = f"by chance {percent(one.baseline or 0)}"
    if stands >= Standing.SLIGHT and one.code != "unchanged":
        beside += f": surely {in_points(sure_gain(one))} better"
    elif stands is Standing.UNSURE:
        beside += "; too few were tried to tell the two apart"
    return f"{said[0].upper()}{said[1:]} ({beside})."


def _most(share: float) -> str:
    return f"most ({percent(share)})" if share > 0.5 else percent(share)


def _promise(
    measures: Mapping[str, Measure],
    checks: Sequence[Check],
    guarantee: Mapping[str, Any],
    artefact: Sequence[Check],
) -> tuple[str, list[Point]]:
    failed = [check for check in (*checks, *artefact) if check.passed is False]
    points = [Point(tone="bad", text=f"Check failed: {c.name}: {c.detail}.") for c in failed]
    notion = guarantee.get("notion")
    if notion in (None, "no-guarantee"):
        return ("fails" if failed else "none"), [
            *points,
            Point(tone="bad", text="The release promises nothing that could be tested."),
        ]
    claimed = guarantee.get("epsilon")
    broken = bool(failed)
    loss = measures.get("loss-factor")
    if claimed is not None and loss is not None:
        over = loss.value > float(claimed) * (1 + 1e-6)
        broken = broken or over
        points.append(_loss_point(loss.value, float(claimed), over))
    frozen = measures.get("epsilon-frozen")
    if frozen is not None and frozen.value > 1:
        broken = True
        points.append(
            Point(
                tone="bad",
                text=f"Test runs refute the promise once clusters are made anew: at ε = 1 they "
                f"show a loss of at least {frozen.value:.2f}.",
            )
        )
    real = measures.get("epsilon-recomputed")
    if real is not None and real.value > 1 and notion == "differential-privacy":
        broken = True
        points.append(
            Point(
                tone="bad",
                text=f"Real runs refute the promise: at ε = 1 they show a loss of at least "
                f"{real.value:.2f}.",
            )
        )
    if broken:
        return "fails", points
    passed = sum(check.passed is True for check in checks)
    if passed:
        text = f"All {passed} checks of what was promised pass on the released files."
        points.append(Point(tone="good", text=text))
    points += [
        Point(tone="good" if one.passed else "plain", text=f"{_capital(one.name)}: {one.detail}.")
        for one in artefact
    ]
    # An ε is a promise about noise: it holds on the strength of the released values, never of
    # what plan and manifest say. Other notions are counted in the release by its checks.
    seen = bool(passed)
    noise = [one for one in artefact if one.name == NOISE]
    if claimed is not None:
        seen = any(one.passed for one in noise)
        if not noise:
            text = "The released values were not tested against the plan: what it says of noise "
            points.append(Point(tone="plain", text=text + "rests on the manifest alone."))
    return ("holds" if seen else "untested"), points


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _loss_point(loss: float, claimed: float, over: bool) -> Point:
    if not over:
        return Point(
            tone="good", text=f"The claimed ε = {claimed:g} holds on this table, by exact account."
        )
    shown = "without bound" if loss == float("inf") else f"{loss:.3g}"
    return Point(
        tone="bad",
        text=f"The claimed ε = {claimed:g} does not hold once clusters are made anew: on this "
        f"table the centroids spend {shown}.",
    )


def _worth(measures: Mapping[str, Measure]) -> list[Point]:
    points = []
    pairs = measures.get("marginals-2")
    if pairs is not None:
        off = pairs.value - (pairs.baseline or 0.0)
        points.append(
            Point(
                tone="good" if off <= GOOD else "bad" if off > FAIR else "plain",
                text=f"Pairs of attributes are off by {percent(pairs.value)} of the records "
                f"(fresh data: {percent(pairs.baseline or 0)}).",
            )
        )
    for code, noun in (("forest-accuracy", "is right"), ("forest-r2", "explains")):
        model = measures.get(code)
        if model is not None and model.baseline is not None:
            lost = model.baseline - model.value
            points.append(
                Point(
                    tone="good" if lost <= 0.03 else "bad" if lost > 0.1 else "plain",
                    text=f"A model trained on the release {noun} {percent(max(0.0, model.value))} "
                    f"of the time on real records (trained on originals: "
                    f"{percent(max(0.0, model.baseline))}).",
                )
            )
    return points
