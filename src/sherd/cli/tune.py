"""``sherd tune``: the (epsilon, k) map of information loss, for the owner's eyes only."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import (
    PATH,
    check_new,
    emit_json,
    json_option,
    missing_option,
    progress,
    query_option,
    schema_of,
    schema_option,
    set_option,
    settings,
    threads_option,
)
from sherd.errors import MissingPartError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.release.tune import Cell

LABEL = "internal: not for publication"


@click.command()
@click.argument("table")
@schema_option
@click.option("-m", "--method", "methods", multiple=True, help="Try this method. Repeatable.")
@click.option(
    "-e", "--epsilon", "epsilons", multiple=True, type=float, help="Try this epsilon. Repeatable."
)
@click.option("-k", "--k", "ks", multiple=True, type=int, help="Try this k. Repeatable.")
@click.option(
    "--runs",
    default=10,
    show_default=True,
    type=click.IntRange(min=2),
    help="Run each plan this many times.",
)
@set_option
@query_option
@missing_option
@threads_option
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=PATH,
    help="Write a .png (heat map), .json or .csv file. Repeatable.",
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@json_option
def tune(**given: Any) -> None:
    """Try every epsilon and k on TABLE and show the loss of each. For the owner only.

    \b
    sherd tune :adult -m dp-um -m idp-ls -e 0.1 -e 1 -k 50 -k 500 -o map.png
    """
    import sherd

    _check_outputs(given["outputs"], force=given["force"])
    schema = schema_of(given)
    with progress("tune") as bar:
        cells = sherd.tune(
            sherd.read(given["table"], schema=schema, query=given["query"]),
            schema,
            methods=given["methods"] or None,
            **{name: given[name] for name in ("epsilons", "ks") if given[name]},
            runs=given["runs"],
            threads=given["threads"],
            parameters=settings(given["extra"]),
            progress=bar,
        )
    for path in given["outputs"]:
        _write(path, cells)
    if given["as_json"]:
        emit_json(_data(cells))
    else:
        _print(cells, given["outputs"])


def _check_outputs(paths: tuple[Path, ...], *, force: bool) -> None:
    """Refuse, before the long work, outputs that could not be written after it."""
    for path in paths:
        if path.suffix not in (".png", ".json", ".csv"):
            raise UsageError(
                "the output's format is unknown", must=".png, .json or .csv", got=path.name
            )
        check_new(path, force=force)
        if path.suffix == ".png" and importlib.util.find_spec("matplotlib") is None:
            raise MissingPartError("drawing needs matplotlib", do="pip install 'sherd[report]'")


def _data(cells: list[Cell]) -> dict[str, Any]:
    return {"label": LABEL, "cells": [cell.as_data() for cell in cells]}


def _write(path: Path, cells: list[Cell]) -> None:
    from sherd.tables.files import write_whole

    if path.suffix == ".json":
        write_whole(path, (json.dumps(_data(cells), indent=2, ensure_ascii=False) + "\n").encode())
        return
    if path.suffix == ".csv":
        text = io.StringIO()
        rows = csv.DictWriter(text, list(cells[0].as_data()), lineterminator="\n")
        rows.writeheader()
        rows.writerows(cell.as_data() for cell in cells)
        write_whole(path, text.getvalue().encode())
        return
    from sherd.release.tune import heat_map

    picture = io.BytesIO()
    heat_map(cells, picture)
    write_whole(path, picture.getvalue())


def _print(cells: list[Cell], outputs: tuple[Path, ...]) -> None:
    from sherd.release.tune import best

    click.echo(f"Information loss, mean of {cells[0].runs} runs ± 95 % interval; {LABEL}.")
    click.echo(f"Mean SSE: {cells[0].variant}.")
    click.echo(f"{'method':<10} {'promise':<10} {'epsilon':>8} {'k':>6} {'mean SSE':>12} {'±':>10}")
    winners = set(map(id, best(cells).values()))
    for cell in cells:
        k = "-" if cell.k is None else str(cell.k)
        mark = "  <- least" if id(cell) in winners and cell.k is not None else ""
        numbers = f"{cell.loss:>12.5g} {cell.margin:>10.2g}"
        named = f"{cell.method:<10} {cell.guarantee:<10}"
        click.echo(f"{named} {cell.epsilon:>8g} {k:>6} {numbers}{mark}")
    click.echo("Choosing a plan by this map uses the data; no epsilon covers that choice.")
    for path in outputs:
        click.echo(f"wrote {path}")
