"""``sherd demo`` as a person runs it: processes, mutual TLS, four releases and one page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import sherd
import sherd_examples
from sherd.budget.ledger import Ledger

OWNERS = {
    "adult": ("north", "east", "south", "west"),
    "wine": ("acids", "salts", "spirits"),
}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    source = os.pathsep.join(str(Path(one.__path__[0]).parent) for one in (sherd, sherd_examples))
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
def test_all_releases_verify(demo: tuple[Path, dict[str, Any]]) -> None:
    """Whoever has the folders alone finds nothing wrong with them, signatures included."""
    _, result = demo
    for name, rows, columns in (("adult", 4522, 10), ("wine", 649, 11)):
        for method, release in result["tables"][name]["releases"].items():
            found = sherd.verify(release["folder"])
            assert found.passed, [check for check in found.checks if check.passed is False]
            checks = {check.name: check.passed for check in found.checks}
            if (name, method) != ("wine", "dp-graph"):  # which no aggregator signs
                assert checks["signatures"] is True
                assert checks["joint plan"] is True
                assert checks["countersignatures"] is True, "the demonstration waited for all"
            assert (release["rows"], release["columns"]) == (rows, columns)


def test_every_owner_spent_its_share_and_no_more(demo: tuple[Path, dict[str, Any]]) -> None:
    """One ledger an owner says what was printed of both releases: each was charged once."""
    folder, result = demo
    for name, owners in OWNERS.items():
        releases = result["tables"][name]["releases"]
        for owner in owners:
            ledger = Ledger(folder / "owners" / owner / "home" / "ledger.db")
            ledger.verify()
            charges = [
                one for one in ledger.entries() if one.kind == "charge" and str(one.amount) != "0"
            ]
            charged = {one.method: str(one.amount) for one in charges}
            assert len(charges) == 2
            assert charged == {method: one["spent"][owner] for method, one in releases.items()}
        assert set(releases["dp-graph"]["spent"].values()) == {"1"}
    paper = {name: table["releases"]["idp-ls"]["spent"] for name, table in result["tables"].items()}
    assert set(paper["adult"].values()) == {"1"}
    assert sum(Decimal(amount) for amount in paper["wine"].values()) == 1


def test_every_owner_has_the_releases(demo: tuple[Path, dict[str, Any]]) -> None:
    """Owners fetched the same manifests that were published; parties made the same records."""
    folder, result = demo
    for name, owners in OWNERS.items():
        for method, release in result["tables"][name]["releases"].items():
            published = Path(release["folder"])
            for owner in owners:
                home = folder / "owners" / owner / "home" / "releases" / published.name
                if (name, method) == ("wine", "dp-graph"):
                    home = folder / "owners" / owner / "party" / "release"
                    mine = sherd.Release.load(home).tables["data"]
                    assert mine.equals(sherd.Release.load(published).tables["data"])
                    continue
                own = (home / "manifest.json").read_bytes()
                assert own == (published / "manifest.json").read_bytes()


def test_one_page_compares_promise_attacks_and_usefulness(
    demo: tuple[Path, dict[str, Any]],
) -> None:
    """Both tables, both methods, in words that follow from the audits; each audit is beside it."""
    folder, result = demo
    page = Path(result["report"]).read_text(encoding="utf-8")
    text = unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)))
    for words in (
        "Adult by rows over 4 owners",
        "Wine Quality by columns over 3 owners",
        "What is promised to each person, and does it hold?",
        "What does an attacker find out?",
        "What is the table still good for?",
        "Tested: it holds. The noise in the released numbers is the declared noise",
        "Tested: it does not hold.",
        "Knowing 50 of 1,000 people, an attacker finds",
        "No row of it belongs to anybody.",
        "of 100 records are counted in a wrong place",
    ):
        assert words in text, words
    assert "ε-individual" not in text, "words for somebody who does not know the method"
    for name in OWNERS:
        for method in ("idp-ls", "dp-graph"):
            assert f'href="audit-{name}-{method}.html"' in page
            assert (folder / f"audit-{name}-{method}.html").exists()
    # On a tenth of the rows more may go wrong; never is the paper's release the one to publish.
    headline = re.search(r"<h1>(.*?)</h1>", page)
    assert headline is not None
    assert "ublish what the paper" not in headline[1].replace("not publish what", "")
