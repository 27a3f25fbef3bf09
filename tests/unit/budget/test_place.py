from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sherd.budget import default_path

if TYPE_CHECKING:
    import pytest


def test_the_environment_names_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """SHERD_LEDGER wins, with ~ expanded."""
    monkeypatch.setenv("SHERD_LEDGER", "~/mine.db")
    assert default_path() == Path.home() / "mine.db"


def test_the_data_folder_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """XDG_DATA_HOME is honoured where absolute; otherwise ~/.local/share is used."""
    monkeypatch.delenv("SHERD_LEDGER", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "sherd" / "ledger.db"
    for ignored in ("", "relative/folder"):
        monkeypatch.setenv("XDG_DATA_HOME", ignored)
        assert default_path() == Path.home() / ".local/share/sherd/ledger.db"
