"""Control groups: people who took no part, without whom an attack's success means little.

With a hold-out table they are given. Otherwise the release's own plan is run once more on a
random half of (at most so many of) the records, and the other half is the control. Such a
shadow release never leaves the audit.

A release that follows another is made from that one's private record, which an audit does not
have. Its shadow is a first release by the same plan: it has no empty places, so the attacks see
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

    from sherd.auditing.case.case import Columns
    from sherd.release.method import Outcome
    from sherd.tables.number_scale import Scale
    from sherd.tables.schema import Schema

    Runner = Callable[[pa.Table, Schema, int], Outcome]

MOST = 20_000
"""Members, and outsiders, of a shadow release."""


def runner_of(plan: Mapping[str, Any]) -> Runner | None:
    """A function that runs a plan again on another table; None where no such method is known."""
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


def split(table: pa.Table, seed: int, most: int = MOST) -> tuple[pa.Table, pa.Table]:
    """Random members and outsiders of a table, equally many."""
    order = np.random.default_rng([seed, 77]).permutation(table.num_rows)[: 2 * most]
    half = len(order) // 2
    members, outsiders = np.sort(order[:half]), np.sort(order[half : 2 * half])
    return table.take(pa.array(members)), table.take(pa.array(outsiders))


_SHADOW = ", about a release by the same plan from half of these records"


def shadow(
    groups: tuple[pa.Table, pa.Table],
    schema: Schema,
    scales: Mapping[str, Scale],
    manifest: Mapping[str, Any],
    run: Runner,
    seed: int,
) -> Control:
    """A shadow release of the members of two groups; raises what the method raises."""
    members, outsiders = groups
    outcome = run(members, schema, seed)
    made = {**manifest, "facts": dict(outcome.facts)}
    source = drawable_of(outcome.tables, made)
    columns = columns_of(records(source, schema, seed), scales, schema)
    return Control(
        members=_only(columns_of(members, scales, schema), columns),
        outsiders=_only(columns_of(outsiders, scales, schema), columns),
        released=columns,
        shadow=True,
        without="as a first release" if "after" in manifest["plan"] else "",
        order=None if outcome.order is None else np.asarray(outcome.order, np.int64),
        source=source,
        own=OwnFindings.of(outcome.findings).about_another(_SHADOW),
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
