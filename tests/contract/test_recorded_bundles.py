"""Releases that an earlier version wrote are still read, verified and drawn from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import sherd
from sherd.auditing.case.open_case import drawable_of
from sherd.cli import run
from sherd.randomness import Randomness
from sherd.release.method import DIRECTORY

TESTS = Path(__file__).parents[1]
RECORDED = TESTS / "recorded"
CURRENT = TESTS / "recorded_format_2"
KINDS = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())
FOLDERS = [
    path for place in (RECORDED, CURRENT) for path in sorted(place.iterdir()) if path.is_dir()
]
NAMES = [f"{path.parent.name}/{path.name}" for path in FOLDERS]


def test_every_method_was_recorded() -> None:
    """All methods of that time, releases by one owner and by several, text and Parquet."""
    methods = {sherd.Release.load(RECORDED / kind).manifest["plan"]["method"] for kind in KINDS}
    assert methods >= {"dp", "idp", "dp-um", "idp-ls", "idp-cbls", "slice", "mondrian", "anatomy"}
    assert methods >= {"fragment", "diffgen", "arbdistdp"}
    assert methods <= set(DIRECTORY)
    assert {"joint-rows", "joint-columns", "dp-csv", "strict", "escaped"} <= set(KINDS)
    now = {sherd.Release.load(f).manifest["plan"]["method"] for f in FOLDERS if f.parent == CURRENT}
    assert now == set(DIRECTORY)


@pytest.mark.parametrize("kind", [path.name for path in FOLDERS if path.parent == CURRENT])
def test_a_bundle_of_format_2_verifies(kind: str) -> None:
    """Every kind, every check; joint ones by the signatures of all that made them."""
    checks = sherd.verify(CURRENT / kind).checks
    assert [check for check in checks if check.passed is False] == []
    assert any(check.name == "form of the files" for check in checks)
    if kind.startswith("joint-signed"):
        signed = {"signature", "countersignatures", "owners' parts"}
        assert {check.name for check in checks if check.passed} >= signed - {
            "owners' parts" if kind.endswith("model") else ""
        }


def test_a_bundle_that_was_signed_is_known_by_its_key() -> None:
    """And by no other."""
    key = CURRENT / "signed.key.pub"
    assert sherd.verify(CURRENT / "signed", key=key).passed
    assert [c.name for c in sherd.verify(CURRENT / "dp-um", key=key).failed] == ["signature"]


@pytest.mark.parametrize("kind", KINDS)
def test_it_still_verifies(kind: str) -> None:
    """What was written then means today what it meant then, but for one thing found since.

    Parquet files of that time hold more than cells: dictionaries and types of the original.
    Verification says so; text has no such place. What a promise leaves aside and did not name
    then is told beside it.
    """
    checks = sherd.verify(RECORDED / kind).checks
    failed = [check.name for check in checks if check.passed is False]
    told = [check.detail for check in checks if check.name == "form of the files"]
    assert not failed or "security notes" in told[0]
    parquet = any(path.suffix == ".parquet" for path in (RECORDED / kind).iterdir())
    assert failed == (["form of the files"] if parquet else [])
    promise = next(check for check in checks if check.name == "promise")
    if kind == "fragment":
        assert promise.passed is None
        assert promise.detail.startswith("an earlier promise")
        assert "how frequent values are" in promise.detail


@pytest.mark.parametrize("made", FOLDERS, ids=NAMES)
def test_a_changed_byte_is_still_found(made: Path, tmp_path: Path) -> None:
    """The old hashes are compared, not passed over."""
    folder = Path(shutil.copytree(made, tmp_path / made.name))
    data = next(path for path in sorted(folder.iterdir()) if path.suffix != ".json")
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    assert run(["verify", str(folder)]) == 4


@pytest.mark.parametrize("made", FOLDERS, ids=NAMES)
def test_it_is_still_read(made: Path) -> None:
    """Plan, schema and tables come back, and the audit can draw records where it could."""
    release = sherd.Release.load(made)
    plan = release.manifest["plan"]
    again = sherd.Plan.from_data(plan).as_data()
    assert plan.items() <= again.items(), "new parameters have defaults that change nothing"
    assert sherd.Schema.from_data(release.manifest["schema"]).attributes
    assert all(table.num_rows for table in release.tables.values())
    if "data" in release.tables and plan["method"] not in ("diffgen", "arbdistdp"):
        source = drawable_of(release.tables, release.manifest)
        assert next(iter(source.draw(Randomness.seeded(1), 1))).num_rows > 0
