"""``sherd demo``: a joint release by several owners on this machine, then what it is worth.

``sherd demo --joint``: a joint release without an aggregator, on this machine.

``sherd demo --methods``: a public table protected by several methods, side by side.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import click

from sherd.cli.options import PATH, emit_json, json_option, progress


@click.command()
@click.option(
    "-o",
    "--output",
    type=PATH,
    default=Path("out/demo"),
    show_default=True,
    help="Write everything to this folder.",
)
@click.option(
    "-e",
    "--epsilon",
    type=click.FloatRange(min=0, max=1000, min_open=True),
    default=1.0,
    show_default=True,
    help="Spend this epsilon on each release.",
)
@click.option(
    "--methods",
    is_flag=True,
    help="Protect one table by several methods instead and compare the releases.",
)
@click.option("--quick", is_flag=True, help="Use a tenth of the rows.")
@click.option(
    "--joint",
    is_flag=True,
    help="Release Adult, held cell by cell, by two and by three parties without an aggregator "
    "instead.",
)
@click.option(
    "--records", type=click.IntRange(min=30), help="With --joint: use only this many records."
)
@json_option
def demo(
    output: Path,
    epsilon: float,
    methods: bool,
    quick: bool,
    joint: bool,
    records: int | None,
    as_json: bool,
) -> None:
    """Run an aggregator and seven owners as separate processes, with mutual TLS.

    Four owners hold Adult by rows and three hold Wine Quality by columns, as in the paper. They
    release each table twice: by the paper's method and by dp-graph. A final page compares the
    releases: what is promised, what attackers find out and what remains useful.
    """
    if math.isnan(epsilon):
        raise click.BadParameter("nan is not a number above 0.", param_hint="--epsilon")
    if methods:
        demonstrate_methods(epsilon, output, as_json)
        return
    if joint:
        demonstrate_joint(epsilon, output, as_json, records=records)
        return
    from sherd.extras import check_extras, require

    require()
    check_extras(["joint-mpyc", "report"])
    from sherd_examples.demonstration_page import ReleaseAudits
    from sherd_examples.rounds_demonstration import demonstrate

    def tell(line: str) -> None:
        click.echo(line, err=as_json)

    began = time.monotonic()
    with ReleaseAudits(output) as audits:
        result = demonstrate(output, f"{epsilon:g}", tell, audits.begin, part=10 if quick else 1)
        tell("auditing all four releases against the pooled records")
        times = result.pop("seconds")
        result = {"tables": result, "report": str(audits.write_page(result))}
    times["total"] = time.monotonic() - began
    result["seconds"] = times
    if as_json:
        emit_json(result)
        return
    _print(result)


def _print(result: dict[str, Any]) -> None:
    for part in result["tables"].values():
        click.echo(f"\n{part['title']}")
        for method, release in part["releases"].items():
            size = f"{release['rows']} rows, {release['columns']} columns"
            spent = ", ".join(f"{owner} {amount}" for owner, amount in release["spent"].items())
            click.echo(f"  by {method}: {release['folder']} ({size})")
            click.echo(f"    spent: {spent}")
        click.echo("  information loss of idp-ls, mean SSE (0: the original):")
        for who, loss in part["loss"].items():
            click.echo(f"    {who:<28} {loss:.4f}")
        click.echo(f"  {part['worth']}")
    click.echo(
        "\nLosses were measured on a repetition of the same plans in this process, where the order"
        "\nof rows is known; a release's is not. They use the raw data: internal, not for"
        "\npublication."
    )
    times = result["seconds"]
    click.echo(f"\n{times['total']:.1f} s in all, {times['rounds']:.1f} s of it the releases.")
    click.echo(f"next: sherd verify {result['tables']['adult']['releases']['dp-graph']['folder']}")
    click.echo(f"report: {result['report']}")


def demonstrate_joint(
    epsilon: float, output: Path, as_json: bool, *, records: int | None = None
) -> None:
    """Run two and then three parties, and print what the release is worth and costs."""
    from sherd_examples.secure_demonstration import demonstrate, interpreter, scene

    interpreter()

    def tell(line: str) -> None:
        click.echo(line, err=as_json)

    given = scene(f"{epsilon:g}", 10, records)
    with progress("joint release") as bar:
        result = demonstrate(output, given, tell=tell, progress=bar)
    if as_json:
        emit_json(result)
        return
    print_joint(result)


def print_joint(result: dict[str, Any]) -> None:
    """The outcome, for a person."""
    click.echo(
        f"\nAdult, {result['records']} records released, {result['tested']} others to test a "
        f"classifier on; epsilon {result['epsilon']}, h = {result['h']}"
    )
    click.echo(f"  {'one owner of all cells (diffgen)':<40} {100 * result['pooled']:5.1f} % right")
    for run in result["runs"]:
        names = ", ".join(run["parties"])
        click.echo(f"\n{len(run['parties'])} parties ({names}), {run['protocol']}")
        click.echo(f"  {'the joint release':<40} {100 * run['joint']:5.1f} % right")
        for name, share in run["alone"].items():
            click.echo(f"  {name + ' alone, from its own cells':<40} {100 * share:5.1f} % right")
        click.echo(f"  {run['leaves']} combinations of values in {run['release']}")
        sent = sum(step["bytes"] for step in run["steps"].values())
        click.echo(f"  {run['seconds']:.0f} s and {sent / 1e6:.0f} MB in all, of which")
        for step, cost in run["steps"].items():
            click.echo(f"    {step:<28} {cost['seconds']:8.1f} s {cost['bytes'] / 1e6:9.1f} MB")
    click.echo(
        "\nAccuracies use raw records that were not released: for this demonstration only."
        f"\nnext: sherd verify {result['runs'][-1]['release']}"
    )


def demonstrate_methods(epsilon: float, output: Path, as_json: bool) -> None:
    """Run the comparison and print it."""
    from sherd_examples.methods_demonstration import compare_methods

    with progress("demo") as bar:
        comparison = compare_methods(epsilon, output, bar)
    verdict = comparison.pop("audit")
    if as_json:
        emit_json(comparison)
        return
    _print_methods(comparison["rows"], epsilon, comparison["releases"])
    click.echo(verdict)
    click.echo(f"releases: {output}/   next: sherd verify {comparison['releases'][1]['folder']}")
    click.echo(f"report: {comparison['report']}")


def _print_methods(count: int, epsilon: float, rows: list[dict[str, Any]]) -> None:
    click.echo(f"Adult, {count} people, 15 attributes, each release with epsilon = {epsilon:g}.\n")
    click.echo(f"{'release':<18} {'loss':>8} {'unchanged':>10} {'really spent':>13}   promise")
    for row in rows:
        loss = "-" if row["mean_sse"] is None else f"{row['mean_sse']:.4f}"
        same = "-" if row["unchanged"] is None else f"{row['unchanged']:.0%}"
        spent = "-" if row["spent"] is None else f"{row['spent']:.3g}"
        notion = "differential privacy" if row["is_differential_privacy"] else "individual DP"
        click.echo(f"{row['name']:<18} {loss:>8} {same:>10} {spent:>13}   {notion}")
    click.echo(
        "\nloss: mean SSE in units of each attribute's spread (0: the original; about 1.5: noise)."
        "\nunchanged: cells released exactly as they were."
        "\nreally spent: epsilon of the centroids when clusters are recomputed, computed exactly"
        "\n  from this table; above the epsilon asked for, the promise holds only for clusters"
        "\n  taken as public."
        "\nThe least loss comes with the least protection: a release near the original in most"
        "\ncells protects little, whatever its epsilon is called. dp-um-strict is differential"
        "\nprivacy in all it releases, and releases no rows."
        "\nThese numbers use the raw data: internal, not for publication.\n"
    )
