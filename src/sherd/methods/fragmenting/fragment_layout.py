"""The fragmentation that a plan of ``fragment`` leads to, known before any data is read."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sherd.errors import PlanError, SchemaError
from sherd.methods.fragmenting.constraints import Constraints
from sherd.methods.fragmenting.feasibility import check_sizes, group_sizes
from sherd.methods.fragmenting.fragmentation import check_given, find_minimal
from sherd.methods.fragmenting.next_release_plan import check_following
from sherd.methods.fragmenting.released_tables import GROUP
from sherd.methods.fragmenting.sealed_cells import MOST_BYTES, SEALED

if TYPE_CHECKING:
    from sherd.methods.fragmenting.fragmentation import Fragmentation, Objective
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema


def given_constraints(plan: Plan) -> Constraints:
    """The constraints as the plan gives them."""
    return Constraints.from_data(_plain(plan["constraints"]))


def planned_constraints(plan: Plan) -> Constraints:
    """The constraints of a plan, with the dependencies that count at its looseness."""
    return given_constraints(plan).believed(plan["looseness"])


def layout(plan: Plan, schema: Schema) -> Fragmentation:
    """The fragmentation a plan leads to under a schema, checked."""
    constraints = planned_constraints(plan)
    given_constraints(plan).check(schema.attributes)
    check_following(plan)
    released = schema.released
    for name in plan["similar"] or ():
        schema[name]  # raises where the schema lacks it
    if plan["suppress"] > 1:
        raise PlanError(
            "the 'suppress' parameter is not valid",
            must="a share from 0 to 1",
            got=repr(plan["suppress"]),
        )
    for name in released:
        if re.fullmatch(f"({GROUP}|{SEALED})[0-9]+", name):
            raise SchemaError(
                f"the attribute '{name}' is called like a column of groups or ciphertext",
                do="rename it",
            )
    if plan["fragments"] is not None:
        given = _lists(plan["fragments"], "fragments", str)
        fragmentation = check_given(constraints, given, released)
    else:
        fragmentation = _solved(constraints, released, plan["objective"], plan["time_limit"])
    if len(fragmentation.fragments) < 2:
        raise PlanError(
            "the constraints need no fragmentation: one fragment fulfils them",
            do="release the table without the withheld attributes, or add constraints",
        )
    _check_sealing(plan, fragmentation)
    count = len(fragmentation.fragments)
    _check_associations(plan, count)
    sizes = planned_sizes(plan, count)
    if len(sizes) != count:
        check_sizes(sizes, plan["looseness"], count)
    for chosen in associated_sets(plan, count):
        check_sizes([sizes[f - 1] for f in chosen], plan["looseness"], len(chosen))
    for chosen in _lists(plan["projections"] or (), "projections", int):
        if len(set(chosen)) < 2 or not set(chosen) <= set(range(1, count + 1)):
            raise PlanError(
                "a projection is not valid",
                must=f"two or more of the fragments 1 to {count}",
                got=repr(list(chosen)),
            )
    return fragmentation


def _check_sealing(plan: Plan, fragmentation: Fragmentation) -> None:
    if plan["cell_bytes"] > MOST_BYTES:
        raise PlanError(
            "the 'cell_bytes' parameter is not valid",
            must=f"at most {MOST_BYTES}",
            got=str(plan["cell_bytes"]),
        )
    if plan["withheld"] == "ciphertext" and not fragmentation.withheld:
        raise PlanError(
            "there is nothing to release as ciphertext: every attribute lies in a fragment",
            must="a constraint of a single attribute, which withholds it",
            do="leave out the parameter 'withheld'",
        )


@lru_cache(maxsize=16)
def _solved(
    constraints: Constraints, released: tuple[str, ...], objective: Objective, time_limit: float
) -> Fragmentation:
    """The fragmentation of these attributes, solved once for ``check``, ``guarantee`` and ``run``.

    Under a limit of time two searches could end differently; the promise speaks of one of them.
    What may be left out is kept where two fragments can hold it: one would say nothing of it.
    """
    fragmentation = find_minimal(constraints, released, objective=objective, time_limit=time_limit)
    if len(fragmentation.fragments) < 2 and set(fragmentation.withheld) - set(constraints.withheld):
        fragmentation = find_minimal(
            constraints, released, objective=objective, time_limit=time_limit, least=2
        )
    return fragmentation


def planned_sizes(plan: Plan, fragments: int) -> tuple[int, ...]:
    """The least size of every fragment's groups; pairs of an association reach the looseness."""
    if plan["sizes"] is not None:
        return tuple(plan["sizes"])
    sizes = {
        f: size
        for chosen in associated_sets(plan, fragments)
        for f, size in zip(chosen, group_sizes(plan["looseness"], len(chosen)), strict=True)
    }
    return tuple(sizes[f] for f in sorted(sizes))


def associated_sets(plan: Plan, fragments: int) -> list[tuple[int, ...]]:
    """The sets of fragments, from 1, that are associated with each other: all, unless told."""
    given = plan["associations"]
    return [tuple(range(1, fragments + 1))] if given is None else [tuple(s) for s in given]


def _check_associations(plan: Plan, fragments: int) -> None:
    """Raise unless sets of fragments are disjoint (Observation 3), large enough and all there."""
    if plan["associations"] is None:
        return
    if plan["fragments"] is None or plan["projections"] or plan["after"] is not None:
        raise PlanError(
            "the 'associations' parameter does not fit the others",
            must="given 'fragments', no 'projections', and no release that is followed",
        )
    sets = _lists(plan["associations"], "associations", int)
    named = sorted(f for chosen in sets for f in chosen)
    if named != list(range(1, fragments + 1)) or any(len(chosen) < 2 for chosen in sets):
        raise PlanError(
            "the 'associations' parameter is not valid",
            must=f"sets of two or more of the fragments 1 to {fragments}, each in one of them: "
            "associations that share a fragment can be combined",
            got=repr([list(chosen) for chosen in sets]),
        )


def _lists(given: Any, name: str, kind: type) -> list[tuple[Any, ...]]:
    if not all(isinstance(f, tuple) and all(isinstance(a, kind) for a in f) for f in given):
        what = "attributes" if kind is str else "numbers"
        raise PlanError(f"the '{name}' parameter is not valid", must=f"lists of {what}")
    return list(given)


def _plain(value: Any) -> Any:
    from collections.abc import Mapping

    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
