from __future__ import annotations

from pathlib import Path

import pytest

from sherd.budget import default_path
from sherd.budget.place import chosen_path
from sherd.errors import UsageError


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


def test_no_ledger_by_option_or_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """``none`` is no file's name; what must have a ledger says so."""
    monkeypatch.delenv("SHERD_LEDGER", raising=False)
    assert chosen_path("none") is None
    assert chosen_path("mine.db") == Path("mine.db")
    assert chosen_path(None) == default_path()
    monkeypatch.setenv("SHERD_LEDGER", "none")
    assert chosen_path(None) is None
    assert chosen_path("mine.db") == Path("mine.db")
    with pytest.raises(UsageError, match="SHERD_LEDGER says so"):
        default_path()
