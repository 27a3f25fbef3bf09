"""Bad input: each with its message and exit code, and nothing left behind."""

from __future__ import annotations

import os
import resource
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from tests.end_to_end.conftest import MARKER, SCHEMA, Desk, assert_refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (("age:", "agee:"), ["lacks the column(s) 'agee'", "did you mean 'age'"]),
        (("  ill: {type: boolean, role: sensitive}\n", ""), ["schema lacks the column(s) 'ill'"]),
        ((", domain: [0, 120]", ""), ["'age' has no domain", "--domain-from-data 2.0"]),
        ((", values: [Oslo, Rome, Lima]", ""), ["'city' has no values", "--category-order"]),
        (("type: integer, domain: [0, 120]", "type: text"), ["text, which cannot be masked"]),
        (("type: boolean", "type: bolean"), ["did you mean 'boolean'"]),
        (("[0, 120]", "[120, 0]"), ["empty domain"]),
        (("attributes:", "attributes: ["), ["not valid YAML"]),
    ],
    ids=["unknown attribute", "unlisted column", "missing domain", "missing values", "text",
         "mistyped type", "empty domain", "no YAML"],
)  # fmt: skip
def test_schemas_that_do_not_fit(desk: Desk, change: tuple[str, str], texts: list[str]) -> None:
    """Exit code 2 and what to do."""
    assert change[0] in SCHEMA
    desk.write("people.yaml", SCHEMA.replace(*change))
    assert_refused(desk.protect(), 2, *texts)
    desk.assert_nothing_left()


@pytest.mark.parametrize(
    ("more", "texts"),
    [
        (["-e", "0"], ["the 'epsilon' parameter is not valid", "a number above 0", "got: 0.0"]),
        (["-e", "-1"], ["a number above 0"]),
        (["-e", "nan"], ["a number above 0", "got: nan"]),
        (["-e", "inf"], ["a number above 0"]),
        (["-e", "much"], ["--epsilon cannot be read", "a number above 0", "got: 'much'"]),
        (
            ["-m", "idp-cbls", "-k", "2", "--guarantee", "paper"],
            ["a whole number from 3", "got: 2"],
        ),
        (["-k", "31"], ["fewer values than one cluster needs", "at least k = 31"]),
        (["-k", "0"], ["a whole number from 1"]),
        (["-m", "idp-sl"], ["the method is unknown", "did you mean 'idp-ls'"]),
        (["-m", "idp-ls"], ["does not choose a promise for you", "--guarantee"]),
        (["--weight", "agee=2"], ["not a protected one", "did you mean 'age'"]),
        (["--set", "frobnicate=1"], ["has no parameter 'frobnicate'"]),
        (["--guarantee", "strict"], ["`missing: refuse` or `missing: recode`"]),
        (["--schema", "nowhere.yaml"], ["the file does not exist"]),
        (["--format", "xlsx"], ["xlsx"]),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) and v[0].startswith("-") else "",
)
def test_parameters_out_of_range(desk: Desk, more: list[str], texts: list[str]) -> None:
    """Exit code 2, what it must be and what was given."""
    assert_refused(desk.protect(*more), 2, *texts)
    desk.assert_nothing_left()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"x,{MARKER},Oslo,true", "'age' has values outside its domain"),
        (f"x,30,{MARKER},true", "'city' has labels its schema does not list"),
    ],
)
def test_values_outside_the_domain(desk: Desk, line: str, reason: str) -> None:
    """Refused or dropped as the policy says; clamped where there is a nearest value."""
    desk.rows([line])
    assert_refused(desk.protect("--outside", "refuse"), 2, reason)
    desk.assert_nothing_left()
    assert desk.protect("--outside", "drop").returncode == 0
    clamped = desk.protect("--outside", "clamp", "--force")
    if "labels" in reason:
        assert_refused(clamped, 2, reason, "name a label as `other`")
    else:
        assert clamped.returncode == 0
        assert "released 31 rows" in clamped.stdout
    for path in (desk.folder / "out").iterdir():
        assert MARKER.encode() not in path.read_bytes()


@pytest.mark.parametrize("cell", ["", "?"])
def test_missing_cells_by_policy(desk: Desk, cell: str) -> None:
    """Refused with their number, dropped, or kept."""
    desk.write("people.yaml", SCHEMA + "missing_values: ['?']\n")
    desk.rows([f"x,{cell},Oslo,true"])
    assert_refused(desk.protect("--missing", "refuse"), 2, "'age' has missing cells")
    assert_refused(desk.protect("--missing", "recode"), 2, "the schema names no value")
    desk.assert_nothing_left()
    dropped = desk.protect("--missing", "drop")
    assert "released 30 rows" in dropped.stdout
    assert "records were left out" in dropped.stdout
    assert "released 31 rows" in desk.protect("--force").stdout


def test_a_cell_of_another_type(desk: Desk) -> None:
    """Named by its column, or by its line, never by what it says."""
    desk.rows([f"x,{MARKER}-years,Oslo,true"])
    assert_refused(desk.protect(), 2, "age")
    desk.assert_nothing_left()


