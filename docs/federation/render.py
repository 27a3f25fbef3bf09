"""Writes the pages that are drawn from the code: states and the collusion tables."""

from __future__ import annotations

from pathlib import Path

from sherd.federation.collusion import collusion_table
from sherd.protocols.states import OWNER, ROUND, OwnerState, RoundState, mermaid
from sherd.protocols.terms import Kind, Linkage, Terms

HERE = Path(__file__).parent


def states() -> str:
    """The page of the state diagrams."""
    return f"""# The states of a round

These diagrams are drawn from the transition tables in `sherd.protocols.states`; a test checks
that they are the same.

## A round, as the aggregator sees it

```mermaid
{mermaid(ROUND, RoundState.DRAFT)}```

## A round, as one owner sees it

```mermaid
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
