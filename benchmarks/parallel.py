"""Figures computed in several processes, reports in the papers' order.

A figure's numbers do not depend on the process that computes it, since each has random numbers of
its own; its time is processor time, so that a second process beside it does not show.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reproduction import Report, Rows, Setting

_told: Any = None


def reports(folders: list[Path], setting: Setting, only: str | None, jobs: int) -> Iterator[Report]:
    """The report of every paper, as soon as it and those before it are done."""
    import reproduction

    if jobs <= 1:
        for folder in folders:
            yield reproduction.reproduce(folder, setting, only)
        return
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    watch = threading.Thread(target=_watch, args=(queue, setting.progress), daemon=True)
    watch.start()
    silent = replace(setting, progress=_tell, tell=_nothing, output=None)
    with ProcessPoolExecutor(jobs, context, _start, (queue, list(sys.path))) as pool:
        waiting = []
        for folder in folders:
            report = reproduction.Report(paper=reproduction.load(folder), folder=folder)
            tasks = [
                (shown, pool.submit(_compute, folder, number, silent))
                for number, shown in reproduction.tasks(report.paper, only).items()
            ]
            waiting.append((report, tasks))
        for report, tasks in waiting:
            for shown, task in tasks:
                reproduction.enter(report, setting, shown, *task.result())
            reproduction.judge(report, setting)
            yield report
    queue.put(None)
    watch.join()


def _start(queue: Any, path: list[str]) -> None:
    global _told  # noqa: PLW0603 - one process, one queue
    _told = queue
    sys.path[:] = path


def _tell(step: str, done: int, total: int) -> None:
    if _told is not None:
        _told.put((step, done, total))


def _nothing(_line: str) -> None:
    """What the process that was asked says itself."""


def _watch(queue: Any, progress: Any) -> None:
    while (told := queue.get()) is not None:
        progress(*told)


def _compute(folder: Path, number: str, setting: Setting) -> tuple[Rows, float, str]:
    import reproduction

    return reproduction.compute(folder, reproduction.load(folder), number, setting)
