"""Long work as jobs: each a process of its own and a folder that outlives it.

The folder holds ``request.json`` (what is to be done), ``status.json`` (how far it is, written by
the process) and the results. A process that lost its studio ends by itself, as it would by Ctrl-C;
a job whose process is gone and that did not say how it ended was interrupted.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sherd.budget.process import Life, Process, current, life
from sherd.errors import UsageError
from sherd.studio.workspace import load_json, save_json
from sherd.tables.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_ID = re.compile(r"[0-9a-f]{8,40}")
ENDED = ("done", "failed", "stopped", "interrupted")
_PATIENCE = 10.0
"""Seconds a process has to clean up after it was asked to stop."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is known about a job now."""

    folder: Path
    kind: str
    title: str
    project: str
    created: str
    arguments: dict[str, Any]
    state: str
    step: str = ""
    done: int = 0
    total: int = 0
    problem: dict[str, str] | None = None

    @property
    def id(self) -> str:
        """What the job is called in addresses."""
        return self.folder.name

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ENDED

    @property
    def share(self) -> int:
        """How much of the present step is done, in percent."""
        return 100 * self.done // self.total if self.total else 0

    def result(self, name: str) -> Any:
        """A result that the job wrote as plain data, None where it did not."""
        return load_json(self.folder / name)


class Jobs:
    """The jobs in one folder, and the processes that this studio started for them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def start(
        self,
        *,
        id: str,  # noqa: A002
        kind: str,
        project: str,
        title: str,
        files: Mapping[str, bytes] | None = None,
        **arguments: Any,
    ) -> Job:
        """Start a job; one of the same id is not started twice, however often it is asked for.

        ``files`` are put into the job's folder, where nothing changes them any more.
        """
        if not _ID.fullmatch(id):
            raise UsageError("the job's ID is not valid", must="8 to 40 hexadecimal digits")
        folder = self._folder / id
        with self._lock:
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                return self.get(id)
            for name, data in (files or {}).items():
                write_whole(folder / name, data, mode=0o600)
            request = {
                "kind": kind,
                "project": project,
                "title": title,
                "created": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "arguments": arguments,
                "studio": vars(current()),
            }
            save_json(folder / "request.json", request)
            self._processes[id] = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "sherd.studio.job_worker", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=None if os.environ.get("SHERD_DEBUG") else subprocess.DEVNULL,
                start_new_session=True,
            )
        return self.get(id)

    def known(self, id: str) -> Job | None:  # noqa: A002
        """A job that was started already, None where there is none of that id."""
        return self.get(id) if _ID.fullmatch(id) and (self._folder / id).is_dir() else None

    def get(self, id: str) -> Job:  # noqa: A002
        """A job by its id."""
        folder = self._folder / id
        request = load_json(folder / "request.json") if _ID.fullmatch(id) else None
        if request is None:
            raise UsageError("there is no such job", do="go back and start it again")
        status = load_json(folder / "status.json") or {"state": "starting"}
        if status["state"] not in ENDED and not self._alive(id, status, request["studio"]):
            status = (load_json(folder / "status.json") or {"state": "starting"}) | {}
            if status["state"] not in ENDED:
                status["state"] = "interrupted"
        status.pop("process", None)
        request.pop("studio")
        return Job(folder=folder, **request, **status)

    def _alive(self, id: str, status: dict[str, Any], studio: dict[str, Any]) -> bool:  # noqa: A002
        ours = self._processes.get(id)
        if ours is not None:
            return ours.poll() is None
        named = status.get("process", studio)
        return life(Process(**named)) is not Life.GONE

    def of(self, project: str, kind: str | None = None) -> list[Job]:
        """The jobs of a project, the newest first."""
        jobs = []
        for path in self._folder.glob("*/request.json"):
            request = load_json(path)
            if request["project"] == project and kind in (None, request["kind"]):
                jobs.append(self.get(path.parent.name))
        return sorted(jobs, key=lambda job: job.created, reverse=True)

    def stop(self, id: str) -> None:  # noqa: A002
        """Ask a job's process to clean up and end; make it end if it does not."""
        process = self._processes.get(id)
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGINT)

        def insist() -> None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE)
                return
            process.kill()

        threading.Thread(target=insist, daemon=True).start()

    def wait(self, id: str, timeout: float | None = None) -> Job:  # noqa: A002
        """Wait for a job that this studio started."""
        process = self._processes.get(id)
        if process is not None:
            process.wait(timeout)
        return self.get(id)

    def close(self) -> list[str]:
        """Stop everything that still runs and wait for it; the titles of what was stopped."""
        running = {name: each for name, each in self._processes.items() if each.poll() is None}
        for process in running.values():
            with contextlib.suppress(OSError):
                process.send_signal(signal.SIGINT)
        for process in running.values():
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for process in self._processes.values():
            if process.stdin is not None:
                process.stdin.close()
        return [self.get(name).title for name in running]
