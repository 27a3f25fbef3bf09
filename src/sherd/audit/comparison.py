"""Several releases of one table on one risk-utility map, with a recommendation and its reason.

All are measured on the same attacks: those that could be run on every one of them, so that a
release is not called safe because it was tested less.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.audit.measure import plain
from sherd.audit.result import Place
from sherd.audit.standing import OUTSIDERS, worst_excess
from sherd.audit.verdict import percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sherd.audit.result import Audit


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Audits by name, their places on the map, the recommended one (or none) and why."""

    audits: Mapping[str, Audit]
    places: tuple[Place, ...]
    shared: tuple[str, ...]
    recommended: str | None
    reason: str

    def as_data(self) -> dict[str, Any]:
        """The comparison as plain data."""
        return {
            "format": 1,
            "kind": "sherd-comparison",
            "label": "internal: not for publication",
            "recommended": self.recommended,
            "reason": self.reason,
            "attacks": list(self.shared),
            "map": [
                {"name": p.name, "utility": plain(p.utility), "risk": plain(p.risk), "this": p.this}
                for p in self.places
            ],
            "audits": {name: audit.as_data() for name, audit in self.audits.items()},
        }

    def save(self, *paths: str | Path) -> tuple[Path, ...]:
        """Write the comparison, each path in the form its suffix names."""
        # The report stands above the audit: found when asked for.
        write: Any = importlib.import_module("sherd.report").write
        found: tuple[Path, ...] = tuple(write(self, Path(path)) for path in paths)
        return found


def compare(audits: Mapping[str, Audit]) -> Comparison:
    """Put audits of several releases of one table side by side."""
    shared = tuple(code for code in OUTSIDERS if all(code in audit for audit in audits.values()))
    places = []
    for name, audit in audits.items():
        found = audit.by_code
        worst = worst_excess({code: found[code] for code in shared})
        pair = found.get("marginals-2") or found["marginals-1"]
        places.append(
            Place(name=name, utility=1 - pair.value, risk=0.0 if worst is None else worst[1])
        )
    recommended, reason = _recommend(audits, {place.name: place for place in places})
    marked = tuple(
        Place(name=p.name, utility=p.utility, risk=p.risk, this=p.name == recommended)
        for p in places
    )
    return Comparison(
        audits=audits, places=marked, shared=shared, recommended=recommended, reason=reason
    )


def _recommend(audits: Mapping[str, Audit], places: Mapping[str, Place]) -> tuple[str | None, str]:
    """The most useful of the releases that no attack succeeds on and whose promise holds."""
    safe = [
        name
        for name, audit in audits.items()
        if audit.verdict.risk in ("low", "low in part", "noticeable")
    ]
    sound = [name for name in safe if audits[name].verdict.promise in ("holds", "untested")]
    low = [name for name in sound if audits[name].verdict.risk == "low"]
    partly = [name for name in sound if audits[name].verdict.risk == "low in part"]
    if not safe:
        least = min(places.values(), key=lambda place: place.risk)
        return None, (
            f"None can be recommended: attacks succeed on every one. The least exposed is "
            f"{least.name}, where the best attack still wins {percent(least.risk)} of what is "
            "possible above chance."
        )
    choice = low or partly or sound or safe
    best = max(choice, key=lambda name: places[name].utility)
    place = places[best]
    why = (
        f"{best} keeps {percent(place.utility)} of the joint distribution of pairs, the most among "
    )
    if low:
        why += (
            "those on which no attack does noticeably better than chance and whose promise holds."
        )
    elif partly:
        why += (
            "those on which no attack that was tried does noticeably better than chance and whose "
            "promise holds. Not every attack was tried on it."
        )
    elif sound:
        why += "those on which no attack succeeds seriously and whose promise holds."
    else:
        why += (
            "those on which no attack succeeds seriously; but its promise does not hold as "
            "claimed, nor does that of the others."
        )
    if audits[best].verdict.usefulness == "poor":
        why += " It is of little use all the same: consider a larger ε, a larger k, or fewer "
        why += "attributes."
    left = [name for name in audits if name not in choice]
    if left:
        why += f" Left aside: {'; '.join(_fault(name, audits[name]) for name in left)}."
    return best, why


def _fault(name: str, audit: Audit) -> str:
    if audit.verdict.risk == "serious":
        return f"{name} (attacks succeed)"
    if audit.verdict.promise == "fails":
        return f"{name} (its promise does not hold)"
    return f"{name} (more exposed)"
