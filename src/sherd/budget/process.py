"""Which process holds a reservation, and whether it is still there.

A process is known by its pid, the moment it started, the boot of the machine and the pid
namespace (container) in which the pid counts: a pid alone is given to someone else sooner
or later. On Linux all of it is read from ``/proc``; elsewhere ``ps`` is asked.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

PROC = Path("/proc")


class Life(Enum):
    """What is known about a process."""

    RUNNING = "running"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process, told apart from a later one with the same pid."""

    pid: int
    started: str
    boot: str
    namespace: str


def current() -> Process:
    """The process that runs this."""
    pid = os.getpid()
    started = _started(pid)
    return Process(pid=pid, started=started or "", boot=_boot(), namespace=_namespace())


def life(process: Process) -> Life:
    """Whether the process still runs, as far as can be seen from here.

    After another boot nothing runs any more. A process of another container cannot be
    seen, and neither can any where the system does not tell when a process started.
    """
    if process.boot != _boot():
        return Life.GONE
    if process.namespace != _namespace() or not process.started:
        return Life.UNKNOWN
    started = _started(process.pid)
    if started == "":
        return Life.UNKNOWN
    return Life.RUNNING if started == process.started else Life.GONE


def _started(pid: int) -> str | None:
    """When the process started: None if there is none, empty if it cannot be told."""
    if (PROC / "self/stat").exists():
        try:
            text = (PROC / str(pid) / "stat").read_text(errors="replace")
        except OSError:
            return None
        # The name stands in brackets and may itself hold blanks and brackets.
        fields = text.rpartition(")")[2].split()
        # A zombie has ended; only its parent has not asked how.
        return None if fields[0] in "ZX" else fields[19]
    answer = _ask("ps", "-o", "stat=,lstart=", "-p", str(pid))
    if not answer:
        return "" if answer is None else None
    state, _, started = answer.partition(" ")
    return None if state.startswith("Z") else started.strip()


@cache
def _boot() -> str:
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _ask("sysctl", "-n", "kern.bootsessionuuid") or ""


@cache
def _namespace() -> str:
    try:
        return str((PROC / "self/ns/pid").readlink())
    except OSError:
        return ""


def _ask(*command: str) -> str | None:
    """What a program of the system prints; None where the program is missing."""
    try:
        answer = subprocess.run(  # noqa: S603 - fixed words and a number
            command,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip()
