"""Among the smallest fragmentations, one that can be made loose.

The fewest fragments can be had in many ways, and some leave an attribute with few values alone
on its side of a constraint: no grouping hides it then. So the owner's table is asked. Where a
part P of a constraint c is too frequent in fragment f, so is every part of c within P, and no
fragmentation may have one of those there: with a in P placed in f, another attribute of c must
join it. That is a clause for the solver, which then finds the next best; it ends with a
fragmentation that can be loose, or with the proof that there is none.

Which fragmentation is released then depends on the data: on how frequent values are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.methods.fragmenting.feasibility import check_feasible, excesses
from sherd.methods.fragmenting.fragmentation import find_another

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from sherd.methods.fragmenting.constraints import Constraints
    from sherd.methods.fragmenting.feasibility import Excess
    from sherd.methods.fragmenting.fragmentation import Clause, Fragmentation, Objective

ROUNDS = 400
"""How many fragmentations are asked about at most."""


def loose_ones(
    table: pa.Table,
    constraints: Constraints,
    released: Sequence[str],
    first: Fragmentation,
    sizes: Sequence[int],
    *,
    allowed: float,
    objective: Objective,
    time_limit: float,
) -> Iterator[tuple[Fragmentation, tuple[Excess, ...]]]:
    """Fragmentations like the first that frequencies do not rule out, the best first.

    Those that force no tuple out come before those that stay within the share ``allowed``. Raises
    InfeasibleError, before the first of them, where there is none.
    """
    best: tuple[Excess, ...] | None = None
    given = all_tried = False
    for share in dict.fromkeys((0.0, allowed)):
        clauses: list[Clause] = []
        found: Fragmentation | None = first
        for _ in range(ROUNDS):
            if found is None:
                break
            forced = excesses(table, constraints, found.fragments, sizes)
            over = [e for e in forced if e.forced > share * table.num_rows]
            if not over:
                given = True
                yield found, forced
                clauses.append(_not_again(found, constraints))
            elif best is None or forced[0].forced < best[0].forced:
                best = forced
            clauses += [clause for excess in over for clause in _not_there(excess, len(sizes))]
            found = find_another(
                constraints, released, found, clauses, objective=objective, time_limit=time_limit
            )
        all_tried = found is None
    if not given:
        assert best is not None, "the first fragmentation was ruled out"
        check_feasible(best, table.num_rows, allowed, all_tried=all_tried)


def _not_there(excess: Excess, count: int) -> Iterator[Clause]:
    """Of a part that is too frequent in a fragment, no attribute without further ones."""
    part, f = set(excess.attributes), excess.fragment
    joined = [(name, f, True) for name in sorted(excess.constraint - part)]
    elsewhere = [
        (name, g, True)
        for name in sorted(excess.constraint)
        for g in range(count)
        if excess.beside is not None and g not in (f, excess.beside)
    ]
    for name in sorted(part):
        yield ((name, f, False), *joined, *elsewhere)
    if excess.beside is not None and count == 2:  # the limit is the same on the other side
        across = [(name, 1 - f, True) for name in sorted(excess.constraint - part)]
        for name in sorted(part):
            yield ((name, 1 - f, False), *across)


def _not_again(found: Fragmentation, constraints: Constraints) -> Clause:
    """Not the same once more, be it with attributes elsewhere that no constraint names."""
    bound = {name for constraint in constraints.separate for name in constraint}
    return tuple(
        (name, f, False)
        for f, names in enumerate(found.fragments)
        for name in names
        if name in bound
    )
