"""What a run leaves behind: tables (CSV, JSON), plots (PNG), a page a paper, and an index.

``RESULT.md`` is the same result in short, to be copied beside the experiment (``record.py``).
"""

from __future__ import annotations

import base64
import csv
import html
import io
import json
from typing import TYPE_CHECKING, Any

from machine import commit, machine, now
from records import NOT_REPRODUCED, REPRODUCED, UNTOLD, VERDICTS
from reproduction import chosen

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from reproduction import Report, Rows, Setting, Verdict

_SIGNS = {REPRODUCED: "yes", NOT_REPRODUCED: "no", UNTOLD: "untold"}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: .5rem .6rem;
  border-bottom: 1px solid #8886; }
th { white-space: nowrap; }
img { max-width: 100%; background: white; border-radius: 4px; }
.v { font-weight: 600; white-space: nowrap; }
.yes { color: #17633a; } .no { color: #a11; } .untold { color: #75510a; }
@media (max-width: 40rem) {
  .claims thead { position: absolute; left: -999rem; }
  .claims tr { display: block; padding: .8rem 0; border-bottom: 1px solid #8886; }
  .claims td { display: block; padding: .2rem 0; border: 0; } }
.changed { outline: 2px solid currentcolor; outline-offset: 3px; }
@media (prefers-color-scheme: dark) {
  a { color: #8cb4ff; }
  .yes { color: #7fd6a2; } .no { color: #ff9c9c; } .untold { color: #f0c36d; } }
"""
_e = html.escape


def facts(setting: Setting) -> dict[str, Any]:
    """When, where and how this run was made."""
    return {
        "date": now(),
        "commit": commit(),
        "machine": machine(),
        "version": "short" if setting.quick else "full",
        "runs": setting.runs,
        "seed": setting.seed,
        "readings": dict(setting.readings),
    }


def keep(report: Report, folder: Path, setting: Setting, numbers: Iterable[str]) -> None:
    """The tables of figures that were just computed, and the facts of the run so far."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        if report.rows.get(number):
            _tables(report.rows[number], folder, f"figure-{number}")
    made = facts(setting) | {"seconds of processor": report.seconds, "missing": report.missing}
    _json(folder / "run.json", made)


def write(
    report: Report, folder: Path, setting: Setting, made: dict[str, Any] | None = None
) -> Path:
    """Tables as CSV and JSON, plots as PNG, and the page that puts it all together.

    ``made`` are the facts of an earlier run whose tables are shown again; they stay as they are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {}
    values = chosen(report.paper, setting)
    for figure in report.paper.FIGURES:
        rows = report.rows.get(figure.number)
        if not rows:
            continue
        if figure.draw is not None:
            picture = io.BytesIO()
            drawn = figure.draw(rows, **{name: values[name] for name in figure.switches})
            drawn.savefig(picture, format="png", dpi=110)
            (folder / f"figure-{figure.number}.png").write_bytes(picture.getvalue())
            pictures[figure.number] = base64.b64encode(picture.getvalue()).decode()
    if made is None:
        keep(report, folder, setting, report.rows)
        made = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    _json(folder / "verdicts.json", [as_data(v) for v in report.verdicts])
    (folder / "RESULT.md").write_text(result(report, made), encoding="utf-8")
    page = folder / "index.html"
    page.write_text(_page(report, pictures, made), encoding="utf-8")
    return page


def as_data(v: Verdict) -> dict[str, Any]:
    """A verdict as plain data."""
    return {
        "id": v.claim.id,
        "figures": list(v.claim.figures),
        "claim": v.text,
        "tolerance": dict(v.tolerance),
        "ours": v.ours,
        "verdict": v.verdict,
        "recorded": v.expected,
        "reason": v.reason,
        "readings": dict(v.fits),
        "skipped": v.skipped,
    }


def _json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _tables(rows: Rows, folder: Path, stem: str) -> None:
    _json(folder / f"{stem}.json", rows)
    with (folder / f"{stem}.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        out.writeheader()
        out.writerows(rows)


def _readings(v: Verdict) -> str:
    """Which readings fit, in words; nothing where the claim can be read in one way only."""
    if not v.fits:
        return ""
    fits = _deciding({tuple(name.split("; ")): verdict for name, verdict in v.fits.items()})
    kinds = [verdict for verdict in VERDICTS if verdict in fits.values()]
    if len(kinds) == 1:
        return f"{kinds[0]} in each of the {len(v.fits)} readings"
    told = []
    for kind in kinds:
        names = ["; ".join(point) for point, found in fits.items() if found == kind]
        told.append(f"{kind.capitalize()} with: {' | '.join(names)}")
    return ". ".join(told)


def _deciding(fits: dict[tuple[str, ...], str]) -> dict[tuple[str, ...], str]:
    """The same with the switches left out that no verdict depends on."""
    for at in reversed(range(len(next(iter(fits))))):
        fewer: dict[tuple[str, ...], str] = {}
        for point, verdict in fits.items():
            if fewer.setdefault(point[:at] + point[at + 1 :], verdict) != verdict:
                break
        else:
            fits = fewer
    return fits


def _tolerance(v: Verdict) -> str:
    return _listed(v.tolerance)


def _listed(named: Any) -> str:
    """Names and values, those inside others in brackets."""
    if not isinstance(named, dict):
        return str(named)
    return ", ".join(
        f"{name} ({_listed(value)})" if isinstance(value, dict) else f"{name} {value}"
        for name, value in named.items()
    )


def result(report: Report, made: dict[str, Any]) -> str:
    """The run in short, as Markdown."""
    total = sum(report.seconds.values())
    runs = f" with {made['runs']} runs" if made["runs"] else ""
    lines = [
        f"{made['version'].capitalize()} version{runs}, {made['date']}, commit `{made['commit']}`, "
        f"{made['machine']}; {total:.0f} s of processor time.",
        "",
        "| claim | ours | verdict | readings |",
        "|---|---|---|---|",
    ]
    for v in report.verdicts:
        cells = [f"**{v.claim.id}** {v.text}", v.ours or v.reason, v.verdict, _readings(v)]
        lines.append(
            "| " + " | ".join(c.replace("|", "/").replace("\n", " ") for c in cells) + " |"
        )
    reasons = [v for v in report.verdicts if v.reason and not v.skipped]
    if reasons:
        lines += ["", "Why:", "", *(f"- **{v.claim.id}**: {v.reason}" for v in reasons)]
    return "\n".join(lines) + "\n"


def _head(title: str) -> list[str]:
    return [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{_e(title)}</title><style>{_STYLE}</style></head>",
        f"<body><main><h1>{_e(title)}</h1>",
    ]


def _made(made: dict[str, Any]) -> str:
    which = "short version" if made["version"] == "short" else "numbers of runs as in the paper"
    if made["runs"]:
        which += f", but {made['runs']} runs"
    return (
        f"<p>Run of {_e(made['date'])}, commit {_e(made['commit'])}, {which}, "
        f"seed {made['seed']}. {_e(made['machine'])}.</p>"
    )


def _page(report: Report, pictures: dict[str, str], made: dict[str, Any]) -> str:
    paper = report.paper
    lines = _head(paper.TITLE)
    lines += [f"<p>{_e(paper.ABOUT)}</p>", _made(made)]
    lines += [
        "<h2>The paper's claims beside our numbers</h2>",
        "<div class='wide'><table class='claims'><thead>",
        "<tr><th>Claim of the paper</th><th>Ours</th><th>Verdict</th></tr></thead><tbody>",
        *(_row(v) for v in report.verdicts),
        "</tbody></table></div>",
    ]
    switches = getattr(paper, "READINGS", {})
    if switches:
        lines.append("<h2>Where the paper can be read in several ways</h2><ul>")
        about = getattr(paper, "READINGS_ABOUT", {})
        for name, values in switches.items():
            told = made["readings"].get(name, values[0])
            lines.append(
                f"<li><b>{_e(name)}</b>: {_e(' | '.join(values))}. Verdicts and plots go by "
                f"“{_e(told)}”. {_e(about.get(name, ''))}</li>"
            )
        lines.append("</ul>")
    for figure in paper.FIGURES:
        number = figure.number
        if number not in report.rows and number not in report.missing:
            continue
        title = f"Figure {number}: {figure.title}" if number[0].isdigit() else figure.title
        lines.append(f"<h2 id='figure-{number}'>{_e(title)}</h2>")
        if number in report.missing:
            lines.append(f"<p>Left out: {_e(report.missing[number])}</p>")
            continue
        if figure.readings:
            lines.append(f"<p>{_e(figure.readings)}</p>")
        if number in pictures:
            source = f"data:image/png;base64,{pictures[number]}"
            lines.append(f"<img alt='{_e(figure.title, quote=True)}' src='{source}'>")
        lines.append(
            f"<p>Numbers: <a href='figure-{number}.csv'>CSV</a>, "
            f"<a href='figure-{number}.json'>JSON</a>; {report.seconds[number]:.1f} s of processor "
            "time.</p>"
        )
    lines.append("</main></body></html>")
    return "\n".join(lines)


def _row(v: Verdict) -> str:
    claim = f"{_e(v.text)}<br><small>{_e(v.claim.id)}"
    if v.tolerance:
        claim += f"; tolerance: {_e(_tolerance(v))}"
    ours = _e(v.ours)
    if _readings(v):
        ours += f"<br><small>{_e(_readings(v))}.</small>"
    changed = " changed" if v.surprising else ""
    verdict = f"<span class='v {_SIGNS[v.verdict]}{changed}'>{v.verdict}</span>"
    if v.surprising:
        verdict += f"<br><small>recorded: {_e(v.expected or 'nothing')}</small>"
    if v.reason:
        verdict += f"<br><small>{_e(v.reason)}</small>"
    return f"<tr><td>{claim}</small></td><td>{ours}</td><td>{verdict}</td></tr>"


def write_index(reports: list[Report], output: Path, setting: Setting) -> None:
    """The page that leads to the papers' pages."""
    lines = _head("The papers beside ours")
    lines += [_made(facts(setting)), "<div class='wide'><table><thead><tr><th>Paper</th>"]
    lines += [f"<th>{_e(verdict)}</th>" for verdict in VERDICTS]
    lines.append("<th>differ from the record</th></tr></thead><tbody>")
    for report in reports:
        counts = [sum(v.verdict == verdict for v in report.verdicts) for verdict in VERDICTS]
        cells = "".join(f"<td>{count}</td>" for count in (*counts, report.surprises))
        lines.append(
            f"<tr><td><a href='{report.folder.name}/index.html'>{_e(report.paper.TITLE)}</a>"
            f"</td>{cells}</tr>"
        )
    lines.append("</tbody></table></div></main></body></html>")
    output.mkdir(parents=True, exist_ok=True)
    (output / "index.html").write_text("\n".join(lines), encoding="utf-8")
