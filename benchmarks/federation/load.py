"""Load on the federation: many owners, one large delivery, many rounds in a row.

    python benchmarks/federation/load.py [large | rounds | owners | rows]

A real service process with mutual TLS and syncing to disk. ``owners``: 50 owners' agents run
at the same time in threads of this process, each on one core, so that processor time can be
told apart; times are processor seconds, of both sides together. What counts as what:

- masking: the method, from checking the cells to the masked table (``protect`` without ledger
  and disk);
- reading the source: each owner's table and schema, read for the offer and again to protect;
- writing at the owner: the masked table as a bundle on disk, synced;
- assembling and writing the released table: reading deliveries back, checking every value
  against the plan, uniting, shuffling, Parquet;
- fetching the release: every owner gets a copy and checks it, afterwards;
- protocol: all the rest of both processes while the round lasts: messages, signatures,
  checking plans and policies, ledgers, journals, the service and its database; and looking up
  the codes of columns, which is done for the delivery alone. (Codes that a method hands on are
  written by masking, in the place of the numbers.)

A pipeline made by hand reads, masks, writes and unites as well, so that the fair ratio is
protocol over all of these; the strict one is everything but masking over masking. Joining (a TLS
handshake and a login) happens once for an agent's life and is told apart, too, and so is what a
process does in its first round alone (imports, statements that are put together): a small round of
another owner comes before.

``rows``: the same for fewer owners with more rows. ``large`` and ``rounds`` run owners as
real processes; in ``large`` the aggregator's process is not given more than half a gigabyte
(RLIMIT_DATA: all of its own memory, the stacks of its threads too, without mapped files, whose
pages the system may take back), so that the round ends without a release where that is not
enough. Without an argument, all of them.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pyarrow as pa

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "tests" / "support")]
from processes import Village  # noqa: E402 - found by the line above
from timing import spent, watch  # noqa: E402

from sherd.federation.owner import agent as agent_module  # noqa: E402
from sherd.federation.owner.agent import Agent  # noqa: E402
from sherd.federation.protocol.states import ROUND_ENDS, RoundState  # noqa: E402
from sherd.federation.wire.client import Client, tls_context  # noqa: E402
from sherd_examples.rounds_demonstration import wait_for_service  # noqa: E402

OWNERS, ROWS, COLUMNS = 50, 10_000, 10
FEWER, MORE_ROWS = 10, 100_000
LARGE = 2_000_000
MANY_LIMIT, FEW_LIMIT = 0.5, 0.25
MEMORY_LIMIT = 8.0
AGGREGATOR_BYTES = 1 << 29
"""The memory that the aggregator gets for a large round, whatever it holds."""
GROWTH_LIMIT = 1.1
RATIO = "protocol / (reading + masking + writing + assembling)"
missed: list[str] = []


def limit(what: str, value: float, most: float) -> None:
    """Print a number beside its limit."""
    good = value <= most
    print(f"  {what}: {value:.2f} (limit {most:g}: {'met' if good else 'MISSED'})")
    if not good:
        missed.append(what)


def schema(columns: int) -> str:
    """A schema of numbers."""
    lines = [f"  a{i}: {{type: number, domain: [0, 1000]}}" for i in range(columns)]
    return "attributes:\n" + "\n".join(lines) + "\n"


def table(rows: int, columns: int, seed: int) -> pa.Table:
    """A table of numbers."""
    random = np.random.default_rng(seed)
    return pa.table({f"a{i}": np.round(random.uniform(0, 1000, rows), 2) for i in range(columns)})


class Service:
    """The aggregator's process, with its times and its operator's line."""

    def __init__(self, village: Village, *, memory: int | None = None) -> None:
        self.village = village
        self._times = village.folder / "times.json"
        script = Path(__file__).with_name("serve.py")
        home, port = str(village.premises.folder), str(village.port)
        command = [str(script), str(self._times), "serve", "--home", home, "--port", port]
        with (village.folder / "service.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *command],
                stdout=log,
                stderr=log,
                preexec_fn=None  # noqa: PLW1509 - there are no threads yet
                if memory is None
                else lambda: resource.setrlimit(resource.RLIMIT_DATA, (memory, memory)),
            )
        village.running["aggregator"] = process
        wait_for_service(village.url, village.premises, process)
        self.process = psutil.Process(process.pid)
        token = (village.premises.folder / "operator.token").read_text(encoding="ascii")
        self._http = httpx.Client(
            base_url=village.url,
            verify=tls_context(village.premises.authority, None),
            headers={"Authorization": f"Bearer {token}"},
            timeout=60.0,
        )

    def cpu(self) -> float:
        """Its processor seconds so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def on_table(self) -> float:
        """Its seconds on the released table."""
        time.sleep(0.6)  # it tells every quarter of a second
        return float(sum(json.loads(self._times.read_bytes()).values()))

    def open(self, round_id: str, **changes: Any) -> None:
        """Open a round as its operator."""
        terms = {
            "round": round_id, "aggregator": "registry", "kind": "horizontal",
            "owners": list(self.village.homes), "method": "dp-um", "parameters": {"k": 100},
            "epsilon": "1", "sharing": "attributes", "given": {}, "linkage": "none",
            "dropout": "abort", "least_owners": 1, "deadline": int(time.time()) + 3600,
            "purpose": "", **changes,
        }  # fmt: skip
        canonical = json.dumps(terms, sort_keys=True, separators=(",", ":"))
        self._http.post("/v1/rounds", content=canonical).raise_for_status()

    def state(self, round_id: str) -> RoundState:
        """Where a round stands."""
        listed = self._http.get("/v1/rounds").json()["rounds"]
        return next(RoundState(each["state"]) for each in listed if each["round"] == round_id)

    def wait(self, round_id: str, pause: float = 0.1) -> RoundState:
        """Wait for a round's end."""
        while (state := self.state(round_id)) not in ROUND_ENDS:
            time.sleep(pause)
        return state


