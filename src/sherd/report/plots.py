"""Plots by matplotlib, as inline SVG in the page's own colours.

Every colour is drawn as a placeholder that the page replaces by a CSS variable, so that one
picture serves light, dark and print. Text stays text: it can be read aloud, selected, found.

The names of points on a map are placed so that each can be read and told whose it is. All lengths
are in points. A name stands beside its point where there is room, otherwise at the
end of a leader line. It is laid over no other name, point, caption or leader, and its own leader
runs through none of them. Names are put down one after the other, each at the nearest free
place; where none is free, at the one with the fewest collisions, and then all are placed again
around those that are there, a few times over.
"""

from __future__ import annotations

import io
import itertools
import re
import warnings
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@dataclass(frozen=True, kw_only=True)
class Palette:
    """The colours a picture is drawn in."""

    ink: str
    muted: str
    before: str
    after: str
    bad: str
    good: str
    paper: str
    rule: str


LIGHT = Palette(
    ink="#1b1f24",
    muted="#57606a",
    before="#0b5394",
    after="#b45309",
    bad="#b42318",
    good="#1a7f37",
    paper="#ffffff",
    rule="#d0d7de",
)
"""What is printed."""

_NAMES = tuple(field.name for field in fields(Palette))
PLACEHOLDERS = Palette(**{name: f"#0101{i:02x}" for i, name in enumerate(_NAMES, 1)})
"""Colours that nobody would choose; the page puts its variables in their place."""


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A picture with its name, heading, alternative text and how it is drawn.

    ``more`` is what a page that folds it away calls it; nothing where it is shown. ``names`` are
    words in the picture that its title and alternative text do not hold.
    """

    name: str
    title: str
    alt: str
    draw: Callable[[Palette], Any]
    more: str = ""
    names: str = ""

    def svg(self) -> str:
        """The picture as inline SVG for the page."""
        import matplotlib as mpl

        out = io.StringIO()
        with mpl.rc_context(_settings(PLACEHOLDERS)), warnings.catch_warnings():
            # Text stays text, and a browser has fonts for letters that matplotlib's lacks.
            warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
            figure = self.draw(PLACEHOLDERS)
            figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
        return _inline(out.getvalue(), self.name)

    def save(self, target: Any) -> None:
        """The picture as a page of a PDF, or as an image file."""
        import matplotlib as mpl

        fonts, lacking = fonts_for(frozenset(self.title + self.alt + self.names))
        settings = {**_settings(LIGHT), "figure.facecolor": LIGHT.paper}
        settings["font.family"] = list(fonts)
        spelling = _LACKING.set(lacking)
        try:
            with mpl.rc_context(settings):
                figure = self.draw(LIGHT)
                figure.suptitle(self.title, fontsize=13, fontweight="bold", x=0.02, ha="left")
                target(figure)
        finally:
            _LACKING.reset(spelling)


def _settings(c: Palette) -> dict[Any, Any]:
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "sherd",
        "font.size": 10,
        "font.family": MAIN_FONT,
        "text.color": c.ink,
        "axes.edgecolor": c.rule,
        "axes.labelcolor": c.ink,
        "axes.facecolor": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": c.muted,
        "ytick.color": c.muted,
        "xtick.labelcolor": c.ink,
        "ytick.labelcolor": c.ink,
        "grid.color": c.rule,
        "figure.facecolor": "none",
        "legend.frameon": False,
    }


MAIN_FONT = "DejaVu Sans"


_LACKING: ContextVar[frozenset[str]] = ContextVar("_LACKING", default=frozenset())
"""Letters that no font has where a picture is being drawn."""


def spelt(text: str, lacking: frozenset[str] | None = None) -> str:
    """A text whose letters that no font has are written as their codes.

    >>> spelt("age 收", frozenset("收"))
    'age U+6536 '
    """
    for letter in _LACKING.get() if lacking is None else lacking:
        text = text.replace(letter, f"U+{ord(letter):04X} ")
    return text


@cache
def fonts_for(letters: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Fonts that have these letters between them, the main one first, and what none has.

    A page leaves that to the browser. For a PDF the machine's fonts are looked through, where the
    main one lacks a letter.
    """
    from matplotlib.font_manager import fontManager

    fonts, left = [], {letter for letter in letters if not letter.isspace()}
    for entry in sorted(fontManager.ttflist, key=lambda one: one.name != MAIN_FONT):
        if entry.name.startswith("Last Resort"):
            continue  # it has a box for every letter
        has = left & _letters_of(entry.fname)
        if has:
            fonts.append(entry.name)
            left = left - has
        if not left:
            break
    return tuple(dict.fromkeys([MAIN_FONT, *fonts])), frozenset(left)


@cache
def _letters_of(path: str) -> frozenset[str]:
    from matplotlib.font_manager import get_font

    return frozenset(chr(code) for code in get_font(path).get_charmap())


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    """A figure that belongs to no window, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _inline(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    svg = re.sub(r'(xlink:href|href)="#([^"]+)"', rf'\1="#{name}-\2"', svg)
    for variable in _NAMES:
        svg = svg.replace(getattr(PLACEHOLDERS, variable), f"var(--{variable})")
    # The figure's own words are read to those who cannot see it; its texts would be noise.
    head = f'<svg role="img" aria-labelledby="{name}-title" aria-describedby="{name}-alt"'
    svg = svg.replace("<svg", head, 1)
    svg = re.sub(r' width="[\d.]+pt" height="[\d.]+pt"', "", svg, count=1)
    return svg.strip()


LETTER, HEIGHT, MARKER, GAP = 6.4, 13.0, 6.0, 10.0
"""Width of a letter and height of a line of the map's type, half a marker, room beside it."""

