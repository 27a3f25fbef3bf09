"""A release: the protected tables, the manifest that describes them, and the bundle on disk.

A bundle is written whole or not at all: every file is written and synced into a hidden
folder beside the target, and one rename publishes it. The manifest holds the hashes of all
other files and nothing computed from raw data that the guarantee does not cover.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.errors import FormatError, OutputExistsError, SherdError, StorageError, UsageError
from sherd.release.manifest import DOCUMENT, data_package
from sherd.release.staging import StagingDesk, hidden_beside, make_hidden
from sherd.tables.coded_columns import FORM as CODED
from sherd.tables.files import sync_file, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from sherd.release.method import Finding, PrivateRecord
    from sherd.tables.schema import Schema

MANIFEST = "manifest.json"
PACKAGE = "datapackage.json"
FORMATS = ("parquet", "csv", "csv.gz", "csv.zst", "feather", "arrows")


class ReleasedTables(Mapping[str, Any]):
    """Tables by name, each in the form in which it is released; none is exchanged later.

    >>> import pyarrow as pa
    >>> tables = ReleasedTables({"data": pa.table({"x": pa.array(["b"]).dictionary_encode()})})
    >>> tables["data"].schema.field("x").type
    DataType(string)
    """

    def __init__(self, tables: Mapping[str, Any], *, coded: bool = False) -> None:
        """Take the tables; one that is streamed is brought into this form piece by piece.

        With ``coded``, columns that are codes already stay so.
        """
        from sherd.tables.released_form import released_form
        from sherd.tables.write import StreamedTable

        self._tables = {
            name: table if isinstance(table, StreamedTable) else released_form(table, coded=coded)
            for name, table in tables.items()
        }

    def __getitem__(self, name: str) -> Any:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


@dataclass(frozen=True, kw_only=True, repr=False)
class Release:
    """What ``protect`` gives back.

    ``findings``, ``order`` (the input row behind each released row) and ``record`` (what a
    release that follows this one is made from) are for the owner's eyes only and are never
    saved with the bundle. ``documents`` are plain data that is released beside the tables, as
    JSON files. With ``coded``, columns may be codes already, as the method handed them on; such a
    release is for ``stage`` in that form alone.
    """

    tables: Mapping[str, pa.Table]
    manifest: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()
    order_of: Callable[[], Any] | None = field(default=None, repr=False)
    record: PrivateRecord | None = field(default=None, repr=False)
    documents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    original: Any = field(default=None, repr=False)
    coded: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        """Bring the tables into the form in which they are released, whatever made them."""
        if not isinstance(self.tables, ReleasedTables):  # as ``replace`` gives them back
            object.__setattr__(self, "tables", ReleasedTables(self.tables, coded=self.coded))

    def __repr__(self) -> str:
        """Say what the release is, without findings and cells."""
        guarantee = self.manifest.get("guarantee", {})
        method = self.manifest.get("plan", {}).get("method")
        notion = guarantee.get("notion")
        return f"Release(method={method!r}, rows={self.rows}, promise={notion!r})"

    def _repr_html_(self) -> str:
        """The promise in words, for a notebook; nothing private."""
        from html import escape

        words = escape(str(self.manifest.get("guarantee", {}).get("words", "")))
        stamps = "".join(f"<p><b>{escape(str(s))}</b></p>" for s in self.manifest.get("stamps", ()))
        return f"<p>{escape(repr(self))}</p>{stamps}<pre>{words}</pre>"

    @cached_property
    def order(self) -> Any:
        """The input row behind each released row, or None where these are not records."""
        return None if self.order_of is None else self.order_of()

    @property
    def table(self) -> Any:
        """The released table as the kind of dataframe that came in; types are the schema's."""
        from sherd.tables.frames import like

        if "data" not in self.tables:
            raise UsageError(
                "this release is made of several tables",
                do="take them from `.tables`: " + ", ".join(self.tables),
            )
        data = self.tables["data"]
        return data if self.original is None else like(self.original, data)

    @property
    def rows(self) -> int:
        """How many rows were released, each record counted once."""
        for name in ("records", "data"):
            if name in self.tables:
                return int(self.tables[name].num_rows)
        return max(int(table.num_rows) for table in self.tables.values())

    def query(self, sql: str, **own: Any) -> Any:
        """The answer to SQL over a release of fragments or measured counts, as a dataframe.

        One view is called ``release``; keyword arguments are your own tables to join. The
        dataframe is of the same kind as the table that came in, or pandas. ``sherd.query`` says
        besides what the answer is worth.
        """
        from sherd.release.query_release import query
        from sherd.tables.frames import like

        table = query(self, sql, own=own).table
        return table.to_pandas() if self.original is None else like(self.original, table)

    def save(
        self,
        folder: str | Path,
        *,
        format: str = "parquet",  # noqa: A002 - what everybody calls it
        force: bool = False,
        spreadsheet_safe: bool = False,
    ) -> Path:
        """Write the bundle: data, manifest and Frictionless data package."""
        staged = self.stage(folder, format=format, force=force, spreadsheet_safe=spreadsheet_safe)
        return staged.publish()

    def stage(
        self,
        folder: str | Path,
        *,
        format: str = "parquet",  # noqa: A002 - what everybody calls it
        force: bool = False,
        spreadsheet_safe: bool = False,
        key: str | None = None,
        hidden: Path | None = None,
    ) -> Staged:
        """Write and sync the bundle beside its target; ``publish`` then moves it there.

        With a ``key`` what is staged is sealed under it (``sherd.budget.sealed_folder``);
        ``hidden`` is where, if somebody was told beforehand who will clear it away.
        """
        from sherd.tables.write import write

        check_format(format, spreadsheet_safe=spreadsheet_safe)
        folder = Path(folder)
        check_target(folder, force=force)
        hidden = hidden or hidden_beside(folder)
        try:
            make_hidden(hidden, folder)
            desk = StagingDesk(key)
            files: dict[str, dict[str, Any]] = {}
            for name, table in self.tables.items():
                path = hidden / f"{name}.{format}"
                write(table, path, spreadsheet_safe=spreadsheet_safe, opened=desk.open)
                files[path.name] = {
                    **desk.facts(path),
                    "rows": table.num_rows,
                    "columns": table.num_columns,
                    **({"spreadsheet_safe": True} if spreadsheet_safe else {}),
                }
            for name, document in self.documents.items():
                path = hidden / f"{name}{DOCUMENT}"
                desk.write(path, document)
                files[path.name] = desk.facts(path)
            package = data_package(self.tables, files, format, self.manifest, self.documents)
            desk.write(hidden / PACKAGE, package)
            files[PACKAGE] = desk.facts(hidden / PACKAGE)
            desk.write(hidden / MANIFEST, {**self.manifest, "files": files})
            for path in hidden.iterdir():
                sync_file(path)
            sync_folder(hidden)
            sync_folder(hidden.parent)  # or a charge could outlive what it is for
            artefact = str(desk.facts(hidden / MANIFEST)["sha256"])
            return Staged(path=hidden, final=folder, artefact=artefact, force=force, key=key)
        except BaseException as error:
            shutil.rmtree(hidden, ignore_errors=True)
            if isinstance(error, OSError) and not isinstance(error, SherdError):
                raise StorageError(
                    "the release cannot be written",
                    got=f"{folder}: {error.strerror}",
                    do="nothing was written; make room or choose another folder",
                ) from None
            raise

    @classmethod
    def load(cls, folder: str | Path) -> Release:
        """Read a bundle; hashes are checked by ``sherd verify``, not here."""
        folder = Path(folder)
        manifest = read_manifest(folder)
        tables, documents = {}, {}
        for name, facts in manifest["files"].items():
            if not is_plain_name(name):
                raise FormatError("the manifest lists a file outside its folder", got=str(folder))
            stem = name.split(".", 1)[0]
            if is_document(name):
                documents[stem] = read_json(folder / name, "the document")
            elif name not in (PACKAGE, MANIFEST):
                tables[stem] = read_data(folder / name, facts)
        return cls(tables=tables, documents=documents, manifest=manifest)


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A bundle that is complete on disk but not yet in its place."""

    path: Path
    final: Path
    artefact: str
    force: bool
    key: str | None = field(default=None, repr=False)

    def publish(self) -> Path:
        """Move the bundle into its place, in one step, opened if it is sealed."""
        from sherd.budget.sealed_folder import unseal

        try:
            made = self.path if self.key is None else unseal(self.path, self.key)
            made.chmod(0o755)
            if self.force and self.final.exists():
                self._replace(made)
            else:
                made.rename(self.final)
            sync_folder(self.final.parent)  # before what is staged goes
            if self.key is not None:
                shutil.rmtree(self.path, ignore_errors=True)
        except OSError as error:
            raise StorageError(
                "the finished release could not be moved into its place",
                got=f"{self.final}: {error.strerror}",
                do=f"it is complete in {self.path}" if self.path.exists() else None,
            ) from None
        return self.final

    def _replace(self, made: Path) -> None:
        """Replace an old bundle; if that fails, the old one is put back."""
        aside = Path(tempfile.mkdtemp(dir=self.final.parent, prefix=f".{self.final.name}.old-"))
        self.final.rename(aside / "old")
        try:
            made.rename(self.final)
        except BaseException:
            (aside / "old").rename(self.final)
            aside.rmdir()
            raise
        shutil.rmtree(aside, ignore_errors=True)

    def discard(self) -> None:
        """Remove what was staged."""
        shutil.rmtree(self.path, ignore_errors=True)


def check_format(format: str, *, spreadsheet_safe: bool) -> None:  # noqa: A002 - as above
    """Refuse an unknown format, and escaping for a format that needs none."""
    if format not in (*FORMATS, CODED):
        raise UsageError(
            "the output format is unknown",
            must="one of " + ", ".join(FORMATS),
            got=repr(format),
        )
    if spreadsheet_safe and not format.startswith("csv"):
        raise UsageError(
            "only CSV is made safe for spreadsheets",
            must="the format csv, csv.gz or csv.zst",
            got=format,
            do="choose such a format, or leave out --spreadsheet-safe: in the others a cell's "
            "type is stored, and text is never run",
        )


def read_data(path: Path, facts: Mapping[str, Any], schema: Schema | None = None) -> pa.Table:
    """The table in a bundle's file, without the apostrophes that its facts announce."""
    from sherd.tables.read import read

    if facts.get("spreadsheet_safe") is not True:
        return read(path, schema=schema)
    from sherd.tables.write import escaped_schema, unescaped

    return unescaped(read(path, schema=None if schema is None else escaped_schema(schema)))


