"""Numbers and guarantees in the words of the report, shared by all its forms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sherd.auditing.verdict.measure import Side
from sherd.guarantees import Adversary, Assumption, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from enum import Enum

    from sherd.auditing.verdict.audit_result import Audit
    from sherd.auditing.verdict.measure import Measure

INTERNAL = (
    "Internal: not for publication. These numbers were computed from the original data, and no "
    "guarantee covers them. Those marked publishable were computed from the release alone."
)
SIDES = {
    Side.UTILITY: "What the release is worth",
    Side.RISK: "What the release gives away",
    Side.PROMISE: "Whether the promise holds",
}
LIGHTS = {
    "risk": {
        "low": ("good", "Low", "attacks do little or no better than chance"),
        "low in part": ("plain", "Low in what was tried", "but some attacks were not tried"),
        "noticeable": ("plain", "Noticeable", "some attacks beat chance"),
        "serious": ("bad", "Serious", "attacks succeed"),
        "unknown": ("plain", "Unknown", "no attack could be run"),
    },
    "usefulness": {
        "high": ("good", "High", "most structure is kept"),
        "fair": ("plain", "Fair", "part of the structure is kept"),
        "poor": ("bad", "Poor", "little structure is kept"),
        "unknown": ("plain", "Unknown", "could not be measured"),
    },
    "promise": {
        "holds": ("good", "Holds", "as far as it can be tested"),
        "fails": ("bad", "Does not hold", "as claimed"),
        "untested": ("plain", "Untested", "nothing to test it by"),
        "none": ("bad", "None", "nothing is promised"),
    },
}
"""For each part of the verdict and each level: tone, word, explanation."""


COMPARED = {
    "low": ("good", "Low", "the attacks run on all do little or no better than chance"),
    "low in part": ("plain", "Low in what was run on all", "but that was not everything"),
    "noticeable": ("plain", "Noticeable", "some attacks run on all beat chance"),
    "serious": ("bad", "Serious", "attacks run on all succeed"),
    "unknown": ("plain", "Unknown", "no attack could be run on all"),
}
"""The risk of a release among others, judged by the attacks that were run on all."""

MARKS = {"good": "✓", "bad": "✗", "plain": "•"}
"""The mark of a line of a verdict, by its tone."""


def number(value: float | None) -> str:
    """A number with as many digits as it deserves.

    >>> number(0.01234), number(1234.5), number(None), number(math.inf), number(0.0)
    ('0.0123', '1,234', '–', 'unbounded', '0')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "unbounded"
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-4 else f"{value:.1e}"


def interval(measure: Measure) -> str:
    """The 95 % interval, or how the number is exact."""
    if measure.low is None and measure.high is None:
        return "exact"
    if measure.high is None:
        return f"at least {number(measure.low)}"
    return f"{number(measure.low)} to {number(measure.high)}"


def promise(guarantee: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """The guarantee as headed lists: what is protected, against whom, if what, what not."""
    if not guarantee or "notion" not in guarantee:
        return [("What is promised", ["Nothing: this table came without a guarantee."])]
    said = [line for line in str(guarantee.get("words", "")).splitlines() if line]
    first = next((line[9:] for line in said if line.startswith("Promise: ")), "")
    assumed = [_member(Assumption, value) for value in guarantee.get("assumes", ())]
    conditions = [a.words for a in assumed if a is not None and not a.leaks]
    leaks = [a.words for a in assumed if a is not None and a.leaks]
    unit = _member(Unit, guarantee.get("unit"))
    adversary = _member(Adversary, guarantee.get("adversary"))
    covered = [f"{first}" if first else str(guarantee["notion"])]
    if unit is not None:
        covered.append(f"For {unit.words}.")
    if guarantee.get("covers"):
        covered.append(f"Covered: {guarantee['covers']}.")
    return [
        ("What is promised", covered),
        ("Against whom", [_sentence(adversary.words)] if adversary is not None else []),
        ("Only if", _sentences(conditions)),
        ("What is not protected", _sentences([*leaks, *guarantee.get("not_covered", ())])),
    ]


def participants(found: Audit) -> list[tuple[str, tuple[str, ...]]]:
    """Who can learn what beyond the release, as headings say it."""
    return [("an analyst" if who == "analyst" else who, said) for who, said in found.participants]


def _member(kind: Any, value: object) -> Any:
    """A member by its value; None for one that a newer release invented."""
    known: dict[object, Enum] = {member.value: member for member in kind}
    return known.get(value)


def _sentences(texts: Iterable[str]) -> list[str]:
    return [_sentence(text) for text in texts]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."
