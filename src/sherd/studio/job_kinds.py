"""What each kind of job does: one call of the public functions after the other, results as files.

Everything but a release is for the steward's eyes only and stays in the job's private folder.

``made_up`` rows come from a schema alone, every value of a domain as likely as any other. Nothing
about them comes from data, so they can be looked at, and explored on, at no cost.
"""

from __future__ import annotations

import contextlib
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.errors import SchemaError, SherdError
from sherd.studio.workspace import save_json
from sherd.tables.files import write_whole
from sherd.tables.schema import Attribute, Role, Schema, Type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sherd.budget.ledger import Ledger
    from sherd.release.bundle import Release
    from sherd.release.plan import Plan
    from sherd.studio.workspace import Project

    Tell = Callable[[str, int, int], None]


MOST_EXPLORED = 50_000
"""Rows that exploring uses at most, chosen at random."""

IN_MEMORY = ("memory", "database")
"""Engines of tables that can be read whole, and so audited."""

RISK_ROWS = 2_000
"""Rows that attackers are tried on for one cell of the map."""


def profile(folder: Path, project: Project, given: Mapping[str, Any], tell: Tell) -> None:
    """Read the table once: summaries, problems, and the draft of a schema where there is none."""
    from sherd.studio.table_profile import profile_of
    from sherd.studio.table_survey import survey
    from sherd.tables.infer import schema

    del folder, given
    surveyed = survey(project, tell)
    tell("summarising", 0, 1)
    if not project.schema_file.exists():
        text = schema(surveyed.sample, name=project.name).yaml()
        write_whole(project.schema_file, text.encode(), mode=0o600)
    save_json(project.file("profile.json"), profile_of(surveyed))


def explored(project: Project, schema: Schema, table: str) -> pa.Table:
    """The rows that exploring uses: some of the project's own, or made up from the schema alone."""
    rows = (project.profile or {}).get("rows", 1_000)
    if table == "made-up":
        return made_up(schema, min(rows, MOST_EXPLORED), np.random.default_rng(0))
    if rows <= MOST_EXPLORED:
        return project.read(schema)
    return _some_rows(project, schema, rows)


def _some_rows(project: Project, schema: Schema, rows: int) -> pa.Table:
    """Rows at random from the whole of a table, of which only a block is in memory at a time."""
    from sherd.release.table_source import open_source

    chosen = np.sort(np.random.default_rng(0).permutation(rows)[:MOST_EXPLORED])
    read = open_source(project.source, schema, project.query, engine="columns")()
    parts, before = [], 0
    for block in [read] if isinstance(read, pa.Table) else read:
        inside = chosen[(chosen >= before) & (chosen < before + block.num_rows)]
        parts.append(block.take(pa.array(inside - before)))
        before += block.num_rows
    return pa.concat_tables(parts)


def is_tuned(plan: Mapping[str, Any]) -> bool:
    """Whether ``tune`` measures the loss of a plan: it has noise, and rows that stay rows."""
    return plan.get("guarantee") not in (None, "strict")


def explore_map(folder: Path, project: Project, given: Mapping[str, Any], tell: Tell) -> None:
    """The loss, then the risk, of every pair of parameters, each shown once it is known."""
    from sherd.release.plan import Plan

    schema = project.schema
    assert schema is not None
    tell("reading", 0, 1)
    rows = explored(project, schema, given["table"])
    plans = [Plan.from_data(data) for data in given["plans"]]
    for plan in plans:
        plan.check(schema)
    cells: list[dict[str, Any]] = [{"loss": None, "margin": None, "risk": None} for _ in plans]
    tuned = [place for place, plan in enumerate(given["plans"]) if is_tuned(plan)]
    total = len(tuned) + len(plans)
    for done, place in enumerate(tuned):
        tell("measuring loss", done, total)
        cells[place] |= _loss_of(rows, schema, plans[place], given["runs"])
        save_json(folder / "map.json", cells)
    for place, plan in enumerate(plans):
        tell("trying attackers", len(tuned) + place, total)
        cells[place] |= risk_of(rows, schema, plan)
        if place not in tuned and cells[place]["kept"] is not None:
            cells[place]["loss"] = 1 - cells[place]["kept"]
        save_json(folder / "map.json", cells)
    tell("trying attackers", total, total)


