"""``sherd demo`` as a person runs it: processes, mutual TLS, two releases and a report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import sherd
from sherd.budget.ledger import Ledger

OWNERS = {
    "adult": ("north", "east", "south", "west"),
    "wine": ("acids", "salts", "spirits"),
}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    source = str(Path(sherd.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-m", "sherd", *command],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": source},
        check=False,
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A demonstration on a tenth of the rows: its folder and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    done = run("demo", "--quick", "--epsilon", "1", "-o", str(folder), "--json")
    logs = "".join(log.read_text() for log in folder.glob("logs/*.log")) if folder.exists() else ""
    assert done.returncode == 0, done.stderr + logs
    return folder, json.loads(done.stdout)


@pytest.mark.timeout(300)
def test_both_releases_verify(demo: tuple[Path, dict[str, Any]]) -> None:
    """Whoever has the folders alone finds nothing wrong with them, signatures included."""
    _, result = demo
    for name, rows, columns in (("adult", 4522, 10), ("wine", 649, 11)):
        done = run("verify", result[name]["folder"], "--json")
        assert done.returncode == 0, done.stdout
        checks = {check["name"]: check["passed"] for check in json.loads(done.stdout)["checks"]}
        assert checks["signatures"] is True
        assert checks["joint plan"] is True
        assert (result[name]["rows"], result[name]["columns"]) == (rows, columns)


def test_every_owner_spent_its_share_and_no_more(demo: tuple[Path, dict[str, Any]]) -> None:
    """The ledgers say what was printed: all of epsilon by rows, shares of it by columns."""
    folder, result = demo
    for name, owners in OWNERS.items():
        assert tuple(result[name]["spent"]) == owners
        for owner in owners:
            ledger = Ledger(folder / "owners" / owner / "home" / "ledger.db")
            ledger.verify()
            charges = [entry for entry in ledger.entries() if entry.kind == "charge"]
            assert [str(each.amount) for each in charges] == [result[name]["spent"][owner]]
    assert set(result["adult"]["spent"].values()) == {"1"}
    assert sum(Decimal(amount) for amount in result["wine"]["spent"].values()) == 1


def test_every_owner_has_the_release_and_the_report_is_there(
    demo: tuple[Path, dict[str, Any]],
) -> None:
    """Owners fetched the same manifest that was published; the page is about the release."""
    folder, result = demo
    for name, owners in OWNERS.items():
        published = (Path(result[name]["folder"]) / "manifest.json").read_bytes()
        for owner in owners:
            own = folder / "owners" / owner / "home" / "releases" / name / "manifest.json"
            assert own.read_bytes() == published
    page = Path(result["report"]).read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html")
    assert "idp-ls" in page
