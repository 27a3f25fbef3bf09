"""Tampering with a release: caught by its own files, or named as beyond an unsigned bundle.

Whatever an unsigned bundle cannot show, a signature does: every one of them fails `--key`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import sherd
from sherd.cli import cli, run
from sherd.errors import FormatError, OutputExistsError, UsageError
from sherd.release.signature import make_key, sign
from sherd.tables.write import write
from sherd.verifying.file_form import NAME
from sherd.verifying.verification import UNSIGNED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Change = Callable[[Path], object]

SCHEMA = sherd.Schema.from_data(
    {
        "population": "patients",
        "attributes": {
            "age": {"type": "integer", "domain": ["0", "100"]},
            "pay": {"type": "number", "domain": ["0", "1000"], "grid": "0.5"},
            "job": {"type": "category", "values": ["a", "b", "c"]},
        },
    }
)


def table() -> pa.Table:
    """The original."""
    rng = np.random.default_rng(8)
    jobs = rng.choice(["a", "b", "c"], 60)
    return pa.table(
        {"age": rng.integers(0, 100, 60), "pay": rng.integers(0, 2000, 60) / 2, "job": jobs}
    )


FORMS = ("parquet", "feather", "arrows", "csv", "csv.gz", "csv.zst")


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed release in every format, in folders of their names, and the public key."""
    folder = tmp_path_factory.mktemp("signed")
    key = folder / "owner.key"
    make_key(key)
    plan = sherd.Plan(method="dp-um", epsilon=1.0, k=6)
    ledger = sherd.Ledger(folder / "ledger.db")
    release = sherd.protect(table(), SCHEMA, plan, ledger=ledger)
    for form in FORMS:
        release.save(folder / form, format=form)
        sign(folder / form, key)
    return folder


@pytest.fixture
def made(forms: Path) -> tuple[Path, Path]:
    """The signed release in Parquet, and the public key."""
    return forms / "parquet", forms / "owner.key.pub"


def manifest(change: Callable[[dict[str, Any]], object]) -> Change:
    """A change of the manifest."""

    def changed(folder: Path) -> None:
        path = folder / "manifest.json"
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n")

    return changed


