"""What the commands that make a release from one table share: options, checks, printing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from sherd.cli.options import PATH, emit_json, json_option, missing_option, query_option
from sherd.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sherd.budget.ledger import Ledger
    from sherd.engines import Choice
    from sherd.release.bundle import Release
    from sherd.release.method import Finding
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

SOURCE = (
    query_option,
    missing_option,
    click.option(
        "--outside",
        type=click.Choice(["clamp", "drop", "refuse"]),
        help="Override how the schema treats values outside their domains.",
    ),
)
"""Options that say how a table is read."""

OUTPUT = (
    click.option(
        "--format",
        "form",
        type=click.Choice(["parquet", "csv", "csv.gz", "csv.zst", "feather"]),
        default="parquet",
        show_default=True,
        help="Write tables in this format.",
    ),
    click.option(
        "--spreadsheet-safe",
        is_flag=True,
        help="Escape cells that a spreadsheet would run as formulas.",
    ),
    click.option("-o", "--output", type=PATH, help="Write the release to this folder."),
    click.option(
        "--explain", is_flag=True, help="Explain what would be promised, without reading data."
    ),
    click.option("--force", is_flag=True, help="Overwrite an existing release."),
    json_option,
)
"""Options that say where and how a release is written."""


def checked_output(given: dict[str, Any]) -> Path:
    """The folder to write, if it may be written."""
    from sherd.release.bundle import check_target

    if given["output"] is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    folder: Path = given["output"]
    check_target(folder, force=given["force"])
    return folder


def emit_release(release: Release, folder: Path, **more: Any) -> None:
    """A release and what its owner should know, as JSON."""
    emit_json(
        {
            "output": str(folder),
            "manifest": release.manifest,
            "internal": [finding.as_data() for finding in release.findings],
            **more,
        }
    )


def print_promise(release: Release) -> None:
    """Stamps, and the guarantee in words."""
    for stamp in release.manifest["stamps"]:
        click.echo(f"STAMP: {stamp}")
    click.echo(str(release.manifest["guarantee"]["words"]))


def print_findings(findings: Sequence[Finding]) -> None:
    """What the owner should know and nobody else."""
    if findings:
        click.echo("For the owner only, not for publication:", err=True)
    for finding in findings:
        of = f" [{finding.attribute}]" if finding.attribute else ""
        shown = f"{finding.value:.4g}" if isinstance(finding.value, float) else str(finding.value)
        click.echo(f"  {finding.name}{of}: {shown} ({finding.meaning})", err=True)


FOLLOWING = (
    click.option(
        "--key", metavar="ATTRIBUTE", help="Identify tuples by this attribute in the --record file."
    ),
    click.option(
        "--record",
        type=PATH,
        metavar="FILE",
        help="Write the private record that a later release needs.",
    ),
    click.option(
        "--after",
        type=PATH,
        metavar="OLD",
        help="Follow this release: TABLE is the changed version of the table it was made from.",
    ),
    click.option(
        "--old-record",
        type=PATH,
        metavar="FILE",
        help="Read the private record of the release given to --after.",
    ),
    click.option(
        "--to",
        multiple=True,
        metavar="TABLE=PLACE",
        help="Send one table of the release to a separate place: a folder or postgresql://…",
    ),
    click.option(
        "--again",
        is_flag=True,
        help="Release a population again without a record, though the method assumes that no other "
        "release exists.",
    ),
    click.option(
        "--cell-key",
        type=PATH,
        metavar="FILE",
        help="Encrypt withheld attributes with the key in this file; it is created if missing.",
    ),
)
"""Options of releases that follow others, go elsewhere or hold ciphertext."""


def chosen_engine(given: dict[str, Any], plan: Plan, schema: Schema) -> Choice:
    """The engine to run on; what was chosen and why is told, but for memory nobody asked for."""
    from sherd.engines import parse_size
    from sherd.release.table_source import engine_for

    for name in ("master", "staging"):
        if given[name] is not None and given["engine"] != "spark":
            raise click.UsageError(f"--{name} is only for --engine spark.")
    memory = None if given["memory"] is None else parse_size(given["memory"])
    choice = engine_for(given["table"], schema, plan, name=given["engine"], memory=memory)
    chosen = click.get_current_context().get_parameter_source
    by_hand = any(chosen(one) is not ParameterSource.DEFAULT for one in ("engine", "memory"))
    if choice.name != "memory" or by_hand:
        click.echo(f"note: running on the engine {choice.name}: {choice.why}", err=True)
    return choice


def uncounted() -> None:
    """Say that the table is read here after all."""
    click.echo(
        "note: a column has more labels than are counted in the database; running on the engine "
        "memory instead",
        err=True,
    )


_ONLY_HERE = {"row_map": "--row-map", "record": "--record", "key": "--key", "query": "--query"}


def protect_on_cluster(
    given: dict[str, Any],
    schema: Schema,
    plan: Plan,
    output: Path,
    ledger: Ledger | None,
    progress: Callable[[str, int, int], None],
) -> Release:
    """Protect the table where Spark finds it, and write the bundle on this machine."""
    from sherd.engines.spark_stages import spark_frame, spark_session
    from sherd.release.distributed_release import protect_distributed
    from sherd.release.protect import PAID, Settings, protect_to
    from sherd.release.table_source import counted_where_it_is

    for name, option in _ONLY_HERE.items():
        if given[name] is not None:
            raise UsageError(
                f"the engine spark does not take the option {option}",
                do="leave it out, or choose the engine memory, columns or duckdb",
            )
    form = {name: given[name] for name in ("force", "spreadsheet_safe")} | {"format": given["form"]}
    settings = Settings(seed=given["seed"], keep_order=given["keep_order"], progress=progress)
    promised = plan.guarantee(schema)
    session = spark_session(given["master"])
    frame = spark_frame(session, given["table"])
    counted = counted_where_it_is(frame, plan)
    if counted is not None:
        return protect_to(
            output,
            lambda: counted,
            schema,
            plan,
            ledger=ledger,
            population=given["population"],
            settings=settings,
            **form,
        )
    release = protect_distributed(
        frame,
        schema,
        plan,
        promised,
        settings,
        ledger=ledger,
        population=given["population"],
        staging=given["staging"],
    )
    try:
        release.save(output, **form)
    except BaseException as error:
        error.add_note(f"{PAID.partition(';')[0]}; its parts lie in {release.parts}")
        raise
    release.remove_parts()
    return release.collected
