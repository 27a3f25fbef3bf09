"""``sherd demo --methods``: a public table protected by several methods, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import emit_json, progress

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from sherd.release.bundle import Release
    from sherd.tables.schema import Schema

PLANS: tuple[dict[str, Any], ...] = (
    {"method": "dp"},
    {"method": "dp-um", "k": 100},
    {"method": "dp-um", "k": 100, "guarantee": "strict"},
    {"method": "idp-ls", "k": 100, "guarantee": "paper"},
    {"method": "idp-ls", "k": 100, "guarantee": "centroids"},
    {"method": "idp-cbls", "k": 100, "guarantee": "paper"},
)

AUDITED = "dp-um"
"""The release that the report is about."""


def compare_methods(epsilon: float, output: Path, as_json: bool) -> None:
    """Protect the public Adult table with several methods and compare them."""
    from dataclasses import replace

    from sherd import datasets
    from sherd.report.reporting import audit
    from sherd.tables.schema import Missing

    table = datasets.load("adult", complete=True)
    schema = replace(datasets.schema("adult"), missing=Missing.REFUSE)
    rows = []
    audited: Release | None = None
    page = output / "report.html"
    with progress("demo") as bar:
        for done, chosen in enumerate(PLANS, 1):
            release, row = _one(table, schema, {**chosen, "epsilon": epsilon}, output)
            rows.append(row)
            audited = release if row["name"] == AUDITED else audited
            bar("protecting", done, len(PLANS))
        found = audit(table, audited, target="income", progress=bar)
        found.save(page)
    if as_json:
        emit_json({"rows": table.num_rows, "releases": rows, "report": str(page)})
        return
    _print(table.num_rows, epsilon, rows)
    click.echo(f"Audit of {found.title}: {found.verdict.headline}")
    click.echo(f"releases: {output}/   next: sherd verify {rows[1]['folder']}")
    click.echo(f"report: {page}")


def _one(
    table: pa.Table, schema: Schema, chosen: dict[str, Any], output: Path
) -> tuple[Release, dict[str, Any]]:
    from sherd.release.plan import Plan
    from sherd.release.protect import protect

    plan = Plan(**chosen)
    release = protect(table, schema, plan)
    name = "-".join([plan.method, *([plan["guarantee"]] if len(chosen) > 3 else [])])
    folder = release.save(output / name, force=True)
    guarantee = plan.guarantee(schema)
    return release, {
        "name": name,
        "folder": str(folder),
        "is_differential_privacy": guarantee.notion.is_differential_privacy,
        "covers": guarantee.covers,
        "not_covered": [a.words for a in guarantee.assumes if a.leaks],
        **_measured(table, schema, release),
    }


def _measured(table: pa.Table, schema: Schema, release: Release) -> dict[str, Any]:
    """Loss and unchanged cells, from the original: for the owner's eyes only."""
    import pyarrow.compute as pc

    from sherd.release.information_loss import mean_sse
    from sherd.tables.coding import arrow_array

    spent = [f.value for f in release.findings if f.name == "epsilon with clusters made anew"]
    if release.order is None:
        return {"mean_sse": None, "unchanged": None, "spent": spent[0] if spent else None}
    before = table.take(arrow_array(release.order)).unify_dictionaries()
    data = release.tables["data"]
    same = [
        pc.mean(pc.equal(_plain(data.column(n)), _plain(before.column(n)))).as_py()
        for n in schema.protected
    ]
    return {
        "mean_sse": mean_sse(before, data, schema),
        "unchanged": sum(same) / len(same),
        "spent": spent[0] if spent else None,
    }


def _plain(column: Any) -> Any:
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


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
        "\nreally spent: epsilon of the centroids when clusters are made anew, computed exactly"
        "\n  from this table; above the epsilon asked for, the promise holds only for clusters"
        "\n  taken as public."
        "\nThe least loss comes with the least protection: a release near the original in most"
        "\ncells protects little, whatever its epsilon is called. dp-um-strict is differential"
        "\nprivacy in all it releases, and releases no rows."
        "\nThese numbers use the raw data: internal, not for publication.\n"
    )
