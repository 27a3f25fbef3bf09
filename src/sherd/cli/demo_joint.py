"""``sherd demo --joint``: a joint release without an aggregator, on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import emit_json, progress

if TYPE_CHECKING:
    from pathlib import Path


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
