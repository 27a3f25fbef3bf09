"""Small pictures as SVG: no style of their own, a hover text for every part, words for all of it.

Colours are classes of the studio's style sheet, so that light, dark and print follow it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SHADES = 7
_WIDE, _HIGH = 240.0, 64.0


def _svg(width: float, height: float, words: str, parts: Sequence[Any], kind: str) -> Markup:
    head = Markup('<svg class="{}" viewBox="0 0 {:.0f} {:.0f}"{} role="img" aria-label="{}">')
    more = {"bars": ' preserveAspectRatio="none"', "heat": f' width="{1.2 * width:.0f}"'}
    fill = Markup(more.get(kind, ""))  # noqa: S704 - numbers of ours
    return head.format(kind, width, height, fill, words) + Markup("").join(parts) + Markup("</svg>")


def _rect(box: tuple[float, float, float, float], kind: str, words: str) -> Markup:
    return Markup(
        '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="{}">'
        "<title>{}</title></rect>"
    ).format(*box, kind, words)


def _text(x: float, y: float, words: str, kind: str = "label") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" class="{}">{}</text>').format(x, y, kind, words)


def bars(name: str, counts: Sequence[Sequence[Any]]) -> Markup:
    """A distribution: one bar for every class or label."""
    if not counts:
        return Markup('<span class="muted">no values</span>')
    most = max(count for _, count in counts) or 1
    step = _WIDE / len(counts)
    parts = [
        _rect(
            (place * step + 0.5, _HIGH * (1 - count / most), max(1.0, step - 1),
             max(0.8, _HIGH * count / most)),
            "before", f"{label}: {count:,}",
        )
        for place, (label, count) in enumerate(counts)
    ]  # fmt: skip
    top = max(counts, key=lambda pair: pair[1])
    words = f"Distribution of {name}: {len(counts)} classes, most often {top[0]}"
    return _svg(_WIDE, _HIGH, words, parts, "bars")


def before_and_after(one: Mapping[str, Any]) -> Markup:
    """A distribution of the original as bars, that of a release as a line over them."""
    before, after = one["before"], one["after"]
    most = max(*before, *after, 1e-9)
    step = _WIDE / len(before)
    parts = []
    for place, (was, came) in enumerate(zip(before, after, strict=True)):
        words = f"{one['classes'][place]}: {was:.1%} of the original, {came:.1%} of the release"
        box = (place * step + 0.5, _HIGH * (1 - was / most), step - 1, max(0.5, _HIGH * was / most))
        parts.append(_rect(box, "before", words))
    line = " ".join(
        f"{place * step:.1f},{_HIGH * (1 - came / most):.1f} "
        f"{(place + 1) * step:.1f},{_HIGH * (1 - came / most):.1f}"
        for place, came in enumerate(after)
    )
    parts.append(Markup('<polyline points="{}" class="after"/>').format(line))
    off = sum(abs(a - b) for a, b in zip(before, after, strict=True)) / 2
    words = f"{one['attribute']}: original and release differ in {off:.0%} of the records"
    return _svg(_WIDE, _HIGH, words, parts, "bars")


def heat_map(
    cells: Sequence[Mapping[str, Any]],
    key: str,
    *,
    title: str,
    names: Sequence[str],
    total: Sequence[Sequence[float]],
    logarithmic: bool = False,
) -> Markup:
    """A value over one parameter (across) or two; cells that are not computed yet stay empty."""
    across = sorted({pair[0] for pair in total})
    up = sorted({pair[1] for pair in total}, reverse=True) if len(names) > 1 else [None]
    known = {
        tuple(pair): cell[key]
        for pair, cell in zip(total, cells, strict=False)
        if cell[key] is not None
    }
    shade = _shades(list(known.values()), logarithmic)
    left, size, high = 52.0 if len(names) > 1 else 4.0, 62.0, 40.0
    parts = []
    for row, second in enumerate(up):
        if second is not None:
            label = f"{names[1]} {second:g}"
            parts.append(_text(left - 8, row * high + 25, label, "label end"))
        for column, first in enumerate(across):
            pair = (first,) if second is None else (first, second)
            words = ", ".join(f"{n} {v:g}" for n, v in zip(names, pair, strict=True))
            box = (left + column * size, row * high, size - 2, high - 2)
            value = known.get(pair)
            if value is None:
                parts.append(_rect(box, "waiting", f"{words}: not known yet"))
                continue
            level = shade(value)
            parts.append(_rect(box, f"h{level}", f"{words}: {title} {value:.3g}"))
            dark = "on-dark" if level > 3 else "on-light"
            parts.append(_text(box[0] + size / 2 - 1, box[1] + 25, f"{value:.2g}", f"cell {dark}"))
    for column, first in enumerate(across):
        middle = left + column * size + size / 2
        parts.append(_text(middle, len(up) * high + 16, f"{names[0]} {first:g}", "label middle"))
    what = f"{'pairs' if len(names) > 1 else 'values'} of {' and '.join(names)}"
    words = f"{title} for {len(known)} of {len(total)} {what}"
    return _svg(left + size * len(across), len(up) * high + 24, words, parts, "heat")


def _shades(values: Sequence[float], logarithmic: bool) -> Callable[[float], int]:
    def scale(value: float) -> float:
        return math.log(max(value, 1e-12)) if logarithmic else value

    low = min(map(scale, values), default=0.0)
    high = max(map(scale, values), default=1.0)
    if not logarithmic:
        low, high = min(low, 0.0), max(high, 0.2)
    width = (high - low) or 1.0
    return lambda value: min(SHADES - 1, int(SHADES * (scale(value) - low) / width))


def associations(names: Sequence[str], matrix: Sequence[Sequence[float]], what: str) -> Markup:
    """How every pair of attributes goes together, from -1 to 1."""
    size = 200.0 / max(1, len(names))
    parts = []
    for row, one in enumerate(names):
        for column, other in enumerate(names):
            value = matrix[row][column]
            level = min(3, int(abs(value) * 4))
            kind = f"{'n' if value < 0 else 'p'}{level}"
            box = (column * size, row * size, size - 0.4, size - 0.4)
            parts.append(_rect(box, kind, f"{one} and {other}: {value:.2f}"))
    return _svg(200, 200, f"Associations of {len(names)} attributes, {what}", parts, "square")


def attacks(measures: Sequence[Mapping[str, Any]]) -> Markup:
    """What each attacker achieves, with a stroke where chance is."""
    parts, high = [], 30.0
    for row, one in enumerate(measures):
        value = min(1.0, max(0.0, one["value"]))
        chance = min(1.0, max(0.0, one.get("baseline") or 0.0))
        words = f"{one['title']}: {value:.0%}, by chance {chance:.0%}"
        y = row * high
        parts.append(_text(0, y + 11, one["title"]))
        parts.append(_rect((0, y + 15, 300, 8), "empty", words))
        kind = "bad" if value > chance + 0.05 else "good"
        parts.append(_rect((0, y + 15, 300 * value, 8), kind, words))
        parts.append(_rect((300 * chance - 1, y + 13, 2, 12), "stroke", f"by chance {chance:.0%}"))
        parts.append(_text(306, y + 23, f"{value:.0%}"))
    listed = "; ".join(f"{one['title']} {max(0, one['value']):.0%}" for one in measures)
    return _svg(346, high * len(measures) + 2, f"What attackers achieve: {listed}", parts, "rows")


def budget(spent: Sequence[tuple[str, float]], limit: float | None) -> Markup:
    """What was spent over time as steps, under the limit as a line."""
    most = max([limit or 0.0, *(total for _, total in spent), 1e-9]) * 1.1
    step = 600.0 / (len(spent) + 1)
    points, parts = [f"0,{160 * (1 - (spent[0][1] if spent else 0) / most):.1f}"], []
    for place, (when, total) in enumerate(spent):
        y = 160 * (1 - total / most)
        points += [f"{place * step:.1f},{y:.1f}", f"{(place + 1) * step:.1f},{y:.1f}"]
        parts.append(
            _rect((place * step, y, step, max(1.0, 160 - y)), "area", f"{when}: {total:g}")
        )
    parts.append(Markup('<polyline points="{}" class="after"/>').format(" ".join(points)))
    if limit is not None:
        y = 160 * (1 - limit / most)
        parts.append(_rect((0, y - 1, 600, 2), "stroke", f"limit {limit:g}"))
        parts.append(_text(4, y - 5, f"limit {limit:g}"))
    last = spent[-1][1] if spent else 0.0
    of = "without a limit" if limit is None else f"of {limit:g}"
    return _svg(600, 164, f"Budget spent over time: {last:g} {of}", parts, "wide")
