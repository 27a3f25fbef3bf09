"""``sherd demo --joint`` from start to end, on a few records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sherd
from sherd.verifying import verify

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_and_three_parties_are_demonstrated(
    tmp_path: Path, require_or_skip: Callable[[str], None]
) -> None:
    """Releases that verify, accuracies beside each other, seconds and bytes of every step."""
    if not os.environ.get("SHERD_JOINT_PYTHON"):
        require_or_skip("SHERD_JOINT_PYTHON does not name a Python with SPU")
    source = str(Path(sherd.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-m", "sherd", "demo", "--joint", "--records", "300", "--json",
         "-o", str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert [len(run["parties"]) for run in result["runs"]] == [2, 3]
    assert [run["protocol"] for run in result["runs"]] == ["CHEETAH", "ABY3"]
    for run in result["runs"]:
        assert not [one for one in verify(Path(run["release"])).checks if one.passed is False]
        assert {"places of choices", "leaf counts", "noisy counts"} <= set(run["steps"])
        assert run["steps"]["leaf counts"]["bytes"] > 0
        assert set(run["alone"]) == set(run["parties"])
        assert 0.5 < run["joint"] <= 1
