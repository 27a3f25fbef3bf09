"""Releases: written whole or not at all, and read back."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sherd.errors import (
    FormatError,
    MissingPartError,
    OutputExistsError,
    StorageError,
    UsageError,
)
from sherd.release.bundle import (
    FORMATS,
    Release,
    check_target,
    digest,
    is_plain_name,
    read_manifest,
)
from sherd.tables import released_form

TABLE = pa.table({"n": [1, 2], "x": [0.5, 1.5], "t": ["a", "b"], "b": [True, False]}).append_column(
    "d", pa.array([0, 1], pa.date32())
)


def _release(**more: Any) -> Release:
    manifest = {"created": "2026-01-01T00:00:00+00:00", "guarantee": {"words": "Promise: none."}}
    return Release(**{"tables": {"data": TABLE}, "manifest": manifest, **more})


def test_tables_are_brought_into_their_released_form_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a release is given other findings; tables that are new are brought into it."""
    original, formed = released_form.released_form, []

    def counted(table: pa.Table, *, coded: bool) -> pa.Table:
        formed.append(table)
        return original(table, coded=coded)

    monkeypatch.setattr(released_form, "released_form", counted)
    labels = pa.table({"t": pa.array(["a", "b"]).dictionary_encode()})
    release = _release(tables={"data": labels})
    later = replace(replace(release, original=labels), manifest={})
    assert len(formed) == 1
    assert later.tables["data"] is release.tables["data"]
    assert later.tables["data"].schema.field("t").type == pa.string()
    assert replace(later, tables={"data": labels}).tables["data"].equals(later.tables["data"])
    assert len(formed) == 2


def test_a_released_table_is_not_exchanged() -> None:
    """It would be released in whatever form it has."""
    with pytest.raises(TypeError):
        _release().tables["data"] = TABLE  # type: ignore[index]


@pytest.mark.parametrize("form", FORMATS)
def test_a_bundle_is_written_and_read_back(tmp_path: Path, form: str) -> None:
    """Data, manifest and data package, nothing else, in every format."""
    folder = _release().save(tmp_path / "out", format=form)
    assert {p.name for p in folder.iterdir()} == {
        f"data.{form}", "manifest.json", "datapackage.json",
    }  # fmt: skip
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    manifest = read_manifest(folder)
    for name, facts in manifest["files"].items():
        assert facts["sha256"] == digest(folder / name)
        assert facts["bytes"] == (folder / name).stat().st_size
    assert manifest["files"][f"data.{form}"]["rows"] == 2
    assert Release.load(folder).tables["data"].to_pylist() == TABLE.to_pylist()


def test_the_data_package_says_what_the_columns_are(tmp_path: Path) -> None:
    """In Frictionless's own words."""
    folder = _release().save(tmp_path / "out", format="csv.gz")
    package = json.loads((folder / "datapackage.json").read_text())
    (resource,) = package["resources"]
    fields = {f["name"]: f["type"] for f in resource["schema"]["fields"]}
    assert fields == {
        "n": "integer", "x": "number", "t": "string", "b": "boolean", "d": "date",
    }  # fmt: skip
    assert resource["format"] == "csv"
    assert resource["hash"] == f"sha256:{digest(folder / 'data.csv.gz')}"
    assert package["description"] == "Promise: none."


def test_findings_and_order_are_never_saved(tmp_path: Path) -> None:
    """They are the owner's."""
    from sherd.release.method import Finding

    secret = Finding(name="secret-finding", value=1, meaning="m")
    folder = _release(findings=(secret,), order_of=lambda: [1, 0], original="raw").save(
        tmp_path / "out"
    )
    text = b"".join(p.read_bytes() for p in folder.iterdir())
    assert b"secret-finding" not in text
    assert Release.load(folder).order is None


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    """Before anything is written."""
    with pytest.raises(UsageError, match="format is unknown"):
        _release().save(tmp_path / "out", format="xlsx")
    assert list(tmp_path.iterdir()) == []


def test_several_tables_have_no_one_table(tmp_path: Path) -> None:
    """They are all saved, and taken by name."""
    release = _release(tables={"a": TABLE, "b": TABLE.select(["n"])})
    with pytest.raises(UsageError, match=r"several tables; take them from `.tables`: a, b"):
        _ = release.table
    assert set(Release.load(release.save(tmp_path / "out")).tables) == {"a", "b"}


def test_the_table_is_of_the_kind_that_came_in() -> None:
    """As it is where nobody says what came in."""
    assert _release().table.equals(TABLE)
    pd = pytest.importorskip("pandas")
    assert isinstance(_release(original=pd.DataFrame({"n": [1]})).table, pd.DataFrame)


