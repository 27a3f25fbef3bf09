"""``sherd slice``: fragment one table so that nobody is found in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import emit_json, open_source, progress, settings
from sherd.cli.releasing import (
    checked_output,
    emit_release,
    output_options,
    print_findings,
    print_promise,
    schema_of,
    schema_option,
    seed_option,
    source_options,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.release.bundle import Release


@click.command("slice")
@click.argument("table")
@schema_option
@click.option("--sensitive", multiple=True, metavar="ATTRIBUTE", help="A sensitive attribute.")
@click.option("-l", "--l", "l", type=int, required=True, help="Confidence stays below 1/l.")
@click.option("-c", "--columns", type=int, help="How many columns to make (5).")
@click.option("--alpha", type=int, help="Attributes in the sensitive column (1).")
@click.option(
    "--group", multiple=True, metavar="A,B,…", help="A column's attributes; give every column."
)
@click.option("--min-frequency", type=int, help="Least frequency of a column's values.")
@click.option(
    "--regroup/--no-regroup", default=None, help="Regroup buckets into groups of about l."
)
@click.option("--suppress", is_flag=True, help="Leave out the records that make l infeasible.")
@click.option("--most-suppressed", type=float, metavar="SHARE", help="At most so many (0.05).")
@click.option(
    "--bins", multiple=True, metavar="ATTRIBUTE=EDGES", help="Bins of a measured sensitive one."
)
@click.option(
    "--set", "extra", multiple=True, metavar="NAME=VALUE", help="Any other parameter of `slice`."
)
@source_options
@seed_option
@output_options
def slice_command(**given: Any) -> None:
    """Slice TABLE into columns and buckets and write a release.

    No sensitive value can be assigned to a person with probability above 1/l. This is not
    differential privacy, and no budget is charged.

    \b
    sherd slice adult.csv --schema adult.yaml --sensitive occupation --l 5 -o out/
    """
    from sherd.release.plan import Plan
    from sherd.release.protect import Settings, protect_to

    schema = schema_of(given)
    plan = Plan(**_parameters(given))
    guarantee = plan.guarantee(schema)
    if given["explain"]:
        if given["as_json"]:
            emit_json({"plan": plan.as_data(), "guarantee": guarantee.as_data()})
        else:
            click.echo(guarantee.words())
        return
    output = checked_output(given)
    with progress("slice") as bar:
        release = protect_to(
            output,
            open_source(given["table"], schema, given["query"]),
            schema,
            plan,
            settings=Settings(seed=given["seed"], progress=bar),
            format=given["form"],
            force=given["force"],
            spreadsheet_safe=given["spreadsheet_safe"],
        )
    _print(release, output, given["as_json"])


def _parameters(given: dict[str, Any]) -> dict[str, Any]:
    chosen: dict[str, Any] = {"method": "slice"}
    for name in ("l", "columns", "alpha", "min_frequency", "most_suppressed", "regroup"):
        if given[name] is not None:
            chosen[name] = given[name]
    if given["suppress"]:
        chosen["suppress"] = True
    if given["sensitive"]:
        chosen["sensitive"] = list(given["sensitive"])
    if given["group"]:
        chosen["groups"] = [text.split(",") for text in given["group"]]
    if given["bins"]:
        chosen["bins"] = {
            name: _edges(edges) for name, edges in (_pair(text) for text in given["bins"])
        }
    return chosen | settings(given["extra"])


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--bins: write ATTRIBUTE=EDGES, not '{text}'.")
    return name, value


def _edges(text: str) -> Any:
    """``5`` is a number of bins, ``10,20`` are edges; dates stay text."""
    if text.isdecimal():
        return int(text)
    found: list[float | str] = []
    for item in text.split(","):
        try:
            found.append(float(item))
        except ValueError:
            found.append(item.strip())
    return found


def _print(release: Release, folder: Path, as_json: bool) -> None:
    manifest = release.manifest
    if as_json:
        emit_release(release, folder)
        return
    click.echo(f"released {release.tables['data'].num_rows} rows to {folder}")
    for place, column in enumerate(manifest["facts"]["columns"], 1):
        click.echo(f"column {place}: {', '.join(column)}")
    print_promise(release)
    print_findings(release.findings)
