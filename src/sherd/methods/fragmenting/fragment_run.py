"""A run of ``fragment``: a fragmentation that can be made loose, its groups and its tables."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from sherd.errors import InfeasibleError
from sherd.methods.fragmenting.association import Search, associate
from sherd.methods.fragmenting.feasibility import (
    check_feasible,
    excesses,
    findings_of,
    relevant,
)
from sherd.methods.fragmenting.fragment_layout import layout, planned_constraints, planned_sizes
from sherd.methods.fragmenting.loose_fragmentation import loose_ones
from sherd.methods.fragmenting.next_release import first_release
from sherd.methods.fragmenting.next_release_plan import check_past, findings, next_groups, signed
from sherd.methods.fragmenting.released_tables import first_groups, released_tables
from sherd.release.method import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from sherd.methods.fragmenting.association import Association
    from sherd.methods.fragmenting.constraints import Constraints
    from sherd.methods.fragmenting.feasibility import Excess
    from sherd.methods.fragmenting.fragmentation import Fragmentation
    from sherd.methods.fragmenting.private_record import Kept
    from sherd.release.method import PrivateRecord, Run
    from sherd.release.plan import Plan
    from sherd.tables.row_keys import Keys
    from sherd.tables.schema import Schema

    Chosen = tuple[Fragmentation, tuple[Excess, ...], Association]

_TRIED, _SMALL = 8, 2000
"""Fragmentations for which groups are looked for; fewer in a small table, tried many times each."""


def run_fragmenting(
    table: pa.Table,
    schema: Schema,
    plan: Plan,
    run: Run,
    keys: Keys | None = None,
    past: PrivateRecord | None = None,
) -> tuple[Outcome, Kept | None]:
    """The release, and where keys name the tuples the record of who is where."""
    found = layout(plan, schema)
    sizes = planned_sizes(plan, len(found.fragments))
    search = Search(
        strategy=plan["strategy"],
        window=plan["window"],
        probes=plan["probes"],
        budget=plan["budget"],
    )
    old = check_past(plan, schema, run, keys, past)
    if old is None or keys is None:
        return _first(table, schema, plan, run, found, sizes, search, keys)
    change = next_groups(
        old,
        table,
        schema,
        plan,
        run,
        keys=keys,
        constraints=planned_constraints(plan),
        fragments=found.fragments,
        sizes=sizes,
        search=search,
    )
    outcome = Outcome(
        tables=released_tables(
            change.kept.groups, table, found.fragments, run.randomness, shuffle=run.shuffle
        ),
        facts={**_facts(plan, found, sizes), "after": plan["after"]["release"]},
        findings=findings(change),
    )
    return outcome, signed(change.kept, schema, run, keys)


def _facts(plan: Plan, found: Fragmentation, sizes: tuple[int, ...]) -> dict[str, object]:
    """What a manifest states of the fragments."""
    covered = relevant(planned_constraints(plan), found.fragments)
    return {
        "fragments": [list(f) for f in found.fragments],
        "sizes": list(sizes),
        "withheld": list(found.withheld),
        "constraints": [sorted(c) for c in covered],
        "fragmentation_proved_best": found.proved,
        "fragmentation_minimal": found.minimal,
    }


def _first(
    table: pa.Table,
    schema: Schema,
    plan: Plan,
    run: Run,
    found: Fragmentation,
    sizes: tuple[int, ...],
    search: Search,
    keys: Keys | None,
) -> tuple[Outcome, Kept | None]:
    """A release that follows none."""
    chosen, forced, made = _grouped(table, schema, plan, run, found, sizes, search)
    groups = first_groups(made, run.randomness)
    record = None
    if keys is not None:
        record = first_release(groups, table, keys.values, chosen.fragments)
        record = signed(record, schema, run, keys)
    outcome = Outcome(
        tables=released_tables(
            groups,
            table,
            chosen.fragments,
            run.randomness,
            shuffle=run.shuffle,
            projections=plan["projections"],
        ),
        facts={
            **_facts(plan, found, sizes),
            "fragments": [list(f) for f in chosen.fragments],
            "withheld": list(chosen.withheld),
            "suppressed": made.suppressed,
        },
        findings=findings_of(made, forced, table.num_rows),
    )
    return outcome, record


def _choices(
    table: pa.Table,
    schema: Schema,
    plan: Plan,
    constraints: Constraints,
    found: Fragmentation,
    sizes: tuple[int, ...],
) -> Iterator[tuple[Fragmentation, tuple[Excess, ...]]]:
    """A given fragmentation, or those that frequencies do not rule out, the best first."""
    if plan["fragments"] is None:
        return loose_ones(
            table,
            constraints,
            schema.released,
            found,
            sizes,
            allowed=plan["suppress"],
            objective=plan["objective"],
            time_limit=plan["time_limit"],
        )
    forced = excesses(table, constraints, found.fragments, sizes)
    check_feasible(forced, table.num_rows, plan["suppress"], all_tried=False)
    return iter([(found, forced)])


def _grouped(
    table: pa.Table,
    schema: Schema,
    plan: Plan,
    run: Run,
    found: Fragmentation,
    sizes: tuple[int, ...],
    search: Search,
) -> Chosen:
    """The fragmentation as it is or, where it cannot be made loose, one that can, and its groups.

    A given fragmentation is kept. Else a few that frequencies do not rule out are tried, the best
    by the objective first, and of equally good ones that which leaves out fewest tuples is taken.
    """
    constraints = planned_constraints(plan)
    choices = _choices(table, schema, plan, constraints, found, sizes)
    best: Chosen | None = None
    for chosen, forced in islice(choices, _TRIED if table.num_rows > _SMALL else 2):
        if best is not None and chosen.value < best[0].value:
            break
        made = associate(
            table,
            schema,
            constraints,
            chosen.fragments,
            sizes,
            similar=plan["similar"] or (),
            search=search,
            block=plan["block"],
            allowed=plan["suppress"],
            randomness=run.randomness,
            progress=run.progress,
        )
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
