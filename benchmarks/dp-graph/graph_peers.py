"""``dp-graph`` beside dpmm's and OpenDP's MST and AIM, in one run, at equal ε.

    python benchmarks/dp-graph/graph_peers.py [--rows N] [--minutes M] [--only NAME …] \
        [--peers dpmm-mst …] [--again | --kept]

Every peer runs in a process and an environment of its own, on one core, on the same records,
δ = 1e-9. Both peers' neighbours add or remove a record, where ``dp-graph``'s exchange one, so that
at equal ε the peers promise less. Printed are the mean total variation distances of single
attributes, pairs and triples, seconds of processor and the peak of memory. A peer that cannot be
had, fails, takes more than so many minutes of processor (or is ended by SIGTERM) or more than 8 GB
is named as such; what is known of its speed then is that it is no faster. By default dpmm's AIM may
take 16 rounds for each attribute, with no bound on its model; ``dpmm-aim-bounded`` is the same with
dpmm's own settings ``rounds=48`` and ``max_model_size=1``. Peers take hours: what each did is kept
in ``peers.json`` as soon as it ends, with the date, and read from there by later runs, which go on
with those that are missing (``--again`` measures all of them anew; ``--kept`` starts none, which is
what ``make bench`` does). ``dp-graph`` is measured in every run: the mean of three releases. The
settings of ``dp-graph`` were chosen on Nursery and on another split of Adult; none of the tables
below took part, but for records that the two splits of Adult share. Ends with 1 where, on Adult,
``dp-graph`` is worse in pairs than a peer, or less than ten times as fast as dpmm.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))

from environments import HERE, PeerMissingError, python_of
from graph_utility import DELTA, Adult
from machine import now
from public_tables import SOURCES, PublicTable, load

import sherd

EPSILON = 1.0
RUNS = 3
PEERS = ["opendp-mst", "dpmm-mst", "opendp-aim", "dpmm-aim", "dpmm-aim-bounded"]
FASTER = 10.0
WAYS = (1, 2, 3)
MOST_BYTES = 8 * 2**30
CUT_OFF = (-signal.SIGXCPU, -signal.SIGTERM)
"""How a peer ends that used up its time, or that is stopped from outside."""
KEPT = Path(__file__).parent / "peers.json"

Cell = dict[str, Any]
"""What a tool did with a table: distances, or in words why there are none; seconds, megabytes.

``at_most`` marks megabytes that may be those of the process that started the tool."""


class Cells:
    """What peers did, kept in a file, where one is named: written as soon as a peer ends."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def held(self) -> dict[str, Cell]:
        """All cells, as the file has them now: another run may have written."""
        if self.path is None or not self.path.exists():
            return {}
        held: dict[str, Cell] = json.loads(self.path.read_text(encoding="utf-8"))
        return held

    def find(self, table: str, peer: str, minutes: float) -> Cell | None:
        """A cell of this version of the peer; none where more time is given than it had."""
        cell = self.held().get(f"{table}, {peer}")
        if cell is None or cell["version"] != _version(peer):
            return None
        return None if cell.get("minutes", minutes) < 0.99 * minutes else cell

    def keep(self, table: str, peer: str, cell: Cell) -> None:
        """Write a cell; a run that is cut off leaves the file as it was."""
        if self.path is None:
            return
        dated = {**cell, "version": _version(peer), "date": now()}
        held = self.held() | {f"{table}, {peer}": dated}
        text = json.dumps(dict(sorted(held.items())), indent=1)
        written = self.path.with_suffix(".new")
        written.write_text(text + "\n", encoding="utf-8")
        written.replace(self.path)


def _version(peer: str) -> str:
    return (HERE / f"{peer.partition('-')[0]}.in").read_text(encoding="utf-8").split()[0]


