"""``sherd demo``: a joint release by several owners on this machine, then what it is worth."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import click

from sherd.cli.options import emit_json, json_option


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
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
    help="Protect one table by several methods instead, and compare them.",
)
@click.option("--quick", is_flag=True, help="Use a tenth of the rows.")
@click.option(
    "--joint",
    is_flag=True,
    help="Release Adult, cell by cell, by two and by three parties without an aggregator instead.",
)
@click.option(
    "--records", type=click.IntRange(min=30), help="With --joint: use this many records only."
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
    """Run an aggregator and seven owners as processes of their own, with mutual TLS.

    Adult by rows over four owners and Wine Quality by columns over three, as in the paper, each
    released twice by the same owners: by the paper's method and by dp-graph. Ends with one page
    that compares them: what is promised, what attackers find out, what is left to work with.
    """
    if math.isnan(epsilon):
        raise click.BadParameter("nan is not a number above 0.", param_hint="--epsilon")
    if methods:
        from sherd.cli.demo_methods import demonstrate_methods

        demonstrate_methods(epsilon, output, as_json)
        return
    if joint:
        from sherd.cli.demo_joint import demonstrate_joint

        demonstrate_joint(epsilon, output, as_json, records=records)
        return
    from sherd.extras import check_extras
    from sherd.federation.wire.optional_parts import require

    require()
    check_extras(["joint-mpyc", "report"])
    from sherd_examples.demonstration_page import write_page
    from sherd_examples.rounds_demonstration import demonstrate

    def tell(line: str) -> None:
        click.echo(line, err=as_json)

    result = demonstrate(output, f"{epsilon:g}", tell, part=10 if quick else 1)
    tell("auditing all four releases against the pooled records")
    began = time.monotonic()
    times = result.pop("seconds")
    result = {"tables": result, "report": str(write_page(output.absolute(), result))}
    times["total"] += time.monotonic() - began
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
