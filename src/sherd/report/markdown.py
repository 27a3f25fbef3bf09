"""The report as Markdown: the same words and numbers, for a repository or a ticket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.auditing.catalogue import CATALOGUE
from sherd.report import words

if TYPE_CHECKING:
    from sherd.auditing.verdict.audit_result import Audit
    from sherd.auditing.verdict.comparison import Comparison


def _cell(text: object) -> str:
    """A text that cannot break out of a table's cell, nor become markup."""
    plain = str(text).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
    return plain.replace("<", "&lt;").replace("`", "\\`")


def _first(text: str) -> str:
    """A text that begins a sentence."""
    return text[:1].upper() + text[1:]


def audit(result: Audit) -> str:
    """The Markdown text of one audit."""
    verdict = result.verdict
    lines = [
        f"# {verdict.headline}",
        "",
        f"**Internal: not for publication.** Audit of a release by {_cell(result.title)}: "
        f"{result.rows:,} records, {len(result.attributes)} attributes. "
        f"{_cell(_first(result.subject))}.",
        "",
        f"Risk: **{verdict.risk}**. Usefulness: **{verdict.usefulness}**. "
        f"Promise: **{verdict.promise}**.",
        "",
        *(f"- {words.MARKS[point.tone]} {_cell(point.text)}" for point in verdict.points),
    ]
    for heading, items in words.promise(result.guarantee):
        if items:
            lines += ["", f"## {heading}", "", *(f"- {_cell(item)}" for item in items)]
    for who, said in words.participants(result):
        lines += ["", f"## Beyond the release, {_cell(who)} can learn", ""]
        lines += [f"- {_cell(line)}" for line in said]
    for side, title in words.SIDES.items():
        measures = result.on(side)
        if not measures:
            continue
        lines += [
            "",
            f"## {title}",
            "",
            "| measure | value | 95 % interval | yardstick | rests on | label |",
            "|---|---:|---:|---:|---|---|",
        ]
        for m in measures:
            against = f" ({_cell(m.against)})" if m.against else ""
            lines.append(
                f"| {m.spec.title} | {words.number(m.value)} | {words.interval(m)} | "
                f"{words.number(m.baseline)}{against} | {_cell(m.basis)} | {m.spec.label} |"
            )
    if result.checks:
        lines += ["", "## Checks of the released files", ""]
        outcome = {True: "✓", False: "✗", None: "–"}
        lines += [
            f"- {outcome[c.passed]} {_cell(c.name)}: {_cell(c.detail)}" for c in result.checks
        ]
    if result.skipped:
        lines += ["", "## Left out", ""]
        lines += [f"- {s.spec.title}: {_cell(s.reason)}" for s in result.skipped]
    return "\n".join([*lines, "", words.INTERNAL, ""])


def comparison(result: Comparison) -> str:
    """The Markdown text of a comparison."""
    lines = [
        f"# {'Recommended: ' + _cell(result.recommended) if result.recommended else 'None can be recommended'}",  # noqa: E501 - one heading
        "",
        _cell(result.reason),
        "",
        *(f"**Warning:** {_cell(text)}\n" for text in result.warnings),
        "| release | usefulness | worst attack | risk | promise |",
        "|---|---:|---:|---|---|",
    ]
    for place in result.places:
        risk, promise = result.judged[place.name].risk, result.audits[place.name].verdict.promise
        lines.append(
            f"| {_cell(place.name)} | {words.number(place.utility)} | {words.number(place.risk)} | "
            f"{risk} | {promise} |"
        )
    titles = [CATALOGUE[code].title for code in result.shared]
    attacks = ", ".join(titles) or "none"
    lines += ["", f"Risk is judged by the attacks that could be run on all: {attacks}."]
    for name, one in result.judged.items():
        lines += ["", f"## {_cell(name)}", "", _cell(one.headline), ""]
        lines += [f"- {words.MARKS[point.tone]} {_cell(point.text)}" for point in one.points]
    return "\n".join([*lines, "", words.INTERNAL, ""])
