"""Owners of columns that release once more, together and without an aggregator, by ``dp-graph``.

The same three owners of Wine Quality compute on shares with MPyC, each a process behind TLS with
pinned keys, and are charged in the same ledgers as for the round before.
"""

from __future__ import annotations

import json
import shutil
import socket
from typing import TYPE_CHECKING, Any

from sherd.errors import ConnectionFailedError
from sherd_examples.demonstration_owners import KEY, population_of

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from sherd_examples.demonstration_owners import Cut

    Start = Callable[[list[str], Path], subprocess.Popen[bytes]]

RELEASE = "release"


def set_up_parties(owners: Path, cut: Cut, plan: dict[str, Any]) -> list[Path]:
    """A folder for each owner's part in the computation, beside its table; keys are exchanged."""
    import yaml

    from sherd.secure.engine.link import make_key

    homes = [owners / each.owner / "party" for each in cut.fragments]
    for home, each in zip(homes, cut.fragments, strict=True):
        home.mkdir(parents=True)
        make_key(home, each.owner)
    names = [each.owner for each in cut.fragments]
    peers = [
        {"name": name, "address": f"127.0.0.1:{port}", "certificate": f"{name}.pem"}
        for name, port in zip(names, free_ports(len(names)), strict=True)
    ]
    key = {KEY: cut.fragments[0].schema[KEY].as_data()}
    schema = cut.schema.as_data()
    schema["attributes"] = {**key, **schema["attributes"]}
    for home, each in zip(homes, cut.fragments, strict=True):
        for other, name in zip(homes, names, strict=True):
            if other != home:
                shutil.copy(other / f"{name}.pem", home)
        (home / "schema.yaml").write_text(json.dumps(schema), encoding="utf-8")
        settings = {
            "name": each.owner, "parties": peers, "key": f"{each.owner}.key", "engine": "mpyc",
            "table": "../table.parquet", "schema": "schema.yaml", "id": KEY, "output": RELEASE,
            "plan": plan, "population": population_of(each.owner),
            "most_epsilon": plan["epsilon"], "timeout": 120,
        }  # fmt: skip
        (home / "party.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    return homes


def start_parties(homes: list[Path], start: Start, logs: Path) -> list[subprocess.Popen[bytes]]:
    """All parties at once, each charged in its owner's ledger."""
    return [
        start(
            ["party", "run", str(home / "party.yaml"), "--ledger",
             str(home.parent / "home" / "ledger.db"), "--costs", str(home / "costs.json")],
            logs / f"{home.parent.name}-party.log",
        )
        for home in homes
    ]  # fmt: skip


def ended(homes: list[Path], running: list[subprocess.Popen[bytes]], logs: Path) -> bool:
    """Whether all parties have ended; ConnectionFailedError where one has failed."""
    codes = [one.poll() for one in running]
    for home, code in zip(homes, codes, strict=True):
        if code:
            name = home.parent.name
            raise ConnectionFailedError(
                f"the party '{name}' failed",
                got=f"exit code {code}",
                do=f"see {logs / f'{name}-party.log'}",
            )
    return all(code == 0 for code in codes)


def traffic_of(homes: list[Path]) -> int:
    """How many bytes all parties sent each other."""
    steps = [json.loads((home / "costs.json").read_text()) for home in homes]
    return sum(int(step["sent"]) for each in steps for step in each.values())


def free_ports(count: int) -> list[int]:
    """So many ports of this machine that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports
