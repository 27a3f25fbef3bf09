"""The papers' experiments beside ours: run, judge every claim, write tables, plots and a page.

Each paper has a folder with ``experiment.py`` (settings, figures, claims) and ``expected.yaml``
(the verdict recorded for each claim, with a reason where it is not "reproduced"). A verdict that
changes without its record fails the run. Every number on the pages was measured by the run.
"""

from __future__ import annotations

import base64
import csv
import html
import importlib.util
import io
import json
import platform
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

HERE = Path(__file__).parent
REPRODUCED, NOT_REPRODUCED, UNTOLD = "reproduced", "not reproduced", "cannot be told"
Rows = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How much is run: the paper's numbers of runs and grids, or a short version of them."""

    quick: bool = False
    runs: int | None = None
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None

    def count(self, paper: int, short: int) -> int:
        """The number of runs: as asked, as in the paper, or short."""
        return self.runs or (short if self.quick else paper)

    def grid(self, paper: tuple[Any, ...], short: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values tried: the paper's, or fewer."""
        return short if self.quick else paper


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure or table: how it is computed and how it is drawn."""

    number: str
    title: str
    compute: Callable[[Setting], Rows]
    draw: Callable[[Rows], Any] | None = None
    readings: str = ""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of the paper, and how our numbers answer it.

    ``judge`` gets the rows of the figures named and returns our number in words, and whether the
    claim holds (None: it cannot be told).
    """

    id: str
    figures: tuple[str, ...]
    text: str
    judge: Callable[..., tuple[str, bool | None]]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim as judged in this run, beside the record."""

    claim: Claim
    ours: str
    verdict: str
    expected: str | None
    reason: str

    @property
    def surprising(self) -> bool:
        """Whether the verdict differs from the recorded one."""
        return self.expected is not None and self.verdict != self.expected


@dataclass
class Report:
    """What one paper's run produced."""

    paper: ModuleType
    rows: dict[str, Rows] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)


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


def reproduce(folder: Path, setting: Setting, only: str | None = None) -> Report:
    """Compute a paper's figures and judge its claims."""
    import yaml

    paper = load(folder)
    report = Report(paper=paper)
    for figure in paper.FIGURES:
        if only is not None and figure.number != only:
            continue
        start = time.perf_counter()
        report.rows[figure.number] = figure.compute(setting)
        report.seconds[figure.number] = time.perf_counter() - start
    recorded = yaml.safe_load((folder / "expected.yaml").read_text(encoding="utf-8")) or {}
    for claim in paper.CLAIMS:
        if not set(claim.figures) <= set(report.rows):
            continue
        ours, held = claim.judge(*(report.rows[number] for number in claim.figures))
        verdict = UNTOLD if held is None else (REPRODUCED if held else NOT_REPRODUCED)
        record = recorded.get(claim.id, {})
        report.verdicts.append(
            Verdict(
                claim=claim,
                ours=ours,
                verdict=verdict,
                expected=record.get("verdict"),
                reason=record.get("reason", ""),
            )
        )
    return report


def write(report: Report, folder: Path, setting: Setting) -> Path:
    """Tables as CSV and JSON, plots as PNG, and the page that puts it all together."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {}
    for figure in report.paper.FIGURES:
        rows = report.rows.get(figure.number)
        if not rows:
            continue
        stem = f"figure-{figure.number}"
        (folder / f"{stem}.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
        with (folder / f"{stem}.csv").open("w", newline="", encoding="utf-8") as file:
            names = list(dict.fromkeys(name for row in rows for name in row))
            out = csv.DictWriter(file, names)
            out.writeheader()
            out.writerows(rows)
        if figure.draw is not None:
            picture = io.BytesIO()
            figure.draw(rows).savefig(picture, format="png", dpi=110)
            (folder / f"{stem}.png").write_bytes(picture.getvalue())
            pictures[figure.number] = base64.b64encode(picture.getvalue()).decode()
    verdicts = [
        {
            "id": v.claim.id,
            "claim": v.claim.text,
            "ours": v.ours,
            "verdict": v.verdict,
            "recorded": v.expected,
            "reason": v.reason,
        }
        for v in report.verdicts
    ]
    (folder / "verdicts.json").write_text(
        json.dumps(verdicts, indent=1, ensure_ascii=False), encoding="utf-8"
    )
    page = folder / "index.html"
    page.write_text(_page(report, pictures, setting), encoding="utf-8")
    return page


_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: .5rem .6rem;
  border-bottom: 1px solid #8886; }
img { max-width: 100%; background: white; border-radius: 4px; }
.v { font-weight: 600; white-space: nowrap; }
.yes { color: #17633a; } .no { color: #a11; } .untold { color: #75510a; }
@media (prefers-color-scheme: dark) {
  .yes { color: #7fd6a2; } .no { color: #ff9c9c; } .untold { color: #f0c36d; } }
"""


