"""The report as PDF, by matplotlib alone: no browser and no network are needed.

It holds the verdict, the promise, every picture and the table of numbers. For a printed copy
of the page itself, print the HTML file: it has a style for paper.
"""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING, Any

from sherd.report import words
from sherd.report.figures import figures, risk_map
from sherd.report.plots import LIGHT, fonts_for, spelt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sherd.auditing.verdict.audit_result import Audit
    from sherd.auditing.verdict.comparison import Comparison
    from sherd.auditing.verdict.verdict import Verdict
    from sherd.auditing.verdict.verdict_points import Point
    from sherd.report.plots import Plot

_PAGE = (8.27, 11.69)  # A4, in inches
_WIDTH = 96

Line = tuple[str, int, bool, str]
"""Text, size, bold, colour."""


def audit(result: Audit) -> bytes:
    """The PDF of one audit."""
    verdict = result.verdict
    lines: list[Line] = [
        ("INTERNAL: NOT FOR PUBLICATION", 8, True, LIGHT.bad),
        (f"Audit of a release by {result.title}: {result.rows:,} records", 9, False, LIGHT.muted),
        (verdict.headline, 15, True, LIGHT.ink),
        (_levels(verdict, verdict.risk), 11, True, LIGHT.ink),
    ]
    lines += _points(verdict.points)
    for heading, items in words.promise(result.guarantee):
        if items:
            lines.append((heading, 11, True, LIGHT.ink))
            lines += [(f"• {item}", 9, False, LIGHT.ink) for item in items]
    numbers: list[Line] = []
    for side, title in words.SIDES.items():
        numbers.append((title, 12, True, LIGHT.ink))
        for m in result.on(side):
            yardstick = "" if m.baseline is None else f"; yardstick {words.number(m.baseline)}"
            line = f"{m.spec.title}: {words.number(m.value)} ({words.interval(m)}{yardstick}; "
            numbers.append((f"{line}{m.spec.label})", 9, False, LIGHT.ink))
            numbers.append((f"    {m.basis}", 7, False, LIGHT.muted))
    numbers += [
        (f"Left out: {s.spec.title}: {s.reason}", 8, False, LIGHT.muted) for s in result.skipped
    ]
    return _book(lines, figures(result), numbers, result.subject)


def comparison(result: Comparison) -> bytes:
    """The PDF of a comparison."""
    lines: list[Line] = [
        ("INTERNAL: NOT FOR PUBLICATION", 8, True, LIGHT.bad),
        (f"Recommended: {result.recommended or 'none of these'}", 15, True, LIGHT.ink),
        (result.reason, 10, False, LIGHT.ink),
        *((f"Warning: {text}", 10, False, LIGHT.bad) for text in result.warnings),
    ]
    for name, one in result.audits.items():
        lines.append((name, 12, True, LIGHT.ink))
        lines.append((one.title, 9, False, LIGHT.muted))
        judged = result.judged[name]
        lines.append((judged.headline, 9, False, LIGHT.ink))
        lines.append((_levels(one.verdict, judged.risk), 9, True, LIGHT.ink))
        lines += _points(judged.points)
    title = "Releases by risk and usefulness"
    plots = [risk_map(result.mapped, "", title)] if result.mapped else []
    return _book(lines, plots, [], "; ".join(one.subject for one in result.audits.values()))


def _points(points: Iterable[Point]) -> list[Line]:
    """The lines of a verdict, each with its mark and in its colour."""
    colours = {"good": LIGHT.good, "bad": LIGHT.bad, "plain": LIGHT.ink}
    return [(f"{words.MARKS[p.tone]} {p.text}", 9, False, colours[p.tone]) for p in points]


def _levels(verdict: Verdict, risk: str) -> str:
    return f"Risk: {risk}. Usefulness: {verdict.usefulness}. Promise: {verdict.promise}."


def _book(first: list[Line], plots: Iterable[Plot], last: list[Line], subject: str) -> bytes:
    """The pages of a report, each with what was audited at its foot."""
    from matplotlib.backends.backend_pdf import PdfPages

    out = io.BytesIO()
    information = {"Title": "Audit of a release", "Creator": "sherd", "CreationDate": None}
    with PdfPages(out, metadata=information) as book:

        def keep(figure: Any) -> None:
            _write(figure, (0.02, 0.004), textwrap.shorten(subject, 150), 6, LIGHT.muted)
            book.savefig(figure)

        _pages(keep, first)
        for plot in plots:
            plot.save(keep)
        _pages(keep, last)
    return out.getvalue()


def _pages(keep: Callable[[Any], None], lines: list[Line]) -> None:
    """Lines of text, wrapped, on as many pages as they need."""
    from matplotlib.figure import Figure

    wrapped: list[Line] = []
    for text, size, bold, colour in lines:
        room = int(_WIDTH * 9 / size)
        parts = textwrap.wrap(text, room, subsequent_indent="  ") or [""]
        wrapped += [(part, size, bold, colour) for part in parts]
    figure, place = None, 0.0
    for text, size, bold, colour in wrapped:
        step = size * 1.55 / 72 / _PAGE[1] + (0.008 if bold else 0)
        if figure is None or place - step < 0.05:
            if figure is not None:
                keep(figure)
            figure, place = Figure(figsize=_PAGE, facecolor=LIGHT.paper), 0.95
        place -= step
        _write(figure, (0.08, place), text, size, colour, bold=bold)
    if figure is not None:
        keep(figure)


def _write(
    figure: Any, at: tuple[float, float], text: str, size: int, colour: str, *, bold: bool = False
) -> None:
    """A line of text in fonts that have its letters."""
    fonts, lacking = fonts_for(frozenset(text))
    figure.text(
        *at, spelt(text, lacking), fontsize=size, color=colour, parse_math=False,
        fontweight="bold" if bold else "normal", fontfamily=list(fonts),
    )  # fmt: skip
