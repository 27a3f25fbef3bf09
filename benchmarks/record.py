"""Put the results of runs into the papers' READMEs.

    sherd reproduce 000 -o DIR && python benchmarks/record.py DIR

The tables of each paper in DIR are judged again by the claims as they stand now, so that a run of
half an hour need not be repeated when a judge's words change; the page and ``RESULT.md`` are
written anew, and the latter is copied between the marks of ``benchmarks/<paper>/README.md``. When
and where the numbers were measured, and at which commit, is kept from the run.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pages
import reproduction

BEGIN, END = "<!-- result: written by benchmarks/record.py -->", "<!-- end of result -->"


def judged_again(stored: Path, folder: Path) -> tuple[reproduction.Report, dict[str, object]]:
    """A report made of the tables of an earlier run, and that run's facts."""
    made = json.loads((stored / "run.json").read_text(encoding="utf-8"))
    report = reproduction.Report(paper=reproduction.load(folder), folder=folder)
    report.missing, report.seconds = made["missing"], made["seconds of processor"]
    for figure in report.paper.FIGURES:
        table = stored / f"figure-{figure.number}.json"
        if table.exists():
            report.rows[figure.number] = json.loads(table.read_text(encoding="utf-8"))
    setting = reproduction.Setting(
        quick=made["version"] == "short",
        runs=made["runs"],
        readings=made["readings"],
        seed=made["seed"],
    )
    reproduction.judge(report, setting)
    pages.write(report, stored, setting, made)
    return report, made


def into_readme(folder: Path, text: str, begin: str = BEGIN, end: str = END) -> None:
    """Replace what stands between the marks of a README."""
    readme = folder / "README.md"
    before, _, rest = readme.read_text(encoding="utf-8").partition(begin)
    _, mark, after = rest.partition(end)
    if not mark:
        raise SystemExit(f"{readme} has no marks to write between: {begin} and {end}")
    readme.write_text(f"{before}{begin}\n\n{text}\n{end}{after}", encoding="utf-8")


def main() -> int:
    """Record every paper of a folder; the number of verdicts that differ from their record."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("folder", type=Path, help="what `sherd reproduce -o` wrote")
    given = options.parse_args()
    surprises = 0
    for folder in reproduction.papers().values():
        stored = given.folder / folder.name
        if (stored / "run.json").exists():
            report, made = judged_again(stored, folder)
            print(f"{folder.name}: {made['version']} version of {made['date']}")
            print("\n".join(reproduction.told(report)))
            into_readme(folder, pages.result(report, made))
            surprises += report.surprises
    return surprises


if __name__ == "__main__":
    sys.exit(main())
