"""The audit itself: open the case, run what can be run, say what was left out, decide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.auditing.attacks import ATTACKS
from sherd.auditing.case import joint_owners as joint
from sherd.auditing.case import open_case as opening
from sherd.auditing.case.case import Case, Limits
from sherd.auditing.case.control_group import advantage_of
from sherd.auditing.case.distributions import distributions
from sherd.auditing.case.record_drawing import MaskedRelease
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.released_noise import check_noise
from sherd.auditing.verdict.audit_result import Audit, Pictures
from sherd.auditing.verdict.measure import Measure, Skipped
from sherd.errors import SherdError, UsageError
from sherd.release.bundle import ORDER_KEPT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sherd.tables.schema import Schema

    Progress = Callable[[str, int, int], None]

SAMPLE = 40_000
"""Records that shadow releases and alternatives are made of."""

_REASONS = {
    "pairs": "needs --row-map (or a release that was just made): which original stands behind "
    "which released row",
    "rows": "needs a release made of records",
    "control": "needs --holdout, or a plan that can be run again on half of the table",
    "target": "needs --target: a column to predict",
    "run": "needs a ranking method that can be run again",
    "clusters": "needs records masked in clusters, by ranking with k above 1",
    "matched": "needs --row-map, or a plan that can be run again on half of the table",
}


@dataclass(frozen=True, kw_only=True)
class _Opened:
    """A case with what only the start of an audit needs: a sample of the table to run on."""

    case: Case
    sample: pa.Table
    no_control: str


def audit(
    original: Any,
    release: Any,
    *,
    schema: Schema | None = None,
    row_map: str | Path | None = None,
    holdout: Any = None,
    target: str | None = None,
    owners: Mapping[str, Sequence[str]] | None = None,
    alternatives: bool = True,
    seed: int = 0,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Audit a release against the table it was made from.

    ``original`` and ``holdout`` are tables (pandas, polars, pyarrow) or files; ``release`` is
    what ``protect`` gave, a bundle's folder, or any table of the same columns with a
    ``schema``. ``owners`` names the columns of each owner of a vertical joint release, where
    its manifest does not.
    """
    tell = progress or (lambda _step, _done, _total: None)
    tell("opening", 0, 1)
    # Before the tables are coded: verifying reads the files once more.
    verification = opening.verified(release, schema)
    checks, manifest = verification.checks, verification.manifest or {}
    opened = _open(
        original, release, manifest, schema, row_map, holdout, target, seed, limits or Limits()
    )
    tell("opening", 1, 1)
    case = opened.case
    plan: Mapping[str, Any] = manifest.get("plan", {})
    places: tuple[Any, ...] = ()
    note = ""
    if alternatives:
        from sherd.auditing.verdict.alternatives import places as map_places

        tell("alternatives", 0, 1)
        places, note = map_places(opened.sample, case.schema, case.scales, manifest, seed)
        tell("alternatives", 1, 1)
    no_control = opened.no_control
    if owners is None:
        owners = _known(joint.owners_of(manifest), case)
    jobs, matrices = _jobs(case, plan, owners, seed)
    measures: list[Measure] = []
    skipped: list[Skipped] = []
    for done, (codes, job) in enumerate(jobs):
        tell("measuring", done, len(jobs))
        lacking = _lacking(case, codes[0], no_control)
        if lacking is not None:
            need, reason = lacking
            skipped += [Skipped(spec=CATALOGUE[c], reason=reason, lacks=need) for c in codes]
        else:
            measures += job()
    tell("measuring", len(jobs), len(jobs))
    from sherd import __version__
    from sherd.auditing.verdict.verdict import decide

    artefact = tuple(
        check_noise(
            case,
            order_kept=ORDER_KEPT in manifest.get("stamps", ()),
            joint=manifest.get("joint", {}).get("kind") == "horizontal",
        )
    )
    guarantee = manifest.get("guarantee", {})
    stamps = tuple(str(stamp) for stamp in manifest.get("stamps", ()))
    order = {code: place for place, code in enumerate(CATALOGUE)}
    measures.sort(key=lambda measure: order[measure.code])
    return Audit(
        title=_title(plan),
        plan=plan,
        guarantee=guarantee,
        stamps=stamps,
        rows=case.n,
        released_rows=case.n_released,
        attributes=case.names,
        measures=tuple(measures),
        skipped=tuple(skipped),
        checks=checks,
        artefact=artefact,
        verdict=decide(
            {m.code: m for m in measures},
            checks,
            guarantee,
            stamps,
            skipped,
            artefact,
            own=max(
                advantage_of(getattr(release, "findings", ())),
                0.0 if case.control is None else case.control.advantage,
            ),
        ),
        pictures=Pictures(
            distributions=distributions(case),
            names=case.names,
            associations=matrices[0] if matrices else None,
            places=places,
            places_note=note,
        ),
        participants=joint.learns(manifest),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
    )


