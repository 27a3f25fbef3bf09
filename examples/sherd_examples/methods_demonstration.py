"""A public table protected by several methods, side by side, and one release audited."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sherd
from sherd.tables.schema import Missing

if TYPE_CHECKING:
    from collections.abc import Callable
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


def compare_methods(
    epsilon: float, output: Path, progress: Callable[[str, int, int], None]
) -> dict[str, Any]:
    """Protect the public Adult table with several methods and measure each."""
    table = sherd.datasets.load("adult", complete=True)
    schema = replace(sherd.datasets.schema("adult"), missing=Missing.REFUSE)
    rows = []
    audited: Release | None = None
    for done, chosen in enumerate(PLANS, 1):
        release, row = _one(table, schema, {**chosen, "epsilon": epsilon}, output)
        rows.append(row)
        audited = release if row["name"] == AUDITED else audited
        progress("protecting", done, len(PLANS))
    audit = sherd.audit(table, audited, target="income", progress=progress)
    page = output / "report.html"
    audit.save(page)
    said = f"Audit of {audit.title}: {audit.verdict.headline}"
    return {"rows": table.num_rows, "releases": rows, "report": str(page), "audit": said}


def _one(
    table: pa.Table, schema: Schema, chosen: dict[str, Any], output: Path
) -> tuple[Release, dict[str, Any]]:
    plan = sherd.Plan(**chosen)
    release = sherd.protect(table, schema, plan, ledger=None)
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

    spent = [f.value for f in release.findings if f.name == "epsilon with clusters recomputed"]
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