def _loss_of(rows: pa.Table, schema: Schema, plan: Plan, runs: int) -> dict[str, Any]:
    from sherd.release.tune import tune

    dialled = ("method", "epsilon", "k")
    (cell,) = tune(
        rows,
        schema,
        methods=[plan.method],
        epsilons=[plan["epsilon"]],
        ks=[plan["k"]] if "k" in plan.parameters else (),
        runs=runs,
        parameters={n: v for n, v in plan.as_data().items() if n not in dialled},
    )
    return {"loss": cell.loss, "margin": cell.margin}


def risk_of(rows: pa.Table, schema: Schema, plan: Plan) -> dict[str, Any]:
    """What the best attacker gains on a sample, and what is kept; nothing where it cannot run."""
    from sherd import audit, compare, protect
    from sherd.auditing.case.case import Limits

    few = Limits(attacked=300, modelled=300, compared=500, queries=10, triples=2, runs=40)
    chosen = np.random.default_rng(1).permutation(rows.num_rows)[:RISK_ROWS]
    sample = rows.take(pa.array(chosen))
    try:
        release = protect(sample, schema, plan, ledger=None)
        audited = audit(sample, release, alternatives=False, limits=few)
    except SherdError as error:
        return {"risk": None, "kept": None, "why": error.what}
    (place,) = compare({"this": audited}).places
    risk = None if place.risk != place.risk else place.risk
    return {"risk": risk, "kept": place.utility}


def candidate(folder: Path, project: Project, given: Mapping[str, Any], tell: Tell) -> None:
    """One plan tried out: protected, audited, with examples; kept aside, never released."""
    from sherd import audit, protect
    from sherd.release.plan import Plan
    from sherd.release.protect import Settings

    schema = project.schema
    assert schema is not None
    plan = Plan.from_data(given["plan"])
    plan.check(schema)
    save_json(folder / "examples.json", examples(schema, plan))
    tell("reading", 0, 1)
    rows = explored(project, schema, given["table"])
    release = protect(rows, schema, plan, ledger=None, settings=Settings(progress=tell))
    release.save(folder / "release", force=True)
    audited = audit(rows, release, alternatives=False, progress=tell)
    audited.save(folder / "audit.html")
    save_json(folder / "audit.json", audited.as_data())


def compare_all(folder: Path, project: Project, given: Mapping[str, Any], tell: Tell) -> None:
    """Several candidates judged by the attacks that could be run on all of them."""
    from sherd import audit, compare

    schema = project.schema
    assert schema is not None
    rows = {
        table: explored(project, schema, table) for table in {each["table"] for each in given["of"]}
    }
    audits = {}
    for done, each in enumerate(given["of"]):
        tell("auditing", done, len(given["of"]))
        path = folder.parent / each["id"] / "release"
        audits[each["name"]] = audit(rows[each["table"]], path, alternatives=False)
    tell("auditing", len(audits), len(audits))
    compared = compare(audits)
    compared.save(folder / "compare.html")
    save_json(folder / "comparison.json", compared.as_data())


def open_ledger(path: str | None) -> Ledger | None:
    """The ledger to charge; what a dead run paid for and did not publish is published now."""
    from sherd.budget.ledger import Ledger
    from sherd.release.bundle import MANIFEST, digest

    if path is None:
        return None
    ledger = Ledger(Path(path))
    ledger.free_abandoned()
    ledger.recover(lambda folder: digest(folder / MANIFEST))
    return ledger


def release(folder: Path, project: Project, given: Mapping[str, Any], tell: Tell) -> None:
    """The release itself: charged, written whole or not at all, verified, audited."""
    from sherd import verify
    from sherd.release.plan import Plan

    schema = Schema.load(folder / "schema.yaml")
    plan = Plan.load(folder / "plan.yaml")
    output = Path(given["output"])
    tell("reading", 0, 1)
    made, engine = _protected(output, project, schema, plan, given, tell)
    summary = {"manifest": dict(made.manifest), "output": str(output), "engine": engine}
    save_json(folder / "released.json", summary)
    tell("verifying", 0, 1)
    save_json(folder / "checks.json", verify(output).as_data()["checks"])
    if given["audit"] and engine in IN_MEMORY:
        from sherd import audit

        audited = audit(project.read(schema), made, target=given.get("target"), progress=tell)
        audited.save(folder / "audit.html")
        save_json(folder / "audit.json", audited.as_data())


