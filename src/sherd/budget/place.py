"""Where the ledger lies unless told otherwise."""

from __future__ import annotations

import os
from pathlib import Path

from sherd.errors import UsageError

NO_LEDGER = "none"
"""In the place of a ledger's path: nothing is charged."""


def chosen_path(given: str | Path | None) -> Path | None:
    """The ledger to charge: as given, else by default; nothing where either says ``none``."""
    named = given if given is not None else os.environ.get("SHERD_LEDGER")
    if str(named) == NO_LEDGER:
        return None
    return default_path() if given is None else Path(given)


def default_path() -> Path:
    """``$SHERD_LEDGER``, else ``ledger.db`` in the user's data folder.

    The data folder is ``$XDG_DATA_HOME/sherd``, else ``~/.local/share/sherd``. As the XDG
    specification asks, a relative ``XDG_DATA_HOME`` is ignored.
    """
    given = os.environ.get("SHERD_LEDGER")
    if given == NO_LEDGER:
        raise UsageError(
            "there is no ledger: SHERD_LEDGER says so",
            must="a ledger's file",
            got=repr(given),
            do="name one with --ledger, or unset SHERD_LEDGER",
        )
    if given:
        return Path(given).expanduser()
    data = Path(os.environ.get("XDG_DATA_HOME") or "")
    if not data.is_absolute():
        data = Path("~/.local/share").expanduser()
    return data / "sherd" / "ledger.db"
