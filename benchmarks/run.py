"""Run every benchmark of this folder and print what it measured.

``make bench`` calls this. Each script prints ratios measured in one run and ends with 1 where
a limit is missed; peers that are not installed are named and left out.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = (
    "noise.py",
    "ranking.py",
    "003-slicing/speed.py",
    "004-fragments/speed.py",
    "004-fragments/placement.py",
)


def machine() -> str:
    """The machine in one line."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [x for x in info.read_text().splitlines() if x.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return f"{model}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"


def main() -> int:
    """Run the scripts in turn; the number of those that missed a limit."""
    chosen = sys.argv[1:] or list(SCRIPTS)
    print(f"machine: {machine()}")
    missed = 0
    for name in chosen:
        print(f"\n== {name}", flush=True)
        start = time.perf_counter()
        code = subprocess.run([sys.executable, str(HERE / name)], check=False).returncode
        missed += code != 0
        print(f"-- {name}: {time.perf_counter() - start:.0f} s, exit code {code}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
