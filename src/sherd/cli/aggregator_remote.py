"""The options by which an operator works at an aggregator from another machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.federation.wire.client import Client

_OPTIONS = (
    click.option("--url", envvar="SHERD_URL", help="Call an aggregator elsewhere."),
    click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        envvar="SHERD_TOKEN_FILE",
        help="With --url: read the token that `sherd login` wrote.",
    ),
    click.option(
        "--authority",
        type=click.Path(path_type=Path),
        help="With --url: trust this authority. Default: the system's.",
    ),
)


def remote_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def remote_client(url: str, token_file: Path | None, authority: Path | None) -> Client:
    """A line to an aggregator elsewhere."""
    from sherd.federation.wire.optional_parts import OWNER, require

    require(OWNER)
    from sherd.federation.wire.client import Client, tls_context

    if token_file is None:
        raise UsageError("an aggregator elsewhere asks who you are", do="give --token-file")
    try:
        token = token_file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        raise UsageError(
            "the token cannot be read", got=str(token_file), do="log in with `sherd login`"
        ) from None
    context = None if url.startswith("http://") else tls_context(authority, None)
    return Client(url=url, name="", aggregator="", token=token, context=context)
