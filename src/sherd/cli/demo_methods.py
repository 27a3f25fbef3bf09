"""``sherd demo --methods``: a public table protected by several methods, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import emit_json, progress

if TYPE_CHECKING:
    from pathlib import Path


def demonstrate_methods(epsilon: float, output: Path, as_json: bool) -> None:
    """Run the comparison and print it."""
    from sherd_examples.methods_demonstration import compare_methods

    with progress("demo") as bar:
        made = compare_methods(epsilon, output, bar)
    said = made.pop("audit")
    if as_json:
        emit_json(made)
        return
    _print(made["rows"], epsilon, made["releases"])
    click.echo(said)
    click.echo(f"releases: {output}/   next: sherd verify {made['releases'][1]['folder']}")
    click.echo(f"report: {made['report']}")


def _print(count: int, epsilon: float, rows: list[dict[str, Any]]) -> None:
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
