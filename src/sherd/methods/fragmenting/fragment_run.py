"""A run of ``fragment``: a fragmentation that can be made loose, its groups and its tables.

The fewest fragments can be had in many ways, and some leave an attribute with few values alone
on its side of a constraint: no grouping hides it then. So the owner's table is asked. Where a
part P of a constraint c is too frequent in fragment f, so is every part of c within P, and no
fragmentation may have one of those there: with a in P placed in f, another attribute of c must
join it. That is a clause for the solver, which then finds the next best; it ends with a
fragmentation that can be loose, or with the proof that there is none.

Which fragmentation is released then depends on the data: on how frequent values are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from sherd.errors import InfeasibleError, PlanError
from sherd.methods.fragmenting.association import Search, associate, beside_each_other
from sherd.methods.fragmenting.feasibility import (
    check_feasible,
    excesses,
    findings_of,
    relevant,
)
from sherd.methods.fragmenting.fragment_layout import (
    associated_sets,
    layout,
    planned_constraints,
    planned_sizes,
)
from sherd.methods.fragmenting.fragmentation import find_another
from sherd.methods.fragmenting.next_release import first_release
from sherd.methods.fragmenting.next_release_plan import check_past, findings, next_groups, signed
from sherd.methods.fragmenting.released_tables import first_groups, released_tables
from sherd.methods.fragmenting.sealed_cells import TABLE as SEALED_TABLE
from sherd.methods.fragmenting.sealed_cells import seal
from sherd.release.method import Outcome
from sherd.tables.clamping import within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from sherd.methods.fragmenting.association import Association
    from sherd.methods.fragmenting.constraints import Constraints
    from sherd.methods.fragmenting.feasibility import Excess
    from sherd.methods.fragmenting.fragmentation import Clause, Fragmentation, Objective
    from sherd.methods.fragmenting.private_record import Kept
    from sherd.release.method import Lineage, Run
    from sherd.release.plan import Plan
    from sherd.release.preceding import Keys
    from sherd.tables.schema import Schema

    Chosen = tuple[Fragmentation, tuple[Excess, ...], Association]


_TRIED, _SMALL = 8, 2000
"""Fragmentations for which groups are looked for; fewer in a small table, tried many times each."""


def run_fragmenting(
    table: pa.Table, schema: Schema, plan: Plan, run: Run, lineage: Lineage | None = None
) -> tuple[Outcome, Kept | None]:
    """The release, and where keys name the tuples the record of who is where."""
    fragmentation = layout(plan, schema)
    table = within(table, schema)
    old = check_past(plan, schema, run, lineage)
    keys = None if lineage is None else lineage.keys
    if old is None or keys is None:
        return _first(table, schema, plan, run, fragmentation, keys)

    def place(fresh: pa.Table) -> Association:
        return _associated(fresh, schema, plan, run, fragmentation.fragments)

    change = next_groups(
        old, table, plan, run, keys=keys, fragments=fragmentation.fragments, place=place
    )
    sealing = _Sealing(table=table, plan=plan, run=run, fragmentation=fragmentation)
    outcome = Outcome(
        tables=released_tables(
            change.kept.groups,
            table,
            fragmentation.fragments,
            run.randomness,
            shuffle=run.shuffle,
            seal=sealing.how,
        ),
        facts={**_facts(plan, fragmentation), **sealing.facts, "after": plan["after"]["release"]},
        findings=findings(change),
    )
    return outcome, signed(change.kept, schema, run, keys)


@dataclass(kw_only=True)
class _Sealing:
    """Making the ciphertext of a run, where its plan asks for it, and what is stated of it."""

    table: pa.Table
    plan: Plan
    run: Run
    fragmentation: Fragmentation
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def how(self) -> Callable[[list[Any]], pa.Table] | None:
        """What makes the table of ciphertext, None where there is none."""
        return self._seal if self.plan["withheld"] == "ciphertext" else None

    def _seal(self, orders: list[Any]) -> pa.Table:
        assert self.run.cell_key is not None, "checked before the table was read"
        made, stated = seal(
            self.table,
            orders,
            self.fragmentation.fragments,
            self.fragmentation.withheld,
            cell_bytes=self.plan["cell_bytes"],
            key=self.run.cell_key,
            randomness=self.run.randomness,
        )
        self.facts[SEALED_TABLE] = stated
        return made


def _facts(plan: Plan, fragmentation: Fragmentation) -> dict[str, object]:
    """What a manifest states of the fragments."""
    covered = relevant(planned_constraints(plan), fragmentation.fragments)
    return {
        "fragments": [list(f) for f in fragmentation.fragments],
        "sizes": list(planned_sizes(plan, len(fragmentation.fragments))),
        "withheld": list(fragmentation.withheld),
        "constraints": [sorted(c) for c in covered],
        "fragmentation_proved_best": fragmentation.proved,
        "fragmentation_minimal": fragmentation.minimal,
    }


def _first(
    table: pa.Table,
    schema: Schema,
    plan: Plan,
    run: Run,
    fragmentation: Fragmentation,
    keys: Keys | None,
) -> tuple[Outcome, Kept | None]:
    """A release that follows none."""
    if keys is not None and plan["associations"] is not None:
        raise PlanError(
            "a record is kept of one association over all fragments",
            do="leave out 'associations', or the key and the record",
        )
    chosen, forced, made = _grouped(table, schema, plan, run, fragmentation)
    groups = first_groups(made, run.randomness)
    record = None
    if keys is not None:
        record = first_release(groups, table, keys.values, chosen.fragments)
        record = signed(record, schema, run, keys)
    sealing = _Sealing(table=table, plan=plan, run=run, fragmentation=chosen)
    outcome = Outcome(
        tables=released_tables(
            groups,
            table,
            chosen.fragments,
            run.randomness,
            shuffle=run.shuffle,
            projections=plan["projections"] or plan["associations"],
            seal=sealing.how,
        ),
        facts={
            **_facts(plan, fragmentation),
            **sealing.facts,
            "fragments": [list(f) for f in chosen.fragments],
            "withheld": list(chosen.withheld),
            "suppressed": made.suppressed,
        },
        findings=findings_of(made, forced, table.num_rows),
    )
    return outcome, record


def _choices(
    table: pa.Table, schema: Schema, plan: Plan, fragmentation: Fragmentation
) -> Iterator[tuple[Fragmentation, tuple[Excess, ...]]]:
    """A given fragmentation, or those that frequencies do not rule out, the best first."""
    constraints = planned_constraints(plan)
    sizes = planned_sizes(plan, len(fragmentation.fragments))
    if plan["fragments"] is None:
        return loose_ones(
            table,
            constraints,
            schema.released,
            fragmentation,
            sizes,
            allowed=plan["suppress"],
            objective=plan["objective"],
            time_limit=plan["time_limit"],
        )
    forced = tuple(
        excess
        for chosen in associated_sets(plan, len(fragmentation.fragments))
        for excess in excesses(
            table,
            constraints,
            [fragmentation.fragments[f - 1] for f in chosen],
            [sizes[f - 1] for f in chosen],
        )
    )
    check_feasible(forced, table.num_rows, plan["suppress"], all_tried=False)
    return iter([(fragmentation, forced)])


def _associated(
    table: pa.Table, schema: Schema, plan: Plan, run: Run, fragments: Sequence[Sequence[str]]
) -> Association:
    """The groups of a table's tuples, looked for as the plan says, in every set of fragments."""
    search = Search(
        strategy=plan["strategy"],
        window=plan["window"],
        probes=plan["probes"],
        budget=plan["budget"],
    )
    sizes = planned_sizes(plan, len(fragments))
    associations = {
        chosen: associate(
            table,
            schema,
            planned_constraints(plan),
            [fragments[f - 1] for f in chosen],
            [sizes[f - 1] for f in chosen],
            similar=plan["similar"] or (),
            search=search,
            block=plan["block"],
            allowed=plan["suppress"] if plan["after"] is None else 1.0,
            randomness=run.randomness,
            progress=run.progress,
        )
        for chosen in associated_sets(plan, len(fragments))
    }
    return beside_each_other(associations)