def check_target(folder: Path, *, force: bool | None) -> None:
    """Refuse a target that exists, unless it may be overwritten and is a release.

    ``force`` is None where a caller cannot ask for that.
    """
    if not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / MANIFEST).exists()):
        raise OutputExistsError(
            "the output already exists and is not a release",
            got=str(folder),
            do="choose another: only releases are ever overwritten",
        )
    if not force:
        raise OutputExistsError(
            "the output folder already exists",
            got=str(folder),
            do="choose another"
            if force is None
            else "choose another, or overwrite it with --force (in Python: force=True)",
        )


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a bundle."""
    path = folder / MANIFEST
    if not path.is_file():
        raise UsageError(
            "this is not a release", must=f"a folder with a {MANIFEST}", got=str(folder)
        )
    data = read_json(path, "the manifest")
    listed = data.get("files")
    if not isinstance(listed, dict) or not all(isinstance(f, dict) for f in listed.values()):
        raise FormatError(
            "the manifest was not written by Sherd",
            must="a mapping whose key 'files' holds, for each file's name, a mapping of its facts",
            got=str(path),
        )
    return data


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The mapping in a JSON file of a bundle; ``what`` names the file in an error."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unrepeated)
    except OSError as error:
        raise StorageError(f"{what} cannot be read", got=f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        must = "JSON in which no key stands twice"
        raise FormatError(f"{what} cannot be read", must=must, got=str(path)) from None
    return dict(data) if isinstance(data, dict) else {}


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping; a repeated key is refused, because two readers could take it differently."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a key stands twice")
    return fields


def is_document(name: str) -> bool:
    """Whether a listed file is a document of the method's own: JSON beside the tables.

    >>> is_document("model.json"), is_document(PACKAGE), is_document("data.csv")
    (True, False, False)
    """
    return name.endswith(DOCUMENT) and name not in (PACKAGE, MANIFEST)


def is_plain_name(name: str) -> bool:
    """Whether a listed file lies in the bundle's own folder.

    >>> is_plain_name("data.csv"), is_plain_name("../data.csv"), is_plain_name("..")
    (True, False, False)
    """
    return name not in ("", ".", "..") and not {"/", "\\", "\0"} & set(name)


def digest(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
