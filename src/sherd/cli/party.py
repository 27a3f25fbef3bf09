"""``sherd party``: one party of a joint release without an aggregator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import PATH, CommandGroup, emit, json_option, ledger_option, progress
from sherd.errors import ConnectionFailedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sherd.secure.party import PartySettings


@click.group(cls=CommandGroup)
def party() -> None:
    """Take part in a joint release of records whose cells are spread over several parties.

    Every party runs `sherd party run` with its own settings file; see `sherd party init`.
    """


@party.command()
@click.argument("folder", type=PATH)
@click.option(
    "--name", required=True, help="Set the name under which the other parties know this one."
)
@json_option
def init(folder: Path, name: str, as_json: bool) -> None:
    """Set up FOLDER with a key, its certificate and a settings file to edit."""
    from sherd.secure.party import init as make

    path = make(folder, name)
    emit(
        {"settings": str(path), "certificate": str(folder / f"{name}.pem")},
        f"made {path}; edit it, and give {name}.pem to the other parties",
        as_json=as_json,
    )


@party.command()
@click.argument("settings", type=PATH)
@ledger_option
@click.option("--costs", type=PATH, help="Write the time and traffic of each step to this file.")
@click.option("--unwatched", is_flag=True, hidden=True)
@json_option
def run(
    settings: Path, ledger_file: str | None, costs: Path | None, unwatched: bool, as_json: bool
) -> None:
    """Take part in the joint release described by the file SETTINGS.

    All parties must run at the same time. To resume a run that broke off, run the same command
    again: what was already opened is not drawn again, and nothing is charged twice. A party that
    has already finished and is run again tells the others what they missed.
    """
    import tempfile

    import sherd
    from sherd.budget.ledger import Ledger
    from sherd.budget.storage import chosen_path
    from sherd.secure.engine.cost_meter import Meter
    from sherd.tables.files import write_whole

    loaded = sherd.PartySettings.load(settings)
    if not unwatched:
        _watched(loaded, settings, ledger_file, costs, as_json)
        return
    _end_with_parent()
    place = chosen_path(ledger_file)
    ledger = None if place is None else Ledger(place)
    with progress("party") as bar, tempfile.TemporaryDirectory() as logs:
        meter = None if costs is None else Meter(Path(logs) / "spu.log")
        release = sherd.take_part(loaded, ledger=ledger, progress=bar, meter=meter)
        if costs is not None and meter is not None:
            write_whole(costs, (json.dumps(meter.as_data(), indent=1) + "\n").encode())
    _print(loaded, release.manifest, as_json)


def _print(loaded: PartySettings, manifest: Mapping[str, Any], as_json: bool) -> None:
    facts = manifest["facts"]
    what = f"{facts['rows']} records drawn from a model"
    if "leaves" in facts:
        what = f"{facts['leaves']} combinations of values"
    lines = [f"released {what} to {loaded.output}", str(manifest["guarantee"]["words"])]
    if "insiders" in facts:
        epsilon = facts["insiders"]["epsilon"]
        lines.append(f"to a party that computed, which knows its own noise: epsilon {epsilon:g}")
    emit({"output": str(loaded.output), "manifest": manifest}, *lines, as_json=as_json)


def _end_with_parent() -> None:
    """End this process when the one that watches it is gone."""
    import os
    import threading
    import time

    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(130)

    threading.Thread(target=look, daemon=True).start()


def _watched(
    loaded: PartySettings,
    settings: Path,
    ledger_file: str | None,
    costs: Path | None,
    as_json: bool,
) -> None:
    """Run in a process of its own: when a peer is gone, SPU ends the process it lives in."""
    import subprocess
    import sys

    from sherd.release.bundle import read_manifest
    from sherd.secure.party.meeting import PartyState

    command = [sys.executable, "-m", "sherd", "party", "run", str(settings), "--unwatched"]
    command += [] if ledger_file is None else ["--ledger", ledger_file]
    command += [] if costs is None else ["--costs", str(costs)]
    command += ["--json"] if as_json else []
    code = subprocess.run(command, check=False).returncode  # noqa: S603 - our own command line
    if code < 0 or code > 130:
        if loaded.output.exists() and PartyState.of(loaded).published:
            # The peer was lost after the last result, which is here.
            _print(loaded, read_manifest(loaded.output), as_json)
            return
        raise ConnectionFailedError(
            "the computation with the other parties broke off",
            got="a lost connection",
            do="see that all parties run, then start again: what was opened is not drawn again",
        )
    if code:
        raise click.exceptions.Exit(code)


@party.command()
@click.argument("settings", type=PATH)
@json_option
def status(settings: Path, as_json: bool) -> None:
    """Show how far the joint release described by the file SETTINGS has come."""
    import sherd
    from sherd.secure.party.run_journal import RunJournal, finished

    loaded = sherd.PartySettings.load(settings)
    begun = RunJournal.load(loaded.journal)
    done = RunJournal.load(finished(loaded.journal))
    known = begun or (done if loaded.output.exists() else None)
    state = "begun" if begun else "finished" if loaded.output.exists() else "not begun"
    opened = [] if known is None else known.entries
    data = {
        "party": loaded.name,
        "parties": loaded.names,
        "computing": loaded.names[: loaded.hosts],
        "state": state,
        "run": None if known is None else known.run,
        "opened": [{"what": one.what, "numbers": len(one.values)} for one in opened],
    }
    line = f"{loaded.name}: {state}, {len(opened)} results opened so far"
    emit(data, line, as_json=as_json)