def started(village: Village, name: str) -> psutil.Process:
    """An owner's agent as a process of its own, with memory of its own."""
    command = ["-m", "sherd", "owner", "run", "--home", str(village.homes[name].folder)]
    with (village.folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *command, "--wait", "5"], stdout=log, stderr=log
        )
    village.running[name] = process
    return psutil.Process(process.pid)


def agent_of(village: Village, name: str) -> Agent:
    """An owner's agent in this process."""
    home = village.homes[name]
    context = tls_context(home.authority, (home.certificate, home.channel_key))
    client = Client(
        url=village.url, name=name, aggregator="registry", key=home.key, context=context
    )
    return Agent(home, client)


def many_owners(village: Village) -> None:
    """50 owners at the same time."""
    limit(RATIO, owners_at_once(village, OWNERS, ROWS), MANY_LIMIT)


def few_owners(village: Village) -> None:
    """Fewer owners with more rows: what an owner's part in a round costs hardly grows."""
    limit(RATIO, owners_at_once(village, FEWER, MORE_ROWS), FEW_LIMIT)


def owners_at_once(village: Village, owners_count: int, rows_each: int) -> float:
    """Owners at the same time: where the time went, and protocol over what is done by hand, too."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # masking in one thread each
    for number in range(owners_count):
        village.add_owner(f"owner-{number:02d}", table(rows_each, COLUMNS, number), schema(COLUMNS))
    service = Service(village)
    agents = [agent_of(village, name) for name in village.homes]
    here, there = time.process_time(), service.cpu()
    for agent in agents:
        agent.turn()
    joining = time.process_time() - here + service.cpu() - there
    warm(village, service)
    watch_owners()
    # Releases are fetched afterwards, to be told apart.
    fetch = agent_module.take_releases
    spent.clear()
    agent_module.take_releases = lambda _agent: None
    threads_time: list[float] = []
    ready = threading.Barrier(owners_count + 1)

    def run(agent: Agent) -> None:
        ready.wait()
        agent.run(wait=20.0, until=lambda: bool(agent.released))
        threads_time.append(time.thread_time())

    threads = [threading.Thread(target=run, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    here, there, on_table = time.process_time(), service.cpu(), service.on_table()
    ready.wait()
    began = time.monotonic()
    service.open("r1")
    for thread in threads:
        thread.join()
    wall = time.monotonic() - began
    owners, aggregator = sum(threads_time), service.cpu() - there
    others = time.process_time() - here - owners  # Arrow's own threads, and this one
    state = service.wait("r1")
    written = service.on_table() - on_table
    here, there = time.process_time(), service.cpu()
    for agent in agents:
        fetch(agent)
    fetching = time.process_time() - here + service.cpu() - there
    columns, coding = spent.pop("columns"), spent.pop("coding")
    at_owners = owners - sum(spent.values())  # with the coding
    rows = dict(spent)
    rows["masking"] += columns
    rows["reading the source"] += max(others - columns, 0.0)
    rows["assembling and writing the released table"] = written
    rows["fetching the release"] = fetching
    rows["joining, once"] = joining
    rows["protocol at the owners"] = at_owners
    print(f"  of which coding: {coding / owners_count * 1e3:.1f} ms for each owner")
    rows["protocol at the aggregator"] = aggregator - written
    print(f"{owners_count} owners x {rows_each} rows x {COLUMNS}: {state.value} after {wall:.1f} s")
    for name, seconds in rows.items():
        print(
            f"  {name:<44} {seconds:7.2f} s {seconds / owners_count * 1e3:8.1f} ms for each owner"
        )
    masking = rows["masking"]
    protocol = at_owners + aggregator - written
    print(f"  at an owner alone: {at_owners / masking:.2f}")
    everything = sum(rows.values()) - masking
    print(f"  all but masking / masking, strict: {everything / masking:.2f}")
    without = everything - fetching
    print(f"  the same where owners keep manifests alone: {without / masking:.2f}")
    agent_module.take_releases = fetch
    for agent in agents:
        agent.client.close()
        agent.journal.close()
    print(f"  protocol / masking: {protocol / masking:.2f}")
    by_hand = (
        masking
        + rows["reading the source"]
        + rows["writing at the owner"]
        + rows["assembling and writing the released table"]
    )
    return protocol / by_hand


@functools.cache
def watch_owners() -> None:
    """Tell an owner's times apart, from now on."""
    watch("masking", "sherd.release.protect", "_make")
    watch("columns", "sherd.methods.ranking.masking", "mask_column")  # in threads of their own
    watch("reading the source", "sherd.federation.owner.owner_table", "OwnerTable.load")
    watch("reading the source", "sherd.federation.owner.owner_home", "OwnerHome.source")
    watch("writing at the owner", "sherd.release.bundle", "Release.stage")
    watch("coding", "sherd.tables.write", "coded")  # only because a delivery travels