def rehash(folder: Path) -> None:
    """Make data package and manifest fit the files again, as a forger would."""
    path, package = folder / "manifest.json", folder / "datapackage.json"
    data, described = json.loads(path.read_text()), json.loads(package.read_text())
    (held,) = folder.glob("data.*")
    raw = held.read_bytes()
    facts = {"sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
    data["files"][held.name].update(facts)
    described["resources"][0].update(hash=f"sha256:{facts['sha256']}", bytes=facts["bytes"])
    package.write_text(json.dumps(described, indent=2, ensure_ascii=False) + "\n")
    raw = package.read_bytes()
    data["files"]["datapackage.json"].update(sha256=hashlib.sha256(raw).hexdigest(), bytes=len(raw))
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def data(change: Callable[[pa.Table], pa.Table]) -> Change:
    """A change of the table, hashed again."""

    def changed(folder: Path) -> None:
        path = folder / "data.parquet"
        write(change(pq.read_table(path)), path)
        rehash(folder)

    return changed


def package(change: Callable[[dict[str, Any]], object]) -> Change:
    """A change of the data package, hashed again."""

    def changed(folder: Path) -> None:
        path = folder / "datapackage.json"
        found = json.loads(path.read_text())
        change(found)
        path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
        rehash(folder)

    return changed


def repeated(name: str) -> Change:
    """A key that stands twice in a JSON file."""

    def changed(folder: Path) -> None:
        path = folder / name
        path.write_text('{"created": "2020-01-01T00:00:00+00:00", ' + path.read_text().lstrip()[1:])
        if name != "manifest.json":
            rehash_bytes(folder, name)

    return changed


def rehash_bytes(folder: Path, name: str) -> None:
    """The manifest's hash of one file made to fit."""
    raw = (folder / name).read_bytes()
    facts = {"sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
    manifest(lambda m: m["files"][name].update(facts))(folder)


def linked(name: str) -> Change:
    """A file replaced by a link to itself elsewhere."""

    def changed(folder: Path) -> None:
        moved = folder.parent / f"moved-{name}"
        (folder / name).rename(moved)
        (folder / name).symlink_to(moved)

    return changed


def appended(folder: Path) -> None:
    """Bytes between the columns and the footer of a Parquet file, hashed again."""
    path = folder / "data.parquet"
    raw = path.read_bytes()
    size = int.from_bytes(raw[-8:-4], "little") + 8
    path.write_bytes(raw[:-size] + b"row map: 3,1,2" + raw[-size:])
    rehash(folder)


def rewritten(change: Callable[[bytes], bytes]) -> Change:
    """Other bytes for the same cells, hashed again."""

    def changed(folder: Path) -> None:
        (path,) = folder.glob("data.*")
        raw = path.read_bytes()
        assert change(raw) != raw
        path.write_bytes(change(raw))
        rehash(folder)

    return changed


def written(change: Callable[[pa.Table, Path], object]) -> Change:
    """The same cells by another writer, hashed again."""

    def changed(folder: Path) -> None:
        (path,) = folder.glob("data.*")
        change(sherd.read(path), path)
        rehash(folder)

    return changed


def _padded(raw: bytes) -> bytes:
    """Letters behind the labels of an Arrow stream, whose 60 bytes are filled up to 64."""
    (labels,) = re.findall(rb"[abc]{60}\0{4}", raw)
    return raw.replace(labels, labels[:60] + b"Ann!")


def _stream(found: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(path, found.schema) as writer:
        for piece in found.to_batches(max_chunksize=20):
            writer.write_batch(piece)


def _named(raw: bytes) -> bytes:
    """A gzip file with a name in its header."""
    return raw[:3] + b"\x08" + raw[4:10] + b"row 3 is Ann\0" + raw[10:]


def _requoted(raw: bytes) -> bytes:
    """One label in quotes that it does not need."""
    line = raw.splitlines(keepends=True)[3]
    cells = line.rstrip().split(b",")
    return raw.replace(line, b",".join([*cells[:-1], b'"' + cells[-1] + b'"']) + b"\n", 1)


def _respelled(raw: bytes) -> bytes:
    lines = raw.splitlines()
    age, rest = lines[5].split(b",", 1)
    return b"\n".join([*lines[:5], b"+" + age + b"," + rest, *lines[6:], b""])


def _zeros(raw: bytes) -> bytes:
    lines = raw.splitlines()
    age, pay, job = lines[5].split(b",")
    return b"\n".join([*lines[:5], age + b"," + pay + b"000," + job, *lines[6:], b""])


SKIPPED = b"\x50\x2a\x4d\x18" + (12).to_bytes(4, "little") + b"row 3 is Ann"

WITHIN_FILES: dict[str, tuple[str, Change]] = {
    "rows in another group": (
        "parquet", written(lambda t, p: pq.write_table(t, p, row_group_size=20, store_schema=False))
    ),
    "another page": (
        "parquet",
        written(
            lambda t, p: pq.write_table(
                t, p, data_page_size=16, write_batch_size=8, compression="zstd", store_schema=False
            )
        ),
    ),
    "another compression": (
        "parquet",
        written(lambda t, p: pq.write_table(t, p, compression="gzip", store_schema=False)),
    ),
    "letters behind Parquet": ("parquet", rewritten(lambda raw: raw + b"PAR1")),
    "letters in a stream's padding": ("arrows", rewritten(_padded)),
    "letters behind a stream": ("arrows", rewritten(lambda raw: raw + b"row 3 is Ann")),
    "rows of a stream in other batches": ("arrows", written(_stream)),
    "letters behind Feather": ("feather", rewritten(lambda raw: raw[:-6] + b"Ann" + raw[-6:])),
    "letters in Feather's padding": ("feather", rewritten(lambda raw: raw[:6] + b"An" + raw[8:])),
    "another compression of Feather": (
        "feather",
        written(lambda t, p: pyarrow.feather.write_feather(t, p, compression="uncompressed")),
    ),
    "a mark of byte order": ("csv", rewritten(lambda raw: b"\xef\xbb\xbf" + raw)),
    "other line ends": ("csv", rewritten(lambda raw: raw.replace(b"\n", b"\r\n"))),
    "one other line end": ("csv", rewritten(lambda raw: raw.replace(b"\n", b"\r\n", 4))),
    "an empty line at the end": ("csv", rewritten(lambda raw: raw + b"\n")),
    "spaces at the end": ("csv", rewritten(lambda raw: raw + b"   ")),
    "no line end at the end": ("csv", rewritten(lambda raw: raw[:-1])),
    "quotes that no cell needs": ("csv", rewritten(_requoted)),
    "a number with a sign": ("csv", rewritten(_respelled)),
    "a number with more zeros": ("csv", rewritten(_zeros)),
    "a name in the header of gzip": ("csv.gz", rewritten(_named)),
    "a time in the header of gzip": ("csv.gz", rewritten(lambda raw: raw[:4] + b"Ann!" + raw[8:])),
    "a second piece of gzip": ("csv.gz", rewritten(lambda raw: raw + gzip.compress(b""))),
    "letters behind gzip": ("csv.gz", rewritten(lambda raw: raw + bytes(8))),
    "a skipped frame of zstd": ("csv.zst", rewritten(lambda raw: SKIPPED + raw)),
    "a skipped frame behind zstd": ("csv.zst", rewritten(lambda raw: raw + SKIPPED)),
}  # fmt: skip
"""Ways to say more than cells in a file that reads the same, each with its format."""


def in_front(folder: Path) -> None:
    """A metadata key in a Parquet file, hashed again."""
    path = folder / "data.parquet"
    found = pq.read_table(path).replace_schema_metadata({"order": "3,1,2"})
    pq.write_table(found, path)
    rehash(folder)


def _at(column: str, value: Any) -> Change:
    def changed(found: pa.Table) -> pa.Table:
        cells = found.column(column).to_pylist()
        other = next(cell for cell in cells if cell != value)
        cells = [value if cell == other else cell for cell in cells]
        place = found.column_names.index(column)
        return found.set_column(place, column, pa.array(cells, found.schema.field(column).type))

    return data(changed)


def _spoiled(folder: Path) -> None:
    raw = bytearray((folder / "data.parquet").read_bytes())
    raw[len(raw) // 2] ^= 1
    (folder / "data.parquet").write_bytes(raw)


def spelt(name: str, change: Callable[[bytes], bytes]) -> Change:
    """A JSON file in another spelling, hashed again; most readers see no difference."""

    def changed(folder: Path) -> None:
        path = folder / name
        text = path.read_bytes()
        path.write_bytes(change(text))
        assert path.read_bytes() != text
        if name == "datapackage.json":
            raw = path.read_bytes()
            facts = {"sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
            manifest(lambda m: m["files"][name].update(facts))(folder)

    return changed


def pipe(name: str) -> Change:
    """A pipe in place of a file, at which a reader would wait for ever."""

    def changed(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return changed


SPELT: dict[str, Change] = {
    f"{what} in the {name}": spelt(name, change)
    for name in ("manifest.json", "datapackage.json")
    for what, change in {
        "blanks at the end": lambda b: b + b" \t \n",
        "blanks after a colon": lambda b: b.replace(b'": ', b'":  ', 1),
        "an escaped letter": lambda b: b.replace(b"a", b"\\u0061", 1),
        "no line ends": lambda b: json.dumps(json.loads(b), ensure_ascii=False).encode(),
    }.items()
}
CAUGHT: dict[str, Change] = {
    **SPELT,
    "a zero more behind a point": spelt("manifest.json", lambda b: b.replace(b": 1.0", b": 1.00")),
    "digits beyond precision": spelt(
        "manifest.json", lambda b: b.replace(b": 1.0", b": 1.00000000000000000000007")
    ),
    "a pipe as signature": pipe("signature.json"),
    "a pipe as data": pipe("data.parquet"),
    "a pipe as data package": pipe("datapackage.json"),
    "a folder whose name tells": lambda f: (f / "row 3 is Ann").mkdir(),
    "a name that differs in case": lambda f: (f / "Data.parquet").write_bytes(b"x"),
    "a name with a line end": lambda f: (f / "manifest.json\n").write_bytes(b"x"),
    "the original as signature.parquet": lambda f: pq.write_table(table(), f / "signature.parquet"),
    "a folder signature-keys": lambda f: (f / "signature-keys").mkdir(),
    "a row map beside the data": lambda f: (f / "row_map.csv").write_text("released_row,input_row"),
    "a hidden file": lambda f: (f / ".order").write_text("3,1,2"),
    "a key twice in the manifest": repeated("manifest.json"),
    "a key twice in the data package": repeated("datapackage.json"),
    "linked data": linked("data.parquet"),
    "a linked manifest": linked("manifest.json"),
    "a linked data package": linked("datapackage.json"),
    "an unknown field in the manifest": manifest(lambda m: m.update(note="row 3 is Ann")),
    "an unknown field of a file": manifest(lambda m: m["files"]["data.parquet"].update(note="x")),
    "an unknown field in the data package": package(lambda p: p.update(note="row 3 is Ann")),
    "an unknown field of a resource": package(lambda p: p["resources"][0].update(order=[3, 1])),
    "an unknown field of a column": package(
        lambda p: p["resources"][0]["schema"]["fields"][0].update(example=37)
    ),
    "a column's name that tells": package(
        lambda p: p["resources"][0]["schema"]["fields"][0].update(name="row 3 is Ann")
    ),
    "columns in an order that tells": package(
        lambda p: p["resources"][0]["schema"]["fields"].sort(
            key=lambda field: field["name"], reverse=True
        )
    ),
    "another type of a column": package(
        lambda p: p["resources"][0]["schema"]["fields"][0].update(type="date")
    ),
    "half a letter in the manifest": spelt(
        "manifest.json", lambda b: b.replace(b'"format"', b'"\\ud800": 1,\n  "format"', 1)
    ),
    "bytes between columns and footer": appended,
    "metadata in the data": in_front,
    "a cell off the grid": _at("pay", 3.257),
    "a cell outside the domain": _at("age", 120),
    "a label that is not listed": _at("job", "z"),
    "a bit of the data": _spoiled,
    "a row less": data(lambda t: t.slice(1)),
    "a column more": data(lambda t: t.append_column("id", pa.array(range(t.num_rows)))),
    "covers rewritten": manifest(lambda m: m["guarantee"].update(covers="everything")),
    "assumptions emptied": manifest(lambda m: m["guarantee"].update(assumes=[])),
    "epsilon lowered in the plan": manifest(lambda m: m["plan"].update(epsilon=0.1)),
    "k raised in the plan": manifest(lambda m: m["plan"].update(k=20)),
}
BEYOND: dict[str, Change] = {
    "another version of Sherd": manifest(lambda m: m["versions"].update(numpy="0.1")),
    "another time, told twice": lambda f: (
        package(lambda p: p.update(created="2020-01-01T00:00:00+00:00"))(f),
        manifest(lambda m: m.update(created="2020-01-01T00:00:00+00:00"))(f),
    ),
    "another population": manifest(lambda m: m["budget"].update(population="nobody")),
    "one cluster's value changed for another": _at("job", "a"),
}
"""What manifest, hashes and tables cannot show when they are rewritten together."""


def copied(made: tuple[Path, Path], tmp_path: Path, *, signed: bool) -> Path:
    """The release, with or without its signature."""
    folder = tmp_path / "out"
    shutil.copytree(made[0], folder)
    if not signed:
        (folder / "signature.json").unlink()
    return folder


@pytest.mark.parametrize("name", CAUGHT)
def test_tampering_is_caught_without_a_signature(
    name: str, made: tuple[Path, Path], tmp_path: Path
) -> None:
    """A check fails, whatever the hashes say."""
    folder = copied(made, tmp_path, signed=False)
    assert sherd.verify(folder).passed
    CAUGHT[name](folder)
    assert sherd.verify(folder).failed


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("change", [{"name": "row 3 is Ann"}, {"type": "date"}])
def test_the_data_package_names_the_columns_of_every_form(
    form: str, change: dict[str, str], forms: Path, tmp_path: Path
) -> None:
    """Names and types are those of the file, or of the schema where it has none."""
    folder = copied((forms / form, forms), tmp_path, signed=False)
    assert sherd.verify(folder).passed
    package(lambda p: p["resources"][0]["schema"]["fields"][0].update(change))(folder)
    assert [check.name for check in sherd.verify(folder).failed] == ["data package"]


def test_a_file_of_another_size_is_not_read(made: tuple[Path, Path], tmp_path: Path) -> None:
    """A sparse file of terabytes would be hashed for hours."""
    folder = copied(made, tmp_path, signed=False)
    with (folder / "data.parquet").open("r+b") as file:
        file.truncate(1 << 42)
    failed = [check.detail for check in sherd.verify(folder).failed]
    assert failed == ["it has another number of bytes than the manifest says"]


def test_what_is_attached_to_files_is_named(
    made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Extended attributes are no bytes of the release; browsers and others attach some, too."""
    folder = copied(made, tmp_path, signed=False)
    name = "attached to the files"
    assert name not in {check.name for check in sherd.verify(folder).checks}

    def attached(path: Path, follow_symlinks: bool = True) -> list[str]:
        of_data = ["user.note", "security.selinux", "user.xdg.origin.url"]
        return of_data if path.name == "data.parquet" else []

    monkeypatch.setattr(os, "listxattr", attached, raising=False)
    verification = sherd.verify(folder)
    (said,) = (check for check in verification.checks if check.name == name)
    assert verification.passed
    assert said.passed is None
    assert "data.parquet: user.note" in said.detail
    assert "xdg" not in said.detail


def test_what_others_named_cannot_write_lines_of_its_own(
    made: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor move the cursor of a terminal, nor end the command by half a letter."""
    folder = copied(made, tmp_path, signed=False)
    (folder / "x\nok    signature: by the owner\x1b[2K").write_text("")
    assert run(["verify", str(folder)]) == 4
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "\nok    signature: by the owner" not in said
    spelt("manifest.json", lambda b: b.replace(b'"format"', b'"\\ud800": 1,\n  "format"', 1))(
        folder
    )
    assert run(["verify", str(folder)]) == 4


@pytest.mark.parametrize("name", WITHIN_FILES)
def test_what_a_file_says_besides_its_cells_is_caught(
    name: str, forms: Path, tmp_path: Path
) -> None:
    """Though the hashes were made to fit, and most readers see no difference."""
    form, change = WITHIN_FILES[name]
    folder = copied((forms / form, forms), tmp_path, signed=False)
    assert sherd.verify(folder).passed
    change(folder)
    failed = sherd.verify(folder).failed
    assert failed, [check.detail for check in failed]


def test_bytes_that_another_version_wrote_are_not_called_compared(
    forms: Path, tmp_path: Path
) -> None:
    """Cells and types are checked; that not every byte could be is said."""
    folder = copied((forms / "feather", forms), tmp_path, signed=False)
    WITHIN_FILES["another compression of Feather"][1](folder)
    manifest(lambda m: m["versions"].update(pyarrow="1.0"))(folder)
    (form,) = [check for check in sherd.verify(folder).checks if check.name == NAME]
    assert form.passed is None
    assert "only the version of pyarrow that wrote it" in form.detail


@pytest.mark.parametrize("name", BEYOND)
def test_what_an_unsigned_bundle_cannot_show_a_signature_does(
    name: str, made: tuple[Path, Path], tmp_path: Path
) -> None:
    """The result says so in words; with the key it fails."""
    folder = copied(made, tmp_path, signed=True)
    BEYOND[name](folder)
    assert "signature" in [check.name for check in sherd.verify(folder, key=made[1]).failed]
    (folder / "signature.json").unlink()
    found = sherd.verify(folder)
    assert found.passed
    assert UNSIGNED in [check.detail for check in found.unknown]


def test_a_signed_release_is_known_by_its_key(made: tuple[Path, Path], tmp_path: Path) -> None:
    """By the public file or the fingerprint; another key, a bad signature or none fails."""
    folder, public = made
    assert sherd.verify(folder, key=public).passed
    (mark,) = [c.detail for c in sherd.verify(folder).unknown if c.name == "signature"]
    fingerprint = mark.split("key ")[1].split(";")[0]
    assert sherd.verify(folder, key=fingerprint).passed
    other = tmp_path / "other.key"
    make_key(other)
    wrong = sherd.verify(folder, key=tmp_path / "other.key.pub")
    assert [check.detail.split(":")[0] for check in wrong.failed] == ["by another key"]
    unsigned = copied(made, tmp_path, signed=False)
    assert [check.name for check in sherd.verify(unsigned, key=public).failed] == ["signature"]
    (unsigned / "signature.json").write_text('{\n  "format": 1\n}\n')
    assert [check.name for check in sherd.verify(unsigned).failed] == ["signature"]
    with pytest.raises(FormatError, match="no public key"):
        sherd.verify(folder, key=folder / "manifest.json")
    with pytest.raises(OutputExistsError, match="already signed"):
        sign(folder, other)
    with pytest.raises(UsageError, match="not a release"):
        sign(tmp_path, other)


def test_key_sign_and_verify_by_command(tmp_path: Path) -> None:
    """The three commands, one after the other."""
    plan = sherd.Plan(method="dp-um", epsilon=1.0, k=6)
    out = sherd.protect(table(), SCHEMA, plan).save(tmp_path / "out")
    key = tmp_path / "mine.key"
    runner = CliRunner()
    said = runner.invoke(cli, ["key", str(key)])
    assert "fingerprint: " in said.output
    assert key.stat().st_mode & 0o077 == 0
    assert isinstance(runner.invoke(cli, ["key", str(key)]).exception, OutputExistsError)
    assert "signed by" in runner.invoke(cli, ["sign", str(out), "--key", str(key)]).output
    found = runner.invoke(cli, ["verify", str(out), "--key", f"{key}.pub"], standalone_mode=False)
    assert found.return_value == 0
    assert "by the key: " in found.output
