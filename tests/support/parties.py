"""Parties of a joint release as real processes, for end-to-end tests.

Those that compute run with the interpreter that SHERD_JOINT_PYTHON names: SPU needs numpy 1.26.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import yaml
from processes import free_port

import sherd
from sherd.methods.specialising.hierarchy import Hierarchy
from sherd.methods.specialising.plain_oracle import leaf_counts
from sherd.secure.engine.link import make_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SOURCE = Path(sherd.__file__).parent.parent
MARKER = 8675309
"""A value planted in every fragment: no message may show it."""

SCHEMA: dict[str, Any] = {
    "population": "people",
    "missing": "refuse",
    "attributes": {
        "id": {"role": "identifier"},
        "x": {"type": "integer", "domain": ["0", "6"]},
        "y": {"type": "category", "taxonomy": [["a", "g", "*"], ["b", "g", "*"], ["d", "*"]]},
        "c": {"type": "category", "role": "sensitive", "values": ["low", "high"]},
    },
}


def joint_python() -> str:
    """The interpreter that has SPU; the test is skipped where there is none."""
    given = os.environ.get("SHERD_JOINT_PYTHON")
    if not given:
        pytest.skip("SHERD_JOINT_PYTHON does not name a Python with SPU")
    return given


@dataclass(frozen=True, kw_only=True)
class Parties:
    """The parties' folders, by name, and the table that they hold together."""

    folders: dict[str, Path]
    columns: dict[str, list[Any]]

    def log(self, name: str) -> str:
        """What a party printed."""
        return (self.folders[name] / "log").read_text()

    def logs(self) -> str:
        """The ends of all logs, for a failing test."""
        return "\n".join(f"{name}: {self.log(name)[-1500:]}" for name in self.folders)

    def change(self, name: str, **settings: Any) -> None:
        """Alter a party's file; None takes a setting out."""
        path = self.folders[name] / "party.yaml"
        data = {**yaml.safe_load(path.read_text()), **settings}
        path.write_text(yaml.safe_dump({k: v for k, v in data.items() if v is not None}))

    def start(self, name: str, python: str, *before: str) -> subprocess.Popen[bytes]:
        """``sherd party run`` in a process of its own; ``before`` replaces ``-m sherd``."""
        folder = self.folders[name]
        with (folder / "log").open("ab") as out:
            return subprocess.Popen(
                [python, *(before or ("-m", "sherd")), "party", "run", str(folder / "party.yaml"),
                 "--ledger", str(folder / "ledger.db")],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{Path(__file__).parent}"},
                start_new_session=True,
            )  # fmt: skip

    def run(self, pythons: Mapping[str, str], timeout: float = 300) -> dict[str, int]:
        """Run these parties to their end; their exit codes."""
        running = {name: self.start(name, python) for name, python in pythons.items()}
        return ended(running, timeout)

    def charges(self) -> list[list[float]]:
        """What each party's ledger was charged."""
        return [
            [float(one.amount) for one in _entries(folder) if one.kind == "charge" and one.amount]
            for folder in self.folders.values()
        ]

    def journal(self, name: str) -> list[str]:
        """The whole lines of a party's journal, without its head."""
        path = self.folders[name] / "journal.jsonl"
        if not path.exists():
            path = path.with_suffix(".finished")
        return path.read_text().split("\n")[1:-1] if path.exists() else []

    def exact_counts(self, release: sherd.Release, among: Sequence[int]) -> list[int]:
        """The counts of a release's leaves without noise, over some of the records."""
        schema = sherd.Schema.from_data(SCHEMA)
        hierarchies = [Hierarchy.of(schema[name]) for name in ("x", "y")]
        cuts: list[set[int]] = [{0, one.size} for one in hierarchies]
        for step in release.manifest["facts"]["specialisations"]:
            cuts["xy".index(step["attribute"])].update(step["edges"])
        codes = [np.array(self.columns["x"])[among],
                 np.array(["abd".index(y) for y in self.columns["y"]])[among]]  # fmt: skip
        classes = np.array([["low", "high"].index(c) for c in self.columns["c"]])[among]
        found = leaf_counts(codes, tuple(tuple(sorted(cut)) for cut in cuts), classes, 2)
        return [int(count) for count in found.ravel()]


def _entries(folder: Path) -> list[Any]:
    return sherd.Ledger(folder / "ledger.db").entries()


def ended(running: Mapping[str, subprocess.Popen[bytes]], timeout: float) -> dict[str, int]:
    """The exit codes of processes; those that do not end in time are killed."""
    deadline = time.monotonic() + timeout
    codes = {}
    for name, process in running.items():
        try:
            codes[name] = process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            codes[name] = -999
    for process in running.values():
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return codes


def wait_until(holds: Callable[[], bool], parties: Parties, seconds: float = 120) -> None:
    """Wait for something to come true."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, parties.logs()
        time.sleep(0.02)


def consortium(
    folder: Path,
    names: Sequence[str] = ("a", "b"),
    *,
    n: int = 200,
    epsilon: float = 1,
    h: int = 2,
    people: Mapping[str, Sequence[int]] | None = None,
    **settings: Any,
) -> Parties:
    """Parties with keys, fragments, schema and plan; ``people`` says which records each has."""
    rng = np.random.default_rng(4)
    columns = {
        "id": [f"r{MARKER}-{k}" for k in range(n)],
        "x": rng.integers(0, 7, n).tolist(),
        "y": rng.choice(["a", "b", "d"], n).tolist(),
        "c": rng.choice(["low", "high"], n).tolist(),
    }
    holder = rng.integers(0, len(names), (n, 2))
    folders = {name: folder / name for name in names}
    for name, place in folders.items():
        place.mkdir()
        make_key(place, name)
    peers = [
        {"name": name, "address": f"127.0.0.1:{free_port()}", "certificate": f"{name}.pem"}
        for name in names
    ]
    for i, (name, place) in enumerate(folders.items()):
        for other in names:
            (place / f"{other}.pem").write_bytes((folders[other] / f"{other}.pem").read_bytes())
        cells = {
            key: pa.array(columns[key], mask=holder[:, j] != i) for j, key in enumerate(["x", "y"])
        }
        table = pa.table({**columns, **cells})
        if people is not None and name in people:
            table = table.take(list(people[name]))
        pyarrow.csv.write_csv(table, place / "fragment.csv")
        (place / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
        data = {
            "name": name, "parties": peers, "key": f"{name}.key", "table": "fragment.csv",
            "schema": "schema.yaml", "id": "id", "output": "release", "timeout": 60,
            "plan": {"epsilon": epsilon, "h": h, "class_attribute": "c"}, **settings,
        }  # fmt: skip
        (place / "party.yaml").write_text(yaml.safe_dump(data))
    return Parties(folders=folders, columns=columns)


PLAIN = sys.executable
"""An interpreter without SPU, which an owner that does not compute can use."""
