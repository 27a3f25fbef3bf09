"""An audit in words for somebody who answers for the data and not for the method.

Every sentence follows from the numbers of the audit: shares are said as so many of a thousand
people or of a hundred records, and a factor of chances instead of an ε.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.auditing.verdict.measure import Side
from sherd.auditing.verdict.significance import JUDGED, Standing, standing
from sherd.guarantees import Adversary, Assumption, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from enum import Enum

    from sherd.auditing.verdict.audit_result import Audit
    from sherd.auditing.verdict.comparison import Comparison
    from sherd.auditing.verdict.measure import Measure


@dataclass(frozen=True, kw_only=True)
class PlainAnswer:
    """One part of a verdict for a layman: a tone, a word, and a few sentences."""

    tone: str
    word: str
    lines: tuple[str, ...]


QUESTIONS = {
    "promise": "What is promised to each person, and does it hold?",
    "risk": "What does an attacker find out?",
    "usefulness": "What is the table still good for?",
}
"""The parts of a verdict as questions."""


def answer_of(audit: Audit, part: str, *, light: str | None = None) -> PlainAnswer:
    """The answer to one of the questions; ``light`` stands where the audit's own does not."""
    tone, word, _ = LIGHTS[part][light or getattr(audit.verdict, part)]
    say = {"promise": _promise, "risk": _risk, "usefulness": _usefulness}[part]
    return PlainAnswer(tone=tone, word=word, lines=tuple(say(audit)))


def advice(tables: Sequence[tuple[str, Comparison]], shown: Mapping[str, str]) -> str:
    """Which releases of each table to publish, in a sentence or two; ``shown`` are their names.

    One sentence where it is the same for all tables.
    """
    advised = {title: _advice(result, shown) for title, result in tables}
    texts = list(dict.fromkeys(advised.values()))
    if len(texts) == 1:
        return f"{texts[0][0].upper()}{texts[0][1:]}."
    return " ".join(f"{title}: {text}." for title, text in advised.items())


def _advice(result: Comparison, shown: Mapping[str, str]) -> str:
    if result.recommended is None:
        return "publish none of these releases"
    rest = [name for name in result.audits if name != result.recommended]
    unsafe = [
        shown[name]
        for name in rest
        if result.judged[name].risk == "serious"
        or result.judged[name].grave
        or result.audits[name].verdict.risk == "serious"
        or result.audits[name].verdict.promise == "fails"
    ]
    but = f"; do not publish what {' or '.join(unsafe)} makes of it" if unsafe else ""
    return f"publish what {shown[result.recommended]} makes of the data{but}"


def _promise(audit: Audit) -> list[str]:
    guarantee = audit.guarantee
    epsilon = guarantee.get("epsilon")
    if epsilon is None:
        return _groups_promise(audit)
    factor = number(math.exp(float(epsilon)))
    sentences = []
    if guarantee["notion"] == "differential-privacy":
        but = ""
        if guarantee.get("delta"):
            but = f", except with probability 1 in {round(1 / float(guarantee['delta'])):,}"
        sentences.append(
            f"Whatever is published is at most {factor} times as likely with a person's true data "
            f"as with any other data in its place{but}."
        )
    else:
        sentences.append(
            f"A weaker promise than differential privacy: a factor of at most {factor}, with noise "
            "that is itself taken from the data."
        )
    sentences.append(f"It covers {guarantee.get('covers', 'what is released')}.")
    sentences += [f"Outside the promise: {text}." for text in _leaks(guarantee)]
    sentences.append(_tested(audit, float(epsilon)))
    return sentences


def _groups_promise(audit: Audit) -> list[str]:
    """What is promised without an ε, in the guarantee's own words."""
    promised, _, rest = str(audit.guarantee.get("words", "")).partition("\n")
    if audit.verdict.promise == "none" or not rest:
        return ["Nothing is promised."]
    sentences = [f"It promises {promised.removeprefix('Promise: ')}"]
    sentences.append(f"It covers {audit.guarantee.get('covers', 'what is released')}.")
    sentences += [f"Outside the promise: {text}." for text in audit.guarantee["not_covered"]]
    passed = sum(check.passed is True for check in audit.checks)
    if audit.verdict.promise == "holds":
        sentences.append(f"Tested: it holds. All {passed} checks of the files pass.")
    elif audit.verdict.promise == "fails":
        sentences.append("Tested: it does not hold; the audit names the check that fails.")
    return sentences


def _leaks(guarantee: Mapping[str, Any]) -> list[str]:
    """What a guarantee leaves open of what is released; refusals are the same for all."""
    known = {member.value: member for member in Assumption}
    named = [known[one] for one in guarantee.get("assumes", ()) if one in known]
    leaks = [one.words for one in named if one.leaks and one.value != "refusals-seen"]
    return [text.partition(";")[0] for text in leaks]


