"""``sherd compare``: several releases of one table on one risk-utility map."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sherd.cli.audit import MARK, audit_arguments, audit_options
from sherd.cli.options import emit_json, named_values, progress
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
    callback=named_values,
    help="Read the row map of this release. Repeatable.",
)
@audit_options
def compare(**given: Any) -> None:
    """Audit RELEASES of one table and put them on one map, with a recommendation.

    Risk is judged by the attacks that could be run on every release. Give a row map for each
    release or for none: an attack that ran on only some of them is shown but not compared.

    \b
    sherd compare dp/ ls/ cbls/ --original wine.csv -o compare.html
    """
    from sherd.auditing.verdict.verdict import listed
    from sherd.report.reporting import audit
    from sherd.report.reporting import compare as put_together

    names = _names(given["releases"])
    maps = _maps(given["row_maps"], names)
    arguments = audit_arguments(given)
    audits = {}
    with progress("compare") as bar:
        for done, (name, path) in enumerate(names.items()):
            bar("auditing", done, len(names))
            audits[name] = audit(
                release=Path(path), row_map=maps.get(name), alternatives=False, **arguments
            )
    comparison = put_together(audits)
    comparison.save(*given["outputs"])
    if given["as_json"]:
        emit_json(comparison.as_data())
        return
    width = max(len(name) for name in names)
    for place in comparison.places:
        judged, verdict = comparison.judged[place.name], comparison.audits[place.name].verdict
        risk = f"{place.risk:.3f}" if place in comparison.mapped else "-"
        click.echo(
            f"{place.name:<{width}}  utility {place.utility:.3f}  worst attack {risk}  "
            f"risk {judged.risk}, promise {verdict.promise}"
        )
        for one in judged.apart:
            mark = MARK[one.stands.tone if one.judged else "plain"]
            only = listed(one.run_on)
            click.echo(f"  {mark} not comparable, run on {only} only: {one.shown}")
    click.echo(f"Recommended: {comparison.recommended or 'none'}. {comparison.reason}")
    for text in comparison.warnings:
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


def _maps(given: dict[str, str], names: dict[str, str]) -> dict[str, str]:
    maps = {}
    for release, path in given.items():
        name = next(
            (n for n, p in names.items() if release.rstrip("/") in (n, p.rstrip("/"))), None
        )
        if name is None:
            raise UsageError(
                "--row-map cannot be read",
                must="RELEASE=FILE with one of the releases given",
                got=repr(release),
            )
        maps[name] = path
    return maps
