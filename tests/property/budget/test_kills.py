"""Runs killed at any moment: nothing readable is unpaid, and nothing paid is lost."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sherd
from sherd.budget.ledger import Ledger
from sherd.release.bundle import MANIFEST, digest

RUN = """
import sys
from pathlib import Path
import pyarrow as pa
import sherd
from sherd.budget.ledger import Ledger
from sherd.release.protect import protect_to

folder = Path(sys.argv[1])
schema = sherd.Schema.from_data(
    {"population": "people", "attributes": {"x": {"type": "number", "domain": [0, 30]}}}
)
plan = sherd.Plan(method="dp", epsilon=0.5)
table = pa.table({"x": [float(i % 30) for i in range(20_000)]})
ledger = Ledger(folder / "ledger.db")
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2]), 10**6):
    protect_to(folder / f"out-{number}", lambda: table, schema, plan, ledger=ledger, format="csv")
"""


SWEEP = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa
import sherd
from sherd.budget.ledger import Ledger
from sherd.release.bundle import MANIFEST, digest
from sherd.release.protect import Settings, protect_to
sys.path.insert(0, sys.argv[4])
from tests.property.budget.test_kills import _check

folder, kills, first = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
root = Path(sherd.__file__).parent
rooms = tuple(str(root / room) for room in ("budget", "release", "tables/files"))
schema = sherd.Schema.from_data(
    {"population": "people", "attributes": {"x": {"type": "number", "domain": [0, 30]}}}
)
plan = sherd.Plan(method="dp", epsilon=0.5)
table = pa.table({"x": [float(i % 30) for i in range(50)]})

def one(place, limit):
    # Counts the lines run between staging and the end, and dies at one of them.
    seen, begun = 0, False
    def trace(frame, event, _):
        nonlocal seen, begun
        if not frame.f_code.co_filename.startswith(rooms):
            return None
        begun = begun or frame.f_code.co_name == first
        if event == "line" and begun:
            seen += 1
            if seen == limit:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace
    sys.settrace(trace)
    protect_to(place / "out-1", lambda: table, schema, plan, ledger=Ledger(place / "ledger.db"),
               settings=Settings(threads=1), format="csv")
    sys.settrace(None)
    return seen

(folder / "whole").mkdir()
total = one(folder / "whole", 0)
assert _check(folder / "whole") == 1
unpaid = 0
for number in range(kills):
    limit, place = 1 + number * total // kills, folder / str(number)
    place.mkdir()
    child = os.fork()
    if not child:
        one(place, limit)
        os._exit(9)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (limit, status)
    paid = len(Ledger(place / "ledger.db").entries())
    assert _check(place) == paid
    assert (place / "out-1").exists() == (paid == 1)
    unpaid += not paid
print(total, unpaid, kills - unpaid)
"""


def _readable(folder: Path) -> list[Path]:
    """Folders, hidden ones too, with a file in which a release's cells or manifest can be read."""
    return [
        made
        for made in folder.iterdir()
        if made.is_dir() and any(_in_plain(file.read_bytes()) for file in made.iterdir())
    ]


def _in_plain(content: bytes) -> bool:
    """A table or a manifest, told from noise.

    One of 33,000 sealed files begins with one of these pairs of bytes by chance: some thousand are
    looked at. Sixteen bytes of noise are all text once in 65,536 times.
    """
    return content[:2] in (b"x\n", b"{\n") and content[:16].isascii()


def _check(folder: Path) -> int:
    """What a killed run left is paid for or unreadable; afterwards nothing else is left."""
    ledger = Ledger(folder / "ledger.db")
    paid = {entry.artefact for entry in ledger.entries() if entry.kind == "charge"}
    for made in _readable(folder):
        # A folder that is half opened holds no manifest yet, but it was charged before.
        names = {file.name for file in made.iterdir()}
        if MANIFEST in names and made.name.startswith("out-"):
            assert digest(made / MANIFEST) in paid
        else:
            assert ledger.pending(), "a readable folder without a charge"
    ledger.recover(lambda one: digest(one / MANIFEST))
    ledger.free_abandoned()
    published = {digest(one / MANIFEST) for one in folder.glob("out-*")}
    assert published == paid
    assert ledger.reservations() == []
    left = [one.name for one in folder.iterdir() if ".staged-" in one.name]
    assert left == []
    assert len(ledger.entries()) == len(paid)
    return len(paid)


def _kill(folder: Path, start: int, after: float) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(folder), str(start)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n")
        process.stdin.flush()
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
        process.wait()


def _many(folder: Path, kills: int) -> None:
    moments = random.Random(kills)  # noqa: S311 - when to kill, no secret
    for number in range(kills):
        _kill(folder, number * 1000, moments.uniform(0.05, 0.6))
        _check(folder)


def test_a_few_kills_leave_nothing_readable_that_is_unpaid(tmp_path: Path) -> None:
    """At moments drawn at random between reservation and publishing."""
    _many(tmp_path, 4)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_five_hundred_kills_leave_nothing_readable_that_is_unpaid(tmp_path: Path) -> None:
    """The same, 500 times."""
    _many(tmp_path, 500)


def _swept(folder: Path, kills: int) -> tuple[int, int, int]:
    """Kill a run at so many of its lines after staging began; lines, unpaid and paid ends."""
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", SWEEP, str(folder), str(kills), "stage", root],
        capture_output=True, text=True, check=False, cwd=root,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    total, unpaid, paid = map(int, done.stdout.split())
    return total, unpaid, paid


def test_kills_at_lines_between_staging_and_publishing(tmp_path: Path) -> None:
    """Evenly over all lines that run: some ends are unpaid and gone, some paid and published."""
    _total, unpaid, paid = _swept(tmp_path, 25)
    assert unpaid > 0
    assert paid > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_five_hundred_kills_at_lines_between_staging_and_publishing(tmp_path: Path) -> None:
    """The same, 500 times."""
    assert sum(_swept(tmp_path, 500)[1:]) == 500


def test_what_is_staged_before_the_charge_is_noise(tmp_path: Path) -> None:
    """Looked at in the very moment: nobody else may enter, and no cell or name can be read."""
    import pyarrow as pa

    schema = sherd.Schema.from_data({"attributes": {"secret": {"type": "boolean"}}})
    seen: list[bytes] = []

    def look(_release: sherd.Release) -> None:
        (hidden,) = tmp_path.glob(".out.staged-*")
        assert hidden.stat().st_mode & 0o077 == 0
        seen.extend(file.read_bytes() for file in hidden.iterdir())

    sherd.protect_to(
        tmp_path / "out",
        lambda: pa.table({"secret": [True, False] * 50}),
        schema,
        sherd.Plan(method="dp", epsilon=1.0),
        ledger=Ledger(tmp_path / "books" / "ledger.db"),
        format="csv",
        before_publishing=look,
    )
    assert len(seen) == 3
    assert not any(
        word in one for one in seen for word in (b"secret", b"true", b"false", b"guarantee")
    )
    assert (tmp_path / "out" / "data.csv").read_bytes().startswith(b"secret\n")
    assert Path(tmp_path / "out").stat().st_mode & 0o777 == 0o755