def _page(report: Report, pictures: dict[str, str], setting: Setting) -> str:
    paper = report.paper
    text = html.escape
    signs = {REPRODUCED: "yes", NOT_REPRODUCED: "no", UNTOLD: "untold"}
    lines = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{text(paper.TITLE)}: beside ours</title><style>{_STYLE}</style></head>",
        "<body><main>",
        f"<h1>{text(paper.TITLE)}</h1><p>{text(paper.ABOUT)}</p>",
        f"<p>Run of {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python {platform.python_version()}, "
        f"{'short version' if setting.quick else 'as in the paper'}.</p>",
        "<h2>The paper's claims beside our numbers</h2>",
        "<table><thead><tr><th>Claim of the paper</th><th>Ours</th><th>Verdict</th></tr>",
        "</thead><tbody>",
    ]
    for v in report.verdicts:
        why = f"<br><small>{text(v.reason)}</small>" if v.reason else ""
        lines.append(
            f"<tr><td>{text(v.claim.text)}</td><td>{text(v.ours)}</td>"
            f"<td><span class='v {signs[v.verdict]}'>{v.verdict}</span>{why}</td></tr>"
        )
    lines.append("</tbody></table>")
    for figure in paper.FIGURES:
        if figure.number not in report.rows:
            continue
        lines.append(f"<h2>Figure {text(figure.number)}: {text(figure.title)}</h2>")
        if figure.readings:
            lines.append(f"<p>{text(figure.readings)}</p>")
        if figure.number in pictures:
            source = f"data:image/png;base64,{pictures[figure.number]}"
            lines.append(f"<img alt='{text(figure.title)}' src='{source}'>")
        seconds = report.seconds[figure.number]
        lines.append(
            f"<p><a href='figure-{figure.number}.csv'>numbers</a>, computed in {seconds:.1f} s</p>"
        )
    lines.append("</main></body></html>")
    return "\n".join(lines)


def run(
    output: Path,
    setting: Setting,
    paper: str | None = None,
    figure: str | None = None,
    say: Callable[[str], None] = print,
) -> int:
    """Run the papers asked for; the number of verdicts that differ from their record."""
    chosen = papers()
    if paper is not None:
        chosen = {paper: chosen[paper]}
    surprises = 0
    index = []
    for number, folder in chosen.items():
        start = time.perf_counter()
        report = reproduce(folder, setting, figure)
        page = write(report, output / folder.name, setting)
        say(f"\n{number}: {report.paper.TITLE} ({time.perf_counter() - start:.0f} s)")
        for v in report.verdicts:
            mark = "  <- differs from the record" if v.surprising else ""
            surprises += v.surprising
            say(f"  {v.verdict:<15} {v.claim.id}: {v.ours}{mark}")
        say(f"  page: {page}")
        index.append((folder.name, report.paper.TITLE))
    links = "".join(f"<li><a href='{n}/index.html'>{html.escape(t)}</a></li>" for n, t in index)
    output.mkdir(parents=True, exist_ok=True)
    (output / "index.html").write_text(
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>The papers beside ours"
        f"</title><style>{_STYLE}</style></head><body><main><h1>The papers beside ours</h1>"
        f"<ul>{links}</ul></main></body></html>",
        encoding="utf-8",
    )
    return surprises