_UP = tuple(float(up) for up in range(7, 120, 7))
_ROUNDS = 4
_ASIDE = (16.0, 32.0, 48.0, 64.0)

Line = tuple[tuple[float, float], tuple[float, float]]
"""From one end to the other."""


@dataclass(frozen=True, kw_only=True)
class Box:
    """A rectangle."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: Box) -> bool:
        """Whether two rectangles overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )

    def crossed(self, start: tuple[float, float], end: tuple[float, float]) -> bool:
        """Whether a straight line runs through the rectangle.

        >>> Box(left=0, bottom=0, right=2, top=2).crossed((-1, -1), (3, 3))
        True
        """
        enter, leave = 0.0, 1.0
        for at, to, low, high in (
            (start[0], end[0], self.left, self.right),
            (start[1], end[1], self.bottom, self.top),
        ):
            step = to - at
            if not step:
                if not low < at < high:
                    return False
                continue
            first, last = sorted(((low - at) / step, (high - at) / step))
            enter, leave = max(enter, first), min(leave, last)
        return enter < leave


@dataclass(frozen=True, kw_only=True)
class Spot:
    """Where a name goes: how far from its point, to which side, and the room it takes."""

    dx: float
    dy: float
    box: Box
    point: tuple[float, float]

    @property
    def leader(self) -> Line | None:
        """The line from the point to the name; none where the name stands beside the point."""
        if not self.dy:
            return None
        return self.point, (self.point[0] + self.dx, self.point[1] + self.dy)


def place_names(
    points: Sequence[tuple[float, float]],
    names: Sequence[str],
    *,
    frame: Box,
    captions: Sequence[Box] = (),
) -> list[Spot]:
    """A spot for the name of every point, the lowest points first."""
    markers = [_around(point) for point in points]
    order = sorted(range(len(points)), key=lambda i: (points[i][1], points[i][0]))
    placed: dict[int, Spot] = {}
    for _ in range(_ROUNDS):
        collided = 0
        for i in order:
            placed.pop(i, None)
            others = [box for j, box in enumerate(markers) if points[j] != points[i]]
            # A leader cannot keep clear of a marker that its own point lies right under.
            away = [
                box
                for (x, y), box in zip(points, markers, strict=True)
                if max(abs(x - points[i][0]), abs(y - points[i][1])) > MARKER / 2
            ]
            spots = _spots(points[i], len(names[i]), frame)
            placed[i], hits = _freest(spots, captions, others, away, list(placed.values()))
            collided += hits
        if not collided:
            break
    return [placed[i] for i in range(len(points))]


def _freest(
    spots: Iterator[Spot],
    captions: Sequence[Box],
    others: Sequence[Box],
    away: Sequence[Box],
    placed: Sequence[Spot],
) -> tuple[Spot, int]:
    """The first spot that collides with nothing, or least; and how badly it does."""
    words = [*captions, *(spot.box for spot in placed)]
    leaders = [spot.leader for spot in placed if spot.leader is not None]
    tried: list[tuple[int, Spot]] = []
    for spot in spots:
        # Words over words cannot be read: worse than anything a line crosses.
        hits = 10 * sum(spot.box.meets(box) for box in words)
        hits += 3 * sum(spot.box.meets(box) for box in others)
        hits += 5 * sum(spot.box.crossed(*line) for line in leaders)
        if spot.leader is not None:
            hits += 5 * sum(box.crossed(*spot.leader) for box in words)
            hits += 3 * sum(_cross(spot.leader, line) for line in leaders)
            hits += sum(box.crossed(*spot.leader) for box in away)
        tried.append((hits, spot))
        if not hits:
            break
    least, best = min(tried, key=lambda one: one[0])
    return best, least


def _cross(one: Line, other: Line) -> bool:
    """Whether two straight lines cross each other."""
    (ax, ay), (bx, by) = one
    (cx, cy), (dx, dy) = other

    def turn(x: float, y: float, *, of: Line) -> float:
        (px, py), (qx, qy) = of
        return (qx - px) * (y - py) - (qy - py) * (x - px)

    return (
        turn(ax, ay, of=other) * turn(bx, by, of=other) < 0
        and turn(cx, cy, of=one) * turn(dx, dy, of=one) < 0
    )


def _around(point: tuple[float, float]) -> Box:
    x, y = point
    return Box(left=x - MARKER, bottom=y - MARKER, right=x + MARKER, top=y + MARKER)


def _spots(point: tuple[float, float], letters: int, frame: Box) -> Iterator[Spot]:
    """Spots for a name, the nearest first: beside the point, then farther up and down.

    The side with more room comes first. A spot that leaves the frame is none, but for the
    first, which is there in any case.
    """
    middle = (frame.left + frame.right) / 2
    sides = (-1, 1) if point[0] > middle else (1, -1)
    beside = [_spot(point, letters, side, GAP, 0.0) for side in sides]
    yield from (spot for spot in beside if spot is beside[0] or _inside(spot.box, frame))
    farther = sorted(itertools.product(_UP, _ASIDE), key=lambda way: way[0] + way[1])
    for (up, aside), turn, side in itertools.product(farther, (1, -1), sides):
        spot = _spot(point, letters, side, aside, turn * up)
        if _inside(spot.box, frame):
            yield spot


def _inside(box: Box, frame: Box) -> bool:
    return (
        frame.left <= box.left
        and box.right <= frame.right
        and frame.bottom <= box.bottom
        and box.top <= frame.top
    )


def _spot(point: tuple[float, float], letters: int, side: int, aside: float, up: float) -> Spot:
    x, y = point[0] + side * aside, point[1] + up
    far = x + side * letters * LETTER
    box = Box(left=min(x, far), right=max(x, far), bottom=y - HEIGHT / 2, top=y + HEIGHT / 2)
    return Spot(dx=side * aside, dy=up, box=box, point=point)
