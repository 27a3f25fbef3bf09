"""The studio killed in the middle: nothing half released, nothing held, every job shown again."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from studio_process import StudioProcess, Visitor, processor_seconds, start_studio

import sherd
from sherd.budget.ledger import Ledger
from sherd.budget.process import Life, Process, life

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 300_000
SCHEMA = "population: crowd\nattributes:\n" + "".join(
    f"  n{i}: {{type: integer, domain: [0, 1000]}}\n" for i in range(6)
)


@pytest.fixture(scope="module", name="place")
def _place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table large enough that there is a middle to be killed in."""
    folder = tmp_path_factory.mktemp("killed")
    draws = np.random.default_rng(0)
    table = pa.table({f"n{i}": draws.integers(0, 1001, ROWS) for i in range(6)})
    pacsv.write_csv(table, folder / "crowd.csv")
    (folder / "crowd.yaml").write_text(SCHEMA)
    return folder


def prepared(place: Path, name: str) -> tuple[StudioProcess, Visitor, str, Ledger]:
    """A studio with a plan for the table; its project's path and its ledger."""
    ledger = place / f"{name}.db"
    studio = start_studio(place / name, str(place / "crowd.csv"), ledger=str(ledger))
    visitor = studio.enter()
    found = re.search(r'href="/\w+(/p/\w+)/open"', visitor.get("/").text)
    assert found is not None
    project = found[1]
    visitor.until(f"{project}/open", "Attributes as they were read")
    visitor.post(f"{project}/schema/file", {"path": str(place / "crowd.yaml"), "do": "open"})
    visitor.post(f"{project}/promise", {"method": "dp-um", "epsilon": "1", "k": "10"})
    return studio, visitor, project, Ledger(ledger)


def release(visitor: Visitor, project: str, output: Path) -> str:
    """Start a release; its job's id."""
    once = re.search(r'name="once" value="(\w+)"', visitor.get(f"{project}/release").text)
    assert once is not None
    visitor.post(f"{project}/release", {"once": once[1], "output": str(output)})
    return once[1]


def wait(what: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def worker(place: Path, name: str, job: str) -> Process:
    """The process of a job, once it has said who it is."""
    path = place / name / "jobs" / job / "status.json"
    wait(path.exists)
    return Process(**json.loads(path.read_text())["process"])


def consistent(output: Path, ledger: Ledger) -> bool:
    """Released and charged, or neither; nothing held."""
    spent = ledger.account("crowd").spent
    assert ledger.reservations() == []
    if output.exists():
        assert sherd.verify(output).passed
        assert spent == sherd.Amount("1")
        return True
    assert spent == sherd.Amount("0")
    return False


@pytest.mark.parametrize("whom", ["studio", "worker"])
def test_killed_during_release(place: Path, whom: str) -> None:
    """Whoever is killed, the reservation ends, and the next studio shows what became of it."""
    studio, visitor, project, ledger = prepared(place, whom)
    output = place / f"out-{whom}"
    job = release(visitor, project, output)
    running = worker(place, whom, job)
    wait(lambda: ledger.reservations() != [])
    os.kill(studio.process.pid if whom == "studio" else running.pid, signal.SIGKILL)
    wait(lambda: life(running) is Life.GONE)
    studio.stop(signal.SIGKILL)
    again = start_studio(place / whom, ledger=str(ledger.path))
    try:
        made = consistent(output, ledger)
        text = again.enter().get(f"{project}/release/{job}").text
        if not made:
            assert "Stopped before it was done" in text or "Interrupted" in text
        left = [path.name for path in place.iterdir() if "staged" in path.name]
        assert whom == "worker" or left == []
    finally:
        again.stop()


def test_killed_while_exploring(place: Path) -> None:
    """What the map had found is still there, and it can be drawn again."""
    studio, visitor, project, ledger = prepared(place, "map")
    grid = {"epsilons": "0.1, 0.5, 1, 2, 5", "ks": "5, 25, 100, 250, 500", "table": "own"}
    visitor.post(f"{project}/explore/map", grid)
    visitor.until(f"{project}/explore", "loss for ")
    (job,) = [
        path.parent.name
        for path in (place / "map" / "jobs").glob("*/request.json")
        if json.loads(path.read_text())["kind"] == "map"
    ]
    running = worker(place, "map", job)
    first = processor_seconds(running.pid)
    assert 0 < first < 5, "the first cell is shown within five seconds of processor"
    studio.stop(signal.SIGKILL)
    wait(lambda: life(running) is Life.GONE)
    again = start_studio(place / "map", ledger=str(ledger.path))
    try:
        text = again.enter().get(f"{project}/explore").text
        assert "Stopped before it was done" in text or "Interrupted" in text
        assert re.search(r"loss for [1-9]\d* of 25 pairs", text)
        assert not consistent(place / "nothing", ledger)
    finally:
        again.stop()


def test_stopped_by_its_button(place: Path) -> None:
    """A map that is stopped stops, and says so."""
    studio, visitor, project, _ = prepared(place, "button")
    try:
        visitor.post(f"{project}/explore/map", {"table": "made-up"})
        text = visitor.until(f"{project}/explore", "loss for ")
        job = re.search(r"/j/(\w+)/stop", text)
        assert job is not None
        visitor.post(f"/j/{job[1]}/stop", {"back": f"{project}/explore"})
        visitor.until(f"{project}/explore", "Stopped before it was done")
        assert life(worker(place, "button", job[1])) is Life.GONE
        for cell, shown in (("6", "epsilon 0.5"), ("2", "epsilon 1.0, guarantee paper, k 5")):
            taken = visitor.post(f"{project}/explore/take", {"job": job[1], "place": cell})
            assert shown in taken.text, "any plan of the map can be taken, and taken back"
        gone = visitor.post(f"{project}/explore/take", {"job": job[1], "place": "99"})
        assert gone.status_code == 400
    finally:
        studio.stop()
