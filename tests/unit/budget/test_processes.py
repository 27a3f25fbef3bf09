"""Real processes that race, and real processes that are killed."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sherd.budget import Amount, Ledger
from sherd.errors import BudgetError

RACER = """
import sys, time
from pathlib import Path
from sherd.budget import Amount, Ledger
from sherd.errors import BudgetError
path, go, amount, number = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
Path(f"{go}.{number}").touch()
while not go.exists():
    time.sleep(0.0005)
book = Ledger(path)
try:
    reservation = book.reserve(population="people", amount=Amount(amount), plan_hash="d" * 64,
                               schema_hash="e" * 64, method="dp")
    book.charge(reservation, artefact_sha256=f"{number:064x}")
except BudgetError:
    print("refused")
else:
    print("won")
"""


def _race(path: Path, go: Path, amount: str, racers: int = 8) -> list[str]:
    """Start processes that wait for each other, let them go, and collect what they say."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(path), str(go), amount, str(number)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(racers)
    ]
    until = time.monotonic() + 60
    while not all(Path(f"{go}.{number}").exists() for number in range(racers)):
        assert time.monotonic() < until, "the racers did not start"
        time.sleep(0.005)
    go.touch()
    answers = [process.communicate(timeout=60)[0].strip() for process in running]
    assert [process.returncode for process in running] == [0] * racers
    return answers


@pytest.mark.parametrize(("amount", "winners"), [("0.3", 3), ("0.1", 8), ("1", 1), ("0.34", 2)])
def test_processes_race_for_the_last_epsilon(tmp_path: Path, amount: str, winners: int) -> None:
    """Of eight processes exactly as many win as can be afforded; the others are refused."""
    book = Ledger(tmp_path / "ledger.db")
    book.set_limit("people", Amount(1))
    answers = _race(book.path, tmp_path / "go", amount)
    assert sorted(answers) == ["refused"] * (8 - winners) + ["won"] * winners
    assert book.account("people").spent.micro == winners * Amount(amount).micro
    assert book.verify() == winners + 1
    assert len({entry.artefact for entry in book.entries()}) == winners + 1


def test_processes_race_to_make_the_file(tmp_path: Path) -> None:
    """Eight processes that make the same ledger at once all write to one file."""
    book = tmp_path / "new" / "ledger.db"
    assert _race(book, tmp_path / "go", "0.1") == ["won"] * 8
    assert Ledger(book).verify() == 8
    assert [file.name for file in book.parent.iterdir()] == ["ledger.db"]


RELEASE = """
import os, signal, sys
from pathlib import Path
from sherd.budget import Amount, Ledger, storage

folder, stop = Path(sys.argv[1]), int(sys.argv[2])
count = 0

def step(statement):
    global count
    count += 1
    if count == stop:
        os.kill(os.getpid(), signal.SIGKILL)
    if stop == 0:
        print(statement.split("(")[0].split("?")[0].strip(), flush=True)

plain = storage.connect

def traced(path):
    connection = plain(path)
    connection.set_trace_callback(step)  # called before each statement runs
    return connection

book = Ledger(folder / "ledger.db")
storage.connect = traced
with book.reserving(population="people", amount=Amount("0.6"), plan_hash="d" * 64,
                    schema_hash="e" * 64, method="dp") as reservation:
    step("work")
    staged = folder / ".out"
    staged.write_bytes(b"release")
    step("staged")

    def finish():
        step("before the rename")
        staged.rename(folder / "out")
        step("after the rename")

    book.charge(reservation, artefact_sha256=sys.argv[3], staged=staged, final=folder / "out",
                finish=finish)
step("end")
"""
DIGEST = hashlib.sha256(b"release").hexdigest()


def _release(folder: Path, stop: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RELEASE, str(folder), str(stop), DIGEST],
        capture_output=True,
        text=True,
        check=False,
    )


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_killed_at_every_statement(tmp_path: Path) -> None:
    """A process killed before any statement, or around the rename, loses and repeats nothing.

    Afterwards the budget is spent exactly once if the charge was committed and not at all
    otherwise; what was paid for can be published; what was not paid can be paid by the next.
    """
    rehearsal = tmp_path / "rehearsal"
    rehearsal.mkdir()
    done = _release(rehearsal, 0)
    assert done.returncode == 0, done.stderr
    steps = done.stdout.splitlines()
    commits = [number for number, name in enumerate(steps, 1) if name == "COMMIT"]
    assert len(commits) >= 3  # reserve, charge, note
    paid_from = commits[1] + 1
    assert steps[paid_from - 1] == "before the rename"
    for stop in range(1, len(steps) + 1):
        folder = tmp_path / str(stop)
        folder.mkdir()
        Ledger(folder / "ledger.db").set_limit("people", Amount(1))
        assert _release(folder, stop).returncode == -signal.SIGKILL
        _check_after(folder, steps[stop - 1], paid=stop >= paid_from)


def _check_after(folder: Path, where: str, *, paid: bool) -> None:
    book = Ledger(folder / "ledger.db")
    rows = 2 if paid else 1
    assert book.verify() == rows, where
    account = book.account("people")
    assert account.spent == Amount("0.6" if paid else 0), where
    assert account.reserved == Amount(0), where
    assert (folder / "out").exists() <= paid, where
    in_place = (folder / "out").exists()
    assert book.recover(_sha256) == ([folder / "out"] if paid and not in_place else []), where
    assert (folder / "out").exists() == paid, where
    assert book.recover(_sha256) == []
    assert book.pending() == []
    # The next run: refused where this one was paid for, allowed where it was not.
    wanted: Any = {"population": "people", "plan_hash": "d" * 64, "schema_hash": "e" * 64}
    if paid:
        assert (folder / "out").read_bytes() == b"release"
        with pytest.raises(BudgetError):
            book.reserve(amount=Amount("0.6"), method="dp", **wanted)
    else:
        book.charge(
            book.reserve(amount=Amount("0.6"), method="dp", **wanted), artefact_sha256=DIGEST
        )
    assert book.verify() == 2, where


SPENDER = """
import sys
from sherd.budget import Amount, Ledger
book = Ledger(sys.argv[1])
while True:
    reservation = book.reserve(population="people", amount=Amount("0.000001"), plan_hash="d" * 64,
                               schema_hash="e" * 64, method="dp")
    entry = book.charge(reservation, artefact_sha256="f" * 64)
    print(entry.index, entry.hash, flush=True)
"""


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Processes killed in the midst of writing keep every charge they were told of.

    At most the one charge that was committed but not yet answered comes on top.
    """
    book = Ledger(tmp_path / "ledger.db")
    before = 0
    for turn in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", SPENDER, str(book.path)], stdout=subprocess.PIPE, text=True
        ) as spender:
            assert spender.stdout is not None
            told = [spender.stdout.readline().split()]
            time.sleep(0.011 * turn)
            spender.kill()
            told += [line.split() for line in spender.stdout if line.endswith("\n")]
        count = book.verify()
        assert 0 <= count - int(told[-1][0]) <= 1
        assert {(str(entry.index), entry.hash) for entry in book.entries()} >= {
            (index, hash_) for index, hash_ in told
        }
        assert count >= before + len(told)
        account = book.account("people")
        assert (account.spent.micro, account.reserved.micro) == (count, 0)
        before = count
