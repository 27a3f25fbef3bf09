"""``sherd schema``: a draft of a schema, with comments where the steward must decide."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import PATH, check_new, emit_json, json_option, named_values, query_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sherd.tables.infer import Draft

ROLES = ("quasi-identifier", "sensitive", "identifier", "weight", "insensitive")


@click.command()
@click.argument("table")
@query_option
@click.option(
    "--hierarchy",
    multiple=True,
    metavar="ATTRIBUTE=FILE",
    callback=named_values,
    help="Group the attribute's labels by this file: one line per label, from label to root (ARX's "
    "CSV).",
)
@click.option(
    "--values",
    multiple=True,
    metavar="ATTRIBUTE=FILE",
    callback=named_values,
    help="Take the attribute's labels from this file, one per line, in order.",
)
@click.option("--ask", is_flag=True, help="Ask about every decision and write a finished schema.")
@click.option("-o", "--output", type=PATH, help="Write the schema to this file.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
def schema(
    table: str,
    query: str | None,
    hierarchy: dict[str, str],
    values: dict[str, str],
    ask: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Draft a schema for TABLE to edit: types, roles and values, but never bounds."""
    import sherd

    check_new(output, force=force)
    if ask and output is None:
        raise click.UsageError("Missing option '-o' / '--output', which --ask needs.")
    draft = sherd.schema(
        sherd.read(table, query=query),
        name=Path(table).name,
        hierarchies=hierarchy,
        values=values,
    )
    if ask:
        assert output is not None, "checked above"
        sherd.Schema.from_data(_asked(draft), folder=Path()).save(output)
        click.echo(f"wrote {output}: the decisions are yours, read it once more", err=True)
        return
    if as_json:
        emit_json(draft.schema.as_data())
        return
    text = draft.yaml()
    if output is None:
        click.echo(text, nl=False)
        return
    from sherd.tables.files import write_whole

    write_whole(output, text.encode())
    count = text.count("# decide: ")
    click.echo(f"wrote {output}: read it, and decide what its {count} comments ask", err=True)


def _asked(draft: Draft) -> dict[str, Any]:
    """The draft as data, with the steward's answers instead of guesses."""
    data = draft.schema.as_data()
    attributes = data["attributes"]
    for name, attribute in attributes.items():
        why = "; ".join(text for who, text in draft.decisions if who == name)
        click.echo(f"\n{name}: {attribute['type']}" + f" ({why})" * bool(why), err=True)
        attribute["role"] = _choice("  role", ROLES, attribute["role"])
        if attribute["role"] == "identifier":
            attributes[name] = {"role": "identifier"}
        elif attribute["type"] in ("integer", "number", "date", "datetime"):
            attribute["domain"] = _domain(name, attribute)
        elif attribute["type"] in ("category", "ordinal"):
            _labels(name, attribute)
    click.echo("\nthe table as a whole", err=True)
    hidden = [name for name, one in attributes.items() if one["role"] == "identifier"]
    if hidden and click.confirm("  can one person have several rows?", err=True):
        data["unit"] = _choice("  which column says whose row it is", hidden, hidden[0])
        most = click.IntRange(min=1)
        data["rows_per_unit"] = click.prompt("  how many at most", type=most, err=True)
    marks = ", ".join(data.get("missing_values", ()))
    if marks and not click.confirm(f"  do these texts mean 'no value': {marks}?", True, err=True):
        del data["missing_values"]
    data["missing"] = _choice("  missing cells", ("keep", "drop", "refuse"), "keep")
    named = click.prompt("  whom the table is about (tables of one name share a budget)", err=True)
    return {"population": named, **data}


def _choice(question: str, known: Sequence[str], usual: str) -> str:
    return str(click.prompt(question, type=click.Choice(known), default=usual, err=True))


def _domain(name: str, attribute: dict[str, Any]) -> list[str]:
    """Ask for the bounds until they are valid."""
    from sherd.errors import SchemaError
    from sherd.tables.declared import attribute as declared

    while True:
        low = click.prompt("  lowest value that can occur", err=True)
        high = click.prompt("  highest value that can occur", err=True)
        try:
            declared(name, {**attribute, "domain": [low, high]}, None)
        except SchemaError as error:
            click.echo(f"  {error}", err=True)
        else:
            return [low, high]


def _labels(name: str, attribute: dict[str, Any]) -> None:
    """Take the labels in the data if the steward says they are public, else those in a file."""
    from sherd.errors import SherdError
    from sherd.tables.infer import labels_of

    if attribute.get("values_from_data"):
        click.echo(f"  labels: {', '.join(attribute['values'])}", err=True)
        if click.confirm("  is this list complete and public?", err=True):
            del attribute["values_from_data"]
    while not attribute.get("values") and not attribute.get("taxonomy"):
        path = click.prompt("  a file with its labels, one a line, in their order", err=True)
        try:
            attribute["values"] = list(labels_of(name, Path(path)))
        except SherdError as error:
            click.echo(f"  {error}", err=True)
