"""Run every benchmark of this folder and write what it measured to ``RESULTS.md``.

    python benchmarks/run.py [SCRIPT …]

``make bench`` calls this. Each script prints ratios measured in one run and ends with 1 where
a limit is missed; peers run in environments of their own, and those that cannot be had are named.
With scripts named, only these are run and nothing is written.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from machine import commit, machine, now

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS.md"
SCRIPTS = {
    "noise.py": "Exact noise",
    "ranking.py": "Masking by individual ranking, beside np.sort and the pandas way",
    "peers/compare.py": "Beside Anonymeter, SDMetrics, pycanon and sdcMicro",
    "003-slicing/speed.py": "Slicing beside plain Python, generalisation beside anjana",
    "004-fragments/speed.py --million --plain": "Loose associations, beside plain Python",
    "004-fragments/placement.py --seeds 3": "Placement beside the published heuristic",
    "audit.py 300000": "An audit of a large table",
    "federation/load.py": "Joint releases: many owners, a large table, many rounds",
    "002-arbdistdp/cost.py --records 45222 500000": "Joint releases by secure computation",
}
NEEDS = {
    "004-fragments/placement.py": ("SHERD_DATA", "the folder of data that is not part of Sherd"),
    "002-arbdistdp/cost.py": ("SHERD_JOINT_PYTHON", "a Python with SPU (`make joint`)"),
}
"""What a script cannot run without: a variable of the environment, and what it names."""


def run(line: str) -> tuple[list[str], int, float]:
    """What a script prints, shown as it comes; its exit code; the seconds it took."""
    script, *arguments = shlex.split(line)
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-u", str(HERE / script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = []
        for printed in process.stdout:
            print(printed, end="", flush=True)
            lines.append(printed.rstrip())
    return lines, process.returncode, time.perf_counter() - start


def page(made: str, parts: list[str]) -> str:
    """RESULTS.md."""
    lines = [
        "# Results",
        "",
        "Written by `make bench`: what the benchmarks printed, all in one run. Times carry over to",
        "other machines as ratios only. The papers' experiments are in their folders' READMEs.",
        "",
        made,
        "",
    ]
    return "\n".join([*lines, *parts])


def main() -> int:
    """Run the scripts in turn; the number of those that missed a limit."""
    chosen = sys.argv[1:]
    made = f"{now()}, commit `{commit()}`, {machine()}."
    print(made)
    parts = []
    missed = 0
    for line, title in {c: SCRIPTS.get(c, c) for c in chosen or SCRIPTS}.items():
        print(f"\n== {title} ({line})", flush=True)
        variable, what = NEEDS.get(line.partition(" ")[0], ("", ""))
        if variable and not os.environ.get(variable):
            ended = f"not run: {variable} must name {what}"
            print(f"-- {line}: {ended}", flush=True)
            parts += [f"## {title}", "", f"`{line}`: {ended}.", ""]
            continue
        printed, code, seconds = run(line)
        missed += code != 0
        ended = f"{seconds:.0f} s, {'a limit was missed' if code else 'every limit kept'}"
        print(f"-- {line}: {ended}", flush=True)
        parts += [f"## {title}", "", f"`{line}`: {ended}.", "", "```text", *printed, "```", ""]
    if not chosen:
        RESULTS.write_text(page(made, parts), encoding="utf-8")
        print(f"\nwritten to {RESULTS}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
