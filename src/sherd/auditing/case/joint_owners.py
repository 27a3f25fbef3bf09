"""What a joint release's manifest says of its owners: whose columns are whose, who learns what."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


_BY_COLUMNS = ("vertical", "blocks")


def owners_of(manifest: Mapping[str, Any]) -> dict[str, list[str]] | None:
    """The columns of each owner who holds some of them only, None where nobody does.

    An owner of a block knows its columns of its own people. It is taken as one who knows them of
    everybody: which rows are whose is not in the manifest, and what it reads off other owners'
    cells is the same share of them. A manifest is somebody else's file: what is not as expected is
    no reason to fail.
    """
    joint = manifest.get("joint")
    if not isinstance(joint, dict) or joint.get("kind") not in _BY_COLUMNS:
        return None
    try:
        schemas = joint["plan"]["schemas"]
        found = {
            str(share["owner"]): _attributes(schemas[share["schema_hash"]])
            for share in joint["plan"]["shares"]
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return {**found, str(joint["plan"].get("terms", {}).get("aggregator") or "aggregator"): []}


def _attributes(schema: Any) -> list[str]:
    data = json.loads(schema) if isinstance(schema, str) else schema
    listed = data["attributes"]
    return [name for name in listed if listed[name].get("role") != "identifier"]


def learns(manifest: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Who learns what beyond the release by taking part, as the manifest says."""
    joint = manifest.get("joint")
    said = joint.get("learns_beyond_the_release") if isinstance(joint, dict) else None
    if not isinstance(said, dict):
        return ()
    return tuple(
        (str(who), tuple(str(line) for line in lines))
        for who, lines in said.items()
        if isinstance(lines, (list, tuple)) and lines
    )
