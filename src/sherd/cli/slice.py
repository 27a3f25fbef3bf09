"""``sherd slice``: fragment one table so that nobody is found in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import (
    emit_json,
    json_option,
    load_schema,
    open_source,
    progress,
    settings,
)

if TYPE_CHECKING:
    from sherd.release import Release


@click.command("slice")
@click.argument("table")
@click.option("--schema", "schema_file", metavar="FILE", help="The table's schema (YAML).")
@click.option("--sensitive", multiple=True, metavar="ATTRIBUTE", help="A sensitive attribute.")
@click.option("-l", "--l", "l", type=int, required=True, help="Confidence stays below 1/l.")
@click.option("-c", "--columns", type=int, help="How many columns to make (5).")
@click.option("--alpha", type=int, help="Attributes in the sensitive column (1).")
@click.option(
    "--group", multiple=True, metavar="A,B,…", help="A column's attributes; give every column."
)
@click.option("--min-frequency", type=int, help="Least frequency of a column's values.")
@click.option("--regroup", is_flag=True, help="Regroup buckets into groups of about l.")
@click.option("--suppress", is_flag=True, help="Leave out the records that make l infeasible.")
@click.option(
    "--bins", multiple=True, metavar="ATTRIBUTE=EDGES", help="Bins of a measured sensitive one."
)
@click.option(
    "--set", "extra", multiple=True, metavar="NAME=VALUE", help="Any other parameter of `slice`."
)
@click.option("--query", help="SQL to run, where TABLE is a database.")
@click.option(
    "--missing", type=click.Choice(["keep", "drop", "recode", "refuse"]), help="As in the schema."
)
@click.option("--outside", type=click.Choice(["clamp", "drop", "refuse"]), help="As in the schema.")
@click.option("--seed", type=int, help="Reproducible random numbers: carries no guarantee.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "csv", "csv.gz", "csv.zst", "feather"]),
    default="parquet",
    show_default=True,
)
@click.option("--spreadsheet-safe", is_flag=True, help="Escape cells a spreadsheet would run.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The folder to write.")
@click.option("--explain", is_flag=True, help="Say what would be promised, read no data.")
@click.option("--force", is_flag=True, help="Overwrite a release that is there.")
@json_option
def slice_command(**given: Any) -> None:
    """Slice TABLE into columns and buckets and write a release.

    No sensitive value can be assigned to a person with probability above 1/l. This is not
    differential privacy, and no budget is charged.

    \b
    sherd slice adult.csv --schema adult.yaml --sensitive occupation --l 5 --regroup -o out/
    """
    from sherd.plan import Plan
    from sherd.protection import Settings, protect_to
    from sherd.release import check_target

    source: str = given["table"]
    if given["schema_file"] is None and not source.startswith(":"):
        raise click.UsageError("Missing option '--schema'. Make one with `sherd schema TABLE`.")
    plan = Plan(**_parameters(given))
    schema = load_schema(given["schema_file"] or source, given["missing"], given["outside"])
    guarantee = plan.guarantee(schema)
    if given["explain"]:
        if given["as_json"]:
            emit_json({"plan": plan.as_data(), "guarantee": guarantee.as_data()})
        else:
            click.echo(guarantee.words())
        return
    if given["output"] is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    check_target(given["output"], force=given["force"])
    with progress("slice") as bar:
        release = protect_to(
            given["output"],
            open_source(source, schema, given["query"]),
            schema,
            plan,
            settings=Settings(seed=given["seed"], progress=bar),
            format=given["form"],
            force=given["force"],
            spreadsheet_safe=given["spreadsheet_safe"],
        )
    _print(release, given["output"], given["as_json"])


def _parameters(given: dict[str, Any]) -> dict[str, Any]:
    chosen: dict[str, Any] = {"method": "slice"}
    for name in ("l", "columns", "alpha", "min_frequency"):
        if given[name] is not None:
            chosen[name] = given[name]
    for name in ("regroup", "suppress"):
        if given[name]:
            chosen[name] = True
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
        emit_json(
            {
                "output": str(folder),
                "manifest": manifest,
                "internal": [finding.as_data() for finding in release.findings],
            }
        )
        return
    click.echo(f"released {release.tables['data'].num_rows} rows to {folder}")
    for place, column in enumerate(manifest["facts"]["columns"], 1):
        click.echo(f"column {place}: {', '.join(column)}")
    for stamp in manifest["stamps"]:
        click.echo(f"STAMP: {stamp}")
    click.echo(str(manifest["guarantee"]["words"]))
    click.echo("For the owner only, not for publication:", err=True)
    for finding in release.findings:
        shown = f"{finding.value:.4g}" if isinstance(finding.value, float) else str(finding.value)
        click.echo(f"  {finding.name}: {shown} ({finding.meaning})", err=True)
