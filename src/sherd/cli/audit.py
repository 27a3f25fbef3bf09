"""``sherd audit``: what a release is worth, what it gives away, whether its promise holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import emit_json, json_option, named_values, progress, with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sherd.auditing.verdict.audit_result import Audit

MARK = {"good": "+", "bad": "!", "plain": "-"}


audit_options = with_options(
    click.option(
        "--holdout", metavar="TABLE", help="Compare with records that were not part of any release."
    ),
    click.option("--target", metavar="COLUMN", help="Train models that predict this column."),
    click.option(
        "--schema", "schema_file", metavar="FILE", help="Use this schema if a manifest has none."
    ),
    click.option("--query", help="Run this SQL if the original is a database."),
    click.option(
        "--seed", type=int, default=0, show_default=True, help="Seed the audit's samples."
    ),
    click.option(
        "-o",
        "--output",
        "outputs",
        multiple=True,
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write the report to this file: .html, .json, .md or .pdf. Repeatable.",
    ),
    click.option("--force", is_flag=True, help="Overwrite existing reports."),
    json_option,
)
"""What an audit is given beside table and release, and where its report is written."""


def audit_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The options of an audit as its arguments, after checking that its reports can be written."""
    from sherd.datasets.sources import load_schema
    from sherd.report import check_outputs

    check_outputs(given["outputs"], force=given["force"])
    schema, holdout = given["schema_file"], given["holdout"]
    return {
        "original": source_of(given["original"], given["query"]),
        "schema": None if schema is None else load_schema(schema),
        "holdout": None if holdout is None else source_of(holdout, None),
        "target": given["target"],
        "seed": given["seed"],
    }


@click.command()
@click.argument("original")
@click.argument("release")
@click.option(
    "--row-map", metavar="FILE", help="Read which original row each released row was made from."
)
@click.option(
    "--owner",
    "owners",
    multiple=True,
    metavar="NAME=COLUMN,…",
    callback=named_values,
    help="Audit the columns of this owner of a vertical joint release.",
)
@click.option(
    "--alternatives/--no-alternatives",
    default=True,
    help="Map other methods and settings beside this release.",
)
@audit_options
def audit(**given: Any) -> None:
    """Audit RELEASE against the ORIGINAL table it was made from.

    ORIGINAL is a file, a database address (with --query) or one of the tables that come with
    sherd (:adult, :wine, :nursery). RELEASE is a release's folder, or any table with the same
    columns (with --schema). The report is internal: it is computed from the original, and no
    guarantee covers it.

    \b
    sherd audit adult.csv out/ --row-map map.csv --target income -o report.html
    """
    from sherd.report.reporting import audit

    arguments = audit_arguments(given)
    with progress("audit") as bar:
        result = audit(
            release=Path(given["release"]),
            row_map=given["row_map"],
            owners={
                name: [column.strip() for column in columns.split(",")]
                for name, columns in given["owners"].items()
            }
            or None,
            alternatives=given["alternatives"],
            progress=bar,
            **arguments,
        )
    result.save(*given["outputs"])
    if given["as_json"]:
        emit_json(result.as_data())
    else:
        print_verdict(result, given["outputs"])


def source_of(source: str, query: str | None) -> Any:
    """The table to audit: a path that the audit reads itself, or the table read from elsewhere."""
    from sherd.tables.sql import is_address

    if source.startswith(":") or is_address(source) or query is not None:
        from sherd.datasets.sources import read

        return read(source, query=query)
    return source


def print_verdict(result: Audit, outputs: Sequence[Path]) -> None:
    """Print the verdict on the terminal."""
    verdict = result.verdict
    click.echo(f"{result.title}: {verdict.headline}")
    click.echo(
        f"risk: {verdict.risk}   usefulness: {verdict.usefulness}   promise: {verdict.promise}"
    )
    for point in verdict.points:
        click.echo(f"  {MARK[point.tone]} {point.text}")
    for reason in dict.fromkeys(skipped.reason for skipped in result.skipped):
        left = [s.spec.title for s in result.skipped if s.reason == reason]
        click.echo(f"  left out: {', '.join(left)}: {reason}", err=True)
    for path in outputs:
        click.echo(f"report: {path}")
    click.echo("For the owner only: these numbers were computed from the original.", err=True)