def warm(village: Village, service: Service) -> None:
    """A small round of one more owner: what is imported and prepared once in a process's life."""
    village.add_owner("warm", table(1_000, COLUMNS, 0), schema(COLUMNS))
    agent = agent_of(village, "warm")
    service.open("warm", owners=["warm"])
    while service.state("warm") not in ROUND_ENDS:
        agent.turn(wait=1.0)
    agent.client.close()
    agent.journal.close()
    del village.homes["warm"]


def memory(process: psutil.Process, *, peak: bool) -> float:
    """A process's memory in MiB, now or at its peak."""
    text = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    key = "VmHWM:" if peak else "VmRSS:"
    line = next(line for line in text.splitlines() if line.startswith(key))
    return int(line.split()[1]) / 1024


def own_memory(process: psutil.Process) -> float:
    """A process's own memory in MiB, without pages of files."""
    text = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    line = next(line for line in text.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) / 1024


def one_large(village: Village) -> None:
    """One owner delivers two million rows, to an aggregator with half a gigabyte."""
    village.add_owner("owner", table(LARGE, COLUMNS, 1), schema(COLUMNS))
    service = Service(village, memory=AGGREGATOR_BYTES)
    owner = started(village, "owner")
    time.sleep(3.0)  # until the owner waits for an invitation
    before = memory(owner, peak=False), own_memory(service.process)
    began, most = time.monotonic(), 0.0
    service.open("r1")
    while (state := service.state("r1")) not in ROUND_ENDS:
        most = max(most, own_memory(service.process))
        time.sleep(0.02)
    wall = time.monotonic() - began
    size = LARGE * COLUMNS * 8 / 2**20
    print(f"{LARGE} rows x {COLUMNS} of one owner: {state.value} after {wall:.1f} s")
    print(f"  the table is {size:.0f} MiB")
    peak = memory(owner, peak=True)
    limit(f"peak memory at the owner, {peak:.0f} MiB, over the table", peak / size, MEMORY_LIMIT)
    print(f"    of which it held {before[0]:.0f} MiB before the round, programs mostly")
    limit("rounds that the aggregator could not end with 512 MiB",
          int(state is not RoundState.RELEASED), 0)  # fmt: skip
    limit("most memory of its own at the aggregator, MiB, looked at every 20 ms", most, 512)
    print(f"    of which it held {before[1]:.0f} MiB before the round, programs mostly")


def many_rounds(village: Village) -> None:
    """100 rounds in a row."""
    for number in range(2):
        village.add_owner(f"owner-{number}", table(1_000, 3, number), schema(3))
    service = Service(village)
    processes = {"aggregator": service.process}
    for name in village.homes:
        processes[name] = started(village, name)
    began, first = time.monotonic(), dict[str, float]()
    print("100 rounds of two owners")
    for number in range(1, 101):
        service.open(f"r{number}", parameters={"k": 10}, epsilon="0.1")
        state = service.wait(f"r{number}", pause=0.02)
        assert state is RoundState.RELEASED
        if number in (10, 50, 100):
            held = {name: memory(process, peak=False) for name, process in processes.items()}
            first = first or held
            shown = ", ".join(f"{name} {size:.0f} MiB" for name, size in held.items())
            print(f"  after {number:3d} rounds, {time.monotonic() - began:5.1f} s: {shown}")
    for name, size in held.items():
        limit(f"memory of {name} after 100 rounds over that after 10", size / first[name],
              GROWTH_LIMIT)  # fmt: skip


KINDS = {
    "large": one_large,
    "rounds": many_rounds,
    "owners": many_owners,
    "rows": few_owners,
}

if __name__ == "__main__":
    for kind in sys.argv[1:] or KINDS:
        with tempfile.TemporaryDirectory() as place:
            village = Village(Path(place))
            try:
                KINDS[kind](village)
            finally:
                village.close()
    sys.exit(1 if missed else 0)
