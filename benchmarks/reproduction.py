"""The papers' experiments beside ours: run them and judge every claim.

Each paper has a folder with ``experiment.py`` (settings, figures, how claims are judged) and
``expected.yaml`` (the claims, the tolerances, the recorded verdicts; see ``records``). A verdict
that differs from its record fails the run. ``pages`` writes tables, plots and the pages. Every
number on them was measured by the run.

Where a paper can be read in several ways, its experiment names the readings: ``READINGS`` maps
a switch to its values, the first of which is what verdicts and plots go by unless another one is
chosen. Claims and figures name the switches that concern them; the page says which readings fit.

Runs are seeded, one stream a figure, so that a figure's numbers do not depend on what else is run.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
import time
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import records
from records import NOT_REPRODUCED, REPRODUCED, UNTOLD

from sherd.errors import MissingPartError, UsageError
from sherd.randomness import Randomness

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

HERE = Path(__file__).parent
Rows = list[dict[str, Any]]


class DataMissingError(Exception):
    """A figure's table is not at hand; the text says which and how to get it."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How much is run: the paper's numbers of runs and grids, or a short version of them."""

    quick: bool = False
    runs: int | None = None
    readings: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    randomness: Randomness | None = None
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None
    tell: Callable[[str], None] = lambda _line: None
    output: Path | None = None
    """Where tables go as soon as they are computed: full runs take hours."""

    def count(self, paper: int, short: int) -> int:
        """The number of runs: as asked, as in the paper, or short."""
        return self.runs or (short if self.quick else paper)

    def grid(self, paper: tuple[Any, ...], short: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values tried: the paper's, or fewer."""
        return short if self.quick else paper

    def source(self) -> Randomness:
        """Random numbers for one run, the same whenever the figure is computed."""
        return (self.randomness or Randomness.from_system()).spawn(1)[0]

    @property
    def recorded(self) -> bool:
        """Whether verdicts can be held against their records: nothing was changed."""
        return not (self.runs or self.readings or self.seed)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure or table: how it is computed and how it is drawn.

    ``draw`` is given the chosen value of each switch in ``switches`` by name. A figure that shows
    the runs of another one names it in ``same_runs``.
    """

    number: str
    title: str
    compute: Callable[[Setting], Rows]
    same_runs: str | None = None
    draw: Callable[..., Any] | None = None
    readings: str = ""
    switches: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of the paper, and how our numbers answer it.

    ``judge`` gets the rows of the figures named, the tolerances of the record by name and a value
    for each switch in ``switches``; it returns our number in words, and whether the claim holds
    (None: it cannot be told).
    """

    id: str
    figures: tuple[str, ...]
    judge: Callable[..., tuple[str, bool | None]]
    text: str = ""
    switches: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim as judged in this run, beside the record."""

    claim: Claim
    text: str
    ours: str
    verdict: str
    expected: str | None
    reason: str
    tolerance: Mapping[str, Any] = field(default_factory=dict)
    fits: Mapping[str, str] = field(default_factory=dict)
    skipped: bool = False
    compared: bool = True

    @property
    def surprising(self) -> bool:
        """Whether the verdict differs from the recorded one, or was never recorded."""
        return self.compared and not self.skipped and self.verdict != self.expected


@dataclass
class Report:
    """What one paper's run produced."""

    paper: ModuleType
    folder: Path
    rows: dict[str, Rows] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)

    @property
    def surprises(self) -> int:
        """How many verdicts differ from their record, and records have no claim."""
        return sum(v.surprising for v in self.verdicts) + len(self.orphans)


def papers() -> dict[str, Path]:
    """Every paper's short number and folder."""
    found = sorted(path.parent for path in HERE.glob("*/experiment.py"))
    return {folder.name.split("-")[0]: folder for folder in found}


def load(folder: Path) -> ModuleType:
    """A paper's experiment."""
    name = f"experiment_{folder.name.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, folder / "experiment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def tasks(paper: ModuleType, only: str | None) -> dict[str, list[str]]:
    """The figures to be computed, and for each of them those that show its rows."""
    found: dict[str, list[str]] = {}
    for figure in paper.FIGURES:
        if only in (None, figure.number):
            found.setdefault(figure.same_runs or figure.number, []).append(figure.number)
    return found


def compute(
    folder: Path, paper: ModuleType, number: str, setting: Setting
) -> tuple[Rows, float, str]:
    """A figure's rows, the processor seconds they took, and why there are none if so."""
    figure = next(f for f in paper.FIGURES if f.number == number)
    seed = zlib.crc32(f"{folder.name} {number} {setting.seed}".encode())
    setting = replace(setting, randomness=Randomness.seeded(seed))
    start = time.process_time()
    try:
        rows = figure.compute(setting)
    except DataMissingError as missing:
        if os.environ.get("SHERD_REQUIRE") == "all":
            raise MissingPartError(
                f"figure {number} of {folder.name} needs a table that is not at hand",
                got=str(missing),
                do="SHERD_REQUIRE=all allows no figure to be left out",
            ) from missing
        return [], time.process_time() - start, str(missing)
    return rows, time.process_time() - start, ""


def chosen(paper: ModuleType, setting: Setting) -> dict[str, str]:
    """The value of every switch of a paper: the one asked for, or the first."""
    switches: dict[str, tuple[str, ...]] = getattr(paper, "READINGS", {})
    found = {}
    for name, values in switches.items():
        found[name] = setting.readings.get(name, values[0])
        if found[name] not in values:
            raise UsageError(
                f"the paper cannot be read so: {name}",
                must="one of " + "; ".join(values),
                got=repr(found[name]),
            )
    return found


