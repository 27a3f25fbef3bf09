"""Several releases of one table on one risk-utility map, with a recommendation and its reason.

All are judged by the same attacks: those that could be run on every one of them, so that a
release is called neither safe because it was tested less nor unsafe because it was tested more.
The map, the level of risk, the cards and the recommendation all rest on these attacks and on
`sherd.auditing.verdict.significance`.

No other result is hidden: an attack that was run on some releases only is named with each of
them, with what it achieved, as not comparable; where it does better than chance it is a warning.

The choice follows the attacks that were run on all releases. What other attacks found does not
move a release behind one that was never tried with them; but a release on which one of them
succeeds seriously is not recommended either. Where it comes first, nothing can be recommended
before the others are tried with that attack too.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from sherd.auditing.verdict.audit_result import Place, Reportable
from sherd.auditing.verdict.measure import plain
from sherd.auditing.verdict.significance import (
    JUDGED,
    OUTSIDERS,
    SHARES,
    Standing,
    risk_level,
    standing,
    worst_excess,
)
from sherd.auditing.verdict.verdict import (
    attack_points,
    gaps,
    headline,
    lacked,
    listed,
    not_tried,
    said_of,
    surely_ahead,
    word_of,
)
from sherd.auditing.verdict.verdict_points import Point, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sherd.auditing.verdict.audit_result import Audit
    from sherd.auditing.verdict.measure import Measure


@dataclass(frozen=True, kw_only=True)
class Apart:
    """What an attack found on a release that was not run on all of them.

    ``run_on`` are the releases it was run on; ``lacking`` the others, each with what was
    lacking, or nothing where the attack has no meaning for it.
    """

    measure: Measure
    run_on: tuple[str, ...]
    lacking: tuple[tuple[str, str], ...]

    @property
    def judged(self) -> bool:
        """Whether it is an attack that the risk of a release can rest on."""
        return self.measure.code in JUDGED

    @property
    def stands(self) -> Standing:
        """Where it stands; at chance where no risk rests on it."""
        return standing(self.measure) if self.judged else Standing.CHANCE

    @property
    def shown(self) -> str:
        """The attack with what it achieved and would by chance."""
        one = self.measure
        by_chance = percent(one.baseline or 0)
        return f"{one.spec.title} {percent(max(0.0, one.value))} (by chance {by_chance})"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """How one release stands among the others.

    ``risk`` follows the attacks that were run on all: *low in part* where they do no better
    than chance but others were not tried, or did better. ``apart`` are attacks that were run
    on this release and not on all, ``untried`` whether one that risk rests on was not tried.
    """

    risk: str
    headline: str
    points: tuple[Point, ...]
    apart: tuple[Apart, ...] = ()
    untried: bool = False

    @property
    def warnings(self) -> tuple[Apart, ...]:
        """What was not run on all and does better than chance, the worst first."""
        counted = [one for one in self.apart if one.stands.counts]
        return tuple(sorted(counted, key=lambda one: -one.stands))

    @property
    def grave(self) -> bool:
        """Whether an attack that was not run on all succeeds seriously."""
        return any(one.stands is Standing.SERIOUS for one in self.apart)

    def as_data(self) -> dict[str, Any]:
        """The judgement as plain data."""
        return {
            "risk": self.risk,
            "headline": self.headline,
            "points": [asdict(point) for point in self.points],
            "not_comparable": [
                {
                    "code": one.measure.code,
                    "title": one.measure.spec.title,
                    "value": plain(one.measure.value),
                    "baseline": plain(one.measure.baseline),
                    "standing": one.stands.name.lower() if one.judged else None,
                    "run_on": list(one.run_on),
                }
                for one in self.apart
            ],
        }


@dataclass(frozen=True, kw_only=True)
class Comparison(Reportable):
    """Audits by name, how each stands, its place on the map, the recommended one and why.

    ``warnings`` belong to the recommendation: what attacks found that were not run on all, and
    who was not tried with them. A place's risk is not a number where no attack could be run on all.
    """

    audits: Mapping[str, Audit]
    judged: Mapping[str, Judged]
    places: tuple[Place, ...]
    shared: tuple[str, ...]
    recommended: str | None
    reason: str
    warnings: tuple[str, ...] = ()

    @property
    def mapped(self) -> tuple[Place, ...]:
        """The places that a map can show."""
        return tuple(place for place in self.places if math.isfinite(place.risk))

    def as_data(self) -> dict[str, Any]:
        """The comparison as plain data."""
        return {
            "format": 1,
            "kind": "sherd-comparison",
            "label": "internal: not for publication",
            "recommended": self.recommended,
            "reason": self.reason,
            "warnings": list(self.warnings),
            "attacks": list(self.shared),
            "judged": {name: one.as_data() for name, one in self.judged.items()},
            "map": [place.as_data() for place in self.places],
            "audits": {name: audit.as_data() for name, audit in self.audits.items()},
        }


def compare(audits: Mapping[str, Audit]) -> Comparison:
    """Put audits of several releases of one table side by side."""
    shared = tuple(code for code in JUDGED if all(code in audit for audit in audits.values()))
    judged = {name: _judge(name, audits, shared) for name in audits}
    places = {}
    for name, audit in audits.items():
        measures = audit.by_code
        worst = worst_excess({code: measures[code] for code in shared})
        pair = measures.get("marginals-2") or measures["marginals-1"]
        risk = math.nan if worst is None else worst[1]
        places[name] = Place(name=name, utility=1 - pair.value, risk=risk)
    recommended, reason = recommend(audits, judged, places)
    marked = tuple(replace(place, this=name == recommended) for name, place in places.items())
    return Comparison(
        audits=audits,
        judged=judged,
        places=marked,
        shared=shared,
        recommended=recommended,
        reason=reason,
        warnings=warn(judged),
    )


def _judge(name: str, audits: Mapping[str, Audit], shared: tuple[str, ...]) -> Judged:
    """One release by the attacks that were run on all, and what others found beside it."""
    audit = audits[name]
    measures = audit.by_code
    common = {code: measures[code] for code in shared}
    apart = _apart(name, audits)
    ahead = [one for one in apart if one.stands.counts]
    untried = any(one.spec.code in OUTSIDERS for one in gaps(audit.skipped))
    risk = risk_level(common)
    if risk == "low" and (ahead or untried):
        risk = "low in part"
    but = ""
    if ahead:
        words = listed(list(dict.fromkeys(word_of(one.measure.code) for one in ahead)))
        but = f"what was not run on all shows more ({words})"
    elif audit.verdict.untried:
        but = not_tried(audit.verdict.untried)
    return Judged(
        risk=risk,
        headline=headline(
            risk,
            audit.verdict.usefulness,
            surely_ahead(common),
            ran="that were run on all",
            on="all of them",
            but=but,
        ),
        points=(
            *attack_points(common),
            *_points_apart(apart),
            *(
                Point(tone="plain", text=f"Not tried on it: {', '.join(attacks)} ({reason}).")
                for reason, attacks in audit.verdict.untried
            ),
        ),
        apart=apart,
        untried=untried,
    )


def _apart(name: str, audits: Mapping[str, Audit]) -> tuple[Apart, ...]:
    """Every attack that was run on this release and not on all."""
    apart = []
    for code in SHARES:
        if code not in audits[name] or all(code in audit for audit in audits.values()):
            continue
        lacking = []
        for other, audit in audits.items():
            if code not in audit:
                skipped = [one for one in audit.skipped if one.spec.code == code]
                lacking.append((other, lacked(skipped[0]) if skipped else "not asked for"))
        run_on = tuple(other for other, audit in audits.items() if code in audit)
        apart.append(Apart(measure=audits[name][code], run_on=run_on, lacking=tuple(lacking)))
    return tuple(apart)


def _points_apart(apart: tuple[Apart, ...]) -> list[Point]:
    """A line for each attack that risk rests on, one for all others."""
    points = []
    rest: dict[tuple[str, ...], list[str]] = {}
    for one in apart:
        if not one.judged:
            rest.setdefault(one.run_on, []).append(one.shown)
            continue
        text = f"Not comparable, run on {listed(one.run_on)} only: {said_of(one.measure)}"
        points.append(Point(tone=one.stands.tone, text=text))
    for run_on, shown in rest.items():
        text = f"Not comparable, run on {listed(run_on)} only: {'; '.join(shown)}."
        points.append(Point(tone="plain", text=text))
    return points


def recommend(
    audits: Mapping[str, Audit], judged: Mapping[str, Judged], places: Mapping[str, Place]
) -> tuple[str | None, str]:
    """The most useful of the releases that no attack succeeds on and whose promise holds."""
    safe = [n for n, one in judged.items() if one.risk in ("low", "low in part", "noticeable")]
    if not safe:
        return None, _none(judged, places)
    sound = [name for name in safe if audits[name].verdict.promise in ("holds", "untested")]
    low = [name for name in sound if judged[name].risk == "low"]
    partly = [name for name in sound if judged[name].risk == "low in part"]
    choice = low or partly or sound or safe
    best = max(choice, key=lambda name: places[name].utility)
    share = percent(places[best].utility)
    tried = "that was run on all " if len(audits) > 1 else ""
    why = f"{best} keeps {share} of the joint distribution of pairs, the most among "
    if low or partly:
        why += (
            f"those on which no attack {tried}does noticeably better than chance and whose "
            "promise holds."
        )
    elif sound:
        why += f"those on which no attack {tried}succeeds seriously and whose promise holds."
    else:
        none = audits[best].verdict.promise == "none"
        why += f"those on which no attack {tried}succeeds seriously; but "
        why += "it promises nothing" if none else "its promise does not hold as claimed"
        why += ", and the others are no better in that." if len(choice) > 1 else "."
    if judged[best].untried:
        why += " Not every attack was tried on it."
    if audits[best].verdict.usefulness == "poor":
        why += " It is of little use all the same: consider a larger ε, a larger k, or fewer "
        why += "attributes."
    left = [name for name in audits if name not in choice]
    if left:
        faults = (f"{name} ({_fault(audits[name], judged[name])})" for name in left)
        why += f" Left aside: {'; '.join(faults)}."
    if judged[best].grave:
        return None, (
            f"None can be recommended yet. By the attacks that were run on all, {best} would be "
            f"the choice, but attacks that were not run on all succeed on it. {why}"
        )
    return best, why


def _none(judged: Mapping[str, Judged], places: Mapping[str, Place]) -> str:
    if all(one.risk == "unknown" for one in judged.values()):
        return (
            "None can be recommended: no attack could be run on all of them. Give a hold-out "
            "(--holdout) or their row maps (--row-map)."
        )
    known = [place for place in places.values() if math.isfinite(place.risk)]
    least = min(known, key=lambda place: place.risk)
    every = "every one" if len(known) == len(places) else "every one that could be attacked"
    return (
        f"None can be recommended: attacks succeed on {every}. The least exposed is "
        f"{least.name}, where the best attack still wins {percent(least.risk)} of what is "
        "possible above chance."
    )


def _fault(audit: Audit, one: Judged) -> str:
    """Why a release is not among those that the choice was made from."""
    if one.risk == "serious":
        return "attacks succeed"
    if one.risk == "unknown":
        return "no attack could be run on it"
    if audit.verdict.promise == "fails":
        return "its promise does not hold"
    if audit.verdict.promise == "none":
        return "it promises nothing"
    if one.risk == "low in part":
        shown = "what was not run on all shows more" if one.warnings else ""
        return shown or "not every attack was tried on it"
    return "more exposed"


def warn(judged: Mapping[str, Judged]) -> tuple[str, ...]:
    """What attacks that were not run on all releases show, and why the others lack them."""
    warned = []
    for name, one in judged.items():
        if one.warnings:
            serious = one.warnings[0].stands is Standing.SERIOUS
            verb = "succeed" if serious else "do better than chance"
            shown = "; ".join(apart.shown for apart in one.warnings)
            warned.append(
                f"On {name}, attacks that were not run on all {verb}: {shown}."
                f"{_others(one.warnings)}"
            )
    return tuple(warned)


def _others(warnings: tuple[Apart, ...]) -> str:
    """Which releases were not attacked in this way and why; for which it has no meaning."""
    lacking: dict[str, list[str]] = {}
    for apart in warnings:
        for other, reason in apart.lacking:
            if other not in lacking.setdefault(reason, []):
                lacking[reason].append(other)
    none = lacking.pop("", [])
    said = ""
    for reason, names in lacking.items():
        verb = "was" if len(names) == 1 else "were"
        said += f" {listed(names)} {verb} not attacked in this way ({reason}) and may be no safer."
    if lacking:
        said += " Give what is missing to compare all releases by them."
    if none:
        said += f" They have no meaning for {listed(none)}."
    return said
