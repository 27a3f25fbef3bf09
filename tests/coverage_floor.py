"""Fail where the branch coverage of the parts that carry the promise falls below 95 %."""

from __future__ import annotations

import json
import sys
from pathlib import Path

FLOOR = 95.0
PARTS = ("guarantees", "budget", "methods")


def covered(report: dict[str, dict[str, dict[str, dict[str, int]]]], part: str) -> float:
    """Share of lines and branches of a part that the tests ran, in percent."""
    hit = total = 0
    for name, facts in report["files"].items():
        if f"sherd/{part}/" in name.replace("\\", "/"):
            summary = facts["summary"]
            hit += summary["covered_lines"] + summary["covered_branches"]
            total += summary["num_statements"] + summary["num_branches"]
    return 100.0 * hit / total if total else 0.0


def main() -> int:
    """Print each part's coverage; 1 where one is below the floor."""
    report = json.loads(Path("coverage.json").read_text())
    low = 0
    for part in PARTS:
        share = covered(report, part)
        low += share < FLOOR
        sys.stdout.write(f"coverage of {part}: {share:.1f} % (at least {FLOOR:g} %)\n")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