def ours(table: PublicTable) -> Cell:
    """What ``dp-graph`` does: means over releases, and the peak of memory."""
    plan = sherd.Plan(method="dp-graph", epsilon=EPSILON, delta=DELTA, class_attribute=table.target)
    seconds, ways = [], []
    for _ in range(RUNS):
        start = time.process_time()
        released = sherd.protect(table.table, table.schema, plan).table
        seconds.append(time.process_time() - start)
        coded = table.coded(released)
        ways.append([table.distance(coded, number) for number in WAYS])
    return {
        "ways": np.mean(ways, axis=0).tolist(),
        "seconds": float(np.mean(seconds)),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measured(table: PublicTable, peer: str, minutes: float) -> Cell:
    """What a peer does; PeerMissingError where it cannot be had."""
    library, _, kind = peer.partition("-")
    python = python_of(library)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "table.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table.names)
            writer.writerows(np.column_stack([table.codes[n] for n in table.names]).tolist())
        (folder / "domain.json").write_text(json.dumps(table.sizes()))
        command = [python, HERE / f"run_{library}.py", folder, kind, str(EPSILON), str(DELTA)]
        code, seconds, peak = _on_one_core([str(p) for p in command], folder, int(60 * minutes))
        if code:
            told = _told(code, seconds / 60, (folder / "errors").read_text(errors="replace"))
            if code in CUT_OFF and (folder / "progress").exists():
                told += f": {(folder / 'progress').read_text()}"
            had = {"minutes": seconds / 60} if code in CUT_OFF else {}
            return {"told": told, "seconds": seconds, "megabytes": peak, **had}
        used = json.loads((folder / "output").read_text().strip().splitlines()[-1])
        with (folder / "drawn.csv").open() as file:
            header, *rows = csv.reader(file)
    drawn = np.array(rows, np.float64).astype(np.int64)
    coded = {n: drawn[:, header.index(n)] for n in table.names}
    return {
        "ways": [table.distance(coded, number) for number in WAYS],
        "seconds": used["seconds"],
        "megabytes": used["peak"] / 2**20,
    }


def _told(code: int, minutes: float, errors: str) -> str:
    """In words, why a peer drew no records."""
    if code in CUT_OFF:
        return f"did not end within {minutes:.0f} minutes of processor"
    if code == -signal.SIGKILL:
        return f"more than {MOST_BYTES / 2**30:.0f} GB"
    said = [one.strip() for one in errors.splitlines() if any(c.isalpha() for c in one)]
    return f"fails: {(said or ['no reason given'])[-1][-120:]}"


def _on_one_core(command: list[str], folder: Path, most: int) -> tuple[int, float, float]:
    """Exit code, seconds of processor and megabytes of a process with limits.

    What it held is looked up twice a second: the system's own peak counts that of this process,
    from which it was started.
    """
    most_held = 0
    with (folder / "output").open("w") as output, (folder / "errors").open("w") as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors)
        os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (most, most + 60))
        try:
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                most_held = max(most_held, _held(process.pid))
                if most_held > MOST_BYTES:
                    process.kill()
                time.sleep(0.5)
        except BaseException:
            process.kill()
            raise
    _, status, used = ended
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime, most_held / 2**20


def _held(process: int) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1] or 0)
    return pages * os.sysconf("SC_PAGE_SIZE")


def line(table: str, tool: str, cell: Cell) -> str:
    """A row of the printed table."""
    if "ways" in cell:
        ways = " | ".join(f"{way:.4f}" for way in cell["ways"])
    else:
        ways = f"{cell['told']} | | "
    return (
        f"| {table} | {tool} | {ways} | {cell['seconds']:.1f} "
        f"| {'≤ ' if cell.get('at_most') else ''}{cell['megabytes']:.0f} "
        f"| {cell.get('date', 'now')} |"
    )


def missed_by(table: str, peer: str, cell: Cell, mine: Cell) -> list[str]:
    """The limits that are missed, which are those on Adult."""
    if table != "Adult":
        return []
    times = cell["seconds"] / mine["seconds"]
    missed = []
    if "ways" in cell and cell["ways"][1] <= mine["ways"][1]:
        missed.append(f"{peer} keeps pairs better")
    # A peer that failed says nothing of its speed; one that was cut off is no faster than that.
    ended = "ways" in cell or "minutes" in cell
    if peer.startswith("dpmm") and ended and times < FASTER:
        missed.append(f"{peer} takes {times:.1f} times as long")
    return missed


def tables(only: list[str], rows: int | None) -> dict[str, PublicTable | None]:
    """The tables by their names; None where the file of one is not there."""
    chosen = [n for n in ("Adult", *SOURCES) if any(part in n for part in only)]
    return {name: Adult() if name == "Adult" else load(name, rows) for name in chosen}


def main() -> int:
    """Print a table, and say which limits are missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows", type=int, help="so many records of each table only; keeps nothing"
    )
    parser.add_argument("--minutes", type=float, default=25, help="of processor, for a peer")
    parser.add_argument("--only", nargs="*", default=[""], help="which tables, or parts of names")
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS, help="which peers")
    parser.add_argument("--again", action="store_true", help="measure what is kept already, too")
    parser.add_argument("--kept", action="store_true", help="start no peer: print what is kept")
    given = parser.parse_args()
    cells = Cells(KEPT if given.rows is None else None)
    print("| table | tool | 1-way | 2-way | 3-way | seconds | MB | measured |")
    print("|---|---|---|---|---|---|---|---|")
    missed = []
    for name, table in tables(given.only, given.rows).items():
        if table is None:
            print(f"| {name} | not there: set SHERD_DATA | | | | | | |")
            continue
        mine = ours(table)
        print(line(name, "dp-graph", mine), flush=True)
        for peer in given.peers:
            cell = (
                None if given.again else cells.find(name, peer, 0 if given.kept else given.minutes)
            )
            if cell is None and given.kept:
                print(f"| {name} | {peer} | not run | | | | | |", flush=True)
                continue
            try:
                cell = cell or measured(table, peer, given.minutes)
            except PeerMissingError as error:
                print(f"| {name} | {peer} | {error.args[0]} | | | | | |", flush=True)
                continue
            if "date" not in cell:
                cells.keep(name, peer, cell)
            print(line(name, peer, cell), flush=True)
            missed += missed_by(name, peer, cell, mine)
    print(f"Missed: {', '.join(missed) or 'nothing'}.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
