"""From constraints to fragments: the smallest correct fragmentation, or a given one checked.

A fragmentation is correct when fragments are disjoint and none can be told to contain a
constraint; it is minimal when merging any two fragments breaks that (Section 2). With
dependencies, "contain" means the closure: what a fragment's attributes determine counts as
being in it, and no attribute may be told from two fragments, since it would link them.

``fragmentation_model`` finds the best one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sherd.errors import InfeasibleError, PlanError
from sherd.methods.fragmenting.fragmentation_model import (
    OBJECTIVES,
    Clause,
    Fragmentation,
    Fragments,
    Objective,
    solved,
    worth,
)
from sherd.methods.fragmenting.visibility import alternatives

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sherd.methods.fragmenting.constraints import Constraints

__all__ = ["OBJECTIVES", "Clause", "Fragmentation", "Objective", "find_minimal", "solved"]


def breaks(constraints: Constraints, fragments: Sequence[Sequence[str]]) -> str | None:
    """What is wrong with a fragmentation, in words, or None where it is correct."""
    seen: dict[str, int] = {}
    for at, fragment in enumerate(fragments, 1):
        for name in fragment:
            if name in seen:
                return f"the attribute '{name}' lies in fragments {seen[name]} and {at}"
            seen[name] = at
    told = [constraints.closure(fragment) for fragment in fragments]
    for at in range(1, len(told) + 1):
        wrong = _shown(constraints, told[at - 1], at)
        if wrong is not None:
            return wrong
        for other in range(at + 1, len(told) + 1):
            shared = told[at - 1] & told[other - 1]
            if shared:
                return f"'{min(shared)}' can be told from fragments {at} and {other}"
    for block in constraints.together:
        if len({seen.get(name) for name in block}) > 1:
            return f"the attributes {', '.join(block)} are to stay together, but do not"
    for formula in constraints.visible:
        wanted = alternatives(formula)
        if not any(one.issubset(fragment) for one in wanted for fragment in fragments):
            return f"no fragment shows '{formula}'"
    return None


def _shown(constraints: Constraints, told: frozenset[str], at: int) -> str | None:
    for name in constraints.withheld:
        if name in told:
            return f"fragment {at} shows '{name}', which is sensitive by itself"
    for constraint in constraints.separate:
        if told.issuperset(constraint):
            return f"fragment {at} shows the constraint {{{', '.join(constraint)}}}"
    return None


def is_minimal(constraints: Constraints, fragments: Sequence[Sequence[str]]) -> bool:
    """Whether merging any two fragments would break a constraint."""
    for i in range(len(fragments)):
        for j in range(i + 1, len(fragments)):
            merged = [list(f) for at, f in enumerate(fragments) if at not in (i, j)]
            if breaks(constraints, [*merged, [*fragments[i], *fragments[j]]]) is None:
                return False
    return True


def check_given(
    constraints: Constraints, fragments: Sequence[Sequence[str]], released: Sequence[str]
) -> Fragmentation:
    """The given fragmentation, or PlanError where it breaks a constraint.

    Attributes that no fragment holds are withheld.
    """
    for fragment in fragments:
        for name in fragment:
            if name not in released:
                raise PlanError(
                    f"a given fragment names '{name}', which is not a released attribute",
                    must="one of " + ", ".join(released),
                )
    if len(fragments) < 2 or not all(fragments):
        raise PlanError("the given fragmentation is too small", must="two fragments or more")
    wrong = breaks(constraints, fragments)
    if wrong is not None:
        raise PlanError(
            "the given fragmentation breaks the constraints",
            got=wrong,
            do="move an attribute, or leave the fragmentation to Sherd",
        )
    return Fragmentation(
        fragments=tuple(tuple(f) for f in fragments),
        withheld=_left(released, fragments),
        value=worth(constraints, fragments),
        proved=False,
        minimal=is_minimal(constraints, fragments),
    )


def find_minimal(
    constraints: Constraints,
    released: Sequence[str],
    *,
    objective: Objective = "fewest",
    time_limit: float = 10.0,
    least: int = 1,
) -> Fragmentation:
    """The best correct and minimal fragmentation of the released attributes.

    ``fewest`` finds the smallest number of fragments and, among those, the greatest
    affinity and workload; ``affinity`` and ``workload`` let up to two more fragments be
    used. The smallest number is always proved; what is improved within ``time_limit``
    seconds says whether it is. ``least`` fragments there must be.
    """
    withheld = constraints.withheld
    free = [name for name in released if name not in withheld]
    if len(free) < 2:
        raise InfeasibleError(
            "the constraints withhold every attribute or all but one", do="drop a constraint"
        )
    solution = None
    for count in range(least, len(free) + 1):
        solution = solved(constraints, free, count, "fewest", time_limit)
        if solution is not None and len(solution.fragments) >= least:
            break
    if solution is None:
        raise InfeasibleError(
            "the constraints contradict each other: no fragmentation fulfils them",
            do="look at 'together', 'visible' and 'dependencies', or let attributes be left out "
            "('optional')",
        )
    if objective != "fewest":
        more = solved(
            constraints, free, min(len(free), len(solution.fragments) + 2), objective, time_limit
        )
        solution = more or solution
    return Fragmentation(
        fragments=_merged(constraints, solution.fragments),
        withheld=_left(released, solution.fragments),
        value=solution.value,
        proved=solution.proved,
    )


def find_another(
    constraints: Constraints,
    released: Sequence[str],
    like: Fragmentation,
    clauses: Sequence[Clause],
    *,
    objective: Objective = "fewest",
    time_limit: float = 10.0,
) -> Fragmentation | None:
    """The best fragmentation with as many fragments that fulfils the clauses; None without one."""
    # in the same order, or clauses would speak of fragments by other numbers
    free = [name for name in released if name not in constraints.withheld]
    solution = solved(constraints, free, len(like.fragments), objective, time_limit, clauses)
    if solution is None or len(solution.fragments) < len(like.fragments):
        return None
    return replace(solution, withheld=_left(released, solution.fragments))


def _left(released: Sequence[str], fragments: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The attributes that no fragment holds."""
    held = {name for fragment in fragments for name in fragment}
    return tuple(name for name in released if name not in held)


def _merged(constraints: Constraints, fragments: Sequence[Sequence[str]]) -> Fragments:
    """Fragments that can be merged are: that never separates what was together."""
    parts = [list(f) for f in fragments if f]
    i = 0
    while i < len(parts):
        j = i + 1
        while j < len(parts):
            rest = [p for at, p in enumerate(parts) if at not in (i, j)]
            if breaks(constraints, [*rest, parts[i] + parts[j]]) is None:
                parts[i] += parts.pop(j)
            else:
                j += 1
        i += 1
    return tuple(tuple(part) for part in parts)
