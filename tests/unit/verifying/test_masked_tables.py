"""Re-checking masked releases: every check passes, and fails where it should."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.release.bundle import FORMATS, Release
from sherd.release.protect import Settings
from sherd.verifying import verify

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.verifying.check import Check

N = 40
RNG = np.random.default_rng(4)
MOMENT = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
COLUMNS: dict[str, tuple[pa.Array, dict[str, Any]]] = {
    "number": (pa.array(RNG.random(N)), {"type": "number", "domain": ["0", "1"]}),
    "single": (
        pa.array(RNG.random(N).astype(np.float32) / 10),
        {"type": "number", "domain": ["0", "0.1"]},
    ),
    "half": (
        pa.array((RNG.random(N) / 10).astype(np.float16)).cast(pa.float32()).cast(pa.float16()),
        {"type": "number", "domain": ["0", "0.1"]},
    ),
    "money": (
        pa.array([Decimal(int(c)) / 100 for c in RNG.integers(0, 1000, N)], pa.decimal128(6, 2)),
        {"type": "number", "domain": ["0", "10"]},
    ),
    "whole": (pa.array(RNG.integers(0, 9, N)), {"type": "integer", "domain": ["0", "9"]}),
    "flag": (pa.array(RNG.integers(0, 2, N) == 1), {"type": "boolean"}),
    "bit": (pa.array(RNG.integers(0, 2, N)), {"type": "boolean"}),
    "day": (
        pa.array([dt.date(2020, 1, 1) + dt.timedelta(int(d)) for d in RNG.integers(0, 99, N)]),
        {"type": "date", "domain": ["2020-01-01", "2020-12-31"]},
    ),
    "texted": (
        pa.array([str(dt.date(2020, 1, 1) + dt.timedelta(int(d))) for d in RNG.integers(0, 99, N)]),
        {"type": "date", "domain": ["2020-01-01", "2020-12-31"]},
    ),
    "moment": (
        pa.array([MOMENT + dt.timedelta(seconds=int(s)) for s in RNG.integers(0, 9999, N)]).cast(
            pa.timestamp("ns", tz="Europe/Madrid")
        ),
        {"type": "datetime", "domain": ["2020-01-01", "2020-02-01"]},
    ),
    "late": (
        pa.array([dt.date(2020, 1, 1) + dt.timedelta(int(d)) for d in RNG.integers(0, 99, N)]),
        {"type": "datetime", "domain": ["2020-01-01", "2020-12-31"]},
    ),
    "label": (
        pa.array(RNG.choice(["007", "1", "x"], N)),
        {"type": "category", "values": ["007", "1", "x"]},
    ),
    "coded": (
        pa.array(RNG.choice(["a", "b"], N)).dictionary_encode(),
        {"type": "ordinal", "taxonomy": [["a", "*"], ["b", "*"]]},
    ),
    "numbered": (pa.array(RNG.choice([1.0, 2.0], N)), {"type": "category", "values": ["1", "2"]}),
}
PLANS: dict[str, dict[str, Any]] = {
    "dp": {"method": "dp", "epsilon": 1},
    "idp": {"method": "idp", "epsilon": 1},
    "dp-um": {"method": "dp-um", "epsilon": 1, "k": 5, "k_of": {"number": 8}},
    "idp-ls": {"method": "idp-ls", "epsilon": 1, "k": 5, "guarantee": "paper"},
    "idp-cbls": {"method": "idp-cbls", "epsilon": 1, "k": 5, "guarantee": "centroids"},
    "strict": {"method": "dp-um", "epsilon": 1, "k": 6, "guarantee": "strict"},
}


def _release(plan: str, **more: Any) -> Release:
    attributes: dict[str, Any] = {name: a for name, (_, a) in COLUMNS.items()}
    attributes |= {"id": {"role": "identifier"}, "w": {"type": "number", "role": "weight"}}
    columns = {name: column for name, (column, _) in COLUMNS.items()}
    table = pa.table({**columns, "id": [f"p{i}" for i in range(N)], "w": RNG.random(N)})
    schema = sherd.Schema.from_data({"attributes": attributes, "missing": "refuse", **more})
    chosen = sherd.Plan(**PLANS[plan])
    return sherd.protect(table, schema, chosen, settings=Settings(seed=3, threads=1))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("plan", PLANS)
def test_every_release_passes_in_every_format(tmp_path: Path, plan: str, form: str) -> None:
    """No check fails; what cannot be checked is said."""
    release = _release(plan)
    if form.startswith("csv"):
        # CSV has no half-precision numbers to write them as.
        kept = [n for n in release.tables["data"].column_names if n != "half"]
        if plan != "strict":
            attributes = dict(release.manifest["schema"]["attributes"])
            del attributes["half"]
            release = _with(release, release.tables["data"].select(kept), attributes=attributes)
    checks = verify(release.save(tmp_path / "out", format=form)).checks
    assert [c for c in checks if c.passed is False] == []
    unknown = {c.name for c in checks if c.passed is None}
    assert unknown == {"noise", "signature", "assumptions", "budget", "created, versions"}
    assert len(checks) > 15


def _with(release: Release, data: pa.Table, **change: Any) -> Release:
    """A release with other data or another schema, hashes made to fit."""
    manifest = json.loads(json.dumps(release.manifest))
    if "attributes" in change:
        manifest["schema"]["attributes"] = change.pop("attributes")
    manifest["plan"] |= change.pop("plan", {})
    manifest["facts"] |= change.pop("facts", {})
    assert not change
    for part in ("plan", "schema"):
        text = json.dumps(manifest[part], sort_keys=True, separators=(",", ":"))
        manifest[f"{part}_hash"] = hashlib.sha256(text.encode()).hexdigest()
    return Release(tables={"data": data}, manifest=manifest)


def _checks(release: Release, folder: Path) -> dict[str, Check]:
    return {check.name: check for check in verify(release.save(folder)).checks}


def _failing(release: Release, folder: Path) -> set[str]:
    return {name for name, check in _checks(release, folder).items() if check.passed is False}


def _set(data: pa.Table, name: str, cells: dict[int, Any], kind: Any = None) -> pa.Table:
    """The table with some cells of a column replaced."""
    column = data.column(name)
    kind = kind or (column.type.value_type if pa.types.is_dictionary(column.type) else column.type)
    values = column.to_pylist()
    for row, value in cells.items():
        values[row] = value
    index = data.column_names.index(name)
    return data.set_column(index, name, pa.array(values, kind))


TAMPERED: list[tuple[str, dict[str, Any], set[str]]] = [
    ("dp", {"number": 1.5}, {"number: bounds"}),
    ("dp", {"number": -0.1}, {"number: bounds"}),
    ("dp", {"number": float("nan")}, {"number: missing"}),
    ("dp", {"number": float("inf")}, {"number: missing"}),
    ("dp", {"single": 0.11}, {"single: bounds"}),
    ("dp", {"money": 10.01}, {"money: bounds"}),
    ("dp", {"whole": 10}, {"whole: bounds"}),
    ("dp", {"day": dt.date(2021, 1, 1)}, {"day: bounds"}),
    ("dp", {"texted": dt.date(2019, 12, 31)}, {"texted: bounds"}),
    ("dp", {"moment": dt.datetime(2020, 2, 1, 0, 0, 1, tzinfo=dt.UTC)}, {"moment: bounds"}),
    ("dp", {"label": "7"}, {"label: bounds"}),
    ("dp", {"coded": "c"}, {"coded: bounds"}),
    ("dp", {"numbered": "3"}, {"numbered: bounds"}),
    ("dp", {"number": None}, {"number: missing"}),
    ("dp-um", {"whole": None}, {"whole: missing"}),
    ("dp-um", {"number": 0.123456}, {"number: clusters of 8"}),
    ("idp-ls", {"money": 3.33}, {"money: clusters of 5"}),
]


@pytest.mark.parametrize(
    ("plan", "cells", "failed"), TAMPERED, ids=[f"{p}-{c}" for p, c, _ in TAMPERED]
)
def test_one_changed_cell_is_seen(
    tmp_path: Path, plan: str, cells: dict[str, Any], failed: set[str]
) -> None:
    """Though every hash was made to fit."""
    release = _release(plan)
    data = release.tables["data"]
    for name, value in cells.items():
        data = _set(data, name, {0: value})
    assert _failing(_with(release, data), tmp_path / "out") >= failed


def test_columns_rows_and_identifiers(tmp_path: Path) -> None:
    """None missing, none more, none that must never be released."""
    release = _release("dp")
    data = release.tables["data"]
    assert _failing(_with(release, data.drop_columns(["w"])), tmp_path / "a") == {"columns"}
    more = data.append_column("more", data.column("w"))
    assert _failing(_with(release, more), tmp_path / "b") == {"columns"}
    ids = data.append_column("id", pa.array([f"p{i}" for i in range(N)]))
    assert _failing(_with(release, ids), tmp_path / "c") == {"no identifiers"}
    assert _failing(_with(release, data.slice(1)), tmp_path / "d") == {"rows"}


def test_a_larger_k_than_was_used_is_seen(tmp_path: Path) -> None:
    """The plan says 9, the clusters have 5."""
    release = _release("dp-um")
    claimed = _with(release, release.tables["data"], plan={"k": 9, "k_of": {}})
    assert "money: clusters of 9" in _failing(claimed, tmp_path / "out")


def test_what_the_schema_does_not_say_cannot_be_checked(tmp_path: Path) -> None:
    """Without a domain or labels, or without any value."""
    release = _release("dp-um")
    attributes = json.loads(json.dumps(release.manifest["schema"]["attributes"]))
    del attributes["number"]["domain"], attributes["label"]["values"]
    attributes["flag"]["missing"] = "keep"
    data = release.tables["data"]
    empty = data.set_column(
        data.column_names.index("flag"), "flag", pa.array([None] * N, pa.bool_())
    )
    found = _checks(_with(release, empty, attributes=attributes), tmp_path / "out")
    for name in ("number: bounds", "label: bounds", "flag: clusters of 5"):
        assert found[name].passed is None
    assert found["flag: bounds"].passed is True


STRICT: list[tuple[str, Any, str]] = [
    ("value", 1e12, "bounds"),
    ("value", -1e12, "ascending"),
    ("size", 5, "clusters of 6"),
    ("size", 12, "clusters of 6"),
    ("cluster", 7, "clusters of 6"),
]


@pytest.mark.parametrize("kind", ["number", "flag", "day", "moment", "label"])
@pytest.mark.parametrize(("column", "value", "failed"), STRICT)
def test_changed_centroids_are_seen(
    tmp_path: Path, kind: str, column: str, value: Any, failed: str
) -> None:
    """Their sizes, numbers, order and bounds, for every type."""
    release = _release("strict")
    data = release.tables["data"]
    rows = [i for i, name in enumerate(data.column("attribute").to_pylist()) if name == kind]
    row = rows[-1] if value != -1e12 else rows[1]
    changed = _with(release, _set(data, column, {row: value}))
    assert f"{kind}: {failed}" in _failing(changed, tmp_path / "out")


def test_strict_releases_of_another_form(tmp_path: Path) -> None:
    """Other columns, missing attributes, or other numbers of rows."""
    release = _release("strict")
    data = release.tables["data"]
    assert _failing(_with(release, data.drop_columns(["text"])), tmp_path / "a") == {"columns"}
    assert "attributes" in _failing(_with(release, data.slice(10)), tmp_path / "b")
    fewer = _with(release, data, facts={"rows": N - 1})
    assert "number: clusters of 6" in _failing(fewer, tmp_path / "c")


def test_a_bundle_without_data_is_no_masked_release(tmp_path: Path) -> None:
    """Its table is called data."""
    release = _release("dp")
    other = Release(tables={"other": release.tables["data"]}, manifest=release.manifest)
    assert _failing(other, tmp_path / "out") == {"data"}


def _saved(tmp_path: Path) -> Path:
    return _release("dp-um").save(tmp_path / "out", format="csv")


def test_changed_missing_and_extra_files_are_seen(tmp_path: Path) -> None:
    """And the contents are then not looked at."""
    folder = _saved(tmp_path)
    (folder / "data.csv").write_bytes((folder / "data.csv").read_bytes() + b"\n")
    (folder / "notes.txt").write_text("x")
    (folder / "signature.json").write_text("{}")
    (folder / "datapackage.json").unlink()
    found = {check.name: check for check in verify(folder).checks}
    assert found["file data.csv"].passed is False
    assert found["file datapackage.json"].detail == "it is not there"
    assert found["no other files"].detail == "not in the manifest: notes.txt"
    assert found["contents"].passed is None


def _edit(folder: Path, **change: Any) -> list[Check]:
    manifest = json.loads((folder / "manifest.json").read_text())
    for key, value in change.items():
        if value is None:
            manifest.pop(key)
        else:
            manifest[key] = value
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return list(verify(folder).checks)


def test_a_changed_plan_or_schema_is_seen(tmp_path: Path) -> None:
    """Their hashes are stated."""
    folder = _saved(tmp_path)
    plan = json.loads((folder / "manifest.json").read_text())["plan"]
    names = {c.name for c in _edit(folder, plan={**plan, "epsilon": 0.1}) if c.passed is False}
    assert names == {"plan hash"}


def test_a_file_outside_the_folder_is_not_looked_at(tmp_path: Path) -> None:
    """A manifest could list any file of the reader's."""
    facts = {"sha256": "0" * 64, "bytes": 1, "rows": 1, "columns": 1}
    found = {c.name: c for c in _edit(_saved(tmp_path), files={"../../etc/passwd": facts})}
    assert found["file names"].detail == "a file lies outside the folder"
    assert found["contents"].passed is None
    assert not any(name.startswith("file ../") for name in found)


