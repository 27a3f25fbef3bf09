"""Linking and assembling tables that are larger than the memory there is for them.

Each runs in a process of its own whose memory may not grow beyond a limit from some moment on
(mapped files do not count: the system takes their pages back). That the limit is one is shown
first: what is as large as the tables cannot be had.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")
resource = pytest.importorskip("resource")

HERE = Path(__file__).parents[1] / "support" / "little_memory.py"


@pytest.mark.parametrize("what", ["rows", "columns", "people", "overlap"])
def test_within_little_memory(what: str, tmp_path: Path) -> None:
    """Rows are united, columns joined and lists of people compared in less than they take."""
    ended = subprocess.run(
        [sys.executable, str(HERE), what, str(tmp_path)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith(f"{what}: done\n")
