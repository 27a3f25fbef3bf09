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


def audit(found: Audit) -> str:
    """The Markdown text of one audit."""
    verdict = found.verdict
    lines = [
        f"# {verdict.headline}",
        "",
        f"**Internal: not for publication.** Audit of a release by {_cell(found.title)}: "
        f"{found.rows:,} records, {len(found.attributes)} attributes. "
        f"{_cell(_first(found.subject))}.",
        "",
        f"Risk: **{verdict.risk}**. Usefulness: **{verdict.usefulness}**. "
        f"Promise: **{verdict.promise}**.",
        "",
        *(f"- {words.MARKS[point.tone]} {_cell(point.text)}" for point in verdict.points),
    ]
    for heading, items in words.promise(found.guarantee):
        if items:
            lines += ["", f"## {heading}", "", *(f"- {_cell(item)}" for item in items)]
    for who, said in words.participants(found):
        lines += ["", f"## Beyond the release, {_cell(who)} can learn", ""]
        lines += [f"- {_cell(line)}" for line in said]
    for side, title in words.SIDES.items():
        measures = found.on(side)
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
    if found.checks:
        lines += ["", "## Checks of the released files", ""]
        outcome = {True: "✓", False: "✗", None: "–"}
        lines += [f"- {outcome[c.passed]} {_cell(c.name)}: {_cell(c.detail)}" for c in found.checks]
    if found.skipped:
        lines += ["", "## Left out", ""]
        lines += [f"- {s.spec.title}: {_cell(s.reason)}" for s in found.skipped]
    return "\n".join([*lines, "", words.INTERNAL, ""])


def comparison(found: Comparison) -> str:
    """The Markdown text of a comparison."""
    lines = [
        f"# {'Recommended: ' + _cell(found.recommended) if found.recommended else 'None can be recommended'}",  # noqa: E501 - one heading
        "",
        _cell(found.reason),
        "",
        *(f"**Warning:** {_cell(text)}\n" for text in found.warnings),
        "| release | usefulness | worst attack | risk | promise |",
        "|---|---:|---:|---|---|",
    ]
    for place in found.places:
        risk, promise = found.judged[place.name].risk, found.audits[place.name].verdict.promise
        lines.append(
            f"| {_cell(place.name)} | {words.number(place.utility)} | {words.number(place.risk)} | "
            f"{risk} | {promise} |"
        )
    titles = [CATALOGUE[code].title for code in found.shared]
    said = ", ".join(titles) or "there is none"
    lines += ["", f"Risk is judged by the attacks that could be run on all: {said}."]
    for name, one in found.judged.items():
        lines += ["", f"## {_cell(name)}", "", _cell(one.headline), ""]
        lines += [f"- {words.MARKS[point.tone]} {_cell(point.text)}" for point in one.points]
    return "\n".join([*lines, "", words.INTERNAL, ""])
