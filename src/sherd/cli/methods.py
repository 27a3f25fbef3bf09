"""``sherd methods``: every method, what it guarantees and what not."""

from __future__ import annotations

import click

import sherd
from sherd.cli.options import emit_json, json_option
from sherd.errors import SherdError


@click.command()
@click.argument("name", required=False)
@json_option
def methods(name: str | None, as_json: bool) -> None:
    """List the methods, or describe NAME: what it does, promises and does not promise."""
    chosen = sherd.methods.names() if name is None else (name,)
    described = []
    for method_name in chosen:
        try:
            described.append(sherd.methods.describe(method_name))
        except SherdError as error:
            if name is not None:
                raise
            click.echo(f"{error.what}: {error.do}", err=True)
    if as_json:
        emit_json(described)
        return
    for method in described:
        click.echo(f"{method['name']}: {method['title']}")
        click.echo(f"  {method['summary']}")
        if method["needs"]:
            parts = ",".join(method["needs"])
            click.echo(f"  needs: pip install 'sherd[{parts}]'")
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
