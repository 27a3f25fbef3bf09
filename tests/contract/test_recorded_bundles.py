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

RECORDED = Path(__file__).parents[1] / "recorded"
KINDS = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())


def test_every_method_was_recorded() -> None:
    """All methods of that time, releases by one owner and by several, text and Parquet."""
    methods = {sherd.Release.load(RECORDED / kind).manifest["plan"]["method"] for kind in KINDS}
    assert methods >= {"dp", "idp", "dp-um", "idp-ls", "idp-cbls", "slice", "mondrian", "anatomy"}
    assert methods >= {"fragment", "diffgen", "arbdistdp"}
    assert methods <= set(DIRECTORY)
    assert {"joint-rows", "joint-columns", "dp-csv", "strict", "escaped"} <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_it_still_verifies(kind: str) -> None:
    """What was written then means today what it meant then, but for one thing found since.

    Parquet files of that time hold more than cells: dictionaries and types of the original.
    Verification says so; text has no such place. What a promise leaves aside and did not name
    then is told beside it.
    """
    checks = sherd.verify(RECORDED / kind).checks
    failed = [check.name for check in checks if check.passed is False]
    parquet = any(path.suffix == ".parquet" for path in (RECORDED / kind).iterdir())
    assert failed == (["form of the files"] if parquet else [])
    promise = next(check for check in checks if check.name == "promise")
    if kind == "fragment":
        assert promise.passed is None
        assert promise.detail.startswith("an earlier promise")
        assert "how frequent values are" in promise.detail


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_byte_is_still_found(kind: str, tmp_path: Path) -> None:
    """The old hashes are compared, not passed over."""
    folder = Path(shutil.copytree(RECORDED / kind, tmp_path / kind))
    data = next(path for path in sorted(folder.iterdir()) if path.suffix != ".json")
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    assert run(["verify", str(folder)]) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_still_read(kind: str) -> None:
    """Plan, schema and tables come back, and the audit can draw records where it could."""
    release = sherd.Release.load(RECORDED / kind)
    plan = release.manifest["plan"]
    again = sherd.Plan.from_data(plan).as_data()
    assert plan.items() <= again.items(), "new parameters have defaults that change nothing"
    assert sherd.Schema.from_data(release.manifest["schema"]).attributes
    assert all(table.num_rows for table in release.tables.values())
    if "data" in release.tables and plan["method"] not in ("diffgen", "arbdistdp"):
        source = drawable_of(release.tables, release.manifest)
        assert next(iter(source.draw(Randomness.seeded(1), 1))).num_rows > 0