def _title(plan: Mapping[str, Any]) -> str:
    method = str(plan.get("method", "unknown"))
    given = [f"{key} = {plan[key]:g}" for key in ("epsilon", "k", "l") if key in plan]
    promise = f", {plan['guarantee']}" if plan.get("guarantee") else ""
    return f"{method} ({', '.join(given)}{promise})" if given else method


def _open(
    original: Any,
    given: Any,
    manifest: Mapping[str, Any],
    schema: Schema | None,
    row_map: str | Path | None,
    holdout: Any,
    target: str | None,
    seed: int,
    limits: Limits,
) -> _Opened:
    full = opening.full_schema(manifest, schema)
    schema = opening.released_part(full)
    table, kept = opening.prepared(opening.read_table(original, full), schema, "the original")
    plan = manifest.get("plan", {})
    scales = opening.scales_of(table, schema, plan.get("category_order") == "frequency")
    before = opening.columns_of(table, scales, schema)
    sample = table.take(pa.array(np.random.default_rng(seed).permutation(len(table))[:SAMPLE]))
    n = len(table)
    del table, original  # before the release is read: a million rows matter
    pa.default_memory_pool().release_unused()
    source = opening.drawable_of(opening.tables_of(given, manifest), manifest)
    rows = isinstance(source, MaskedRelease)
    columns = opening.columns_of(opening.records(source, schema, seed), scales, schema)
    before = {name: before[name] for name in columns}
    if rows:
        opening.check_rows(before, columns, schema)
    held = None
    if holdout is not None:
        other, _ = opening.prepared(opening.read_table(holdout, full), schema, "the hold-out")
        held = {n: c for n, c in opening.columns_of(other, scales, schema).items() if n in columns}
    case = Case(
        schema=schema,
        scales=scales,
        original=before,
        released=columns,
        drawable=None if rows else source,
        rows=rows,
        order=_order(given, row_map, kept, n, rows, ORDER_KEPT in manifest.get("stamps", ())),
        holdout=held,
        target=opening.check_target(target, schema, tuple(columns)),
        seed=seed,
        limits=limits,
    )
    from sherd.auditing.promise_check import mechanisms_of

    case = replace(case, mechanisms=mechanisms_of(case, plan))
    del source
    pa.default_memory_pool().release_unused()
    case, reason = _with_control(case, sample, manifest)
    return _Opened(case=case, sample=sample, no_control=reason)


def _order(
    given: Any, row_map: str | Path | None, kept: Any, n: int, rows: bool, stays: bool
) -> Any:
    """Which record stands behind each released row, as the row map or the release says."""
    if not rows:
        if row_map is not None:
            raise UsageError("this release has no rows that a row map could speak of")
        return None
    order = getattr(given, "order", None) if row_map is None else opening.read_row_map(row_map)
    if order is None and stays:
        return np.arange(n)
    return None if order is None else opening.check_order(order, kept, n)


