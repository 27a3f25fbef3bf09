"""Opening a case: reading, checking that table and release belong together, coding.

What does not fit is refused here with its reason: the release of another table, missing columns,
different row counts, an empty release, a target that is not there, a file that is not a row map.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.auditing.case.case import height
from sherd.auditing.case.record_drawing import (
    Drawable,
    DrawnRelease,
    MaskedRelease,
    drawable,
)
from sherd.auditing.case.row_sample import give_back
from sherd.errors import FormatError, TableError, UsageError, did_you_mean
from sherd.randomness import Randomness
from sherd.release.bundle import MANIFEST, Release
from sherd.tables.number_scale import Scale, scale_of
from sherd.tables.prepare import Prepared, prepare
from sherd.tables.schema import Role, Schema
from sherd.tables.sql import is_address
from sherd.verifying import Verification, verify
from sherd.verifying.bundle_files import read_documents, read_tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Columns


LEAST = 20
"""The fewest records for which halves, control groups and intervals mean anything."""


def verified(given: Any, schema: Schema | None) -> Verification:
    """The checks of a release and the manifest they read; a bare manifest for a bare table."""
    if isinstance(given, Release) or _is_folder(given):
        verification = verify(given)
        if verification.manifest is None:
            raise FormatError(verification.checks[0].detail, got=str(given))
        return verification
    if isinstance(given, (str, Path)) and not is_address(str(given)) and not Path(given).exists():
        raise UsageError(
            "there is no such release",
            must="a release's folder, or a table's file",
            got=str(given),
            do="check the path",
        )
    if schema is None:
        raise UsageError(
            "a table without a manifest needs a schema",
            must="a release's folder, or a table with the schema of the original",
            do="give the schema with --schema",
        )
    bare = {"plan": {"method": "unknown"}, "schema": schema.as_data(), "guarantee": {}}
    return Verification(checks=(), manifest=bare)


def tables_of(given: Any, manifest: Mapping[str, Any]) -> Mapping[str, pa.Table]:
    """The tables of a release: an object's, a bundle's, a file's or a dataframe's."""
    if isinstance(given, Release):
        return given.tables
    if _is_folder(given):
        return read_tables(Path(given), manifest)
    return {"data": read_table(given, None)}


def read_table(given: Any, schema: Schema | None) -> pa.Table:
    """A table as given, or read from its file in the schema's types."""
    if isinstance(given, (str, Path)):
        from sherd.tables.read import read

        return read(given, schema=schema)
    from sherd.tables.frames import to_arrow

    return to_arrow(given)


def _is_folder(given: Any) -> bool:
    return isinstance(given, (str, Path)) and Path(given).is_dir()


def full_schema(manifest: Mapping[str, Any], given: Schema | None) -> Schema:
    """The schema of the original: as given, or as the manifest says."""
    if given is not None:
        return given
    if "schema" not in manifest:
        raise FormatError("the manifest has no schema", do="give the schema with --schema")
    return Schema.from_data(manifest["schema"])


def released_part(schema: Schema) -> Schema:
    """The schema without its identifiers."""
    kept = {a.name: a for a in schema if a.role is not Role.IDENTIFIER}
    return replace(schema, attributes=kept, unit=None, rows_per_unit=1)


def name_of(given: Any) -> str:
    """The name of a table's file; empty for a table in memory or in a database."""
    if not isinstance(given, (str, Path)) or is_address(str(given)):
        return ""  # an address may hold a password
    return Path(given).name


def hash_of(given: Any) -> str:
    """The sha256 of a saved release's manifest, which names everything else; else nothing."""
    if not _is_folder(given):
        return ""
    return hashlib.sha256((Path(given) / MANIFEST).read_bytes()).hexdigest()


