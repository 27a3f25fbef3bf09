"""``sherd compare``: several releases of one table on one risk-utility map."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sherd.cli.audit import MARK, report_options, source_of
from sherd.cli.options import emit_json, load_schema, progress
from sherd.errors import UsageError


@click.command()
@click.argument("releases", nargs=-1, required=True)
@click.option(
    "--original",
    required=True,
    metavar="TABLE",
    help="Read the table that the releases were made from.",
)
@click.option(
    "--row-map",
    "row_maps",
    multiple=True,
    metavar="RELEASE=FILE",
    help="Read the row map of this release. Repeatable.",
)
@click.option(
    "--holdout", metavar="TABLE", help="Compare with records that were not part of any release."
)
@click.option("--target", metavar="COLUMN", help="Train models that predict this column.")
@click.option(
    "--schema", "schema_file", metavar="FILE", help="Use this schema if a manifest has none."
)
@click.option("--query", help="Run this SQL if the original is a database.")
@report_options
def compare(**given: Any) -> None:
    """Audit RELEASES of one table and put them on one map, with a recommendation.

    Risk is judged by the attacks that could be run on every release. Give a row map for each
    release or for none: an attack that ran on only some of them is shown but not compared.

    \b
    sherd compare dp/ ls/ cbls/ --original wine.csv -o compare.html
    """
    from sherd.auditing.verdict.verdict import listed
    from sherd.report import check_outputs
    from sherd.report.reporting import audit
    from sherd.report.reporting import compare as put_together

    check_outputs(given["outputs"], force=given["force"])
    names = _names(given["releases"])
    maps = _maps(given["row_maps"], names)
    schema = None
    if given["schema_file"] is not None:
        schema = load_schema(given["schema_file"], None, None)
    original = source_of(given["original"], given["query"])
    holdout = None if given["holdout"] is None else source_of(given["holdout"], None)
    audits = {}
    with progress("compare") as bar:
        for done, (name, path) in enumerate(names.items()):
            bar("auditing", done, len(names))
            audits[name] = audit(
                original,
                Path(path),
                schema=schema,
                row_map=maps.get(name),
                holdout=holdout,
                target=given["target"],
                alternatives=False,
                seed=given["seed"],
            )
    found = put_together(audits)
    found.save(*given["outputs"])
    if given["as_json"]:
        emit_json(found.as_data())
        return
    width = max(len(name) for name in names)
    for place in found.places:
        judged, verdict = found.judged[place.name], found.audits[place.name].verdict
        risk = f"{place.risk:.3f}" if place in found.mapped else "-"
        click.echo(
            f"{place.name:<{width}}  utility {place.utility:.3f}  worst attack {risk}  "
            f"risk {judged.risk}, promise {verdict.promise}"
        )
        for one in judged.apart:
            mark = MARK[one.stands.tone if one.judged else "plain"]
            only = listed(one.run_on)
            click.echo(f"  {mark} not comparable, run on {only} only: {one.shown}")
    click.echo(f"Recommended: {found.recommended or 'none'}. {found.reason}")
    for text in found.warnings:
        click.echo(f"Warning: {text}")
    for path in given["outputs"]:
        click.echo(f"report: {path}")


def _names(releases: tuple[str, ...]) -> dict[str, str]:
    """A short name for each release: its folder's, or its path where those are the same."""
    short = [Path(path).name or path for path in releases]
    titles = dict(zip(short if len(set(short)) == len(short) else releases, releases, strict=True))
    if len(titles) != len(releases):
        raise UsageError("a release is given twice", must="different releases")
    return titles


def _maps(given: tuple[str, ...], names: dict[str, str]) -> dict[str, str]:
    maps = {}
    for text in given:
        release, equals, path = text.partition("=")
        name = next(
            (n for n, p in names.items() if release.rstrip("/") in (n, p.rstrip("/"))), None
        )
        if not equals or name is None:
            raise UsageError(
                "--row-map cannot be read",
                must="RELEASE=FILE with one of the releases given",
                got=repr(text),
            )
        maps[name] = path
    return maps