def _with_control(case: Case, table: pa.Table, manifest: Mapping[str, Any]) -> tuple[Case, str]:
    """The case with a control group, or the reason why it has none."""
    from sherd.auditing.case.control_group import of_holdout, runner_of, shadow

    if case.holdout is not None:
        return replace(case, control=of_holdout(case, case.holdout)), ""
    run = runner_of(manifest.get("plan", {}))
    if run is None:
        return case, _REASONS["control"]
    try:
        made = shadow(table, case.schema, case.scales, manifest, run, case.seed)
    except SherdError as error:
        return case, f"needs --holdout: the plan could not be run on half of the table ({error})"
    return replace(case, control=made), ""


def _lacking(case: Case, code: str, no_control: str) -> tuple[str, str] | None:
    """What a measure needs and does not have, and that in words."""
    have = {
        "pairs": case.order is not None,
        "rows": case.rows,
        "control": case.control is not None,
        "target": case.target is not None,
        "run": True,
        "clusters": case.clustered,
        "matched": case.matched() is not None,
    }
    for need in CATALOGUE[code].needs:
        if not have[need]:
            return need, no_control if need == "control" and no_control else _REASONS[need]
    return None


Jobs = list[tuple[tuple[str, ...], "Callable[[], list[Measure]]"]]


def _jobs(
    case: Case,
    plan: Mapping[str, Any],
    owners: Mapping[str, Sequence[str]] | None,
    seed: int,
) -> tuple[Jobs, list[Any]]:
    """Every group of measures with what computes it; association matrices are kept aside."""
    from sherd.auditing.promise_check import measured_epsilon, table_loss
    from sherd.auditing.utility import cell_loss as loss
    from sherd.auditing.utility import coarseness as generalisation
    from sherd.auditing.utility import marginals, moments, queries, trained_models
    from sherd.auditing.utility.propensity import propensity

    matrices: list[Any] = []

    def associations() -> list[Measure]:
        found, before, after = moments.associations(case)
        matrices.append((before, after))
        return found

    jobs: Jobs = [
        (("mean-sse", "il1s"), lambda: loss.cell_losses(case)),
        (("marginals-1", "marginals-2", "marginals-3"), lambda: marginals.marginals(case)),
        (("associations",), associations),
        (("means", "variances", "quantiles"), lambda: moments.moments(case)),
        (("queries",), lambda: queries.queries(case)),
        (("pmse", "distinguishable"), lambda: propensity(case)),
        (
            ("forest-accuracy", "forest-f", "tree-accuracy", "tree-f"),
            lambda: trained_models.models(case),
        ),
        (("ncp", "discernibility"), lambda: generalisation.generalisation(case)),
        (("suppressed",), lambda: loss.suppressed(case)),
    ]
    attacks = list(ATTACKS)
    if owners:
        from sherd.auditing.attacks.insider import attack_of

        attacks.append(attack_of(_checked(owners, case)))
    jobs += [(attack.codes, lambda attack=attack: attack.run(case)) for attack in attacks]  # type: ignore[misc]
    jobs += [
        (("loss-factor",), lambda: table_loss(case, plan)),
        (
            ("epsilon-frozen", "epsilon-recomputed"),
            lambda: measured_epsilon(plan, seed=seed, runs=case.limits.runs),
        ),
    ]
    return jobs, matrices


def _known(owners: Mapping[str, Sequence[str]] | None, case: Case) -> dict[str, list[str]] | None:
    """The owners a manifest names, with the columns that were released."""
    if owners is None:
        return None
    return {who: [n for n in names if n in case.names] for who, names in owners.items()}


def _checked(owners: Mapping[str, Sequence[str]], case: Case) -> Mapping[str, Sequence[str]]:
    for owner, names in owners.items():
        for name in names:
            if name not in case.names:
                raise UsageError(
                    f"the owner '{owner}' is given the column '{name}', which is not released",
                    must="one of " + ", ".join(case.names),
                )
    return owners
