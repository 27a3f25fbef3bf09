"""``sherd party``: one party of a joint release without an aggregator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sherd.cli.options import emit_json, json_option, progress


@click.group()
def party() -> None:
    """Take part in a joint release of records whose cells several parties hold.

    Every party runs `sherd party run` with its own file; see `sherd party init`.
    """


@party.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", required=True, help="What the other parties call this one.")
@json_option
def init(folder: Path, name: str, as_json: bool) -> None:
    """Make a key, its certificate and a file of settings to edit in FOLDER."""
    from sherd.party import init as make

    path = make(folder, name)
    if as_json:
        emit_json({"settings": str(path), "certificate": str(folder / f"{name}.pem")})
        return
    click.echo(f"made {path}; edit it, and give {name}.pem to the other parties")


@party.command()
@click.argument("settings", type=click.Path(path_type=Path))
@click.option("--ledger", "ledger_file", metavar="FILE", help="The ledger ('none': keep none).")
@json_option
def run(settings: Path, ledger_file: str | None, as_json: bool) -> None:
    """Take part in the joint release that the file SETTINGS describes.

    All parties must run at the same time. A run that breaks off is started again in the same
    way: what was opened before is not drawn again, and nothing is charged twice.
    """
    from sherd.budget.ledger import Ledger
    from sherd.budget.place import default_path
    from sherd.party import PartySettings
    from sherd.party import run as take_part

    loaded = PartySettings.load(settings)
    ledger = None if ledger_file == "none" else Ledger(ledger_file or default_path())
    with progress("party") as bar:
        release = take_part(loaded, ledger=ledger, progress=bar)
    facts: Any = release.manifest["facts"]
    if as_json:
        emit_json({"output": str(loaded.output), "manifest": release.manifest})
        return
    click.echo(f"released {facts['leaves']} combinations of values to {loaded.output}")
    click.echo(str(release.manifest["guarantee"]["words"]))


@party.command()
@click.argument("settings", type=click.Path(path_type=Path))
@json_option
def status(settings: Path, as_json: bool) -> None:
    """What is there of the joint release that the file SETTINGS describes."""
    from sherd.joint.journal import Journal, run_of
    from sherd.party import PartySettings

    loaded = PartySettings.load(settings)
    name = run_of(loaded.journal)
    opened = [] if name is None else Journal.load(loaded.journal, name).entries
    state = "finished" if loaded.output.exists() else "begun" if name else "not begun"
    data = {
        "party": loaded.name,
        "parties": [peer.name for peer in loaded.peers],
        "state": state,
        "run": name,
        "opened": [{"what": what, "numbers": len(values)} for what, values in opened],
    }
    if as_json:
        emit_json(data)
        return
    click.echo(f"{loaded.name}: {state}, {len(opened)} results opened so far")
