"""The search for a fragmentation, as a constraint satisfaction problem.

x[a, f] says that attribute a lies in fragment f, y[a, f] that it can be told from f. Every
released attribute lies in exactly one fragment, or at most one where it may be left out; for every
constraint and fragment, not all of its attributes can be told; of every visibility constraint
one alternative lies in one fragment. The fewest attributes are left out, before anything else is
improved.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sherd.errors import InfeasibleError
from sherd.methods.fragmenting.visibility import alternatives

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


def worth(constraints: Constraints, fragments: Sequence[Sequence[str]]) -> float:
    """The weight of what is asked about together and lies in one fragment."""
    sets = [set(fragment) for fragment in fragments]
    asked = (*constraints.affinity, *constraints.workload)
    return sum(a.weight for a in asked if any(s.issuperset(a.attributes) for s in sets))


def solved(
    constraints: Constraints,
    free: list[str],
    count: int,
    objective: Objective,
    time_limit: float,
    clauses: Sequence[Clause] = (),
) -> Fragmentation | None:
    """The best fragmentation into at most ``count`` fragments; None where there is none."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    inside = _places(model, free, count, constraints.optional)
    _forbid(model, constraints, free, count, inside)
    _show(model, constraints, free, count, inside)
    for clause in clauses:
        placed = [inside[name, f] if there else ~inside[name, f] for name, f, there in clause]
        model.add_bool_or(placed)
    gains = _gains(model, constraints, objective, inside, free, count)
    shown = [inside[name, f] for name in constraints.optional if name in free for f in range(count)]
    heavy = 1 + sum(round(weight * 1000) for weight, _ in gains)
    if gains or shown:
        best = sum(round(weight * 1000) * held for weight, held in gains)
        model.maximize(best + heavy * sum(shown))
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
        value=worth(constraints, fragments),
        proved=status == cp_model.OPTIMAL,
    )


def _places(
    model: Any, free: list[str], count: int, optional: Sequence[str]
) -> dict[tuple[str, int], Any]:
    """x[a, f]: every attribute in one fragment, fragments opened in the order of attributes."""
    inside = {(a, f): model.new_bool_var(f"x{i}_{f}")
              for i, a in enumerate(free) for f in range(count)}  # fmt: skip
    for at, name in enumerate(free):
        once = model.add_at_most_one if name in optional else model.add_exactly_one
        once(inside[name, f] for f in range(count))
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


def _show(
    model: Any,
    constraints: Constraints,
    free: list[str],
    count: int,
    inside: dict[tuple[str, int], Any],
) -> None:
    """Of every visibility constraint one alternative lies in one fragment."""
    for at, formula in enumerate(constraints.visible):
        seen = []
        for number, wanted in enumerate(sorted(map(sorted, alternatives(formula)))):
            if any(name not in free for name in wanted):
                continue
            for f in range(count):
                held = model.new_bool_var(f"v{at}_{number}_{f}")
                for name in wanted:
                    model.add_implication(held, inside[name, f])
                seen.append(held)
        model.add_bool_or(seen)
