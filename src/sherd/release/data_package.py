"""The Frictionless data package of a release, so that other tools can open the bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

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
    """A Frictionless data package, so that other tools can open the bundle."""
    import pyarrow as pa

    from sherd.tables.write import escaped

    resources = []
    for name, table in tables.items():
        path = f"{name}.{format}"
        fields = []
        for column in table.schema:
            text = str(column.type)
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
