"""``sherd audit``: what a release is worth, what it gives away, whether its promise holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sherd.cli.options import emit_json, json_option, load_schema, progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sherd.auditing.verdict.audit_result import Audit

    _F = TypeVar("_F", bound=Callable[..., Any])

MARK = {"good": "+", "bad": "!", "plain": "-"}


def report_options(command: _F) -> _F:
    """Where and how a report is written."""
    for option in (
        json_option,
        click.option("--force", is_flag=True, help="Overwrite existing reports."),
        click.option(
            "-o",
            "--output",
            "outputs",
            multiple=True,
            type=click.Path(path_type=Path, dir_okay=False),
            help="Write the report to this file: .html, .json, .md or .pdf. Repeatable.",
        ),
        click.option(
            "--seed", type=int, default=0, show_default=True, help="Seed the audit's samples."
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("original")
@click.argument("release")
@click.option(
    "--row-map", metavar="FILE", help="Read which original row each released row was made from."
)
@click.option(
    "--holdout", metavar="TABLE", help="Compare with records that were not part of the release."
)
@click.option("--target", metavar="COLUMN", help="Train models that predict this column.")
@click.option(
    "--schema", "schema_file", metavar="FILE", help="Use this schema if the manifest has none."
)
@click.option("--query", help="Run this SQL if ORIGINAL is a database.")
@click.option(
    "--owner",
    "owners",
    multiple=True,
    metavar="NAME=COLUMN,…",
    help="Audit the columns of this owner of a vertical joint release.",
)
@click.option(
    "--alternatives/--no-alternatives",
    default=True,
    help="Map other methods and settings beside this release.",
)
@report_options
def audit(**given: Any) -> None:
    """Audit RELEASE against the ORIGINAL table it was made from.

    ORIGINAL is a file, a database address (with --query) or one of the tables that come with
    sherd (:adult, :wine, :nursery). RELEASE is a release's folder, or any table with the same
    columns (with --schema). The report is internal: it is computed from the original, and no
    guarantee covers it.

    \b
    sherd audit adult.csv out/ --row-map map.csv --target income -o report.html
    """
    from sherd.report import check_outputs
    from sherd.report.reporting import audit

    check_outputs(given["outputs"], force=given["force"])
    schema = None
    if given["schema_file"] is not None:
        schema = load_schema(given["schema_file"], None, None)
    original = source_of(given["original"], given["query"])
    holdout = None if given["holdout"] is None else source_of(given["holdout"], None)
    with progress("audit") as bar:
        found = audit(
            original,
            Path(given["release"]),
            schema=schema,
            row_map=given["row_map"],
            holdout=holdout,
            target=given["target"],
            owners=owners_of(given["owners"]),
            alternatives=given["alternatives"],
            seed=given["seed"],
            progress=bar,
        )
    found.save(*given["outputs"])
    if given["as_json"]:
        emit_json(found.as_data())
    else:
        say(found, given["outputs"])


def source_of(source: str, query: str | None) -> Any:
    """A table to audit: a path for the audit to read, or what another source gave."""
    from sherd.tables.address import is_address

    if source.startswith(":") or is_address(source) or query is not None:
        from sherd.datasets.sources import read

        return read(source, query=query)
    return source


def owners_of(given: Sequence[str]) -> dict[str, list[str]] | None:
    """``NAME=COLUMN,COLUMN`` options as a mapping."""
    owners: dict[str, list[str]] = {}
    for text in given:
        name, equals, columns = text.partition("=")
        if not (name and equals and columns):
            raise click.UsageError("--owner must be NAME=COLUMN,COLUMN,…")
        owners[name] = [column.strip() for column in columns.split(",")]
    return owners or None


def say(found: Audit, outputs: Sequence[Path]) -> None:
    """The verdict on the terminal."""
    verdict = found.verdict
    click.echo(f"{found.title}: {verdict.headline}")
    click.echo(
        f"risk: {verdict.risk}   usefulness: {verdict.usefulness}   promise: {verdict.promise}"
    )
    for point in verdict.points:
        click.echo(f"  {MARK[point.tone]} {point.text}")
    if found.skipped:
        reasons = dict.fromkeys(skipped.reason for skipped in found.skipped)
        for reason in reasons:
            left = [s.spec.title for s in found.skipped if s.reason == reason]
            click.echo(f"  left out: {', '.join(left)}: {reason}", err=True)
    for path in outputs:
        click.echo(f"report: {path}")
    click.echo("For the owner only: these numbers were computed from the original.", err=True)
