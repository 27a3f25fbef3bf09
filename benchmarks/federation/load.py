"""Load on the federation: many owners, one large delivery, many rounds in a row.

A real service process with mutual TLS; the owners' agents run one after the other in this
process, so that processor time can be told apart: masking is what ``protect`` takes, protocol
is everything else here (reading tables, signing, sending) and all of the service's.

    python benchmarks/federation/load.py owners | large | rounds
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
from processes import Village

from sherd.federation import outbox
from sherd.federation.agent import Agent
from sherd.federation.client import Client, tls_context
from sherd.protocols.states import ROUND_ENDS, RoundState

masking = 0.0


def measured() -> None:
    """Count the processor time that protecting takes."""
    from sherd import protection

    inner = protection._make

    def timed(*args: Any, **options: Any) -> Any:
        global masking  # noqa: PLW0603 - a benchmark's one counter
        began = time.process_time()
        try:
            return inner(*args, **options)
        finally:
            masking += time.process_time() - began

    protection._make = timed
    assert outbox


def schema(columns: int) -> str:
    """A schema of numbers."""
    lines = [f"  a{i}: {{type: number, domain: [0, 1000]}}" for i in range(columns)]
    return "attributes:\n" + "\n".join(lines) + "\n"


def table(rows: int, columns: int, seed: int) -> pa.Table:
    """A table of numbers."""
    random = np.random.default_rng(seed)
    return pa.table({f"a{i}": np.round(random.uniform(0, 1000, rows), 2) for i in range(columns)})


def agents(village: Village) -> list[Agent]:
    """An agent for every owner, in this process."""
    found = []
    for name, home in village.homes.items():
        client = Client(
            url=village.url,
            name=name,
            aggregator="registry",
            key=home.key,
            context=tls_context(home.authority, (home.certificate, home.channel_key)),
        )
        found.append(Agent(home, client))
    return found


def run(village: Village, all_agents: list[Agent], round_id: str) -> RoundState:
    """Let everybody work until the round ends."""
    while True:
        for agent in all_agents:
            agent.step()
        state = village.round(round_id).state
        if state in ROUND_ENDS and not any(agent.journal.rounds() for agent in all_agents):
            return state


def report(what: str, village: Village, began: tuple[float, float, float]) -> None:
    """Print where the time went."""
    service = psutil.Process(village.running["aggregator"].pid).cpu_times()
    here = time.process_time() - began[0]
    there = service.user + service.system - began[1]
    protocol = here - masking + there
    print(f"{what}: {time.monotonic() - began[2]:.1f} s of wall time")
    print(f"  masking {masking:.2f} s, protocol {protocol:.2f} s (service {there:.2f} s)")
    print(f"  protocol / masking = {protocol / masking:.2f}")


def main(kind: str, folder: Path) -> None:
    """One of the three loads."""
    village = Village(folder)
    try:
        if kind == "owners":
            owners, rows, columns = 50, 10_000, 10
        elif kind == "large":
            owners, rows, columns = 1, 2_000_000, 10
        else:
            owners, rows, columns = 2, 1_000, 3
        for number in range(owners):
            name = f"owner-{number:02d}"
            village.add_owner(name, table(rows, columns, number), schema(columns))
        village.start("aggregator")
        every = agents(village)
        measured()
        service = psutil.Process(village.running["aggregator"].pid)
        times = service.cpu_times()
        began = time.process_time(), times.user + times.system, time.monotonic()
        if kind != "rounds":
            village.open_round("r1", parameters={"k": 100})
            print(run(village, every, "r1").value)
            report(f"{owners} owners x {rows} rows x {columns}", village, began)
            return
        for number in range(100):
            village.open_round(f"r{number}", parameters={"k": 10}, epsilon="0.1")
            run(village, every, f"r{number}")
            if number % 10 == 9:
                own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                print(
                    f"after {number + 1:3d} rounds: service {service.memory_info().rss / 2**20:.0f}"
                    f" MiB, agents at most {own:.0f} MiB, {time.monotonic() - began[2]:.0f} s"
                )
        report("100 rounds", village, began)
    finally:
        village.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(sys.argv[1], Path(place))