def _parquet() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    columns = {"name": [MARKER], "age": [3], "city": ["Oslo"], "ill": [True]}
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


def _feather() -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    table = pa.table({"name": [MARKER]})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.parquet", lambda: _parquet()[:-10]),
        ("t.parquet", lambda: b"PAR1"),
        ("t.parquet", lambda: b"8675309"),
        ("t.feather", lambda: _feather()[:-20]),
        ("t.csv.gz", lambda: b"\x1f\x8b\x08\x00broken"),
        ("t.csv", lambda: b"name,age,city,ill\ncaf\xe9 8675309,3,Oslo,true\n"),
        ("t.csv", lambda: b"name,age,age,city,ill\n8675309,3,3,Oslo,true\n"),
        ("t.csv", lambda: b"name,age,city,ill\n8675309,3,Oslo\n"),
        ("t.csv", lambda: b'name,age,city,ill\n"8675309,3,Oslo,true\n'),
        ("t.csv", lambda: b""),
        ("t.csv", lambda: b"name,age,city,ill\n"),
        ("t.xlsx", lambda: b"PK"),
    ],
    ids=["truncated Parquet", "four bytes of Parquet", "text as Parquet", "truncated Feather",
         "broken gzip", "not UTF-8", "duplicate columns", "short line", "open quote", "empty",
         "no rows", "another format"],
)  # fmt: skip
def test_files_that_cannot_be_read(desk: Desk, name: str, content: Any) -> None:
    """Exit code 2, a reason, and no cell of theirs."""
    desk.write(name, content())
    words = desk.words()
    words[1] = name
    result = desk.run(*words)
    assert_refused(result, 2, "error: ")
    assert "bug" not in result.stderr
    desk.assert_nothing_left(name)


def test_files_that_are_not_there(desk: Desk) -> None:
    """A missing table, a folder, and one that may not be read."""
    words = desk.words()
    words[1] = "nowhere.csv"
    assert_refused(desk.run(*words), 2, "does not exist")
    (desk.folder / "folder.csv").mkdir()
    words[1] = "folder.csv"
    assert_refused(desk.run(*words), 2, "folder")
    desk.assert_nothing_left("folder.csv")


def test_a_file_that_may_not_be_read(desk: Desk) -> None:
    """The system's refusal is exit code 5."""
    path = desk.folder / "people.csv"
    if os.geteuid() == 0:  # root may read everything but a link that leads back to itself
        path.unlink()
        path.symlink_to(path)
        assert_refused(desk.protect(), 5, "symbolic links")
    else:
        path.chmod(0)
        assert_refused(desk.protect(), 5, "Permission denied")


def test_an_overspent_budget(desk: Desk) -> None:
    """Exit code 3, what is left, and the data is not even read."""
    assert desk.run("ledger", "set-limit", "people", "0.4").returncode == 0
    (desk.folder / "people.csv").unlink()
    assert_refused(desk.protect(), 3, "does not allow this", "at most 0.4", "got: 0.5")
    desk.assert_nothing_left()
    assert desk.ledger.account("people").spent == type(desk.ledger.account("people").spent)(0)


def test_an_output_that_is_there(desk: Desk) -> None:
    """Exit code 2 without --force; with it a release is replaced, anything else is not."""
    assert desk.protect().returncode == 0
    before = (desk.folder / "out" / "manifest.json").read_bytes()
    assert_refused(desk.protect(), 2, "already exists", "--force")
    assert (desk.folder / "out" / "manifest.json").read_bytes() == before
    assert desk.protect("--force").returncode == 0
    assert (desk.folder / "out" / "manifest.json").read_bytes() != before
    (desk.folder / "out" / "manifest.json").unlink()
    assert_refused(desk.protect("--force"), 2, "not a release")
    desk.assert_nothing_left("out")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 KiB, where the user may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("form", ["parquet", "csv.gz", "feather"])
def test_a_full_disk(desk: Desk, small_disk: Path, form: str) -> None:
    """Exit code 5, nothing on the disk, nothing spent."""
    desk.rows(n=60_000)
    result = desk.protect("-o", str(small_disk / "out"), "--format", form, "-m", "dp")
    assert_refused(result, 5, "No space left on device")
    assert list(small_disk.iterdir()) == []
    desk.assert_nothing_left("disk")
    assert desk.ledger.entries() == []


def test_a_file_that_may_not_grow(desk: Desk) -> None:
    """A limit on the size of files works like a full disk, for any user."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    desk.rows(n=60_000)
    result = desk.protect("-m", "dp", "--format", "csv", "--ledger", "none", preexec_fn=limit)
    assert_refused(result, 5, "File too large")
    desk.assert_nothing_left()


def test_a_full_disk_under_the_ledger(desk: Desk, small_disk: Path) -> None:
    """Nothing is released that could not be charged."""
    (small_disk / "filler").write_bytes(b"\0" * 16_384)
    result = desk.protect("--ledger", str(small_disk / "ledger.db"))
    assert_refused(result, 5)
    assert not (desk.folder / "out").exists()
    assert [path.name for path in desk.folder.iterdir() if path.name.startswith(".")] == []
