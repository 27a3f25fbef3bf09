"""Checks of a bundle's files: all there, none more, none changed."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from sherd.audit.verify.check import Check
from sherd.errors import UsageError
from sherd.release import digest, is_plain_name
from sherd.tables.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa


def check_files(folder: Path, manifest: Mapping[str, Any]) -> list[Check]:
    """Names, presence and hashes of the files, and the hashes of plan and schema."""
    listed = manifest["files"]
    if not all(map(is_plain_name, listed)):
        return [Check(name="file names", passed=False, detail="a file lies outside the folder")]
    checks = []
    for name, facts in listed.items():
        path = folder / name
        if not path.is_file():
            checks.append(Check(name=f"file {name}", passed=False, detail="it is not there"))
            continue
        same = digest(path) == facts.get("sha256")
        detail = "unchanged" if same else "its sha256 is not the manifest's"
        checks.append(Check(name=f"file {name}", passed=same, detail=detail))
    extra = sorted(p.name for p in folder.iterdir() if p.name not in (*listed, "manifest.json"))
    unlisted = [name for name in extra if not name.startswith("signature")]
    checks.append(
        Check(
            name="no other files",
            passed=not unlisted,
            detail="none" if not unlisted else "not in the manifest: " + ", ".join(unlisted),
        )
    )
    for part in ("plan", "schema"):
        text = json.dumps(manifest.get(part), sort_keys=True, separators=(",", ":"))
        same = hashlib.sha256(text.encode()).hexdigest() == manifest.get(f"{part}_hash")
        detail = "as stated" if same else "its hash is not the one stated"
        checks.append(Check(name=f"{part} hash", passed=same, detail=detail))
    return checks


def read_tables(folder: Path, manifest: Mapping[str, Any]) -> dict[str, pa.Table]:
    """The released tables, by the stem of their files."""
    from sherd.tables.read import read

    data = [name for name in manifest["files"] if not name.endswith(".json")]
    schema = _released(manifest)
    tables = {}
    for name in data:
        stem, _, form = name.partition(".")
        try:
            # A CSV file does not say that 007 is a label: the schema does.
            tables[stem] = read(folder / name, schema=schema if form.startswith("csv") else None)
        except UsageError:
            tables[stem] = read(folder / name)
    return tables


def _released(manifest: Mapping[str, Any]) -> Schema:
    """The schema without what a release leaves out."""
    given = manifest["schema"]
    kept = {n: a for n, a in given["attributes"].items() if a.get("role") != "identifier"}
    unit = ("unit", "rows_per_unit")
    rest = {key: value for key, value in given.items() if key not in unit}
    return Schema.from_data({**rest, "attributes": kept})
