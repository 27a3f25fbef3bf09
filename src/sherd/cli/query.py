"""``sherd query``: SQL over released fragments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import json_option
from sherd.errors import OutputExistsError, UsageError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sherd.methods.fragmenting.query import Answer


@click.command()
@click.argument("release", type=click.Path(path_type=Path))
@click.argument("sql")
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME=FILE",
    help="A table of your own to join (CSV, Parquet, Feather).",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the answer (CSV, Parquet)."
)
@click.option("--force", is_flag=True, help="Overwrite the output.")
@json_option
def query(
    release: Path,
    sql: str,
    tables: tuple[str, ...],
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Answer SQL over the view `release` of the RELEASE folder.

    A query that needs one fragment is exact over the released tuples. One that needs several
    gets expected values, each with a standard error and with the least and greatest value that the
    release allows.

    \b
    sherd query out/ "SELECT Race, AVG(Salary) FROM release GROUP BY Race"
    """
    from sherd.methods.fragmenting.query import answer
    from sherd.release.bundle import Release
    from sherd.tables.read import read

    own: dict[str, Any] = {}
    for text in tables:
        name, equals, path = text.partition("=")
        if not equals or not name:
            raise UsageError("--table cannot be read", must="NAME=FILE", got=repr(text))
        own[name] = read(path)
    if output is not None and output.exists() and not force:
        raise OutputExistsError("the output is there already", got=str(output), do="use --force")
    loaded = Release.load(release)
    _unchanged(release, loaded.manifest)
    found = answer(loaded.tables, loaded.manifest, sql, own=own)
    if output is not None:
        from sherd.tables.write import write

        write(found.table, output)
    if as_json:
        click.echo(json.dumps(found.as_data(), indent=2, ensure_ascii=False, default=str))
        return
    if output is not None:
        click.echo(f"wrote {found.table.num_rows} rows to {output}")
    else:
        _print(found)
    click.echo(found.words(), err=True)


def _unchanged(release: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse fragments that are not as they were released: answers would be called exact."""
    from sherd.release.bundle import digest

    for name, facts in manifest["files"].items():
        if digest(release / name) != facts["sha256"]:
            raise VerificationError(
                f"the file '{name}' is not as it was released",
                got=str(release),
                do="get the release again; `sherd verify` says more",
            )


def _print(found: Answer) -> None:
    """Print the answer: an estimate with its error, and the bounds it lies between."""
    from rich.console import Console
    from rich.table import Table

    beside = {*found.errors, *found.bounds}
    names = [name for name in found.table.column_names if name not in beside]
    shown = Table(*names)
    for row in found.table.to_pylist():
        shown.add_row(*[_text(row, name, beside) for name in names])
    Console().print(shown)


def _text(row: dict[str, Any], name: str, beside: set[str]) -> str:
    text = _short(row[name])
    if f"{name}_error" in beside:
        text += f" ± {_short(row[f'{name}_error'])}"
    if f"{name}_least" in beside:
        text += f" ({_short(row[f'{name}_least'])} … {_short(row[f'{name}_most'])})"
    return text


def _short(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