@pytest.mark.parametrize(
    ("name", "said"), [("data.parquet", "the same table"), ("raw.json", "not of a known format")]
)
def test_a_file_that_would_not_be_checked_fails(tmp_path: Path, name: str, said: str) -> None:
    """A second file of the same table, or one of a form that is no table's."""
    folder = _saved(tmp_path)
    files = json.loads((folder / "manifest.json").read_text())["files"]
    (folder / name).write_bytes((folder / "data.csv").read_bytes())
    found = {c.name: c for c in _edit(folder, files={**files, name: files["data.csv"]})}
    assert found["file names"].passed is False
    assert said in found["file names"].detail


def test_a_table_that_no_release_of_the_method_has_fails(tmp_path: Path) -> None:
    """Though all hashes fit: nobody would have looked into it."""
    release = _release("dp")
    more = {**release.tables, "raw": release.tables["data"]}
    found = _failing(Release(tables=more, manifest=release.manifest), tmp_path / "out")
    assert found == {"tables"}


def _hash(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("plan", [{"method": "magic"}, {}, "dp", None])
def test_an_unknown_method_cannot_be_checked(tmp_path: Path, plan: Any) -> None:
    """Whatever stands there."""
    found = _edit(_saved(tmp_path), plan=plan, plan_hash=_hash(plan))
    made = {check.name: check.passed for check in found}
    assert made["contents"] is None
    assert made["promise"] is False


@pytest.mark.parametrize(
    "schema",
    [{}, {"attributes": {}}, {"attributes": {"x": 3}}, [1], {"attributes": {"number": {}}}],
)
def test_a_manifest_without_sense_fails_the_check_not_the_program(
    tmp_path: Path, schema: Any
) -> None:
    """Hashes can be made to fit anything."""
    found = _edit(_saved(tmp_path), schema=schema, schema_hash=_hash(schema))
    assert any(check.passed is False for check in found)


def test_a_table_that_cannot_be_read_fails_the_check(tmp_path: Path) -> None:
    """Its hash fits, its bytes do not."""
    folder = _release("dp").save(tmp_path / "out")
    (folder / "data.parquet").write_bytes(b"PAR1 nothing PAR1")
    files = json.loads((folder / "manifest.json").read_text())["files"]
    files["data.parquet"]["sha256"] = hashlib.sha256(b"PAR1 nothing PAR1").hexdigest()
    files["data.parquet"]["bytes"] = len(b"PAR1 nothing PAR1")
    made = {check.name: check.passed for check in _edit(folder, files=files)}
    assert made["contents"] is False
