"""Where the ledger lies unless told otherwise."""

from __future__ import annotations

import os
from pathlib import Path


def default_path() -> Path:
    """``$SHERD_LEDGER``, else ``ledger.db`` in the user's data folder.

    The data folder is ``$XDG_DATA_HOME/sherd``, else ``~/.local/share/sherd``. As the XDG
    specification asks, a relative ``XDG_DATA_HOME`` is ignored.
    """
    given = os.environ.get("SHERD_LEDGER")
    if given:
        return Path(given).expanduser()
    data = Path(os.environ.get("XDG_DATA_HOME") or "")
    if not data.is_absolute():
        data = Path("~/.local/share").expanduser()
    return data / "sherd" / "ledger.db"
