"""What a release says of itself: its manifest, and the Frictionless data package beside it.

Nothing in either is computed from raw data. The data package lets other tools open the bundle.
"""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sherd.budget.entries import Entry, Reservation
    from sherd.guarantees import Guarantee
    from sherd.release.plan import Plan
    from sherd.release.protect import Settings
    from sherd.tables.schema import Schema


FORMAT = 2
"""The form of manifests."""

EARLIER_FORMAT = 1
"""The form before, the same but for what promises name (``sherd.guarantees.guarantee``)."""

ORDER_KEPT = "order of rows kept: not for publication"
"""The stamp of a release whose rows are in the order of the table it was made from."""


def manifest_of(
    schema: Schema,
    plan: Plan,
    guarantee: Guarantee,
    settings: Settings,
    reservation: Reservation | Entry | None,
) -> dict[str, Any]:
    """What a release says of itself; nothing computed from raw data.

    ``reservation`` is what is held for it or, where that came first, what was charged.
    """
    import numpy as np
    import pyarrow as pa

    from sherd import __version__
    from sherd.guarantees import Assumption
    from sherd.release.charging import told_population

    # The hash is that of what is published: one over secret values could be guessed at.
    told = schema.published(names_values=Assumption.ORDER_FROM_DATA in guarantee.assumes)
    stamps = []
    if settings.seed is not None:
        stamps.append("reproducible: carries no guarantee")
    if settings.keep_order:
        stamps.append(ORDER_KEPT)
    # What costs no epsilon is counted in the ledger, but spends nothing there.
    spends = reservation is not None and reservation.measure != "none"
    budget: dict[str, Any] = {"recorded": spends}
    if reservation is not None and spends:
        account = told_population(reservation.population, schema, told)
        budget |= {"population": account, "spent": str(reservation.amount)}
    return {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "stamps": stamps,
        "guarantee": guarantee.as_data(),
        "plan": plan.as_data(),
        "plan_hash": plan.hash,
        "schema": told.as_data(),
        "schema_hash": told.hash,
        "budget": budget,
        "versions": {
            "sherd": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "pyarrow": pa.__version__,
        },
    }


DOCUMENT = ".json"
"""How the name of a document's file ends."""

_FRICTIONLESS = (
    ("int", "integer"),
    ("uint", "integer"),
    ("float", "number"),
    ("double", "number"),
    ("decimal", "number"),
    ("halffloat", "number"),
    ("bool", "boolean"),
    ("date", "date"),
    ("timestamp", "datetime"),
)


def data_package(
    tables: Mapping[str, pa.Table],
    files: Mapping[str, Mapping[str, Any]],
    format: str,  # noqa: A002 - what everybody calls it
    manifest: Mapping[str, Any],
    documents: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """The Frictionless data package of a bundle."""
    import pyarrow as pa

    from sherd.tables.write import escaped

    resources = []
    for name, table in tables.items():
        path = f"{name}.{format}"
        fields = []
        for column in table.schema:
            coded = pa.types.is_dictionary(column.type)
            text = str(column.type.value_type if coded else column.type)
            kind = next((k for start, k in _FRICTIONLESS if text.startswith(start)), "string")
            fields.append({"name": column.name, "type": kind})
        if files[path].get("spreadsheet_safe"):
            names = escaped(pa.array(table.column_names, pa.string())).to_pylist()
            fields = [{**field, "name": name} for field, name in zip(fields, names, strict=True)]
        resources.append(
            {
                "name": name,
                "path": path,
                "format": format.split(".", maxsplit=1)[0],
                "bytes": files[path]["bytes"],
                "hash": f"sha256:{files[path]['sha256']}",
                "schema": {"fields": fields},
            }
        )
    resources += [
        {
            "name": name,
            "path": f"{name}{DOCUMENT}",
            "format": "json",
            "bytes": files[f"{name}{DOCUMENT}"]["bytes"],
            "hash": f"sha256:{files[f'{name}{DOCUMENT}']['sha256']}",
        }
        for name in documents
    ]
    return {
        "name": "sherd-release",
        "created": manifest.get("created"),
        "description": str(manifest.get("guarantee", {}).get("words", "")),
        "resources": resources,
    }
