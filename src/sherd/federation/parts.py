"""Saying clearly that the optional part this package needs is not installed."""

from __future__ import annotations

import importlib

from sherd.errors import MissingPartError

NEEDED = ("cryptography", "rbcl", "httpx", "fastapi", "uvicorn", "sqlalchemy", "alembic")


def require(*modules: str) -> None:
    """Raise MissingPartError where one of the modules cannot be imported."""
    for name in modules or NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            raise MissingPartError(
                "joint releases need an optional part",
                got=f"no module '{name}'",
                do="install it: pip install 'sherd[federation]'",
            ) from None
