"""The picture of the rooms, drawn from the layers that import-linter checks.

``python -m rooms_picture > docs/pictures/rooms.svg`` draws it again; a test says whether it is
up to date.
"""

from __future__ import annotations

import re
import sys
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
WIDTH, HEIGHT, GAP = 880, 34, 8
_COLOURS = ("#dbe7f3", "#e8f0dc", "#f6ead2", "#f2dede", "#e6e0f0")


def layers() -> list[list[str]]:
    """The rooms of every layer, from the top down."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return [re.findall(r"[\w.]+", layer) for layer in contract]


def purposes() -> dict[str, str]:
    """What each layer is for, as the table of the architecture page says."""
    page = ROOT / "docs" / "explanation" / "architecture.md"
    rows = re.findall(r"^\| (`sherd.+?`) \| (.+?) \|$", page.read_text("utf-8"), re.MULTILINE)
    return {name: text for names, text in rows for name in re.findall(r"`([\w.]+)`", names)}


def draw() -> str:
    """The picture as SVG: one bar a layer, imports go down only."""
    found, what = layers(), purposes()
    height = len(found) * (HEIGHT + GAP) + GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'font-family="sans-serif" font-size="13">',
        "<title>The rooms of Sherd from the top down; each imports those below it only</title>",
    ]
    for at, rooms in enumerate(found):
        top = GAP + at * (HEIGHT + GAP)
        colour = _COLOURS[at * len(_COLOURS) // len(found)]
        width = WIDTH - 2 * GAP
        lines.append(
            f'<rect x="{GAP}" y="{top}" width="{width}" height="{HEIGHT}" rx="5" fill="{colour}"/>'
        )
        names = ", ".join(room.removeprefix("sherd.") for room in rooms)
        base = top + HEIGHT / 2 + 5
        lines.append(f'<text x="{2 * GAP}" y="{base:g}" font-weight="bold">{escape(names)}</text>')
        if len(rooms) == 1:
            text = what.get(rooms[0], "")
            lines.append(f'<text x="250" y="{base:g}">{escape(text.replace("`", ""))}</text>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    sys.stdout.write(draw())
