"""What ``sherd protect`` can be told of a release's surroundings: those before it, places, keys."""

from __future__ import annotations

from pathlib import Path

import click

FOLLOWING = (
    click.option("--key", metavar="ATTRIBUTE", help="Name tuples by this attribute, for --record."),
    click.option(
        "--record",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the private record from which a next release is made.",
    ),
    click.option(
        "--after",
        type=click.Path(path_type=Path),
        metavar="OLD",
        help="Follow this release: TABLE is what became of its table.",
    ),
    click.option(
        "--old-record",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Read the private record of the release that is followed.",
    ),
    click.option(
        "--to",
        multiple=True,
        metavar="TABLE=PLACE",
        help="Send a table of the release to a place of its own, a folder or postgresql://…",
    ),
    click.option(
        "--again",
        is_flag=True,
        help="Release a population again without a record, by a method that takes for granted that "
        "there is no other release.",
    ),
    click.option(
        "--cell-key",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Seal withheld attributes under this key of yours; made where there is no such file.",
    ),
)
"""Options of releases that follow others, go elsewhere or hold ciphertext."""
