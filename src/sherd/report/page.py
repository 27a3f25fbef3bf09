"""The HTML page: verdict first, then pictures, then every number."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.auditing.attacks import ATTACKS
from sherd.auditing.verdict.verdict_points import Point
from sherd.report import words
from sherd.report.figures import figures, risk_map

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sherd.auditing.verdict.audit_result import Audit
    from sherd.auditing.verdict.comparison import Comparison, Judged
    from sherd.report.plots import Plot

_TEMPLATES = Path(__file__).parent / "templates"

_INTRODUCTIONS = {
    "map": "Each point is a method with the same parameters. Right is more useful, up is riskier; "
    "the diamond is this release's plan.",
    "attacks": "Bars: how often each attack succeeds. Upright strokes: how often it would by "
    "chance, or on people who took no part. Only the difference is the release's doing.",
    "promise": "A worst-case table and its neighbour are protected many times over; an attacker's "
    "best test then shows at least this much privacy loss.",
    "distances": "The nearer the dot lies to zero, or to its yardstick, the better.",
    "distributions": "Where the line follows the bars, single attributes survived.",
    "associations": "Where the third panel is pale, dependencies between attributes survived.",
}


@dataclass(frozen=True, kw_only=True)
class ComparedTable:
    """A table that was released in several ways, for one page about several tables.

    ``shown`` are the releases' titles, ``notes`` sentences about who has what and what was spent,
    ``pages`` addresses of each release's own audit, beside this page.
    """

    title: str
    comparison: Comparison
    shown: Mapping[str, str]
    notes: tuple[str, ...] = ()
    pages: Mapping[str, str] = field(default_factory=dict)


_COMPARED = (
    "Each point is a release, judged by the attacks that could be run on all of them. Right is "
    "more useful, up is riskier; a diamond is the one recommended."
)


def template_environment(folder: Path, **filters: Callable[..., str]) -> Any:
    """The templates of a folder, where every value is escaped and a missing one is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment


def _rendered(template: str, **values: Any) -> str:
    filters: dict[str, Any] = {"number": words.number, "interval": words.interval}
    environment = template_environment(_TEMPLATES, **filters)
    return str(environment.get_template(template).render(internal=words.INTERNAL, **values))


def _picture(plot: Plot) -> dict[str, Any]:
    from markupsafe import Markup

    # Our own drawing; every text in it was escaped when it was drawn.
    svg = Markup(plot.svg())  # noqa: S704
    return {
        "name": plot.name,
        "title": plot.title,
        "alt": plot.alt,
        "svg": svg,
        "more": plot.more,
        "introduction": _INTRODUCTIONS.get(plot.name, ""),
    }


def _lights(audit: Audit, judged: Judged | None = None) -> list[dict[str, str]]:
    """Risk, usefulness and promise; among other releases the risk is the one judged there."""
    lights = []
    for part, title in (("risk", "Risk"), ("usefulness", "Usefulness"), ("promise", "Promise")):
        tone, word, explained = words.LIGHTS[part][getattr(audit.verdict, part)]
        if part == "risk" and judged is not None:
            tone, word, explained = words.COMPARED[judged.risk]
        lights.append({"title": title, "tone": tone, "word": word, "explained": explained})
    return lights


def audit(result: Audit) -> str:
    """The page of one audit."""
    return _rendered(
        "audit.html",
        audit=result,
        lights=_lights(result),
        promise=words.promise(result.guarantee),
        participants=words.participants(result),
        pictures=[_picture(plot) for plot in figures(result)],
        sides=[(title, result.on(side)) for side, title in words.SIDES.items()],
        attacks=ATTACKS,
    )


def comparison(result: Comparison) -> str:
    """The page of a comparison."""
    codes = list(
        dict.fromkeys(m.code for audit in result.audits.values() for m in audit.measures if m.code)
    )
    picture = None
    if result.mapped:
        drawn = risk_map(result.mapped, "", title="Releases by risk and usefulness")
        picture = _picture(drawn) | {"introduction": _COMPARED}
    rows, attacks = [], []
    for code in codes:
        having = [audit.by_code.get(code) for audit in result.audits.values()]
        spec = next(one.spec for one in having if one is not None)
        rows.append({"spec": spec, "values": having})
        if code in result.shared:
            attacks.append(spec.title)
    return _rendered(
        "compare.html",
        result=result,
        warnings=[Point(tone="bad", text=f"Warning: {text}") for text in result.warnings],
        picture=picture,
        lights={n: _lights(audit, result.judged[n]) for n, audit in result.audits.items()},
        columns=beside(result, {name: name for name in result.audits}, alike=True),
        questions=words.QUESTIONS,
        rows=rows,
        attacks=attacks,
    )


def beside(
    result: Comparison, shown: Mapping[str, str], *, alike: bool = False
) -> list[dict[str, Any]]:
    """Releases side by side, each with its answers in plain words; ``shown`` are their titles.

    ``alike`` calls their risk what the attacks say that were run on all of them.
    """
    columns = []
    for name, audit in result.audits.items():
        lights = {"risk": result.judged[name].risk} if alike else {}
        answers = {
            part: words.answer_of(audit, part, light=lights.get(part)) for part in words.QUESTIONS
        }
        recommended = name == result.recommended
        columns.append({"title": shown[name], "recommended": recommended, "answers": answers})
    return columns


def officer_page(tables: Sequence[ComparedTable]) -> str:
    """One page about several tables, each released in several ways: which to publish, and why."""
    shown = {name: title for one in tables for name, title in one.shown.items()}
    return _rendered(
        "officer.html",
        headline=words.advice([(one.title, one.comparison) for one in tables], shown),
        tables=[{"one": one, "columns": beside(one.comparison, one.shown)} for one in tables],
        questions=words.QUESTIONS,
    )
