"""Saying clearly that the optional part this package needs is not installed."""

from __future__ import annotations

import importlib.util

from sherd.errors import MissingPartError

AGGREGATOR = ("cryptography", "rbcl", "httpx", "fastapi", "uvicorn", "sqlalchemy", "alembic")
OWNER = ("cryptography", "rbcl", "httpx")
PAGE = (*OWNER, "starlette", "uvicorn", "jinja2")


def require(modules: tuple[str, ...] = AGGREGATOR) -> None:
    """Raise MissingPartError where one of the modules is not installed; imports none."""
    for name in modules:
        if importlib.util.find_spec(name) is None:
            raise MissingPartError(
                "joint releases need an optional part",
                got=f"no module '{name}'",
                do="install it: pip install 'sherd[federation]'",
            )
