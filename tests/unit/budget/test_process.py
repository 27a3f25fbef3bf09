from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sherd.budget import process
from sherd.budget.process import Life, Process, current, life

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """What was read of the machine is read again before and after each test."""
    process._boot.cache_clear()
    process._namespace.cache_clear()
    yield
    process._boot.cache_clear()
    process._namespace.cache_clear()


def _born(pid: int) -> Process:
    return replace(current(), pid=pid, started=process._started(pid) or "")


def test_we_run() -> None:
    """The calling process is seen to run."""
    assert life(current()) is Life.RUNNING


def test_a_dead_process_is_gone_even_as_a_zombie() -> None:
    """A killed process is gone before its parent has asked how it ended, and after."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        found = _born(child.pid)
        assert life(found) is Life.RUNNING
        child.kill()
        until = time.monotonic() + 20
        while life(found) is not Life.GONE and time.monotonic() < until:
            time.sleep(0.001)
        assert life(found) is Life.GONE
    assert life(found) is Life.GONE


def test_a_reused_pid_does_not_fool() -> None:
    """Another process with the same pid is told apart by the time it started."""
    assert life(replace(current(), started="1")) is Life.GONE


def test_another_boot_is_gone() -> None:
    """Nothing outlives a restart of the machine."""
    assert life(replace(current(), boot="another")) is Life.GONE


def test_another_container_is_unknown() -> None:
    """A pid of another namespace says nothing here, and neither does a missing start."""
    assert life(replace(current(), namespace="pid:[1]")) is Life.UNKNOWN
    assert life(replace(current(), started="")) is Life.UNKNOWN


def test_asks_ps_where_there_is_no_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without /proc, ps tells when a process started and that one is gone."""
    monkeypatch.setattr(process, "PROC", tmp_path)
    answers = {"ps": "S    Mon Nov  2 10:00:00 2026", "sysctl": "BOOT"}
    monkeypatch.setattr(process, "_ask", lambda name, *_: answers[name])
    found = current()
    assert found.started == "Mon Nov  2 10:00:00 2026"
    assert (found.boot, found.namespace) == ("BOOT", "")
    assert life(found) is Life.RUNNING
    answers["ps"] = "Z    Mon Nov  2 10:00:00 2026"
    assert life(found) is Life.GONE
    answers["ps"] = ""
    assert life(found) is Life.GONE


def test_knows_nothing_without_ps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where neither /proc nor ps exists, a process is unknown, never gone."""
    monkeypatch.setattr(process, "PROC", tmp_path)
    monkeypatch.setattr(process, "_ask", lambda *_: None)
    found = current()
    assert life(found) is Life.UNKNOWN
    assert life(replace(found, started="then")) is Life.UNKNOWN


def test_ask_runs_a_program() -> None:
    """The answer is what the program prints; a missing program answers None."""
    assert process._ask(sys.executable, "-c", "print(' hi ')") == "hi"
    assert process._ask("no-such-program-here") is None
