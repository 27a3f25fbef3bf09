"""Whether a looseness can be had at all, before any work.

A group holds a combination of a constraint's values at most once, and a group of fragment j
may be associated with it only once. So among n tuples a combination of the values of
c ∩ F_i can occur at most n/k_i times, and at most n/(k_i·k_j) times where c lies in F_i and
F_j alone. What occurs more often must be left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sherd.errors import InfeasibleError, PlanError
from sherd.release.method import Finding
from sherd.tables.prepare import warned

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from sherd.methods.fragmenting.association import Association
    from sherd.methods.fragmenting.constraints import Constraints


def group_sizes(looseness: int, fragments: int) -> tuple[int, ...]:
    """Group sizes with every pair's product at least the looseness, as even as can be.

    >>> group_sizes(12, 3), group_sizes(12, 2), group_sizes(16, 2), group_sizes(4, 4)
    ((3, 4, 4), (4, 3), (4, 4), (2, 2, 2, 2))
    """
    large = math.isqrt(looseness - 1) + 1 if looseness > 1 else 1
    small = -(-looseness // large)
    return (large, small) if fragments == 2 else (small, *[large] * (fragments - 1))


def check_sizes(sizes: Sequence[int], looseness: int, fragments: int) -> None:
    """Raise where given group sizes do not reach the looseness."""
    if len(sizes) != fragments:
        raise PlanError(
            "the number of group sizes is wrong",
            must=f"one for each of the {fragments} fragments",
            got=str(len(sizes)),
        )
    if any(isinstance(k, bool) or not isinstance(k, int) or k < 1 for k in sizes):
        raise PlanError("a group size is out of range", must="whole numbers from 1")
    least, second = sorted(sizes)[:2]
    if least * second < looseness:
        raise PlanError(
            "the group sizes do not reach the looseness",
            must=f"such that any two multiply to {looseness} or more",
            got=f"{least} × {second} = {least * second}",
            do="use " + ", ".join(map(str, group_sizes(looseness, fragments))),
        )


@dataclass(frozen=True, kw_only=True)
class Excess:
    """A part of a constraint whose most frequent values force tuples to be left out.

    ``beside`` is the fragment that holds the rest of the constraint, None where several do.
    """

    attributes: tuple[str, ...]
    constraint: frozenset[str]
    fragment: int
    beside: int | None
    limit: int
    largest: int
    forced: int


def forced_suppression(counts: np.ndarray, limit: int) -> int:
    """The fewest tuples to leave out so that no value has more than 1/limit of the rest.

    >>> forced_suppression(np.array([5, 1, 1, 1]), 4), forced_suppression(np.array([2, 2]), 2)
    (4, 0)
    """
    total = kept = int(counts.sum())
    while True:
        left = int(np.minimum(counts, kept // limit).sum())
        if left == kept:
            return total - kept
        kept = left


def relevant(constraints: Constraints, fragments: Sequence[Sequence[str]]) -> list[frozenset[str]]:
    """The constraints all of whose attributes are released (Definition 4.1)."""
    held = {name for fragment in fragments for name in fragment}
    return [frozenset(c) for c in constraints.separate if held.issuperset(c)]


def excesses(
    table: pa.Table,
    constraints: Constraints,
    fragments: Sequence[Sequence[str]],
    sizes: Sequence[int],
) -> tuple[Excess, ...]:
    """Every part of a constraint that forces tuples to be left out, the worst first."""
    from sherd.methods.fragmenting.tuple_codes import combined

    limits: dict[tuple[int, tuple[str, ...]], tuple[int, frozenset[str], int | None]] = {}
    for constraint in relevant(constraints, fragments):
        held = [f for f, names in enumerate(fragments) if constraint.intersection(names)]
        for f in held:
            part = tuple(name for name in fragments[f] if name in constraint)
            limit, beside = sizes[f], None
            if len(held) == 2:
                beside = held[0] if held[1] == f else held[1]
                limit *= sizes[beside]
            if limit > limits.get((f, part), (1, None, None))[0]:
                limits[f, part] = limit, constraint, beside
    excess = []
    for (f, part), (limit, constraint, beside) in limits.items():
        counts = np.bincount(combined(table, part))
        forced = forced_suppression(counts, limit)
        if forced:
            excess.append(
                Excess(
                    attributes=part,
                    constraint=constraint,
                    fragment=f,
                    beside=beside,
                    limit=limit,
                    largest=int(counts.max()),
                    forced=forced,
                )
            )
    return tuple(sorted(excess, key=lambda e: -e.forced))


def check_feasible(
    excesses: Sequence[Excess], rows: int, allowed: float, *, all_tried: bool
) -> None:
    """Raise where more tuples would have to be left out than is allowed.

    ``all_tried`` says that no other fragmentation with as many fragments does better.
    """
    worst = max(excesses, key=lambda e: e.forced, default=None)
    if worst is not None and worst.forced > allowed * rows:
        named = ", ".join(sorted(worst.constraint))
        raise InfeasibleError(
            "the looseness cannot be reached: some values of "
            f"{', '.join(worst.attributes)} are too frequent, and the constraint {{{named}}} hides "
            "with what they go"
            + (", as it does in every fragmentation with as many fragments" if all_tried else ""),
            must=f"at most 1/{worst.limit} of the tuples each",
            got="more than may be left out ('suppress')",
            do="lower the looseness, coarsen these attributes, withhold one, or raise 'suppress'",
        )


def findings_of(made: Association, forced: tuple[Excess, ...], rows: int) -> tuple[Finding, ...]:
    """What placing the tuples cost, for the owner's eyes only."""
    findings = [
        Finding(
            name="suppressed",
            value=made.suppressed,
            meaning=warned(
                f"tuples left out of {rows}, since no group could take them",
                made.suppressed / rows,
            ),
        ),
        Finding(
            name="first unplaced",
            value=made.unplaced,
            meaning="tuples no group would take in the first two passes",
        ),
        Finding(
            name="dissolved",
            value=made.dissolved,
            meaning="tuples taken out of groups that stayed too small",
        ),
    ]
    findings += [
        Finding(
            name="too frequent",
            value=excess.forced,
            attribute=", ".join(excess.attributes),
            meaning=f"tuples that had to be left out: a combination occurs {excess.largest} "
            f"times, more than 1/{excess.limit} of the tuples",
        )
        for excess in forced
    ]
    return tuple(findings)