def judge(report: Report, setting: Setting) -> None:
    """Hold every claim whose figures are there against our numbers and against its record."""
    recorded = records.load(report.folder)
    names = [claim.id for claim in report.paper.CLAIMS]
    report.orphans = records.without_claim(recorded, names)
    for claim in report.paper.CLAIMS:
        gone = [report.missing[n] for n in claim.figures if n in report.missing]
        if set(claim.figures) <= set(report.rows) or gone:
            record = recorded.get(claim.id, records.Record())
            report.verdicts.append(_verdict(report, claim, record, setting, gone))


def _verdict(
    report: Report, claim: Claim, record: records.Record, setting: Setting, gone: list[str]
) -> Verdict:
    expected, reason = record.expected(setting.quick)
    common = {
        "claim": claim,
        "text": record.claim or claim.text,
        "expected": expected,
        "tolerance": record.tolerance,
        "compared": setting.recorded,
    }
    if gone:
        return Verdict(ours="", verdict=UNTOLD, reason=gone[0], skipped=True, **common)
    values = chosen(report.paper, setting)
    rows = [report.rows[number] for number in claim.figures]

    def ask(**reading: str) -> tuple[str, str]:
        ours, held = claim.judge(*rows, **record.tolerance, **reading)
        return ours, UNTOLD if held is None else (REPRODUCED if held else NOT_REPRODUCED)

    ours, verdict = ask(**{name: values[name] for name in claim.switches})
    fits = {}
    if claim.switches:
        options = [report.paper.READINGS[name] for name in claim.switches]
        for point in itertools.product(*options):
            fits["; ".join(point)] = ask(**dict(zip(claim.switches, point, strict=True)))[1]
    if verdict != expected:
        reason = ""  # the recorded reason explains another verdict
    return Verdict(ours=ours, verdict=verdict, reason=reason, fits=fits, **common)


def reproduce(folder: Path, setting: Setting, only: str | None = None) -> Report:
    """Compute a paper's figures one after the other and judge its claims."""
    report = Report(paper=load(folder), folder=folder)
    for number, shown in tasks(report.paper, only).items():
        enter(report, setting, shown, *compute(folder, report.paper, number, setting))
    judge(report, setting)
    return report


def enter(
    report: Report, setting: Setting, shown: list[str], rows: Rows, seconds: float, missing: str
) -> None:
    """Write a figure's numbers into the report; figures of the same runs took no time more."""
    what = missing or f"{seconds:.0f} s of processor"
    setting.tell(f"{report.folder.name}, figure {', '.join(shown)}: {what}")
    for at, number in enumerate(shown):
        if missing:
            report.missing[number] = missing
        else:
            report.rows[number] = rows
            report.seconds[number] = 0.0 if at else seconds
    if setting.output is not None:
        import pages

        pages.keep(report, setting.output / report.folder.name, setting, shown)


def run(
    output: Path,
    setting: Setting,
    paper: str | None = None,
    figure: str | None = None,
    say: Callable[[str], None] = print,
    jobs: int = 1,
) -> int:
    """Run the papers asked for; the number of verdicts that differ from their record."""
    import pages
    import parallel

    folders = papers()
    if paper is not None:
        folders = {paper: folders[paper]}
    _asked_for(folders, setting, figure)
    setting = replace(setting, output=output)
    pages.commit()  # of the code that is run, not of what is there when it ends
    surprises = 0
    reports = []
    start = time.perf_counter()
    for report in parallel.reports(list(folders.values()), setting, figure, jobs):
        page = pages.write(report, output / report.folder.name, setting)
        used = sum(report.seconds.values())
        say(f"\n{report.folder.name}: {report.paper.TITLE} ({used:.0f} s of processor)")
        for line in told(report):
            say(line)
        say(f"  page: {page}")
        surprises += report.surprises
        reports.append(report)
    pages.write_index(reports, output, setting)
    say(f"\nall: {time.perf_counter() - start:.0f} s; page: {output / 'index.html'}")
    return surprises


def _asked_for(folders: Mapping[str, Path], setting: Setting, figure: str | None) -> None:
    """A figure or a switch that no paper has is a slip, not a wish for an empty page."""
    experiments = [load(folder) for folder in folders.values()]
    figures = list(dict.fromkeys(f.number for e in experiments for f in e.FIGURES))
    if figure is not None and figure not in figures:
        raise UsageError(
            "there is no such figure", must="one of " + ", ".join(figures), got=repr(figure)
        )
    switches = sorted({name for e in experiments for name in getattr(e, "READINGS", {})})
    for name in setting.readings:
        if name not in switches:
            raise UsageError(
                "there is no such switch",
                must="one of " + ", ".join(switches) if switches else "none: there are no switches",
                got=repr(name),
            )


def told(report: Report) -> list[str]:
    """The verdicts of a paper in lines of text."""
    lines = [f"  {'skipped':<15} figure {n}: {why}" for n, why in report.missing.items()]
    for v in report.verdicts:
        if v.skipped:
            continue
        lines.append(f"  {v.verdict:<15} {v.claim.id}: {v.ours}")
        if v.surprising:
            was = f"'{v.expected}' is recorded" if v.expected else "there is no record of it"
            lines.append(f"  {'DIFFERS':<15} {v.claim.id}: {was}")
        elif v.verdict != v.expected:
            lines.append(f"  {'':<15} '{v.expected}' is recorded, of other runs")
    lines += [f"  {'DIFFERS':<15} {name}: recorded, but no such claim" for name in report.orphans]
    return lines
