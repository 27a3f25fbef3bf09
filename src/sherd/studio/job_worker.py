"""The process of one job: ``python -m sherd.studio.job_worker FOLDER``.

It does what ``request.json`` says, tells how far it is in ``status.json``, and ends when asked to
(SIGINT) or when the studio that started it is gone. Neither leaves a half-made release nor a
reservation behind: it is the same clean-up as the command line's.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from sherd import interrupts
from sherd.budget.process import current
from sherd.errors import SherdError, kind_and_place
from sherd.studio.workspace import Workspace, load_json, save_json

_EVERY = 0.2
"""Seconds between two notes of progress."""


class Status:
    """Where a job notes how far it is."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "status.json"
        self._process = vars(current())
        self._last = 0.0
        self._note = {"step": "starting", "done": 0, "total": 0}

    def tell(self, step: str, done: int, total: int) -> None:
        """Note progress, not too often."""
        fresh = step != self._note["step"] or done >= total
        self._note = {"step": step, "done": done, "total": total}
        if fresh or time.monotonic() - self._last > _EVERY:
            self._write("running")

    def _write(self, state: str, problem: dict[str, str] | None = None) -> None:
        self._last = time.monotonic()
        data = {"state": state, **self._note, "process": self._process, "problem": problem}
        beside = self._path.with_suffix(".part")
        # No sync: a note of progress that a power cut loses is not missed.
        beside.write_text(json.dumps(data), encoding="utf-8")
        beside.replace(self._path)

    def end(self, state: str, problem: dict[str, str] | None = None) -> None:
        """Note how the job ended."""
        self._write(state, problem)
        save_json(self._path, load_json(self._path))


def _end_with_the_studio() -> None:
    """Behave as if asked to stop when the studio's end of the pipe closes."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGINT)


def problem_of(error: BaseException) -> dict[str, str]:
    """An error as a person may read it: an own error's texts, only the kind of any other."""
    if isinstance(error, SherdError):
        parts = {"what": error.what, "must": error.must, "got": error.got, "do": error.do}
        notes = "; ".join(getattr(error, "__notes__", ()))
        return {key: str(text or "") for key, text in {**parts, "note": notes}.items()}
    return _only(f"this is a bug in sherd: {kind_and_place(error)}")


def _only(what: str) -> dict[str, str]:
    return {"what": what, "must": "", "got": "", "do": "", "note": ""}


def run(folder: Path) -> str:
    """Do the job in a folder; the state it ended in."""
    from sherd.studio.job_kinds import KINDS

    status = Status(folder)
    status.tell("starting", 0, 1)
    request: dict[str, Any] = load_json(folder / "request.json")
    try:
        project = Workspace(folder.parent.parent).project(request["project"])
        KINDS[request["kind"]](folder, project, request["arguments"], status.tell)
    except KeyboardInterrupt as stop:
        interrupts.settle()
        notes = "; ".join(getattr(stop, "__notes__", ()))
        status.end("stopped", _only(notes) if notes else None)
        return "stopped"
    except Exception as error:
        if os.environ.get("SHERD_DEBUG"):
            import traceback

            traceback.print_exc()
        status.end("failed", problem_of(error))
        return "failed"
    status.end("done")
    return "done"


def main() -> None:
    """Run the job whose folder is the only argument."""
    interrupts.watch()
    threading.Thread(target=_end_with_the_studio, daemon=True).start()
    state = run(Path(sys.argv[1]))
    # Threads that still wait must not hold up the end.
    os._exit(0 if state == "done" else 1)


if __name__ == "__main__":
    main()
