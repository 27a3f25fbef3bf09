"""Run every benchmark of this folder and write what it measured to ``RESULTS.md``.

    python benchmarks/run.py [SCRIPT …]

``make bench`` calls this. Each script prints ratios measured in one run and ends with 1 where
a limit is missed; peers run in environments of their own, and those that cannot be had are named.
With scripts named (as in ``SCRIPTS``), only their parts of the page are measured and written anew;
every part says when it was measured and at which commit.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import very_large
from machine import commit, machine, now

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS.md"
SCRIPTS = {
    "noise.py": "Exact noise",
    "larger_than_memory.py": "Tables larger than memory",
    "ranking.py": "Masking by individual ranking, beside np.sort and the pandas way",
    "against_commit.py": "In memory, beside the commit that speed is held to",
    "growth.py": "Growth with the rows: every method and engine",
    "spark_ranking.py": "Masking on Spark, beside Spark's own sort",
    "peers/compare.py": "Beside Anonymeter, SDMetrics, pycanon and sdcMicro",
    "003-slicing/speed.py": "Slicing beside plain Python, generalisation beside anjana",
    "004-fragments/speed.py --million --plain": "Loose associations, beside plain Python",
    "004-fragments/placement.py --seeds 3": "Placement beside the published heuristic",
    "dp-graph/graph_utility.py --million": "Records drawn from noisy marginals, with their limits",
    "dp-graph/graph_rows.py": "Records drawn from sums of ten owners' noisy histograms",
    "dp-graph/graph_peers.py --only Adult --kept": "Drawn records of Adult, beside dpmm and OpenDP",
    "dp-graph/graph_peers.py --only ACS --kept": "Drawn records of ACS 2018, beside those",
    "dp-graph/graph_peers.py --only KDD --kept": "Drawn records of Census-Income KDD, beside those",
    "dp-graph/graph_peers.py --only ATUS --kept": "Drawn records of ATUS, beside those",
    "audit.py": "Audit and verification of a large table",
    "false_alarms.py": "Valid releases that an audit refutes, and broken ones that it does not",
    "studio_large_table.py": "A large table in the studio",
    "federation/load.py": "Joint releases: many owners, a large table, many rounds",
    "federation/linking.py": "Linking people: pseudonyms of five million identifiers",
    "002-arbdistdp/cost.py --records 45222 1000000": "Joint releases by secure computation",
    "002-arbdistdp/histograms.py": "Secure histograms by columns",
    "methods_on_tables.py --only Nursery Adult --rows 1500": "Every method on two public tables",
}
COMPUTED_FROM = {"growth.py", "larger_than_memory.py", "spark_ranking.py"}
"""Scripts from whose figures the page on very large tables is computed."""
PICTURES = {"growth.py": "growth.svg"}
WITHOUT_LIMITS = ("noise.py", "growth.py", "peers/compare.py")
NEEDS = {
    "004-fragments/placement.py": ("SHERD_DATA", "the folder of data that is not part of Sherd"),
    "002-arbdistdp/cost.py": ("SHERD_JOINT_PYTHON", "a Python with SPU (`make joint`)"),
    "002-arbdistdp/histograms.py": ("SHERD_JOINT_PYTHON", "a Python with SPU (`make joint`)"),
}
"""What a script cannot run without: a variable of the environment, and what it names."""


def run(line: str) -> tuple[list[str], int, float]:
    """What a script prints, shown as it comes; its exit code; the seconds it took.

    Warnings of libraries go to the screen only: they name this machine's folders.
    """
    script, *arguments = shlex.split(line)
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-u", str(HERE / script), *arguments],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = []
        for printed in process.stdout:
            print(printed, end="", flush=True)
            lines.append(printed.rstrip())
    return lines, process.returncode, time.perf_counter() - start


HEAD = """\
# Results

Written by `make bench`: what the benchmarks printed. Times carry over to other machines as ratios
only. The papers' experiments are in their folders' READMEs.
"""


def stored() -> dict[str, str]:
    """The parts of the page as it is, by their titles."""
    if not RESULTS.exists():
        return {}
    _, *parts = RESULTS.read_text(encoding="utf-8").split("\n## ")
    return {part.partition("\n")[0]: part.strip() for part in parts}


def part(line: str, title: str) -> tuple[str, bool]:
    """Run a script; its part of the page, and whether a limit was missed."""
    print(f"\n== {title} ({line})", flush=True)
    variable, what = NEEDS.get(line.partition(" ")[0], ("", ""))
    if variable and not os.environ.get(variable):
        ended, printed, code = f"not run: {variable} must name {what}", [], 0
    else:
        printed, code, seconds = run(line)
        ended = f"{seconds:.0f} s, {_judged(line, code)}"
    print(f"-- {line}: {ended}", flush=True)
    said = f"`{line}`: {ended}. {now()}, commit `{commit()}`, {machine()}."
    block = ["```text", *printed, "```"] if printed else []
    if line in PICTURES:
        block += ["", f"![{title}]({PICTURES[line]})"]
    return "\n".join([title, "", said, "", *block]).strip(), code != 0


def _judged(line: str, code: int) -> str:
    """What became of a script's limits, of which it says by its exit code."""
    if code:
        return "a limit was missed"
    return "no limits are set" if line in WITHOUT_LIMITS else "every limit kept"


def main() -> int:
    """Run the scripts in turn; the number of those that missed a limit."""
    chosen = sys.argv[1:]
    strange = [line for line in chosen if line not in SCRIPTS]
    if strange:
        raise SystemExit(f"unknown: {', '.join(strange)}; one of: {', '.join(SCRIPTS)}")
    missed = 0
    for line in chosen or SCRIPTS:
        measured, over = part(line, SCRIPTS[line])
        missed += over
        parts = {**stored(), SCRIPTS[line]: measured}  # read now: another run may have written
        others = [title for title in parts if title not in SCRIPTS.values()]  # `make chaos`
        ordered = [parts[title] for title in (*SCRIPTS.values(), *others) if title in parts]
        RESULTS.write_text("\n\n## ".join([HEAD.strip(), *ordered]) + "\n", encoding="utf-8")
    print(f"\nwritten to {RESULTS}")
    if COMPUTED_FROM.intersection(chosen or SCRIPTS):
        very_large.main()
    return missed


if __name__ == "__main__":
    sys.exit(main())
