"""``sherd methods``: every method, what it guarantees and what not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import emit_json, json_option
from sherd.release.method import Describing, find, names

if TYPE_CHECKING:
    from sherd.release.method import Method


@click.command()
@click.argument("name", required=False)
@json_option
def methods(name: str | None, as_json: bool) -> None:
    """Every method (or the one NAMEd): what it does, promises, and does not promise."""
    chosen = names() if name is None else (name,)
    described = [describe(find(method)) for method in chosen]
    if as_json:
        emit_json(described)
        return
    for method in described:
        click.echo(f"{method['name']}: {method['title']}")
        click.echo(f"  {method['summary']}")
        for promise in method["promises"]:
            head = "promises" if promise["name"] is None else f"--guarantee {promise['name']}"
            click.echo(f"  {head}: {promise['promise']}")
            click.echo(f"    covers: {promise['covers']}")
            for text in promise["not_covered"]:
                click.echo(f"    does not cover: {text}")
        if name is not None:
            click.echo("  parameters:")
            for parameter in method["parameters"]:
                need = " (needed)" if parameter["required"] else ""
                click.echo(
                    f"    {parameter['name']}{need}: {parameter['must']}; {parameter['help']}"
                )
        click.echo("")
    if name is None:
        click.echo(
            "`sherd methods NAME` lists a method's parameters; the assumptions of a plan are"
        )
        click.echo("printed by `sherd protect … --explain` before any data is read.")


def describe(method: Method) -> dict[str, Any]:
    """A method as plain data: what it is, its promises and its parameters."""
    promises = method.describe() if isinstance(method, Describing) else ()
    return {
        "name": method.name,
        "title": method.title,
        "summary": method.summary,
        "promises": [promise.as_data() for promise in promises],
        "parameters": [
            {
                "name": p.name,
                "required": p.required,
                "default": p.default,
                "must": p.must(),
                "help": p.help,
            }
            for p in method.parameters
        ],
    }
