"""Which of several releases to take, and why, in words.

The choice follows the attacks that were run on all releases. What other attacks found does not
move a release behind one that was never tried with them; but a release on which one of them
succeeds seriously is not recommended either. Where it comes first, nothing can be recommended
before the others are tried with that attack too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sherd.auditing.verdict.significance import Standing
from sherd.auditing.verdict.verdict import listed
from sherd.auditing.verdict.verdict_points import percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sherd.auditing.verdict.audit_result import Audit, Place
    from sherd.auditing.verdict.comparison import Apart, Judged


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
            f"None can be recommended yet. By what was run on all, {best} would be the choice, but "
            f"other attacks succeed on it, with which not all were tried. {why}"
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
    """What attacks that were not run on all found, and that the rest was not tried with them."""
    found = []
    for name, one in judged.items():
        if one.warnings:
            serious = one.warnings[0].stands is Standing.SERIOUS
            verb = "succeed" if serious else "do better than chance"
            shown = "; ".join(apart.shown for apart in one.warnings)
            found.append(
                f"On {name}, attacks that were not run on all {verb}: {shown}."
                f"{_others(one.warnings)}"
            )
    return tuple(found)


def _others(warnings: tuple[Apart, ...]) -> str:
    """Who was not tried with these attacks and why, and for whom they have no meaning."""
    lacking: dict[str, list[str]] = {}
    for apart in warnings:
        for other, reason in apart.lacking:
            if other not in lacking.setdefault(reason, []):
                lacking[reason].append(other)
    none = lacking.pop("", [])
    said = ""
    for reason, names in lacking.items():
        verb = "was" if len(names) == 1 else "were"
        said += f" {listed(names)} {verb} not tried with them ({reason}) and may be no safer."
    if lacking:
        said += " Give what is lacking to compare all by them."
    if none:
        said += f" They have no meaning for {listed(none)}."
    return said
