"""The audit itself: open the case, run what can be run, say what was left out, decide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.auditing.case import open_case as opening
from sherd.auditing.case.case import Case, Limits, OwnFindings, height
from sherd.auditing.case.distributions import distributions
from sherd.auditing.case.record_drawing import DrawnRelease, MaskedRelease
from sherd.auditing.case.row_sample import give_back, marked, note, sampled
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.measuring_jobs import REASONS, lacking, sampled_jobs, whole_jobs
from sherd.auditing.noise.evidence import Evidence, check_artefact
from sherd.auditing.promise_check import mechanisms_of
from sherd.auditing.verdict.audit_result import Audit, Pictures
from sherd.auditing.verdict.measure import Measure, Skipped
from sherd.errors import SherdError, UsageError
from sherd.release.manifest import ORDER_KEPT
from sherd.release.method import traits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sherd.auditing.case.case import Columns
    from sherd.auditing.measuring_jobs import Jobs
    from sherd.tables.number_scale import Scale
    from sherd.tables.prepare import Treated
    from sherd.tables.schema import Schema
    from sherd.verifying.check import Check

    Progress = Callable[[str, int, int], None]

SAMPLE = 40_000
"""Records that shadow releases and alternatives are made of."""


@dataclass(frozen=True, kw_only=True)
class _Given:
    """What somebody asked to audit, as it was given."""

    original: Any
    release: Any
    schema: Schema | None = None
    row_map: str | Path | None = None
    holdout: Any = None
    target: str | None = None
    seed: int = 0
    limits: Limits


@dataclass(frozen=True, kw_only=True)
class _Opened:
    """A case with what only the start of an audit needs: a sample of the table to run on.

    ``artefact`` are the checks of released values against the plan, ``treated`` what preparation
    did to the original's cells.
    """

    case: Case
    sample: pa.Table
    no_control: str
    artefact: tuple[Check, ...]
    treated: tuple[Treated, ...]


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
    give_back()
    manifest = verification.manifest or {}
    given = _Given(
        original=original, release=release, schema=schema, row_map=row_map, holdout=holdout,
        target=target, seed=seed, limits=limits or Limits(),
    )  # fmt: skip
    opened = _open(given, manifest)
    name = opening.name_of(original)
    del original, given
    tell("opening", 1, 1)
    plan = manifest.get("plan", {})
    measures, skipped = _run(opened, whole_jobs(opened.case, plan, opened.treated), tell)
    opened = replace(opened, case=sampled(opened.case))
    give_back()
    pictures = _map(opened, manifest, seed, tell) if alternatives else Pictures()
    if owners is None:
        owners = _known(opening.owners_of(manifest), opened.case)
    jobs, matrices = sampled_jobs(opened.case, plan, owners)
    more, gaps = _run(opened, jobs, tell)
    measures, skipped = _in_order([*measures, *marked(opened.case, more)], [*skipped, *gaps])
    pictures = replace(
        pictures,
        distributions=distributions(opened.case),
        names=opened.case.names,
        associations=matrices[0] if matrices else None,
    )
    result = _result(opened, release, manifest, verification.checks, measures, skipped, pictures)
    return replace(
        result,
        table=name,
        population=str(manifest.get("budget", {}).get("population") or ""),
        release_hash=opening.hash_of(release),
    )


def _map(opened: _Opened, manifest: Mapping[str, Any], seed: int, tell: Progress) -> Pictures:
    """The risk-utility map of this plan among the others."""
    from sherd.auditing.verdict.alternatives import places as map_places

    tell("alternatives", 0, 1)
    case = opened.case
    places, note = map_places(opened.sample, case.schema, case.scales, manifest, seed)
    tell("alternatives", 1, 1)
    return Pictures(places=places, places_note=note)


def _run(opened: _Opened, jobs: Jobs, tell: Progress) -> tuple[list[Measure], list[Skipped]]:
    """Every measure that can be taken, and those that were left out."""
    measures: list[Measure] = []
    skipped: list[Skipped] = []
    for done, (codes, job) in enumerate(jobs):
        tell("measuring", done, len(jobs))
        lacks = lacking(opened.case, codes[0], opened.no_control)
        if lacks is not None:
            need, reason = lacks
            skipped += [Skipped(spec=CATALOGUE[c], reason=reason, lacks=need) for c in codes]
        else:
            measures += job()
            give_back()
    tell("measuring", len(jobs), len(jobs))
    return measures, skipped


def _in_order(
    measures: list[Measure], skipped: list[Skipped]
) -> tuple[list[Measure], list[Skipped]]:
    """Both as the catalogue lists them."""
    order = {code: place for place, code in enumerate(CATALOGUE)}
    return (
        sorted(measures, key=lambda measure: order[measure.code]),
        sorted(skipped, key=lambda one: order[one.spec.code]),
    )


def _result(
    opened: _Opened,
    release: Any,
    manifest: Mapping[str, Any],
    checks: tuple[Check, ...],
    measures: list[Measure],
    skipped: list[Skipped],
    pictures: Pictures,
) -> Audit:
    from sherd import __version__
    from sherd.auditing.verdict.verdict import decide
    from sherd.auditing.verdict.verdict_points import Point

    case, plan = opened.case, manifest.get("plan", {})
    guarantee = manifest.get("guarantee", {})
    stamps = tuple(str(stamp) for stamp in manifest.get("stamps", ()))
    own = OwnFindings.of(getattr(release, "findings", ()))
    if case.control is not None:
        own = own.worst(case.control.own)
    verdict = decide(
        {m.code: m for m in measures}, checks, guarantee, stamps, skipped, opened.artefact, own
    )
    if case.whole is not None:
        said = Point(tone="plain", text=note(case))
        verdict = replace(verdict, points=(*verdict.points, said))
    return Audit(
        title=_title(plan),
        plan=plan,
        guarantee=guarantee,
        stamps=stamps,
        rows=case.table_rows,
        released_rows=case.release_rows,
        attributes=case.names,
        measures=tuple(measures),
        skipped=tuple(skipped),
        checks=checks,
        artefact=opened.artefact,
        verdict=verdict,
        pictures=pictures,
        participants=opening.learns(manifest),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
    )


def _title(plan: Mapping[str, Any]) -> str:
    method = str(plan.get("method", "unknown"))
    given = [f"{key} = {plan[key]:g}" for key in ("epsilon", "k", "l") if key in plan]
    promise = f", {plan['guarantee']}" if plan.get("guarantee") else ""
    return f"{method} ({', '.join(given)}{promise})" if given else method


def _open(given: _Given, manifest: Mapping[str, Any]) -> _Opened:
    full = opening.full_schema(manifest, given.schema)
    plan = manifest.get("plan", {})
    traits = traits_of(manifest)
    counted = traits is not None and traits.noise is not None and traits.masking is None
    one = _coded(given, full, plan, counted=counted)
    schema = opening.released_part(full)
    tables = dict(opening.tables_of(given.release, manifest))
    source = opening.drawable_of(tables, manifest)
    rows, drawn = isinstance(source, MaskedRelease), isinstance(source, DrawnRelease)
    held = [opening.records(source, schema, given.seed)]
    if rows:
        del source
    if not counted:
        tables.clear()  # a million rows matter
    columns = opening.columns_of(held.pop(), one.scales, schema)
    before = {name: one.columns[name] for name in columns}
    if rows:
        opening.check_rows(before, columns, schema)
    strict = plan.get("guarantee") == "strict"
    case = Case(
        schema=schema,
        scales=one.scales,
        original=before,
        released=columns,
        drawable=None if rows else source,
        rows=rows,
        drawn=drawn,
        order=_order(given, one.kept, height(before), rows, manifest),
        holdout=_held_out(given, full, one.scales, tuple(columns), strict=strict),
        target=opening.check_target(given.target, schema, tuple(columns)),
        seed=given.seed,
        limits=given.limits,
    )
    case = replace(case, mechanisms=mechanisms_of(case, plan))
    evidence = Evidence(
        manifest=manifest,
        tables=tables,
        documents=opening.documents_of(given.release, manifest),
        original=one.table,
        schema=schema,
    )
    give_back()
    artefact = tuple(check_artefact(case, evidence))
    case, reason = _with_control(case, one.sample, manifest)
    return _Opened(
        case=case, sample=one.sample, no_control=reason, artefact=artefact, treated=one.treated
    )


@dataclass(frozen=True, kw_only=True)
class _Coded:
    """The original in numbers, with a sample of its rows; ``table`` is whole where it is counted.

    ``kept`` are the rows that the schema's policies kept.
    """

    columns: Columns
    scales: Mapping[str, Scale]
    sample: pa.Table
    table: pa.Table
    kept: Any
    treated: tuple[Treated, ...]


def _coded(given: _Given, full: Schema, plan: Mapping[str, Any], *, counted: bool) -> _Coded:
    """Read and prepare the original; its table lives no longer than it must."""
    schema = opening.released_part(full)
    made = opening.prepared(
        opening.read_table(given.original, full),
        full,
        schema,
        "the original",
        strict=plan.get("guarantee") == "strict",
    )
    scales = opening.scales_of(made.table, schema, plan.get("category_order") == "frequency")
    drawn = np.random.default_rng(given.seed).permutation(len(made.table))[:SAMPLE]
    sample = made.table.take(pa.array(drawn))
    tables, kept, treated = [made.table], made.kept, made.treated
    table = made.table if counted else sample
    del made, drawn
    return _Coded(
        columns=opening.columns_of(tables.pop(), scales, schema),
        scales=scales,
        sample=sample,
        table=table,
        kept=kept,
        treated=treated,
    )


def _held_out(
    given: _Given,
    full: Schema,
    scales: Mapping[str, Scale],
    names: tuple[str, ...],
    *,
    strict: bool,
) -> Columns | None:
    """The hold-out table in the case's numbers."""
    if given.holdout is None:
        return None
    schema = opening.released_part(full)
    table = opening.read_table(given.holdout, full)
    other = opening.prepared(table, full, schema, "the hold-out", strict=strict)
    coded = opening.columns_of(other.table, scales, schema)
    return {name: coded[name] for name in names}


