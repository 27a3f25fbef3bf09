"""What a joint release costs: seconds and traffic by step, and how they grow with the records.

Every party is a process behind TLS on this machine, run by the interpreter that
SHERD_JOINT_PYTHON names. Traffic is what passes the loopback device meanwhile, so nothing else
should use it. Records beyond those of the table are repeated, as in wang2020, Fig. 9.

    SHERD_JOINT_PYTHON=… python benchmarks/002-arbdistdp/cost.py [--records 45222 100000] \
        [--parties 2] [--table adult] [--max-leaves 864]
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import sherd
from sherd.joint.arbdistdp import fragments_of, release
from sherd.joint.link import Peer, connect, make_key
from sherd.methods import arbdistdp, diffgen
from sherd.randomness import Randomness
from sherd.tables.schema import Missing

TARGETS = {"adult": "income", "nursery": "class"}


def loopback() -> int:
    """Bytes that have passed the loopback device."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.strip().startswith("lo:"))


def worker(case: dict[str, Any], rank: int, folder: Path) -> None:
    """One party."""
    from sherd.joint.spu import SpuEngine

    name = case["table"]
    table = sherd.datasets.load(name, complete=True)
    n = case["records"]
    table = table.take(np.arange(n) % table.num_rows)
    schema = replace(sherd.datasets.schema(name), missing=Missing.REFUSE)
    plan = sherd.Plan(
        method="arbdistdp", epsilon=1.0, h=10, class_attribute=TARGETS[name],
        max_leaves=case["max_leaves"],
    )  # fmt: skip
    chosen = diffgen.settings(plan, schema)
    codes, classes = diffgen.encode(table, schema, chosen)
    holder = np.random.default_rng(0).integers(0, case["parties"], (n, len(codes)))
    held = [holder == party for party in range(case["parties"])]
    mine = {rank: fragments_of(codes, held)[rank]}
    peers = [
        Peer(name=f"p{i}", address=f"127.0.0.1:{port}", certificate=folder / f"p{i}.pem")
        for i, port in enumerate(case["ports"])
    ]
    link = connect(peers, rank, folder / f"p{rank}.key", timeout=120)
    begin, before = time.perf_counter(), loopback()
    traffic: dict[str, int] = {}

    class Counting(SpuEngine):
        """Notes the traffic of each step."""

        def _computed(self, a: Any, what: str) -> Any:
            start = loopback()
            done = super()._computed(a, what)
            traffic[what] = traffic.get(what, 0) + loopback() - start
            return done

    engine = Counting(link, Randomness.from_system())
    found = release(engine, mine, classes, arbdistdp.agreement(plan, chosen, n))
    result = {
        "seconds": time.perf_counter() - begin, "bytes": loopback() - before,
        "leaves": found.leaves, "times": engine.times, "traffic": traffic,
    }  # fmt: skip
    (folder / f"out{rank}").write_text(json.dumps(result))
    link.stop_link()


def measure(python: str, case: dict[str, Any]) -> dict[str, Any]:
    """Run all parties and take the slowest's word."""
    sockets = [socket.socket() for _ in range(case["parties"])]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    case["ports"] = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "case").write_text(json.dumps(case))
        for i in range(case["parties"]):
            make_key(folder, f"p{i}")
        # Sherd need not be installed where SPU is.
        source = {"PYTHONPATH": str(Path(sherd.__file__).parents[1])}
        running = [
            subprocess.Popen(
                [python, __file__, "--worker", str(i), str(folder)],
                env=os.environ | source,
                stderr=(folder / f"log{i}").open("wb"),
                stdout=subprocess.DEVNULL,
            )
            for i in range(case["parties"])
        ]
        if any(one.wait() for one in running):
            raise SystemExit("a party failed:\n" + (folder / "log0").read_text()[-2000:])
        results = [json.loads((folder / f"out{i}").read_text()) for i in range(case["parties"])]
    return max(results, key=lambda one: one["seconds"])  # type: ignore[no-any-return]


def main() -> None:
    """Measure each number of records, print steps and growth."""
    if len(sys.argv) > 1 and sys.argv[1] == "--worker":
        folder = Path(sys.argv[3])
        worker(json.loads((folder / "case").read_text()), int(sys.argv[2]), folder)
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[45222])
    parser.add_argument("--parties", type=int, default=2)
    parser.add_argument("--table", choices=sorted(TARGETS), default="adult")
    parser.add_argument("--max-leaves", type=int, default=arbdistdp.MAX_LEAVES)
    given = parser.parse_args()
    python = os.environ.get("SHERD_JOINT_PYTHON")
    if python is None:
        raise SystemExit("SHERD_JOINT_PYTHON must name a Python with SPU")
    seen = []
    for records in given.records:
        case = {
            "table": given.table, "records": records, "parties": given.parties,
            "max_leaves": given.max_leaves,
        }  # fmt: skip
        found = measure(python, case)
        seen.append((records, found["seconds"], found["bytes"], found["leaves"]))
        load = os.getloadavg()[0]
        print(f"{given.table}, {records} records, {given.parties} parties, {found['leaves']} "
              f"leaves: {found['seconds']:.0f} s, {found['bytes'] / 1e6:.0f} MB "
              f"(load of the machine {load:.1f} on {os.cpu_count()} cores)")  # fmt: skip
        for step, seconds in found["times"].items():
            megabytes = found["traffic"].get(step, 0) / 1e6
            print(f"  {step:28} {seconds:8.1f} s {megabytes:9.1f} MB")
    if len(seen) > 1:
        x = [records * leaves / 1e6 for records, _, _, leaves in seen]
        for name, column in (("seconds", 1), ("megabytes", 2)):
            y = [one[column] / (1 if column == 1 else 1e6) for one in seen]
            slope, start = np.polyfit(x, y, 1)
            print(f"{name}: {start:.1f} + {slope:.2f} for each million records × leaves")


if __name__ == "__main__":
    main()
