"""Control groups: people who took no part, without whom an attack's success means little.

With a hold-out table they are given. Otherwise the release's own plan is run once more on a
random half of (at most so many of) the records, and the other half is the control. Such a
shadow release never leaves the audit.

What follows an earlier release is made from the private record of that, which an audit is not
given. Its shadow is a first release by the same plan: it has no empty places, so the attacks see
no less than in the release itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.auditing.case.case import Case, Control, OwnFindings
from sherd.auditing.case.open_case import columns_of, drawable_of, records
from sherd.errors import SherdError
from sherd.randomness import Randomness
from sherd.release.method import Run, traits_of
from sherd.release.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Columns
    from sherd.release.method import Outcome
    from sherd.tables.number_scale import Scale
    from sherd.tables.schema import Schema

    Runner = Callable[[pa.Table, Schema, int], Outcome]

MOST = 20_000
"""Members, and outsiders, of a shadow release."""


def runner_of(plan: Mapping[str, Any]) -> Runner | None:
    """What runs a plan again on another table, None where no method of that name can."""
    traits = traits_of({"plan": plan})
    if traits is None:
        return None
    try:
        chosen = Plan.from_data({key: plan[key] for key in plan if key not in traits.following})
    except SherdError:
        return None

    def run(table: pa.Table, schema: Schema, seed: int) -> Outcome:
        chosen.check(schema)
        return chosen.spec.run(
            table, schema, chosen, Run(randomness=Randomness.seeded(seed), threads=2)
        )

    return run


def split(rows: int, seed: int, most: int = MOST) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Random members and outsiders, equally many."""
    order = np.random.default_rng([seed, 77]).permutation(rows)[: 2 * most]
    half = len(order) // 2
    return np.sort(order[:half]), np.sort(order[half : 2 * half])


def shadow(
    table: pa.Table,
    schema: Schema,
    scales: Mapping[str, Scale],
    manifest: Mapping[str, Any],
    run: Runner,
    seed: int,
) -> Control:
    """A shadow release of half of the table; raises what the method raises."""
    inside, outside = split(table.num_rows, seed)
    members = table.take(pa.array(inside))
    outcome = run(members, schema, seed)
    made = {**manifest, "facts": dict(outcome.facts)}
    source = drawable_of(outcome.tables, made)
    columns = columns_of(records(source, schema, seed), scales, schema)
    return Control(
        members=_only(columns_of(members, scales, schema), columns),
        outsiders=_only(columns_of(table.take(pa.array(outside)), scales, schema), columns),
        released=columns,
        shadow=True,
        without="as a first release" if "after" in manifest["plan"] else "",
        order=None if outcome.order is None else np.asarray(outcome.order, np.int64),
        source=source,
        own=OwnFindings.of(outcome.findings),
    )


def of_holdout(case: Case, holdout: Columns) -> Control:
    """The release itself with the hold-out as control."""
    return Control(
        members=_only(case.original, case.released),
        outsiders=_only(holdout, case.released),
        released=case.released,
        shadow=False,
        source=case.drawable,
    )


def _only(columns: Columns, like: Columns) -> Columns:
    return {name: columns[name] for name in like}
