"""Processes of ``sherd`` that start quickly: forked off a server that has imported the libraries.

Only other people's libraries are imported beforehand, which takes most of the time; sherd
itself is imported by every process for itself. A process is a real one: it has its own memory, can
be killed, and ends with the exit code of the command line.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

SOURCE = str(Path(__file__).parents[2] / "src")

LIBRARIES = [
    "pytest", "numpy", "pyarrow", "pyarrow.parquet", "pyarrow.compute", "fastapi", "uvicorn",
    "uvicorn.protocols.http.h11_impl", "sqlalchemy", "sqlalchemy.dialects.sqlite", "httpx",
    "cryptography.x509", "cryptography.hazmat.primitives.asymmetric.ed25519", "yaml", "click",
    "opendp.measurements", "narwhals", "rbcl", "jinja2", "psycopg", "spawning",
]  # fmt: skip

_context = multiprocessing.get_context("forkserver")


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What a process meets: a place to die at, a clock that is off."""

    failpoint: str | None = None
    clock_off: float = 0.0


def _run(command: list[str], log: str, conditions: Conditions) -> None:
    """The process: the command line, with its output in a file."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(out, stream)
    os.close(out)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    for name in ("SHERD_FAILPOINT", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        os.environ.pop(name, None)
    if conditions.failpoint is not None:
        os.environ["SHERD_FAILPOINT"] = conditions.failpoint
    if conditions.clock_off:
        true = time.time
        time.time = lambda: true() + conditions.clock_off
    if SOURCE not in sys.path:
        sys.path.insert(0, SOURCE)
    assert not any(name.partition(".")[0] == "sherd" for name in sys.modules)
    from sherd.cli import main

    try:
        main(command)
    finally:
        # What measures coverage writes its file when the process ends.
        most = resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


class Spawned:
    """A process that was started, seen as ``subprocess.Popen`` shows one."""

    def __init__(self, process: BaseProcess) -> None:
        self._process = process
        assert process.pid is not None
        self.pid = process.pid

    @property
    def returncode(self) -> int | None:
        """How the process ended, None while it runs; minus the signal that killed it."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same."""
        return self.returncode

    def wait(self, seconds: float) -> int:
        """Wait for the end."""
        self._process.join(seconds)
        if self.returncode is None:
            raise TimeoutError("the process did not end")
        return self.returncode

    def kill(self) -> None:
        """As ``kill -9`` does, wherever the process is."""
        self._process.kill()
        self._process.join()

    def limit_files(self, size: int | None) -> None:
        """Let no file of the running process grow beyond so many bytes, or any."""
        most = resource.RLIM_INFINITY if size is None else size
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def spawn(command: list[str], log: Path, conditions: Conditions | None = None) -> Spawned:
    """Start ``sherd COMMAND`` with its output in ``log``."""
    log.touch()
    _context.set_forkserver_preload(LIBRARIES)
    process = _context.Process(
        target=_run, args=(command, str(log), conditions or Conditions()), daemon=True
    )
    process.start()
    return Spawned(process)
