"""Checks of a bundle's files: all there, none more, none changed."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from sherd.errors import UsageError
from sherd.release.bundle import (
    FORMATS,
    MANIFEST,
    PACKAGE,
    digest,
    is_document,
    is_plain_name,
    read_data,
    read_json,
)
from sherd.release.manifest import DOCUMENT
from sherd.release.method import traits_of
from sherd.release.signature import COUNTERSIGNATURES, SIGNATURE
from sherd.tables.coded_columns import FORM as CODED
from sherd.tables.schema import Schema
from sherd.verifying import arrow_files, parquet_pages
from sherd.verifying.check import Check
from sherd.verifying.stored_table import StoredTable, stored_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack
    from pathlib import Path

    import pyarrow as pa

    from sherd.release.traits import Traits


def check_files(folder: Path, manifest: Mapping[str, Any]) -> list[Check]:
    """Names, presence and hashes of the files, and the hashes of plan and schema."""
    listed = manifest["files"]
    if not all(map(is_plain_name, listed)):
        return [Check.failed("file names", "a file lies outside the folder")]
    data = [name for name in listed if name != PACKAGE]
    if len({name.partition(".")[0] for name in data}) < len(data):
        return [Check.failed("file names", "two files are the same table")]
    odd = [name for name in data if not _is_known(name, traits_of(manifest))]
    if odd:
        return [Check.failed("file names", "not of a known format: " + ", ".join(odd))]
    checks = []
    for name, facts in listed.items():
        path = folder / name
        if path.is_symlink():
            wrong = "it is a link"
        elif not path.is_file():
            wrong = "it is not there"
        # Before it is hashed: a sparse file can be longer than anybody would wait for.
        elif path.stat().st_size != facts.get("bytes"):
            wrong = "it has another number of bytes than the manifest says"
        else:
            same = digest(path) == facts.get("sha256")
            wrong = _too_large(path) if same else "its sha256 is not the manifest's"
        checks.append(Check.of(f"file {name}", not wrong, "unchanged", wrong))
    beside = {MANIFEST, SIGNATURE} | ({COUNTERSIGNATURES} if "joint" in manifest else set())
    unlisted = sorted(p.name for p in folder.iterdir() if p.name not in {*listed, *beside})
    there = [name for name in sorted(beside) if os.path.lexists(folder / name)]
    unlisted += [n for n in there if not _is_plain_file(folder / n) or n in listed]
    checks.append(
        Check.of(
            "no other files", not unlisted, "none", "not in the manifest: " + ", ".join(unlisted)
        )
    )
    documents = [n for n in listed if n == PACKAGE or is_document(n)]
    texts = [n for n in (*there, *documents) if _is_plain_file(folder / n)]
    checks += _attached([folder, *(p for p in folder.iterdir() if not p.is_symlink())])
    return [*checks, _spelling(folder, texts), *check_hashes(manifest)]


def _too_large(path: Path) -> str:
    """What of a file is too large to be read in little memory; empty where nothing is."""
    arrow = path.name.endswith((".feather", ".arrows"))
    return arrow_files.too_large(path) if arrow else parquet_pages.too_large(path)


def _attached(paths: list[Path]) -> list[Check]:
    """What a file system holds beside the bytes of files, where there is any: it may tell."""
    attached = []
    for path in paths:
        try:
            names = os.listxattr(path) if hasattr(os, "listxattr") else []
        except OSError:
            names = []
        # What a browser notes of a download is its user's own.
        told = [n for n in names if n.startswith("user.") and not n.startswith("user.xdg.")]
        attached += [f"{path.name}: {', '.join(told)}"] if told else []
    if not attached:
        return []
    detail = "extended attributes are no part of a release; look at them, or copy the files without"
    return [Check.unmade("attached to the files", f"{detail}: {'; '.join(attached)}")]


def _is_plain_file(path: Path) -> bool:
    """Whether it is a file: no link, pipe, device or folder."""
    return path.is_file() and not path.is_symlink()


def _spelling(folder: Path, names: list[str]) -> Check:
    """JSON is spelt as it is written: blanks, escapes and digits could carry a message."""
    odd = []
    for name in names:
        given, plain = (folder / name).read_bytes(), name in (SIGNATURE, COUNTERSIGNATURES)
        try:
            text = json.dumps(json.loads(given), indent=2, ensure_ascii=plain) + "\n"
        except (ValueError, RecursionError):
            text = ""
        if given != text.encode(errors="replace"):
            odd.append(name)
    return Check.of(
        "spelling of the JSON files",
        not odd,
        "as it is written",
        "not as it is written: " + ", ".join(odd),
    )


def check_hashes(manifest: Mapping[str, Any]) -> list[Check]:
    """The stated hashes of plan and schema."""
    checks = []
    for part in ("plan", "schema"):
        text = json.dumps(manifest.get(part), sort_keys=True, separators=(",", ":"))
        same = hashlib.sha256(text.encode()).hexdigest() == manifest.get(f"{part}_hash")
        checks.append(Check.of(f"{part} hash", same, "as stated", "its hash is not the one stated"))
    return checks


def _is_known(name: str, traits: Traits | None) -> bool:
    """Whether a file is a table, or a document that releases of its method have."""
    stem, _, form = name.partition(".")
    if is_document(name):
        return traits is not None and stem in traits.documents
    return form in (*FORMATS, CODED)


def stored_tables(
    folder: Path, manifest: Mapping[str, Any], stack: ExitStack
) -> dict[str, pa.Table | StoredTable]:
    """The released tables, left in their files; what they need besides ends with the stack."""
    schema = _released(manifest)
    tables: dict[str, pa.Table | StoredTable] = {}
    for name, facts in _tables(manifest):
        stem = name.partition(".")[0]
        try:
            tables[stem] = stored_table(folder / name, facts, schema, stack)
        except UsageError:
            tables[stem] = read_data(folder / name, facts)
    return tables


def _tables(manifest: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The files that are tables, with what the manifest says of them."""
    files = manifest["files"].items()
    return [(name, facts) for name, facts in files if name != PACKAGE and not is_document(name)]


