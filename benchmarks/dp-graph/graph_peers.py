"""``dp-graph`` beside dpmm's and OpenDP's MST and AIM, in one run, at equal ε.

    python benchmarks/dp-graph/graph_peers.py [--rows N] [--minutes M] [--only NAME …] \
        [--peers dpmm-mst …]

Every peer runs in a process and an environment of its own, on the same records, δ = 1e-9. Printed
are the mean total variation distances of single attributes, pairs and triples, seconds of processor
and the peak of memory. A peer that cannot be had, fails or takes more than so many minutes of
processor is named as such; what is known of its speed then is that it is no faster.
The settings of ``dp-graph`` were chosen on Nursery and on another split of Adult; none of the
tables below took part, but for records that the two splits of Adult share. Ends with 1 where, on
Adult, ``dp-graph`` is worse in pairs than a peer, or less than ten times as fast as dpmm.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))

from environments import HERE, PeerMissingError, python_of
from graph_utility import DELTA, Adult
from public_tables import SOURCES, PublicTable, load

import sherd

EPSILON = 1.0
PEERS = [(library, kind) for library in ("dpmm", "opendp") for kind in ("mst", "aim")]
FASTER = 10.0


class UnfinishedError(PeerMissingError):
    """A peer took more processor than it was given: text and seconds."""


def ours(table: PublicTable) -> tuple[dict[str, np.ndarray], float, float]:
    """Records of a release, seconds of processor, and megabytes at the peak."""
    plan = sherd.Plan(method="dp-graph", epsilon=EPSILON, delta=DELTA, class_attribute=table.target)
    start = time.process_time()
    released = sherd.protect(table.table, table.schema, plan).table
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return table.coded(released), seconds, peak


def peer(
    table: PublicTable, library: str, kind: str, minutes: float
) -> tuple[dict[str, np.ndarray], float, float]:
    """The same of a peer; PeerMissingError where it cannot be had or does not end."""
    python = python_of(library)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "table.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table.names)
            writer.writerows(np.column_stack([table.codes[n] for n in table.names]).tolist())
        (folder / "domain.json").write_text(json.dumps(table.sizes()))
        command = [python, HERE / f"run_{library}.py", folder, kind, str(EPSILON), str(DELTA)]
        most = int(60 * minutes)
        done = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most)),
        )
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            raise UnfinishedError(f"did not finish in {most} s of processor", most)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise PeerMissingError(f"fails: {last[-120:]}")
        told = json.loads(done.stdout.strip().splitlines()[-1])
        with (folder / "drawn.csv").open() as file:
            header, *rows = csv.reader(file)
    drawn = np.array(rows, np.float64).astype(np.int64)
    return (
        {n: drawn[:, header.index(n)] for n in table.names},
        told["seconds"],
        told["peak"] / 2**20,
    )


def compared(
    name: str, table: PublicTable, minutes: float, peers: list[tuple[str, str]]
) -> list[str]:
    """Print a line for each tool; the limits that are missed, which are those on Adult."""
    released, seconds, peak = ours(table)
    pairs = table.distance(released)
    _line(name, "dp-graph", table, released, seconds, peak)
    missed = []
    for library, kind in peers:
        try:
            drawn, used, most = peer(table, library, kind, minutes)
        except PeerMissingError as error:
            print(f"| {name} | {library} {kind.upper()} | {error.args[0]} | | | | |", flush=True)
            if isinstance(error, UnfinishedError) and library == "dpmm":
                missed += _slow(name, library, kind, error.args[1] / seconds)
            continue
        _line(name, f"{library} {kind.upper()}", table, drawn, used, most)
        if name == "Adult" and table.distance(drawn) < pairs:
            missed.append(f"{library} {kind} keeps pairs better")
        if library == "dpmm":
            missed += _slow(name, library, kind, used / seconds)
    return missed


def _slow(name: str, library: str, kind: str, times: float) -> list[str]:
    """The limit of speed, where it is missed."""
    if name != "Adult" or times >= FASTER:
        return []
    return [f"{library} {kind} takes {times:.1f} times as long"]


def _line(
    name: str,
    tool: str,
    table: PublicTable,
    drawn: dict[str, np.ndarray],
    seconds: float,
    peak: float,
) -> None:
    ways = " | ".join(f"{table.distance(drawn, number):.4f}" for number in (1, 2, 3))
    print(f"| {name} | {tool} | {ways} | {seconds:.1f} | {peak:.0f} |", flush=True)


def main() -> int:
    """Print a table, and say which limits are missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, help="so many records of each table only")
    parser.add_argument("--minutes", type=float, default=20, help="of processor, for a peer")
    every = ["Adult", *SOURCES]
    parser.add_argument("--only", nargs="*", default=every, help="which tables, or parts of names")
    parser.add_argument("--peers", nargs="*", help="which peers, as in dpmm-mst")
    given = parser.parse_args()
    print("| table | tool | 1-way | 2-way | 3-way | seconds | MB |\n|---|---|---|---|---|---|---|")
    missed = []
    peers = [one for one in PEERS if given.peers is None or "-".join(one) in given.peers]
    for name in [one for one in every if any(part in one for part in given.only)]:
        if name == "Adult":
            table: PublicTable = Adult()
        else:
            found = load(name, given.rows)
            if found is None:
                print(f"| {name} | not there: set SHERD_DATA | | | | | |")
                continue
            table = found
        missed += compared(name, table, given.minutes, peers)
    print(f"Missed: {', '.join(missed) or 'nothing'}.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
