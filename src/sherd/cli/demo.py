"""``sherd demo``: a joint release by several owners on this machine, then what it is worth."""

from __future__ import annotations

import math
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

    Adult by rows over four owners and Wine Quality by columns over three, as in the paper.
    Ends with the releases, what each owner spent, and how the joint result compares with
    pooled data and with each owner alone.
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
    from sherd.federation.wire.optional_parts import require

    require()
    from sherd_examples.rounds_demonstration import demonstrate

    def tell(line: str) -> None:
        click.echo(line, err=as_json)

    result = demonstrate(output, f"{epsilon:g}", tell, part=10 if quick else 1)
    tell("auditing the joint release of Adult against the pooled records")
    result["report"] = str(_report(output, Path(result["adult"]["folder"])))
    if as_json:
        emit_json(result)
        return
    _print(result)


def _report(output: Path, release: Path) -> Path:
    """The page about Adult's joint release; only a demonstration has the pooled table."""
    import sherd
    from sherd_examples.rounds_demonstration import pooled

    page = output / "report.html"
    sherd.audit(pooled(output), release, alternatives=False).save(page)
    return page


def _print(result: dict[str, Any]) -> None:
    for name in ("adult", "wine"):
        part = result[name]
        click.echo(f"\n{part['title']}")
        click.echo(f"  release: {part['folder']} ({part['rows']} rows, {part['columns']} columns)")
        click.echo(f"  epsilon of the release: {part['epsilon']} ({part['composition']})")
        spent = ", ".join(f"{owner} {amount}" for owner, amount in part["spent"].items())
        click.echo(f"  spent: {spent}")
        click.echo("  information loss, mean SSE (0: the original):")
        for who, loss in part["loss"].items():
            click.echo(f"    {who:<24} {loss:.4f}")
        click.echo(f"  {part['worth']}")
    click.echo(
        "\nLosses were measured on a repetition of the same plans in this process, where the order"
        "\nof rows is known; a release's is not. They use the raw data: internal, not for"
        "\npublication."
    )
    times = result["seconds"]
    click.echo(f"\n{times['total']:.1f} s in all, {times['rounds']:.1f} s of it both rounds.")
    click.echo(f"next: sherd verify {result['adult']['folder']}")
    click.echo(f"report: {result['report']}")
