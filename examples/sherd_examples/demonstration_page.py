"""The page at the end of the demonstration: each table's two releases, compared in plain words.

Both releases are audited against the pooled table, which nobody but a demonstration has.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sherd.auditing.verdict.audit_result import Audit

SHOWN = {"idp-ls": "the paper's method (iDP-IR)", "dp-graph": "dp-graph"}
WORKERS = 2


def write_page(folder: Path, result: Mapping[str, Any]) -> Path:
    """Audit every release, write its own page and the one about all of them."""
    import sherd
    from sherd.report.page import ComparedTable, officer_page
    from sherd.tables.files import write_whole

    jobs = {
        (name, method): (
            release["original"],
            release["folder"],
            folder / f"audit-{name}-{method}.html",
        )
        for name, table in result.items()
        for method, release in table["releases"].items()
    }
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=spawn) as pool:
        audits = dict(zip(jobs, pool.map(_audited, jobs.values()), strict=True))
    tables = []
    for name, table in result.items():
        mine = {method: audits[name, method] for method in table["releases"]}
        tables.append(
            ComparedTable(
                title=table["title"],
                found=sherd.compare(mine),
                shown=SHOWN,
                notes=_notes(table),
                pages={method: jobs[name, method][2].name for method in mine},
            )
        )
    page = folder / "report.html"
    write_whole(page, officer_page(tables).encode())
    return page


def _audited(job: tuple[str, str, Path]) -> Audit:
    """One audit, saved; without its writer, which does not travel between processes."""
    import sherd

    original, release, page = job
    found = sherd.audit(original, release, alternatives=False)
    found.save(page)
    return replace(found, writer=None)


def _notes(table: Mapping[str, Any]) -> tuple[str, ...]:
    """Who took part, how each release was made, and what it cost every owner."""
    releases = table["releases"]
    owners = ", ".join(releases["dp-graph"]["spent"])
    charged = [
        f"{shown}: {', '.join(map(' '.join, releases[method]['spent'].items()))}"
        for method, shown in SHOWN.items()
    ]
    return (
        f"{releases['dp-graph']['rows']:,} records of the owners {owners}. {table['how']}",
        f"Charged to each owner's budget, in ε: {'; '.join(charged)}. Publishing both would cost "
        "people both.",
    )