def _order(given: _Given, kept: Any, n: int, rows: bool, manifest: Mapping[str, Any]) -> Any:
    """Which record stands behind each released row, as the row map or the release says."""
    traits = traits_of(manifest)
    if not rows:
        if given.row_map is not None and (traits is None or not traits.rows_are_classes):
            raise UsageError("this release has no rows that a row map could speak of")
        if given.row_map is not None:
            opening.check_mapped(opening.read_row_map(given.row_map), kept, n)
        return None
    if given.row_map is None:
        order = getattr(given.release, "order", None)
    else:
        order = opening.read_row_map(given.row_map)
    if order is None and ORDER_KEPT in manifest.get("stamps", ()):
        return np.arange(n)
    return None if order is None else opening.check_order(order, kept, n)


def _with_control(case: Case, table: pa.Table, manifest: Mapping[str, Any]) -> tuple[Case, str]:
    """The case with a control group, or the reason why it has none."""
    from sherd.auditing.case.control_group import of_holdout, runner_of, shadow, split

    if case.holdout is not None:
        return replace(case, control=of_holdout(case, case.holdout)), ""
    run = runner_of(manifest.get("plan", {}))
    if run is None:
        return case, REASONS["control"]
    try:
        groups = split(table, case.seed)
        made = shadow(groups, case.schema, case.scales, manifest, run, case.seed)
    except SherdError as error:
        return case, f"needs --holdout: the plan could not be run on half of the table ({error})"
    return replace(case, control=made), ""


def _known(owners: Mapping[str, Sequence[str]] | None, case: Case) -> dict[str, list[str]] | None:
    """The owners a manifest names, with the columns that were released."""
    if owners is None:
        return None
    return {who: [n for n in names if n in case.names] for who, names in owners.items()}