def documents_of(given: Any, manifest: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The documents of a release: an object's or a bundle's."""
    if isinstance(given, Release):
        return given.documents
    return read_documents(Path(given), manifest) if _is_folder(given) else {}


def prepared(
    table: pa.Table, full: Schema, schema: Schema, what: str, *, strict: bool = False
) -> Prepared:
    """A table with the schema's policies carried out, as ``protect`` does it.

    ``full`` is the schema of the original, ``schema`` that of what is released of it.
    """
    lacking = [name for name in schema.attributes if name not in table.column_names]
    if lacking:
        raise TableError(
            f"{what} lacks columns of the release: {', '.join(lacking[:8])}",
            must="the table that the release was made from",
            got=f"{table.num_columns} columns",
            do=did_you_mean(lacking[0], table.column_names)
            or "check that the release belongs to this table",
        )
    if strict and all(name in table.column_names for name in full.attributes):
        # A strict plan treats rows that are too many of one person: it must know who they are.
        made = prepare(table.select(list(full.attributes)), full, strict=True)
        made = replace(made, table=made.table.select(list(schema.attributes)))
    else:
        made = prepare(table.select(list(schema.attributes)), schema, strict=strict)
    if made.table.num_rows < LEAST:
        raise TableError(
            f"{what} is too small to audit: its numbers would say nothing",
            must=f"at least {LEAST} records that the schema's policies keep",
            got=str(made.table.num_rows),
        )
    return made


def drawable_of(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> Drawable:
    """How to draw records from a release."""
    if not tables or all(table.num_rows == 0 for table in tables.values()):
        raise TableError("the release is empty", must="at least one row")
    return drawable(tables, manifest)


def records(source: Drawable, schema: Schema, seed: int) -> pa.Table:
    """One table of records drawn from a release, with the schema's columns."""
    table = next(iter(source.draw(Randomness.seeded(seed), 1)))
    known = [name for name in schema.attributes if name in table.column_names]
    lacking = [name for name in schema.attributes if name not in table.column_names]
    whole = isinstance(source, MaskedRelease) and not isinstance(source, DrawnRelease)
    if not known or (lacking and whole):
        raise TableError(
            f"the release lacks columns that its schema lists: {', '.join(lacking[:8])}",
            got=f"{table.num_columns} columns",
            do="check that the release is whole (`sherd verify`) and belongs to this schema",
        )
    return table.select(known)


def check_rows(before: Columns, after: Columns, schema: Schema) -> None:
    """Refuse a record-level release that cannot stem from the table."""
    rows, released = height(before), height(after)
    if released != rows:
        raise TableError(
            "the release and the table differ in their number of rows",
            must=f"{rows} rows, one for each record kept by the schema's policies",
            got=str(released),
            do="check that the release was made from this table",
        )
    for name in schema.untouched:
        if name not in after:
            continue
        if not np.array_equal(np.sort(before[name]), np.sort(after[name]), equal_nan=True):
            raise TableError(
                f"the attribute '{name}' is released as it is, but differs from the table's",
                must="the table that the release was made from",
                do="check that the release was made from this table",
            )


def scales_of(table: pa.Table, schema: Schema, by_frequency: bool) -> dict[str, Scale]:
    """The scale of every attribute, taken from the original."""
    return {
        name: scale_of(schema[name], table.column(name), schema, by_frequency=by_frequency)
        for name in schema.attributes
    }


def columns_of(table: pa.Table, scales: Mapping[str, Scale], schema: Schema) -> Columns:
    """A table's columns as numbers; where nobody else holds the table, each goes as it is read."""
    columns = {name: table.column(name) for name in table.column_names}
    del table
    coded = {
        name: scales[name].numbers(columns.pop(name), schema)
        for name in schema.attributes
        if name in columns
    }
    give_back()
    return coded


def read_row_map(path: str | Path) -> NDArray[np.int64]:
    """The private permutation that ``sherd protect --row-map`` wrote, under any name."""
    from sherd.tables.csvfile import read_csv

    table = read_csv(Path(path), None, None)
    if table.column_names != ["released_row", "input_row"]:
        raise FormatError(
            "this is not a row map",
            must="a CSV file with the columns released_row and input_row",
            got=str(path),
        )
    try:
        place, row = (table.column(name).cast(pa.int64()).to_numpy() for name in table.column_names)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise FormatError(
            "the row map holds values that are not row numbers", got=str(path)
        ) from None
    order = np.full(len(place), -1, np.int64)
    if len(place) and (place.min() < 0 or place.max() >= len(place)):
        raise FormatError("the row map's rows do not run from 0 upwards", got=str(path))
    order[place] = row
    return order


def check_order(order: Any, kept: Any, rows: int) -> NDArray[np.int64]:
    """The row map in terms of the rows that were kept; refused where it does not fit."""
    places = np.asarray(order, np.int64)
    if kept is not None:
        place = np.full(int(kept.max()) + 1, -1, np.int64)
        place[kept] = np.arange(len(kept))
        inside = (places >= 0) & (places < len(place))
        places = np.where(inside, place[np.where(inside, places, 0)], -1)
    if len(places) != rows or not np.array_equal(np.sort(places), np.arange(rows)):
        raise TableError(
            "the row map does not fit the release",
            must=f"each of the {rows} kept records once",
            got=f"{len(places)} entries",
            do="use the row map that was written with this release",
        )
    return places


def check_mapped(order: NDArray[np.int64], kept: Any, rows: int) -> None:
    """Refuse a map of classes that does not fit; attacks on classes go without one."""
    known = np.arange(rows) if kept is None else np.asarray(kept)
    if len(np.unique(order)) != len(order) or not np.isin(order, known).all():
        raise TableError(
            "the row map does not fit the release",
            must="records of this table, each once at most",
            do="use the row map that was written with this release",
        )


def check_target(target: str | None, schema: Schema, names: tuple[str, ...]) -> str | None:
    """The column that models predict: as given, or the only sensitive attribute."""
    if target is None:
        sensitive = [name for name in schema.named(Role.SENSITIVE) if name in names]
        return sensitive[0] if len(sensitive) == 1 else None
    if target not in names:
        raise UsageError(
            f"the release has no column '{target}' to predict",
            must="one of " + ", ".join(names),
            do=did_you_mean(target, names) or None,
        )
    return target


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
        owners = {
            str(share["owner"]): _attributes(schemas[share["schema_hash"]])
            for share in joint["plan"]["shares"]
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return {**owners, str(joint["plan"].get("terms", {}).get("aggregator") or "aggregator"): []}


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
