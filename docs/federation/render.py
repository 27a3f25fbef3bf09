"""Writes the pages that are drawn from the code: states and the collusion tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sherd.federation.protocol.collusion import collusion_table
from sherd.federation.protocol.joint_plan import Kind, Linkage, Terms
from sherd.federation.protocol.states import (
    OWNER,
    OWNER_ENDS,
    ROUND,
    ROUND_ENDS,
    OwnerState,
    RoundState,
    mermaid,
)

HERE = Path(__file__).parent


def svg(table: Any, start: Any, ends: Any) -> str:
    """A transition table as a picture: the way forward down, the early ends to the right."""
    forward = [start]
    for state in forward:
        for (before, event), after in table.items():
            if before is state and after not in forward and event.name not in EARLY:
                forward.append(after)
    forward.sort(key=list(type(start)).index)
    early = [state for state in type(start) if state not in forward]
    high = 70 * len(forward) + 20
    place = {state: (200, 30 + 70 * row) for row, state in enumerate(forward)}
    gap = high // (len(early) + 1)
    place |= {state: (600, gap * (row + 1)) for row, state in enumerate(early)}
    lines, boxes = [], []
    for (before, event), after in table.items():
        (x, y), (to_x, to_y) = place[before], place[after]
        if after in early:
            lines.append(f'<path class="early" d="M{x + 80} {y} L{to_x - 80} {to_y}"/>')
        elif to_y - y == 70:
            lines.append(f'<path d="M{x} {y + 18} L{to_x} {to_y - 20}" marker-end="url(#tip)"/>')
            lines.append(f'<text x="{x + 8}" y="{y + 38}">{event.value}</text>')
        else:
            middle = (y + to_y) // 2
            lines.append(
                f'<path d="M{x - 80} {y} C70 {y} 70 {to_y} {to_x - 82} {to_y}" '
                'marker-end="url(#tip)"/>'
            )
            lines.append(f'<text x="2" y="{middle}">{event.value}</text>')
    for state, (x, y) in place.items():
        kind = "end" if state in ends else "state"
        boxes.append(f'<rect class="{kind}" x="{x - 80}" y="{y - 18}" width="160" height="36"/>')
        boxes.append(f'<text class="name" x="{x}" y="{y + 4}">{state.name}</text>')
        reasons = dict.fromkeys(e.value for (_, e), after in table.items() if after is state)
        if state in early:
            boxes.append(f'<text class="why" x="{x}" y="{y + 34}">{"; ".join(reasons)}</text>')
    return "\n".join([HEAD.format(width=720, height=high + 20), *lines, *boxes, "</svg>", ""])


EARLY = ("FAILED", "DEADLINE", "REFUSED", "ABORTED")
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<style>
path {{ fill: none; stroke: #555; }} path.early {{ stroke: #bbb; stroke-dasharray: 3 3; }}
rect {{ fill: #eef3fa; stroke: #456; rx: 6px; }} rect.end {{ fill: #f6eee6; }}
text {{ font: 11px sans-serif; fill: #333; }} text.name {{ text-anchor: middle; font-size: 12px; }}
text.why {{ text-anchor: middle; font-size: 10px; }}
</style>
<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">
<path d="M0 0 L6 3 L0 6 z" style="fill: #555"/></marker></defs>
<rect x="0" y="0" width="{width}" height="{height}" style="fill: white; stroke: none"/>"""


def round_svg() -> str:
    """The picture of a round."""
    return svg(ROUND, RoundState.DRAFT, ROUND_ENDS)


def owner_svg() -> str:
    """The picture of an owner."""
    return svg(OWNER, OwnerState.INVITED, OWNER_ENDS)


def states() -> str:
    """The page of the state diagrams."""
    return f"""# The states of a round

These diagrams are drawn from the transition tables in `sherd.federation.protocol.states`;
a test checks that they are the same.

## A round, as the aggregator sees it

![States of a round](states-round.svg)

## A round, as one owner sees it

![States of an owner in a round](states-owner.svg)

An owner cannot refuse a plan once it was charged for it: from `PROTECTED` on it sends the same
bytes again until the aggregator has them or the round is over.

## As text

In the notation of Mermaid:

```text
{mermaid(ROUND, RoundState.DRAFT)}```

```text
{mermaid(OWNER, OwnerState.INVITED)}```
"""


def parties() -> str:
    """The page of the collusion tables."""
    parts = [
        "# What each party sees\n",
        "This page lists what each party of a joint release learns beyond the release itself,",
        "which everybody sees. Every joint manifest holds the same list, under",
        "`joint.learns_beyond_the_release`; both are written by the same code.\n",
    ]
    for title, method, kind, linkage in (
        ("Horizontal, people assumed to be disjoint", "dp", Kind.HORIZONTAL, Linkage.NONE),
        ("Horizontal, disjointness tested by OPRF", "dp", Kind.HORIZONTAL, Linkage.OPRF),
        ("Horizontal, sums of noisy counts alone", "dp-graph", Kind.HORIZONTAL, Linkage.NONE),
        ("Vertical, linked by OPRF", "dp", Kind.VERTICAL, Linkage.OPRF),
        ("Vertical, linked by HMAC (low assurance)", "dp", Kind.VERTICAL, Linkage.HMAC),
        ("Blocks, linked by OPRF", "dp", Kind.BLOCKS, Linkage.OPRF),
    ):
        terms = Terms(
            round="r",
            aggregator="a",
            kind=kind,
            owners=("x", "y"),
            method=method,
            epsilon="1",
            linkage=linkage,
            deadline=1,
        )
        parts.append(f"## {title}\n")
        for who, lines in collusion_table(terms).items():
            parts.append(f"{who}\n: " + "; ".join(lines) + ".\n")
    return "\n".join(parts)


PAGES = {
    "states.md": states,
    "states-round.svg": round_svg,
    "states-owner.svg": owner_svg,
    "what-each-party-sees.md": parties,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
