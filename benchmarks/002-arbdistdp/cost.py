"""What a joint release costs: seconds and traffic by step, and how they grow with the records.

Every party is a process behind TLS on this machine, run by the interpreter that
SHERD_JOINT_PYTHON names. Traffic is what the engines of all parties send, as SPU counts it, before
TLS. Records beyond those of the table are repeated, as in wang2020, Fig. 9. Processor time is that
of all parties; the machine's load says how far the seconds can be trusted.

    SHERD_JOINT_PYTHON=… python benchmarks/002-arbdistdp/cost.py [--records 45222 100000] \
        [--parties 2] [--table adult] [--max-leaves 2048]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
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
from sherd.methods.specialising import arbdistdp, diffgen
from sherd.methods.specialising.arbdistdp import cells_of, release
from sherd.randomness import Randomness
from sherd.release.method import Run
from sherd.secure.engine.link import Peer, connect, make_key
from sherd.tables.schema import Missing

TARGETS = {"adult": "income", "nursery": "class"}
LIMITS = {45_222: (40, 500), 500_000: (300, 3000), 1_000_000: (600, 6000)}
"""Of Adult between two parties: seconds, and MB sent."""
ALONE_LIMIT = 5.0
missed: list[str] = []


def worker(case: dict[str, Any], rank: int, folder: Path) -> None:
    """One party."""
    from sherd.secure.engine.cost_meter import Meter
    from sherd.secure.engine.spu_engine import SpuEngine

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
    mine = {rank: cells_of(codes, held)[rank]}
    peers = [
        Peer(name=f"p{i}", address=f"127.0.0.1:{port}", certificate=folder / f"p{i}.pem")
        for i, port in enumerate(case["ports"])
    ]
    link = connect(peers, rank, folder / f"p{rank}.key", timeout=1200)
    begin = time.perf_counter()
    meter = Meter(folder / f"spu{rank}.log")
    engine = SpuEngine(link, Randomness.from_system(), meter=meter)
    found = release(engine, mine, classes, arbdistdp.agreement(plan, chosen, n))
    used = resource.getrusage(resource.RUSAGE_SELF)
    result = {
        "seconds": time.perf_counter() - begin, "steps": meter.as_data(), "leaves": found.leaves,
        "processor": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss / 2**20,
    }  # fmt: skip
    (folder / f"out{rank}").write_text(json.dumps(result))
    link.stop_link()
    # Nobody leaves before all have taken their links down: the last ones need an answer.
    done = [folder / f"done{i}" for i in range(case["parties"])]
    done[rank].touch()
    until = time.monotonic() + 60
    while time.monotonic() < until and not all(one.exists() for one in done):
        time.sleep(0.1)


def measure(python: str, case: dict[str, Any]) -> dict[str, Any]:
    """Run all parties; the slowest's seconds, everybody's bytes."""
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
    steps = {
        step: {
            "seconds": max(one["steps"][step]["seconds"] for one in results),
            "sent": sum(one["steps"][step]["sent"] for one in results),
            "messages": sum(one["steps"][step]["messages_sent"] for one in results),
        }
        for step in results[0]["steps"]
    }
    return {
        "seconds": max(one["seconds"] for one in results),
        "processor": sum(one["processor"] for one in results),
        "memory": max(one["memory"] for one in results),
        "sent": sum(one["sent"] for one in steps.values()),
        "leaves": results[0]["leaves"],
        "steps": steps,
    }


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
    seen: list[tuple[int, dict[str, Any]]] = []
    for records in given.records:
        case = {
            "table": given.table, "records": records, "parties": given.parties,
            "max_leaves": given.max_leaves,
        }  # fmt: skip
        found = measure(python, case)
        seen.append((records, found))
        load = os.getloadavg()[0]
        print(f"{given.table}, {records} records, {given.parties} parties, {found['leaves']} "
              f"leaves: {found['seconds']:.0f} s ({found['processor']:.0f} s of processor time), "
              f"{found['sent'] / 1e6:.0f} MB, {found['memory']:.1f} GiB at most a party "
              f"(load of the machine {load:.1f} on {os.cpu_count()} cores)")  # fmt: skip
        for step, one in found["steps"].items():
            print(f"  {step:28} {one['seconds']:8.1f} s {one['sent'] / 1e6:9.1f} MB "
                  f"{one['messages']:7} messages", flush=True)  # fmt: skip
        if (given.table, given.parties) == ("adult", 2) and records in LIMITS:
            seconds, megabytes = LIMITS[records]
            limit("seconds", found["seconds"], seconds)
            if megabytes:
                limit("MB", found["sent"] / 1e6, megabytes)
    if len(seen) > 1:
        x = [records / 1e5 for records, _ in seen]
        for name, column, unit in (
            ("seconds", "seconds", 1), ("processor seconds", "processor", 1), ("MB", "sent", 1e6)
        ):  # fmt: skip
            slope, start = np.polyfit(x, [found[column] / unit for _, found in seen], 1)
            print(f"{name}: {start:.1f} + {slope:.1f} for each 100,000 records")
    alone(given.table, max(given.records))
    if missed:
        raise SystemExit(1)


def limit(what: str, found: float, most: float) -> None:
    """Say whether a limit is kept."""
    if found > most:
        missed.append(what)
    print(f"  {what}: {found:.4g}, at most {most:g}: {'yes' if found <= most else 'MISSED'}")


def alone(name: str, records: int) -> None:
    """What one owner's diffgen takes on as many records, after loading."""
    table = sherd.datasets.load(name, complete=True)
    table = table.take(np.arange(records) % table.num_rows)
    schema = replace(sherd.datasets.schema(name), missing=Missing.REFUSE)
    plan = sherd.Plan(method="diffgen", epsilon=1.0, h=10, class_attribute=TARGETS[name])
    begin, used = time.perf_counter(), time.process_time()
    diffgen.partition_of(table, schema, plan, Run(randomness=Randomness.from_system()))
    seconds = time.perf_counter() - begin
    print(f"diffgen alone, {records} records: {seconds:.2f} s "
          f"({time.process_time() - used:.2f} s of processor time)")  # fmt: skip
    limit("seconds", seconds, ALONE_LIMIT)


if __name__ == "__main__":
    main()
