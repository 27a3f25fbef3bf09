"""The lines of a verdict about the promise and about what a release is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.tables.prepare import WORRYING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sherd.auditing.verdict.measure import Measure
    from sherd.verifying.check import Check

GOOD, FAIR = 0.10, 0.25

NOISE = "noise of the release"
"""The check that compares released values with what the plan says of their noise."""

DRAWING = "drawing of the records"
"""The check that released records were drawn from the model, and not copied."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One line of the verdict: ``tone`` is good, bad or plain."""

    tone: str
    text: str


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


def promise_points(
    measures: Mapping[str, Measure],
    checks: Sequence[Check],
    guarantee: Mapping[str, Any],
    artefact: Sequence[Check],
    spent: float = 0.0,
) -> tuple[str, list[Point]]:
    """Whether the promise holds, fails, is untested or none, and the lines that say why."""
    failed = [check for check in (*checks, *artefact) if check.passed is False]
    points = [Point(tone="bad", text=f"Check failed: {c.name}: {c.detail}.") for c in failed]
    notion = guarantee.get("notion")
    if notion in (None, "no-guarantee"):
        return ("fails" if failed else "none"), [
            *points,
            Point(tone="bad", text="The release promises nothing that could be tested."),
        ]
    claimed = guarantee.get("epsilon")
    broken, account = _account(measures, notion, None if claimed is None else float(claimed), spent)
    points += account
    if failed or broken:
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
    noise = [one for one in artefact if one.name in (NOISE, DRAWING)]
    if claimed is not None:
        seen = bool(noise) and all(one.passed for one in noise)
        if not noise:
            text = "The released values were not tested against the plan: what it says of noise "
            points.append(Point(tone="plain", text=text + "rests on the manifest alone."))
    return ("holds" if seen else "untested"), points


def _account(
    measures: Mapping[str, Measure], notion: Any, claimed: float | None, spent: float
) -> tuple[bool, list[Point]]:
    """Whether the account of the mechanism, runs of it, or the method refute the claimed epsilon.

    ``spent`` is what the method itself says that the release spends.
    """
    broken, points = False, []
    loss = measures.get("loss-factor")
    if claimed is not None and loss is None and spent > claimed * (1 + 1e-6):
        broken = True
        points.append(_loss_point(spent, claimed, True))
    if claimed is not None and loss is not None:
        broken = max(loss.value, spent) > claimed * (1 + 1e-6)
        points.append(_loss_point(max(loss.value, spent), claimed, broken))
        if loss.caution:
            points.append(Point(tone="bad", text=f"{_capital(loss.caution)}."))
    frozen = measures.get("epsilon-frozen")
    if frozen is not None and frozen.value > 1:
        broken = True
        points.append(
            Point(
                tone="bad",
                text=f"Test runs refute the promise once clusters are recomputed: at ε = 1 they "
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
    return broken, points


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
        text=f"The claimed ε = {claimed:g} does not hold once clusters are recomputed: on this "
        f"table the centroids spend {shown}.",
    )


def worth_points(measures: Mapping[str, Measure]) -> list[Point]:
    """The lines about how useful the release is."""
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
    points += _treated_points(measures)
    for code, noun in (("forest-accuracy", "is right"), ("forest-r2", "explains")):
        model = measures.get(code)
        if model is not None and model.baseline is not None:
            points.append(_model_point(model, noun))
    return points


_TREATED = {
    "clamped": "{share} of protected cells lay outside their declared domain and were clamped",
    "recoded": "{share} of protected cells were missing or not declared and were recoded",
    "dropped": "{share} of the records were dropped by the schema's policies",
    "left-out": "{share} of the records were left out by the method",
}


def _treated_points(measures: Mapping[str, Measure]) -> list[Point]:
    """What happened to cells and records beside the method, where it is worth a warning."""
    points = []
    for code, text in _TREATED.items():
        one = measures.get(code)
        worst = 0.0 if one is None else max([one.value, *one.parts.values()])
        if one is None or worst <= WORRYING:
            continue
        shares = [f"{n} {percent(share)}" for n, share in one.parts.items() if share > WORRYING]
        more = f" and {len(shares) - 4} more" if len(shares) > 4 else ""
        where = f" ({', '.join(shares[:4])}{more})" if shares else ""
        points.append(Point(tone="bad", text=f"{text.format(share=percent(one.value))}{where}."))
    return points


def _model_point(model: Measure, noun: str) -> Point:
    """What a model trained on the release is worth; good only where it beats knowing nothing."""
    lost = (model.baseline or 0.0) - model.value
    tone = "good" if lost <= 0.03 else "bad" if lost > 0.1 else "plain"
    text = (
        f"A model trained on the release {noun} {percent(max(0.0, model.value))} of the time on "
        f"real records (trained on originals: {percent(max(0.0, model.baseline or 0.0))})"
    )
    surely = model.value if model.low is None else model.low
    if model.floor is not None and surely <= model.floor:
        tone = "bad"
        text += f", no better than always guessing the same ({percent(max(0.0, model.floor))})"
    elif model.caution:
        tone = "plain" if tone == "good" else tone
        text += f"; {model.caution}"
    return Point(tone=tone, text=f"{text}.")
