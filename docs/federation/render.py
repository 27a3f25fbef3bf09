"""Writes the pages that are drawn from the code: states and the collusion tables."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from sherd.federation.collusion import collusion_table
from sherd.protocols.states import OWNER, ROUND, OwnerState, RoundState, mermaid
from sherd.protocols.terms import Kind, Linkage, Terms

HERE = Path(__file__).parent


def diagram(table: Any, states: Any) -> str:
    """A transition table as a picture: the way through on the left, the other ends beside it."""
    order = list(states)
    leaving = {state for state, _ in table}
    forward = [(a, e, b) for (a, e), b in table.items() if b in leaving or b is _goal(table, order)]
    goal = _goal(table, order)
    main = [state for state in order if state in leaving or state is goal]
    ends = [state for state in order if state not in main]
    step, width, left, right = 64, 170, 20, 560
    top = {state: 20 + i * step for i, state in enumerate(main)}
    height = 20 + len(main) * step
    for i, end in enumerate(ends):
        top[end] = 60 + i * (height - 120) // max(1, len(ends) - 1)
    parts = [
        f'<svg viewBox="0 0 760 {height}" role="img" aria-label="States and transitions" '
        'style="max-width: 46rem; width: 100%; font: 13px sans-serif" fill="currentColor" '
        'stroke="none" xmlns="http://www.w3.org/2000/svg">'
    ]
    for (a, _), b in table.items():
        if b in ends:
            x, y = left + width, top[a] + 16
            parts.append(
                f'<path d="M{x} {y} C {x + 160} {y}, {right - 160} {top[b] + 16}, {right} '
                f'{top[b] + 16}" fill="none" stroke="currentColor" stroke-opacity=".3"/>'
            )
    for a, event, b in forward:
        skip = main.index(b) - main.index(a) > 1
        x = left + (8 if skip else 60)
        y1, y2 = top[a] + 32, top[b]
        bend = (
            f"C {left - 22} {y1 + 20}, {left - 22} {y2 - 20}, {x} {y2}" if skip else f"L {x} {y2}"
        )
        parts.append(f'<path d="M{x} {y1} {bend}" fill="none" stroke="currentColor"/>')
        parts.append(f'<path d="M{x - 4} {y2 - 8} L {x} {y2} L {x + 4} {y2 - 8} Z"/>')
        if not skip:
            parts.append(f'<text x="{x + 10}" y="{(y1 + y2) // 2 + 5}">{html.escape(event)}</text>')
    for state in order:
        x = right if state in ends else left
        parts.append(
            f'<rect x="{x}" y="{top[state]}" width="{width}" height="32" rx="6" fill="none" '
            f'stroke="currentColor"/><text x="{x + 10}" y="{top[state] + 21}">{state.name}</text>'
        )
        if state in ends:
            events = sorted({e for (_, e), b in table.items() if b is state})
            parts.append(
                f'<text x="{x}" y="{top[state] + 50}">{html.escape(", ".join(events))}</text>'
            )
    return "\n".join([*parts, "</svg>"])


def _goal(table: Any, order: Any) -> Any:
    """The end of the way through: the end that only one state leads to."""
    ends = [state for state in order if state not in {a for a, _ in table}]
    return next(e for e in ends if sum(b is e for b in table.values()) == 1)


def picture(table: Any, states: Any) -> str:
    """The diagram as a block of a page."""
    return f"```{{raw}} html\n{diagram(table, states)}\n```"


def states() -> str:
    """The page of the state diagrams."""
    return f"""# The states of a round

These diagrams are drawn from the transition tables in `sherd.protocols.states`; a test checks
that they are the same.

## A round, as the aggregator sees it

{picture(ROUND, RoundState)}

The same as text (Mermaid):

```text
{mermaid(ROUND, RoundState.DRAFT)}```

## A round, as one owner sees it

{picture(OWNER, OwnerState)}

The same as text (Mermaid):

```text
{mermaid(OWNER, OwnerState.INVITED)}```

What an owner was charged for cannot be refused any more: from `PROTECTED` on it sends the same
bytes again until the aggregator has them or the round is over.
"""


def parties() -> str:
    """The page of the collusion tables."""
    parts = [
        "# What each party sees\n",
        "Beyond the release itself, which everybody sees. The same table is in every joint",
        "manifest, under `joint.learns_beyond_the_release`; this page is written from the same",
        "code.\n",
    ]
    for title, kind, linkage in (
        ("Horizontal, people assumed to be disjoint", Kind.HORIZONTAL, Linkage.NONE),
        ("Horizontal, disjointness tested by OPRF", Kind.HORIZONTAL, Linkage.OPRF),
        ("Vertical, linked by OPRF", Kind.VERTICAL, Linkage.OPRF),
        ("Vertical, linked by HMAC (low assurance)", Kind.VERTICAL, Linkage.HMAC),
    ):
        terms = Terms(
            round="r",
            aggregator="a",
            kind=kind,
            owners=("x", "y"),
            method="dp",
            epsilon="1",
            linkage=linkage,
            deadline=1,
        )
        parts.append(f"## {title}\n")
        for who, lines in collusion_table(terms).items():
            parts.append(f"{who}\n: " + "; ".join(lines) + ".\n")
    return "\n".join(parts)


PAGES = {"states.md": states, "what-each-party-sees.md": parties}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