def _protected(
    output: Path,
    project: Project,
    schema: Schema,
    plan: Plan,
    given: Mapping[str, Any],
    tell: Tell,
) -> tuple[Release, str]:
    """The release as the command line makes it, and the engine that its table needed."""
    from sherd.release.private_files import PrivateFiles
    from sherd.release.protect import Settings, is_strict, protect_to
    from sherd.release.table_source import engine_for, open_source

    choice = engine_for(project.source, schema, plan)
    engine = choice.make(output.parent)
    private = PrivateFiles(row_map=None if given["row_map"] is None else Path(given["row_map"]))
    private.check([output], plan, force=False)
    read = open_source(
        project.source, schema, project.query, engine=choice.name, lenient=is_strict(plan)
    )
    with private.writing() as write, contextlib.closing(engine):
        release = protect_to(
            output,
            read,
            schema,
            plan,
            ledger=open_ledger(given["ledger"]),
            settings=Settings(seed=given["seed"], progress=tell, engine=engine),
            format=given["format"],
            spreadsheet_safe=given["spreadsheet_safe"],
            before_publishing=write,
        )
    return release, choice.name


KINDS: dict[str, Callable[[Path, Project, Mapping[str, Any], Tell], None]] = {
    "profile": profile,
    "map": explore_map,
    "candidate": candidate,
    "compare": compare_all,
    "release": release,
}
"""Every kind of job."""


EXAMPLES = 5
_BEHIND = 400
"""Rows that examples are protected among."""


def made_up(schema: Schema, rows: int, draws: np.random.Generator) -> pa.Table:
    """A table of a schema with values drawn evenly from the declared domains."""
    return pa.table({each.name: _column(each, rows, draws) for each in schema})


def _column(attribute: Attribute, rows: int, draws: np.random.Generator) -> pa.Array:
    if attribute.role is Role.IDENTIFIER:
        if attribute.type is Type.INTEGER:
            return pa.array(range(rows))
        if attribute.type not in (Type.TEXT, Type.CATEGORY, Type.ORDINAL):
            return pa.nulls(rows)
        return pa.array([f"person {place + 1}" for place in range(rows)])
    if attribute.type is Type.BOOLEAN:
        return pa.array(draws.random(rows) < 0.5)
    if attribute.labels is not None:
        labels = np.array(attribute.labels, dtype=object)
        return pa.array(labels[draws.integers(0, len(labels), rows)].tolist(), pa.string())
    if attribute.domain is None:
        raise SchemaError(
            f"no values of '{attribute.name}' can be made up",
            must="a declared domain or list of values",
            do="decide about it in the schema",
        )
    return _measured(attribute.domain, draws.random(rows), attribute)


def _measured(domain: tuple[Any, Any], shares: Any, attribute: Attribute) -> pa.Array:
    low, high = domain
    if isinstance(low, datetime):
        length = (high - low).total_seconds()
        return pa.array([low + timedelta(seconds=int(share * length)) for share in shares])
    if isinstance(low, date):
        days = (high - low).days + 1
        return pa.array([low + timedelta(days=int(share * days)) for share in shares])
    assert isinstance(low, Decimal)
    start, length = float(low), float(high) - float(low)
    if attribute.type is Type.INTEGER:
        return pa.array([int(start) + int(share * (length + 1)) for share in shares], pa.int64())
    return pa.array(np.round(start + shares * length, 4))


def examples(schema: Schema, plan: Plan) -> dict[str, Any]:
    """A few made-up rows and what a plan makes of them; why not, where it cannot be done."""
    from sherd.release.protect import Settings, protect

    try:
        table = made_up(schema, _BEHIND, np.random.default_rng(7))
        how = Settings(keep_order=True, seed=7)
        release = protect(table, schema, plan, ledger=None, settings=how)
    except SherdError as error:
        return {"problem": error.what}
    released = next(iter(release.tables.values()))
    paired = "data" in release.tables and released.num_rows == _BEHIND
    return {
        "paired": paired,
        "before": _cells(table.select(list(schema.released))),
        "after": _cells(released),
    }


def _cells(table: pa.Table) -> dict[str, Any]:
    rows = table.slice(0, EXAMPLES).to_pylist()
    return {
        "names": table.column_names,
        "rows": [[_shown(cell) for cell in row.values()] for row in rows],
    }


def _shown(cell: Any) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else "" if cell is None else str(cell)