def _grouped(
    table: pa.Table, schema: Schema, plan: Plan, run: Run, fragmentation: Fragmentation
) -> Chosen:
    """The fragmentation as it is or, where it cannot be made loose, one that can, and its groups.

    A given fragmentation is kept. Else a few that frequencies do not rule out are tried, the best
    by the objective first, and of equally good ones that which leaves out fewest tuples is taken.
    """
    choices = _choices(table, schema, plan, fragmentation)
    best: Chosen | None = None
    for chosen, forced in islice(choices, _TRIED if table.num_rows > _SMALL else 2):
        if best is not None and chosen.value < best[0].value:
            break
        made = _associated(table, schema, plan, run, chosen.fragments)
        few = made.suppressed <= plan["suppress"] * table.num_rows and made.suppressed < len(table)
        if few and (best is None or made.suppressed < best[2].suppressed):
            best = chosen, forced, made
        if made.suppressed == 0:
            break
    if best is not None:
        return best
    raise InfeasibleError(
        "too many tuples would have to be left out: the search found no groups for them",
        must=f"at most {100 * plan['suppress']:g} % ('suppress')",
        got="more",
        do="lower the looseness, choose more even group sizes ('sizes'), raise 'suppress' or "
        "'budget', or coarsen attributes",
    )


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
        fragmentation: Fragmentation | None = first
        for _ in range(ROUNDS):
            if fragmentation is None:
                break
            forced = excesses(table, constraints, fragmentation.fragments, sizes)
            over = [e for e in forced if e.forced > share * table.num_rows]
            if not over:
                given = True
                yield fragmentation, forced
                clauses.append(_not_again(fragmentation, constraints))
            elif best is None or forced[0].forced < best[0].forced:
                best = forced
            clauses += [clause for excess in over for clause in _not_there(excess, len(sizes))]
            fragmentation = find_another(
                constraints,
                released,
                fragmentation,
                clauses,
                objective=objective,
                time_limit=time_limit,
            )
        all_tried = fragmentation is None
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


def _not_again(fragmentation: Fragmentation, constraints: Constraints) -> Clause:
    """Rule out this fragmentation, also with attributes moved that no constraint names."""
    bound = {name for constraint in constraints.separate for name in constraint}
    return tuple(
        (name, f, False)
        for f, names in enumerate(fragmentation.fragments)
        for name in names
        if name in bound
    )
