"""The in-memory paths of this tree beside those of an earlier commit, on one machine in one run.

    python benchmarks/against_commit.py [COMMIT]

Seconds in ``RESULTS.md`` belong to the machine that measured them; whether a path has become slower
can be told only where both run side by side. The earlier commit (by default the one whose figures
in-memory speed is held to) is checked out beside this one; each path runs in processes of its own,
the two in turn, and the least processor time of each is compared. A path may be 5 % slower.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

BASE = "8ee37fee369a"
"""The commit of ``RESULTS.md`` at which the limit was set."""
SLOWER = 1.05
TURNS = 5
REPEATED = 10
ROWS = 1_000_000
COLUMNS = 10
HERE = Path(__file__).resolve().parent

RANKED = {"dp": {}, "idp": {}, "dp-um": {"k": 100}, "idp-ls": {"k": 100}, "idp-cbls": {"k": 100}}
GROUPED: dict[str, dict[str, Any]] = {
    "slice": {"sensitive": ["occupation"], "l": 3, "columns": 3},
    "anatomy": {"sensitive": ["occupation"], "l": 3},
    "mondrian": {"k": 10, "boxes": "tight"},
    "diffgen": {"epsilon": 1.0, "class_attribute": "income", "h": 10},
}


def _normal() -> tuple[Any, Any]:
    import numpy as np
    import pyarrow as pa

    import sherd

    rng = np.random.default_rng(0)
    names = [f"c{i}" for i in range(COLUMNS)]
    attributes = {name: {"type": "number", "domain": ["-50", "150"]} for name in names}
    table = pa.table({name: rng.normal(50, 10, ROWS) for name in names})
    return table, sherd.Schema.from_data({"attributes": attributes})


def _work(path: str) -> Callable[[], object]:
    """One path as a call, in whichever version of Sherd is imported."""
    import sherd
    from sherd import datasets
    from sherd.randomness import Randomness

    try:
        from sherd.release.method import Run
    except ImportError:  # where the contract of a method was before the rooms were laid out
        from sherd.method import Run  # type: ignore[import-not-found, no-redef]
    if path in RANKED:
        table, schema = _normal()
        plan = sherd.Plan(method=path, epsilon=1.0, guarantee="paper", **RANKED[path])
    else:
        table, schema = datasets.load("adult", complete=True), datasets.schema("adult")
        plan = sherd.Plan(method=path, **GROUPED[path])
    return lambda: plan.spec.run(table, schema, plan, Run(randomness=Randomness.from_system()))


def probe(path: str) -> float:
    """The least processor seconds of one path in this process, compiled code loaded before."""
    work = _work(path)
    work()
    return min(_seconds(work) for _ in range(REPEATED))


def _seconds(work: Callable[[], object]) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _in(tree: Path, path: str) -> float | None:
    """What the probe measures in one tree; nothing where that tree does not have the path."""
    done = subprocess.run(
        [sys.executable, str(HERE / Path(__file__).name), "--probe", path],
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        print(f"{path}: {done.stderr.strip().splitlines()[-1]}")
        return None
    return float(json.loads(done.stdout))


def compare(old: Path, new: Path) -> list[str]:
    """Print every path's seconds in both trees and their ratio; the paths that are too slow."""
    slow = []
    print(
        f"{'path':12} {'before':>9} {'now':>9}  ratio  (least of {TURNS} processes, s of processor)"
    )
    for path in (*RANKED, *GROUPED):
        pairs = [(_in(old, path), _in(new, path)) for _ in range(TURNS)]
        before, now = (
            [one for one in side if one is not None] for side in zip(*pairs, strict=True)
        )
        if not before or not now:
            print(f"{path:12} not comparable: one of the two does not run it")
            continue
        ratio = min(now) / min(before)
        noise = statistics.median(before) / min(before) - 1
        kept = ratio <= SLOWER
        print(f"{path:12} {min(before):9.3f} {min(now):9.3f}  {ratio:5.3f}  at most {SLOWER}: "
              f"{'yes' if kept else 'NO'} (processes of one tree differ by {noise:.1%})",
              flush=True)  # fmt: skip
        slow += [] if kept else [path]
    return slow


def main() -> int:
    """Compare with a commit; 1 where a path is more than 5 % slower."""
    if sys.argv[1:2] == ["--probe"]:
        print(json.dumps(probe(sys.argv[2])))
        return 0
    commit = sys.argv[1] if len(sys.argv) > 1 else BASE
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "old"
        git = ("git", "-C", str(HERE.parent), "worktree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(old), commit], check=True)
        try:
            print(f"beside commit {commit}")
            slow = compare(old, HERE.parent)
        finally:
            subprocess.run([*git, "remove", "--force", str(old)], check=True)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
