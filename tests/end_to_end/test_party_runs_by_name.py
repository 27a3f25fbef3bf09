"""A run's name buys what it was paid for, once: parties over real connections, in one process.

The engine computes in the open (``party_storm``), for what is tried is not about secrecy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sherd

SUPPORT = Path(__file__).parents[1] / "support"
BEGIN = """
import json, shutil, sys
from pathlib import Path
import sherd, party_storm
from sherd.release.plan import Plan
storm = party_storm.Storm(1, 0.0)
storm.install()
party_storm.PLANS = party_storm.PLANS[:1]
world = party_storm.World(Path(sys.argv[1]), "ab", storm)
a, b = world.parties.folders.values()
told = [world.all_once(20.0)]
"""
END = """
told.append(world.all_once(20.0))
charged = [[float(e.amount) for e in sherd.Ledger(f / "ledger.db").entries() if e.kind == "charge"]
           for f in (a, b)]
released = [(f / "release").exists() for f in (a, b)]
print(json.dumps([told, charged, released, storm.failures]))
"""
RENAMED = """
head = json.loads((b / "journal.finished").read_text().split("\\n")[0])
for folder in (a, b):
    shutil.rmtree(folder / "release")
    (folder / "journal.finished").unlink()
plan = {"epsilon": 2, "h": 1, "class_attribute": "c"}
for name in "ab":
    world.parties.change(name, plan=plan)
from sherd.secure.party import PartySettings
head["statement"]["plan"] = PartySettings.load(b / "party.yaml").plan.hash
(b / "journal.jsonl").write_text(json.dumps({**head, "cells": None}) + "\\n")
"""
RESTORED = """
shutil.rmtree(a / "release")
for name in ("journal.finished", "ledger.db"):
    (a / name).unlink()
"""


def ran(folder: Path, between: str) -> tuple[Any, ...]:
    """Two runs of two parties with something between; what was told, charged and released."""
    pytest.importorskip("mpyc")
    source = str(Path(sherd.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + between + END, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), source])},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found[0][0] == {"a": "done", "b": "done"}
    return tuple(found)


def test_a_paid_name_does_not_buy_another_plan(tmp_path: Path) -> None:
    """A party that says the new run is the old one gets nothing, and nothing is opened unpaid."""
    (_, second), charged, released, failures = ran(tmp_path, RENAMED)
    assert "other settings or tables" in second["a"], second
    assert charged == [[1.0], [1.0]]
    assert released == [False, False]
    assert failures == []


def test_a_restored_party_is_given_what_it_lost(tmp_path: Path) -> None:
    """The others have finished: it has the same release from them, and pays for it once."""
    (_, second), charged, released, failures = ran(tmp_path, RESTORED)
    assert second == {"a": "done", "b": "done"}
    assert charged == [[1.0], [1.0]]
    assert released == [True, True]
    assert failures == []
