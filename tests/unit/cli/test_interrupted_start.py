"""Ctrl-C while the command line is still being imported."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

IMPORTING = """
import os, signal
os.kill(os.getpid(), signal.SIGINT)
"""


def test_an_interrupt_during_imports_is_told_in_one_line(tmp_path: Path) -> None:
    """Exit code 130 and no traceback: here while click is imported, the first of our imports."""
    (tmp_path / "click.py").write_text(IMPORTING)
    done = subprocess.run(
        [sys.executable, "-m", "sherd", "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 130
    assert done.stderr == "interrupted: nothing was written\n"


def test_nothing_heavy_is_imported_before_an_interrupt_can_be_told() -> None:
    """Until then Ctrl-C is a traceback; what Python does before our first line is its own."""
    code = (
        "import sys; old = set(sys.modules); import sherd.__main__; "
        "print(*sorted(set(sys.modules) - old))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    imported = set(done.stdout.split())
    assert {"sherd", "sherd.__main__"} <= imported
    assert imported <= {"sherd", "sherd.__main__", "__future__", "importlib", "warnings"} | {
        name for name in imported if name.startswith("importlib.")
    }
