"""The notebook of the tutorial runs from top to bottom."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_notebook_runs(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell, in order, in one set of names; what it asserts holds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHERD_LEDGER", str(tmp_path / "ledger.db"))
    path = root / "docs" / "tutorial" / "notebook.ipynb"
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    names: dict[str, Any] = {}
    sources = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    for number, source in enumerate(sources):
        exec(compile(source, f"cell {number}", "exec"), names)  # noqa: S102 - our own page
    assert {"draft", "guarantee", "release", "checks", "cells"} <= set(names)
    assert all(not cell.get("outputs") for cell in notebook["cells"]), "saved without outputs"
