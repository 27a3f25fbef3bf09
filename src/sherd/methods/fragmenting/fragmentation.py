"""From constraints to fragments: the smallest correct fragmentation, or a given one checked.

A fragmentation is correct when fragments are disjoint and none can be told to contain a
constraint; it is minimal when merging any two fragments breaks that (Section 2). With
dependencies, "contain" means the closure: what a fragment's attributes determine counts as
being in it, and no attribute may be told from two fragments, since it would link them.

Finding one is a constraint satisfaction problem: x[a, f] says that attribute a lies in
fragment f, y[a, f] that it can be told from f. Every released attribute lies in exactly
one fragment; for every constraint and fragment, not all of its attributes can be told.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from sherd.errors import InfeasibleError, PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sherd.methods.fragmenting.constraints import Constraints

Fragments = tuple[tuple[str, ...], ...]
Clause = tuple[tuple[str, int, bool], ...]
"""Placements (attribute, fragment, whether it lies there) of which at least one must hold."""
Objective = Literal["fewest", "affinity", "workload"]
OBJECTIVES: tuple[Objective, ...] = ("fewest", "affinity", "workload")


@dataclass(frozen=True, kw_only=True)
class Fragmentation:
    """Fragments, what is withheld, and whether the objective is proved to be the best.

    ``minimal`` says that no two fragments could be merged.
    """

    fragments: Fragments
    withheld: tuple[str, ...] = ()
    value: float = 0.0
    proved: bool = True
    minimal: bool = True


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
    held = {name for fragment in fragments for name in fragment}
    return Fragmentation(
        fragments=tuple(tuple(f) for f in fragments),
        withheld=tuple(name for name in released if name not in held),
        value=_worth(constraints, fragments),
        proved=False,
        minimal=is_minimal(constraints, fragments),
    )


def find_minimal(
    constraints: Constraints,
    released: Sequence[str],
    *,
    objective: Objective = "fewest",
    time_limit: float = 10.0,
) -> Fragmentation:
    """The best correct and minimal fragmentation of the released attributes.

    ``fewest`` finds the smallest number of fragments and, among those, the greatest
    affinity and workload; ``affinity`` and ``workload`` let up to two more fragments be
    used. The smallest number is always proved; what is improved within ``time_limit``
    seconds says whether it is.
    """
    withheld = constraints.withheld
    free = [name for name in released if name not in withheld]
    if len(free) < 2:
        raise InfeasibleError(
            "the constraints withhold every attribute or all but one", do="drop a constraint"
        )
    found = None
    for count in range(1, len(free) + 1):
        found = _solve(constraints, free, count, "fewest", time_limit)
        if found is not None:
            break
    if found is None:
        raise InfeasibleError(
            "the constraints contradict each other: no fragmentation fulfils them",
            do="look at 'together' and 'dependencies', or withhold one more attribute",
        )
    if objective != "fewest":
        more = _solve(
            constraints, free, min(len(free), len(found.fragments) + 2), objective, time_limit
        )
        found = more or found
    return Fragmentation(
        fragments=_merged(constraints, found.fragments),
        withheld=tuple(name for name in released if name in withheld),
        value=found.value,
        proved=found.proved,
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
    free = [name for name in released if name not in like.withheld]
    found = _solve(constraints, free, len(like.fragments), objective, time_limit, clauses)
    if found is None or len(found.fragments) < len(like.fragments):
        return None
    return replace(found, withheld=like.withheld)


def _worth(constraints: Constraints, fragments: Sequence[Sequence[str]]) -> float:
    sets = [set(fragment) for fragment in fragments]
    asked = (*constraints.affinity, *constraints.workload)
    return sum(a.weight for a in asked if any(s.issuperset(a.attributes) for s in sets))


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


def _solve(
    constraints: Constraints,
    free: list[str],
    count: int,
    objective: Objective,
    time_limit: float,
    clauses: Sequence[Clause] = (),
) -> Fragmentation | None:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    inside = _places(model, free, count)
    _forbid(model, constraints, free, count, inside)
    for clause in clauses:
        placed = [inside[name, f] if there else ~inside[name, f] for name, f, there in clause]
        model.add_bool_or(placed)
    gains = _gains(model, constraints, objective, inside, free, count)
    if gains:
        model.maximize(sum(round(weight * 1000) * held for weight, held in gains))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_limit
    solver.parameters.random_seed = 0
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        if status == cp_model.INFEASIBLE:
            return None
        raise InfeasibleError(
            "no fragmentation was found in the time allowed",
            got=f"{time_limit:g} seconds",
            do="raise time_limit, or give a fragmentation",
        )
    fragments = tuple(
        tuple(a for a in free if solver.boolean_value(inside[a, f])) for f in range(count)
    )
    return Fragmentation(
        fragments=tuple(f for f in fragments if f),
        value=_worth(constraints, fragments),
        proved=status == cp_model.OPTIMAL,
    )


def _places(model: Any, free: list[str], count: int) -> dict[tuple[str, int], Any]:
    """x[a, f]: every attribute in one fragment, fragments opened in the order of attributes."""
    inside = {(a, f): model.new_bool_var(f"x{i}_{f}")
              for i, a in enumerate(free) for f in range(count)}  # fmt: skip
    for at, name in enumerate(free):
        model.add_exactly_one(inside[name, f] for f in range(count))
        for f in range(1, count):
            if f > at:
                model.add(inside[name, f] == 0)
            else:
                model.add_bool_or(
                    [inside[name, f].negated(), *(inside[free[b], f - 1] for b in range(at))]
                )
    return inside


def _forbid(
    model: Any,
    constraints: Constraints,
    free: list[str],
    count: int,
    inside: dict[tuple[str, int], Any],
) -> None:
    """y[a, f]: what can be told from a fragment, and what may not be."""
    every = [*free, *(n for n in constraints.attributes if n not in free)]
    told = {(a, f): model.new_bool_var(f"y{i}_{f}")
            for i, a in enumerate(every) for f in range(count)}  # fmt: skip
    for name in every:
        model.add_at_most_one(told[name, f] for f in range(count))
    for f in range(count):
        for name in free:
            model.add_implication(inside[name, f], told[name, f])
        for name in constraints.withheld:
            model.add(told[name, f] == 0)
        for constraint in constraints.separate:
            model.add_bool_or([told[a, f].negated() for a in constraint])
        for rule in constraints.dependencies:
            for name in rule.follows:
                model.add_bool_or([*(told[a, f].negated() for a in rule.determines), told[name, f]])
        for block in constraints.together:
            for a, b in itertools.pairwise(a for a in block if a in free):
                model.add(inside[a, f] == inside[b, f])


def _gains(
    model: Any,
    constraints: Constraints,
    objective: Objective,
    inside: dict[tuple[str, int], Any],
    free: list[str],
    count: int,
) -> list[tuple[float, Any]]:
    """What is gained where all attributes asked about together lie in one fragment."""
    asked = {
        "fewest": (*constraints.affinity, *constraints.workload),
        "affinity": constraints.affinity,
        "workload": constraints.workload,
    }[objective]
    gains = []
    for at, one in enumerate(asked):
        if not one.attributes or any(a not in free for a in one.attributes):
            continue
        for f in range(count):
            held = model.new_bool_var(f"q{at}_{f}")
            for a in one.attributes:
                model.add_implication(held, inside[a, f])
            gains.append((one.weight, held))
    return gains