def read_tables(folder: Path, manifest: Mapping[str, Any]) -> dict[str, pa.Table]:
    """The released tables, by the stem of their files."""
    schema = _released(manifest)
    tables = {}
    for name, facts in _tables(manifest):
        stem, _, form = name.partition(".")
        try:
            # A CSV file does not say that 007 is a label: the schema does.
            of_text = schema if form.startswith("csv") else None
            tables[stem] = read_data(folder / name, facts, of_text)
        except UsageError:
            tables[stem] = read_data(folder / name, facts)
    return tables


def read_documents(folder: Path, manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The released documents, by the stem of their files."""
    return {
        name.removesuffix(DOCUMENT): read_json(folder / name, "the document")
        for name in manifest["files"]
        if is_document(name)
    }


def check_sizes(tables: Mapping[str, pa.Table | StoredTable], manifest: Mapping[str, Any]) -> Check:
    """Whether every table has as many rows and columns as the manifest says."""
    wrong = [
        name
        for name, facts in _tables(manifest)
        if (facts["rows"], facts["columns"]) != tables[name.partition(".")[0]].shape
    ]
    return Check.of(
        "rows and columns", not wrong, "as the manifest says", "not as stated: " + ", ".join(wrong)
    )


def _released(manifest: Mapping[str, Any]) -> Schema:
    """The schema without what a release leaves out."""
    given = manifest["schema"]
    kept = {n: a for n, a in given["attributes"].items() if a.get("role") != "identifier"}
    unit = ("unit", "rows_per_unit")
    rest = {key: value for key, value in given.items() if key not in unit}
    return Schema.from_data({**rest, "attributes": kept})
