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
    from concurrent.futures import Future
    from pathlib import Path

    from sherd.auditing.verdict.audit_result import Audit

SHOWN = {"idp-ls": "the paper's method (iDP-IR)", "dp-graph": "dp-graph"}
WORKERS = 2


class ReleaseAudits:
    """Audits of the demonstration's releases, each begun as soon as its release is whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(WORKERS, mp_context=spawn)
        self._audits: dict[tuple[str, str], Future[Audit]] = {}

    def __enter__(self) -> ReleaseAudits:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def begin(self, name: str, method: str, original: Path, release: Path) -> None:
        """Audit a release against its original, in a process of its own."""
        job = (str(original), str(release), self._place(name, method))
        self._audits[name, method] = self._pool.submit(_audited, job)

    def _place(self, name: str, method: str) -> Path:
        return self.folder / f"audit-{name}-{method}.html"

    def write_page(self, result: Mapping[str, Any]) -> Path:
        """Wait for every audit, whose own pages are written then, and write the one about all."""
        import sherd
        from sherd.report.page import ComparedTable, officer_page
        from sherd.tables.files import write_whole

        tables = []
        for name, table in result.items():
            mine = {method: self._audits[name, method].result() for method in table["releases"]}
            tables.append(
                ComparedTable(
                    title=table["title"],
                    comparison=sherd.compare(mine),
                    shown=SHOWN,
                    notes=_notes(table),
                    pages={method: self._place(name, method).name for method in mine},
                )
            )
        page = self.folder / "report.html"
        write_whole(page, officer_page(tables).encode())
        return page


def _audited(job: tuple[str, str, Path]) -> Audit:
    """One audit, saved; without its writer, which does not travel between processes.

    On smaller samples than an audit's own, so that a demonstration ends soon; the page says so.
    """
    import sherd
    from sherd.auditing.case.case import Limits

    original, release, page = job
    limits = Limits(attacked=1_000, modelled=8_000, compared=8_000, runs=1_500, rounds=5)
    found = sherd.audit(original, release, limits=limits, alternatives=False)
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
        f"Charged to each owner's budget, in ε: {'; '.join(charged)}. If both releases are "
        "published, both charges count.",
    )
