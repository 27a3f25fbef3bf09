"""The option that names an aggregator's folder, and opening it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sherd.federation.aggregator.aggregator_home import AggregatorHome

home_option = click.option(
    "--home",
    type=click.Path(path_type=Path),
    default=Path("aggregator"),
    show_default=True,
    envvar="SHERD_AGGREGATOR",
    help="Use this aggregator's folder.",
)


def open_home(folder: Path) -> AggregatorHome:
    """An aggregator's folder, where the parts that it needs are installed."""
    from sherd.federation.wire.optional_parts import require

    require()
    from sherd.federation.aggregator.aggregator_home import AggregatorHome

    return AggregatorHome(folder)