def test_an_existing_target_is_refused(tmp_path: Path) -> None:
    """Without force always, with force where it is no release; an empty folder may go."""
    folder = tmp_path / "out"
    check_target(folder, force=False)
    folder.mkdir()
    with pytest.raises(OutputExistsError, match="already exists"):
        check_target(folder, force=False)
    check_target(folder, force=True)
    (folder / "holiday.jpg").write_bytes(b"x")
    with pytest.raises(OutputExistsError, match="not a release"):
        _release().save(folder, force=True)
    with pytest.raises(OutputExistsError, match="not a release"):
        check_target(folder / "holiday.jpg", force=True)
    assert (folder / "holiday.jpg").exists()


def test_force_replaces_a_release_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    """Neither in the folder nor beside it."""
    _release(tables={"old": TABLE}).save(tmp_path / "out")
    _release().save(tmp_path / "out", force=True)
    assert not (tmp_path / "out" / "old.parquet").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_failed_replacement_brings_the_old_release_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new one stays where it was staged, and the message says where."""
    _release(tables={"old": TABLE}).save(tmp_path / "out")
    staged = _release().stage(tmp_path / "out", force=True)
    real = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self == staged.path:
            raise OSError(errno.EIO, "Input/output error")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(StorageError, match="could not be moved") as caught:
        staged.publish()
    assert str(staged.path) in str(caught.value)
    assert (tmp_path / "out" / "old.parquet").exists()
    assert {p.name for p in tmp_path.iterdir()} == {"out", staged.path.name}
    staged.discard()
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), StorageError),
        (MissingPartError("a part is missing"), MissingPartError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (ZeroDivisionError(), ZeroDivisionError),
    ],
    ids=lambda e: getattr(e, "__name__", type(e).__name__),
)
def test_whatever_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, expected: Any
) -> None:
    """And stays what it was, but for the disk's own errors."""

    def fail(_handle: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(expected):
        _release().save(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """Because a file is in its way."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be made"):
        _release().save(tmp_path / "file" / "out")


@pytest.mark.parametrize("text", ["{", "\udcff", "[]", '{"files": 3}', '{"files": {"a": 3}}'])
def test_what_is_no_manifest_is_refused(tmp_path: Path, text: str) -> None:
    """No JSON, or none of ours."""
    (tmp_path / "manifest.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(FormatError, match="the manifest"):
        read_manifest(tmp_path)


def test_what_is_no_release_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a manifest, and one that cannot be read."""
    with pytest.raises(UsageError, match="not a release"):
        Release.load(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")

    def fail(*_given: Any, **_named: Any) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_text", fail)
    with pytest.raises(StorageError, match="cannot be read"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("name", ["../data.csv", "/etc/passwd", "a/b.csv", "..", "", "a\\b.csv"])
def test_a_manifest_cannot_point_out_of_its_folder(tmp_path: Path, name: str) -> None:
    """Loading somebody's release reads that release only."""
    (tmp_path / "manifest.json").write_text(json.dumps({"files": {name: {}}}))
    assert not is_plain_name(name)
    with pytest.raises(FormatError, match="outside its folder"):
        Release.load(tmp_path)


@pytest.mark.parametrize("form", ["csv", "csv.gz"])
def test_an_escaped_file_is_read_back_without_apostrophes(tmp_path: Path, form: str) -> None:
    """In cells and in the header; the manifest and the data package say what the file holds."""
    table = pa.table({"=b": ["=1", "'=1", "'x", None], "n": [-1, 2, 3, 4]})
    labels = table.set_column(0, "=b", table["=b"].dictionary_encode())
    folder = _release(tables={"data": labels}).save(
        tmp_path / "out", format=form, spreadsheet_safe=True
    )
    assert read_manifest(folder)["files"][f"data.{form}"]["spreadsheet_safe"] is True
    (resource,) = json.loads((folder / "datapackage.json").read_text())["resources"]
    assert [field["name"] for field in resource["schema"]["fields"]] == ["'=b", "n"]
    assert Release.load(folder).tables["data"].to_pydict() == table.to_pydict()


@pytest.mark.parametrize("form", [form for form in FORMATS if "csv" not in form])
def test_escaping_is_refused_where_nothing_would_be(tmp_path: Path, form: str) -> None:
    """Instead of being ignored; nothing is written."""
    with pytest.raises(UsageError, match="only CSV is made safe"):
        _release().save(tmp_path / "out", format=form, spreadsheet_safe=True)
    assert not list(tmp_path.iterdir())


def test_a_file_that_was_not_escaped_keeps_its_apostrophes(tmp_path: Path) -> None:
    """They are then part of the text."""
    table = pa.table({"'=b": ["'=1"], "n": [1]})
    folder = _release(tables={"data": table}).save(tmp_path / "out", format="csv")
    assert Release.load(folder).tables["data"].to_pydict() == table.to_pydict()


def test_a_manifest_that_is_no_mapping_is_refused_in_words(tmp_path: Path) -> None:
    """It says what must be there."""
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(FormatError, match="whose key 'files' holds, for each file's name"):
        read_manifest(tmp_path)
