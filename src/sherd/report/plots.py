"""Plots by matplotlib, as inline SVG in the page's own colours.

Every colour is drawn as a placeholder that the page replaces by a CSS variable, so that one
picture serves light, dark and print. Text stays text: it can be read aloud, selected, found.
"""

from __future__ import annotations

import io
import re
import warnings
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


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

    found, left = [], {letter for letter in letters if not letter.isspace()}
    for entry in sorted(fontManager.ttflist, key=lambda one: one.name != MAIN_FONT):
        if entry.name.startswith("Last Resort"):
            continue  # it has a box for every letter
        has = left & _letters_of(entry.fname)
        if has:
            found.append(entry.name)
            left = left - has
        if not left:
            break
    return tuple(dict.fromkeys([MAIN_FONT, *found])), frozenset(left)


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