def _tested(audit: Audit, claimed: float) -> str:
    promise = audit.verdict.promise
    if promise == "holds":
        passed = sum(check.passed is True for check in audit.checks)
        return (
            "Tested: it holds. The noise in the released numbers is the declared noise, and all "
            f"{passed} checks of the files pass."
        )
    if promise == "fails":
        spent = [audit[c].value for c in ("loss-factor", "epsilon-frozen") if c in audit]
        worst = max(spent, default=0.0)
        if worst > claimed:
            return (
                f"Tested: it does not hold. One person's data can change the chances by a factor "
                f"of {number(math.exp(worst))}, not {number(math.exp(claimed))}."
            )
        return "Tested: it does not hold; the audit names the check that fails."
    return "It could not be tested on the released numbers."


_OF_PEOPLE = {
    "cluster-linkage-known": "Knowing 50 of 1,000 people, an attacker finds {value} of 1,000 "
    "others in the table (by guessing: {chance}).",
    "cluster-linkage": "Knowing nobody's row, an attacker who has everybody's true values finds "
    "{value} of 1,000 people (by guessing: {chance}).",
    "linkage": "Knowing a person's true values, an attacker finds the row of {value} of 1,000 "
    "(by guessing: {chance}).",
    "singling-out": "Singling out: of 1,000 descriptions made from the table, {value} fit exactly "
    "one real person (people who took no part: {chance}).",
    "linkability": "With the table, an attacker joins two other databases correctly for {value} of "
    "1,000 people (people who took no part: {chance}).",
    "inference": "Knowing all else of a person, an attacker guesses the rest right for {value} of "
    "1,000 (for people who took no part: {chance}).",
    "insider": "An owner that took part recovers {value} of 1,000 cells of the others (by "
    "guessing: {chance}).",
}
"""Attacks as sentences about a thousand people."""


def _risk(audit: Audit) -> list[str]:
    measures = audit.by_code
    sentences = []
    if any(
        s.spec.code in ("linkage", "cluster-linkage") and s.lacks == "rows" for s in audit.skipped
    ):
        sentences.append("No row of it belongs to anybody.")
    sentences += [
        _of_people(measures[code]) for code in JUDGED if code in measures and code in _OF_PEOPLE
    ]
    if "membership" in measures:
        right = round(500 + 500 * max(0.0, measures["membership"].value))
        sentences.append(
            f"Of 1,000 people, half of whom are in the table, an attacker is right about {right} "
            "(by tossing a coin: 500)."
        )
    return sentences or ["No attack could be run on it."]


def _of_people(one: Measure) -> str:
    value, chance = (round(1000 * max(0.0, share or 0.0)) for share in (one.value, one.baseline))
    text = _OF_PEOPLE[one.code].format(value=value, chance=chance)
    return text if standing(one) < Standing.NOTICEABLE else f"{text[:-1]}: this attack succeeds."


def _usefulness(audit: Audit) -> list[str]:
    sentences = []
    for code, what in (
        ("marginals-1", "single attributes"),
        ("marginals-2", "two attributes at once"),
        ("marginals-3", "three attributes at once"),
    ):
        one = audit.by_code.get(code)
        if one is not None:
            sentences.append(
                f"Tables of {what}: {_of_hundred(one.value)} of 100 records are counted in a wrong "
                f"place (had other people been asked: {_of_hundred(one.baseline or 0.0)})."
            )
    one = audit.by_code.get("queries")
    if one is not None:
        sentences.append(
            f"A count of people with certain properties is typically off by "
            f"{_of_hundred(one.value)} % of what it should be."
        )
    return sentences or ["It could not be measured."]


def _of_hundred(share: float) -> str:
    """A share of a hundred, with a digit where it is small.

    >>> _of_hundred(0.288), _of_hundred(0.0049), _of_hundred(0.0)
    ('29', '0.5', '0')
    """
    return f"{100 * share:.0f}" if share >= 0.1 or share == 0 else f"{100 * share:.1f}"


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
    covered = [first or str(guarantee["notion"])]
    if unit is not None:
        covered.append(f"For {unit.words}.")
    if guarantee.get("covers"):
        covered.append(f"Covered: {guarantee['covers']}.")
    leaks += guarantee.get("not_covered", ())
    return [
        ("What is promised", covered),
        ("Against whom", [_sentence(adversary.words)] if adversary is not None else []),
        ("Only if", [_sentence(text) for text in conditions]),
        ("What is not protected", [_sentence(text) for text in leaks]),
    ]


def participants(result: Audit) -> list[tuple[str, tuple[str, ...]]]:
    """Who can learn what beyond the release, as headings say it."""
    return [("an analyst" if who == "analyst" else who, said) for who, said in result.participants]


def _member(kind: Any, value: object) -> Any:
    """A member by its value; None for one that a newer release invented."""
    known: dict[object, Enum] = {member.value: member for member in kind}
    return known.get(value)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."
