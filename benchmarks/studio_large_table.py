"""A million rows in the studio: first page, summaries, the first cell of a map, and memory.

A studio is started as its user does, with a CSV of 20 columns. Seconds are of processor, of the
studio's process or of the job's, imports included; memory is what each held at most beyond what it
holds before it has seen a table, in tables (the table as Arrow holds it).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

LIMITS = {
    "first page, s": 3.0,
    "first cell of a 5 × 5 map, s": 5.0,
    "stopped within, s by the clock": 10.0,
    "memory, tables": 2.0,
}
NUMBERS, REALS, LABELS = 10, 5, 5
IDLE = "import sherd, sherd.release.tune, sherd.methods, sherd.studio.job_kinds, pyarrow.csv"
SCHEMA = "population: crowd\nattributes:\n" + "".join(
    [f"  n{i}: {{type: integer, domain: [0, 1000]}}\n" for i in range(NUMBERS)]
    + [f"  x{i}: {{type: number, domain: [-10, 10]}}\n" for i in range(REALS)]
    + [f"  c{i}: {{type: category, values: [alpha, beta, gamma, delta]}}\n" for i in range(LABELS)]
)


def write_table(path: Path, rows: int) -> int:
    """Write the CSV; the bytes of its table in memory."""
    draws = np.random.default_rng(0)
    labels = np.array(["alpha", "beta", "gamma", "delta"])
    columns = {f"n{i}": draws.integers(0, 1000, rows) for i in range(NUMBERS)}
    columns |= {f"x{i}": draws.normal(size=rows).round(3) for i in range(REALS)}
    columns |= {f"c{i}": labels[draws.integers(0, 4, rows)] for i in range(LABELS)}
    table = pa.table(columns)
    pacsv.write_csv(table, path)
    return int(table.nbytes)


def processor(pid: int) -> float:
    """What a process has used of the processor so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def most_memory(pid: int) -> int:
    """The most bytes that a process held so far."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return 0 if found is None else int(found[1]) << 10


def idle_job() -> int:
    """What a job's process holds before it has seen a table."""
    code = f"{IDLE}\nprint(open('/proc/self/status').read())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = re.search(r"VmHWM:\s+(\d+)", told.stdout)
    return 0 if found is None else int(found[1]) << 10


class Studio:
    """A studio in a process of its own, and a browser's part of the conversation."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "sherd", "studio", *arguments, "--no-browser",
                   "--workspace", str(folder), "--ledger", "none"]  # fmt: skip
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        address = ""
        while "http://" not in address:
            address = self.process.stdout.readline()
        address = address.split()[-1]
        self._client = httpx.Client(timeout=120, follow_redirects=True)
        entered = re.search(r'url=(/\w+)/"', self._client.get(address).text)
        assert entered is not None
        self.base = address[: address.index("/", 8)]
        self.root = self.base + entered[1]
        code = re.search(r'name="code" value="(\w+)"', self.get("/"))
        assert code is not None
        self._code = code[1]

    def get(self, path: str) -> str:
        """A page."""
        return self._client.get(self.root + path).text

    def post(self, path: str, form: dict[str, str] | None = None) -> None:
        """Send a form."""
        self._client.post(
            self.root + path,
            data={"code": self._code, **(form or {})},
            headers={"Origin": self.base},
        ).raise_for_status()

    def worker(self, kind: str) -> tuple[Path, int]:
        """The folder and the process of a job, once it has begun."""
        while True:
            for request in self.folder.glob("jobs/*/request.json"):
                status = request.with_name("status.json")
                if json.loads(request.read_text())["kind"] == kind and status.exists():
                    return request.parent, json.loads(status.read_text())["process"]["pid"]
            time.sleep(0.01)

    def until(self, there: Path, pid: int) -> tuple[float, int]:
        """Processor and memory of a job at the moment a file of it is there, or its end."""
        seen = 0.0, 0
        while not there.exists():
            try:
                now = processor(pid), most_memory(pid)
            except OSError:
                return seen
            if not now[1]:  # it has ended, and nobody has asked how yet
                return seen
            seen = now
            time.sleep(0.005)
        return seen

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        self._client.close()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


def measure(folder: Path, rows: int) -> dict[str, float]:
    """Open the table, wait for its summaries, draw a map until its first cell, stop it."""
    size = write_table(folder / "large.csv", rows)
    (folder / "large.yaml").write_text(SCHEMA)
    before = idle_job()
    studio = Studio(folder / "w")
    server = studio.process.pid
    start, idle = processor(server), most_memory(server)
    studio.post("/open", {"source": str(folder / "large.csv")})
    project = re.findall(r"(/p/\w+)/open", studio.get("/"))[-1]
    page = studio.get(f"{project}/open")
    assert "The first 100 rows" in page
    first = processor(server) - start
    job, pid = studio.worker("profile")
    summaries, held = studio.until(folder / "none", pid)
    studio.post(f"{project}/schema/file", {"path": str(folder / "large.yaml"), "do": "open"})
    studio.post(f"{project}/promise", {"method": "dp-um", "epsilon": "1", "k": "100"})
    studio.post(f"{project}/explore/map")
    job, pid = studio.worker("map")
    cell, drawn = studio.until(job / "map.json", pid)
    asked = time.monotonic()
    studio.post(f"/j/{job.name}/stop", {"back": "/"})
    studio.until(folder / "none", pid)
    ended = time.monotonic() - asked
    assert "Stopped before it was done" in studio.get(f"{project}/explore")
    most = max(held, drawn) - before + most_memory(server) - idle
    studio.stop()
    return {
        "first page, s": first,
        "first page, kB": len(page) / 1e3,
        "summaries, s": summaries,
        "first cell of a 5 × 5 map, s": cell,
        "stopped within, s by the clock": ended,
        "table, MB": size / 1e6,
        "memory, tables": most / size,
    }


def main() -> int:
    """Print what was measured; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), parser.parse_args().rows)
    missed = 0
    for name, value in found.items():
        limit = LIMITS.get(name)
        kept = limit is None or value <= limit
        missed += not kept
        told = "" if limit is None else f"   at most {limit:g}: {'yes' if kept else 'no'}"
        print(f"{name:<36}{value:>10.4g}{told}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
