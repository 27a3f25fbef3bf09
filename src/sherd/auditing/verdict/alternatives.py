"""The risk-utility map: this release's plan among the other methods, on equal terms.

All are run on the same random sample of the original, half of it held out as control, with
the same epsilon and k, and measured in the same way. A point's utility is 1 minus the total
variation distance of pairs of attributes; its risk the success of the most successful attack
of somebody who does not know all other records, above its baseline at the lower end of its
interval, as a share of the possible.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sherd.auditing.attacks import ATTACKS
from sherd.auditing.case.case import Case, Limits
from sherd.auditing.case.control_group import runner_of, shadow, split
from sherd.auditing.case.record_drawing import DrawnRelease, MaskedRelease
from sherd.auditing.promise_check import mechanisms_of
from sherd.auditing.utility.moments import marginals
from sherd.auditing.verdict.audit_result import Place
from sherd.auditing.verdict.significance import JUDGED, worst_excess
from sherd.errors import SherdError
from sherd.release.method import usable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from sherd.auditing.verdict.measure import Measure
    from sherd.tables.number_scale import Scale
    from sherd.tables.schema import Schema

SAMPLE = 1_500
"""Members, and outsiders, that every method is run on."""

WIDEST = 60
"""Attributes up to which other methods are tried: some take much longer on more."""

_SHARED = ("category_order", "domain_from_data")
"""Besides epsilon and k, what an alternative takes over from the plan."""


def plans(plan: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """The plan itself and its alternatives with the same epsilon and k: name, plan, itself."""
    method = str(plan.get("method"))
    shown = method if plan.get("guarantee") in (None, "paper") else f"{method} {plan['guarantee']}"
    yield shown, dict(plan), True
    given = {name: plan[name] for name in _SHARED if name in plan}
    given |= {"epsilon": plan.get("epsilon", 1.0), "k": max(3, int(plan.get("k", 5)))}
    for spec in usable():
        if spec.traits.alternative is None or spec.name == shown:
            continue
        taken = {p.name: given[p.name] for p in spec.parameters if p.name in given}
        yield spec.name, {"method": spec.name, **taken, **spec.traits.alternative}, False


def places(
    table: pa.Table,
    schema: Schema,
    scales: Mapping[str, Scale],
    manifest: Mapping[str, Any],
    seed: int,
) -> tuple[tuple[Place, ...], str]:
    """Every plan that runs, as a point, and a line that says how they were measured."""
    if len(schema.attributes) > WIDEST:
        return (), f"not drawn: more than {WIDEST} attributes"
    groups = split(table, seed + 1, SAMPLE)
    placed = []
    for name, plan, this in plans(manifest.get("plan", {})):
        run = runner_of(plan)
        if run is None:
            continue
        try:
            control = shadow(groups, schema, scales, {**manifest, "plan": plan}, run, seed)
        except SherdError:
            continue  # a method that does not fit this table has no place on its map
        rows = isinstance(control.source, MaskedRelease)
        case = Case(
            schema=schema,
            scales=scales,
            original=control.members,
            released=control.released,
            drawable=control.source,
            rows=rows,
            drawn=isinstance(control.source, DrawnRelease),
            order=control.order if rows else None,
            control=control,
            seed=seed,
            limits=Limits(attacked=500, rounds=0),
        )
        placed.append(_place(name, replace(case, mechanisms=mechanisms_of(case, plan)), this))
    note = (
        f"every plan run on the same {len(groups[0]):,} records at random, with "
        f"{len(groups[1]):,} others as control"
    )
    return tuple(placed), note


def _place(name: str, case: Case, this: bool) -> Place:
    attacks: dict[str, Measure] = {}
    for attack in ATTACKS:
        if attack.codes[0] in JUDGED and (case.order is not None or "pairs" not in attack.needs):
            attacks |= {measure.code: measure for measure in attack.run(case)}
    worst = worst_excess(attacks)
    utility = {m.code: m for m in marginals(case)}
    pair = utility.get("marginals-2") or utility["marginals-1"]
    return Place(
        name=name, utility=1 - pair.value, risk=0.0 if worst is None else worst[1], this=this
    )
