"""``sherd query``: SQL over released fragments, or over measured counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import PATH, check_new, json_option, named_values

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("release", type=PATH)
@click.argument("sql")
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME=FILE",
    callback=named_values,
    help="Make your own table available for joins (CSV, Parquet, Feather).",
)
@click.option(
    "--key",
    type=PATH,
    metavar="FILE",
    help="Decrypt withheld attributes with the key in this file.",
)
@click.option("-o", "--output", type=PATH, help="Write the answer to this file (CSV, Parquet).")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
def query(
    release: Path,
    sql: str,
    tables: dict[str, str],
    key: Path | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Answer an SQL query over the view `release` of the RELEASE folder.

    Fragments: a query that needs one fragment is exact over the released tuples. A query that needs
    several gets expected values, each with a standard error and with the least and greatest value
    that the release allows. With --key you can also query withheld attributes, and every answer is
    exact.

    `dp-graph`: COUNT, SUM and AVG come from the measured counts, each with a standard error and a
    95 % interval.

    \b
    sherd query out/ "SELECT Race, AVG(Salary) FROM release GROUP BY Race"
    """
    import sherd

    own = {name: sherd.read(path) for name, path in tables.items()}
    check_new(output, force=force)
    answer = sherd.query(release, sql, own=own, key=key)
    if output is not None:
        from sherd.tables.write import write

        write(answer.table, output)
    if as_json:
        click.echo(json.dumps(answer.as_data(), indent=2, ensure_ascii=False, default=str))
        return
    if output is not None:
        click.echo(f"wrote {answer.table.num_rows} rows to {output}")
    else:
        _print(answer)
    click.echo(answer.words(), err=True)


def _print(answer: Any) -> None:
    """Print the answer: an estimate with its error, and the bounds it lies between."""
    from rich.console import Console
    from rich.table import Table

    beside = {*answer.errors, *answer.bounds}
    names = [name for name in answer.table.column_names if name not in beside]
    shown = Table(*names)
    for row in answer.table.to_pylist():
        shown.add_row(*[_text(row, name, beside) for name in names])
    Console().print(shown)


def _text(row: dict[str, Any], name: str, beside: set[str]) -> str:
    text = _short(row[name])
    if f"{name}_error" in beside:
        text += f" ± {_short(row[f'{name}_error'])}"
    for least, most in (("least", "most"), ("low", "high")):
        if f"{name}_{least}" in beside:
            text += f" ({_short(row[f'{name}_{least}'])} … {_short(row[f'{name}_{most}'])})"
    return text


def _short(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
