"""The command line as a real process, in a folder and with a ledger of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sherd.budget.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

SRC = Path(__file__).parents[2] / "src"
MARKER = "8675309"
"""A value planted in every table: no message may show it."""

SCHEMA = """
population: people
attributes:
  name: {role: identifier}
  age: {type: integer, domain: [0, 120]}
  city: {type: category, values: [Oslo, Rome, Lima]}
  ill: {type: boolean, role: sensitive}
"""


@dataclass(frozen=True, kw_only=True)
class Desk:
    """A steward's folder: a table, its schema, a ledger, and the program."""

    folder: Path
    environment: dict[str, str] = field(repr=False)

    @property
    def ledger(self) -> Ledger:
        """The ledger, as another process sees it."""
        return Ledger(self.folder / "ledger" / "ledger.db")

    def command(self, *words: str) -> list[str]:
        """The program's command line."""
        return [sys.executable, "-m", "sherd", *words]

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        """The program, running."""
        return subprocess.Popen(
            self.command(*words),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    def run(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """The program, run to its end."""
        process = self.start(*words, **more)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def protect(self, *more: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Protect the table into ``out``, with more or other options."""
        return self.run(*self.words(*more), **options)

    def words(self, *more: str) -> list[str]:
        """What ``protect`` is told."""
        given = ["protect", "people.csv", "--schema", "people.yaml", "-o", "out"]
        if not {"-m", "--plan"} & set(more):
            given += ["-m", "dp-um"]
        if "-e" not in more:
            given += ["-e", "0.5"]
        if "-k" not in more and not {"dp", "idp"} & set(more):
            given += ["-k", "3"]
        return [*given, *more]

    def write(self, name: str, text: str | bytes) -> None:
        """A file in the folder."""
        (self.folder / name).write_bytes(text.encode() if isinstance(text, str) else text)

    def rows(self, lines: Sequence[str] = (), n: int = 30) -> None:
        """The table, with more lines at its end."""
        cities = ("Oslo", "Rome", "Lima")
        good = [
            f"{MARKER}-{i},{20 + i},{cities[i % 3]},{'true' if i % 4 else 'false'}"
            for i in range(n)
        ]
        self.write("people.csv", "name,age,city,ill\n" + "\n".join([*good, *lines]) + "\n")

    def assert_nothing_left(self, *more: str) -> None:
        """Only what was there; nothing hidden, nothing reserved, nothing spent."""
        known = {"people.csv", "people.yaml", "ledger", *more}
        assert {path.name for path in self.folder.iterdir()} <= known
        if (self.folder / "ledger").exists():
            assert self.ledger.reservations() == []
            assert self.ledger.pending() == []


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder with a small table and its schema."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(SRC),
        "SHERD_LEDGER": str(tmp_path / "ledger" / "ledger.db"),
        "PYTHONWARNINGS": "error",
    }
    environment.pop("SHERD_DEBUG", None)
    made = Desk(folder=tmp_path, environment=environment)
    made.rows()
    made.write("people.yaml", SCHEMA)
    return made


def assert_refused(result: subprocess.CompletedProcess[str], code: int, *texts: str) -> None:
    """The exit code, the reason on standard error, and no cell in either stream."""
    assert result.returncode == code, result.stderr
    for text in texts:
        assert text in result.stderr
    assert MARKER not in result.stdout + result.stderr
    assert "Traceback" not in result.stderr
