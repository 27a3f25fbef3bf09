"""``sherd schema``: a draft of a schema, with comments where the steward must decide."""

from __future__ import annotations

from pathlib import Path

import click

from sherd.cli.options import emit_json, json_option, open_source
from sherd.errors import OutputExistsError


@click.command()
@click.argument("table")
@click.option("--query", help="SQL to run, where TABLE is a database.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file.")
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
@json_option
def schema(table: str, query: str | None, output: Path | None, force: bool, as_json: bool) -> None:
    """Infer a schema of TABLE to edit: types, roles and values, never bounds."""
    from sherd.tables.infer import draft_yaml, infer

    if output is not None and output.exists() and not force:
        raise OutputExistsError("the file is there already", got=str(output), do="use --force")
    data = open_source(table, None, query)()
    if as_json:
        emit_json(infer(data).as_data())
        return
    text = draft_yaml(data)
    if output is None:
        click.echo(text, nl=False)
        return
    from sherd.tables.files import write_whole

    write_whole(output, text.encode())
    click.echo(f"wrote {output}: read it, and decide what its comments ask", err=True)
