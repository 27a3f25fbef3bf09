"""A million rows: the first page without reading them all, the summaries in one pass."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from studio_process import entered, peak_bytes, processor_seconds

from sherd.studio.steward import Steward
from sherd.studio.steward_table import open_table
from sherd.studio.table_survey import SAMPLE, survey
from sherd.studio.workspace import Workspace, load_json
from sherd.tables.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path

SURVEY = """
import re, sys, pathlib
from sherd.studio.workspace import Workspace
from sherd.studio.table_survey import survey
from sherd.studio.table_profile import profile_of
def peak():  # in kilobytes, of this program alone
    return int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
before = peak()
project = Workspace(pathlib.Path(sys.argv[1])).make(name="t", source=sys.argv[2])
profile_of(survey(project, lambda *given: None))
print(peak() - before)
"""

IDLE = """
import re, pathlib
import sherd, sherd.release.tune, sherd.methods, sherd.studio.job_kinds
from sherd.tables.read import read
import numpy, pyarrow, pyarrow.csv, pyarrow.compute
print(1024 * int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]))
"""

SCHEMA = "population: crowd\nattributes:\n" + "".join(
    [f"  n{i}: {{type: integer, domain: [0, 1000]}}\n" for i in range(10)]
    + [f"  x{i}: {{type: number, domain: [-10, 10]}}\n" for i in range(5)]
    + [f"  c{i}: {{type: category, values: [alpha, beta, gamma, delta]}}\n" for i in range(5)]
)


def write_table(path: Path, rows: int) -> int:
    """A CSV of 20 columns; the bytes of its table in memory."""
    draws = np.random.default_rng(0)
    columns: dict[str, object] = {f"n{i}": draws.integers(0, 1000, rows) for i in range(10)}
    columns |= {f"x{i}": draws.normal(size=rows).round(3) for i in range(5)}
    labels = np.array(["alpha", "beta", "gamma", "delta"])
    columns |= {f"c{i}": labels[draws.integers(0, 4, rows)] for i in range(5)}
    table = pa.table(columns)
    pacsv.write_csv(table, path)
    return int(table.nbytes)


GRID = {"epsilons": "0.1, 0.5, 1, 2, 5", "ks": "5, 25, 100, 250, 500", "table": "own"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_million_rows(tmp_path: Path) -> None:
    """First page in 3 s of processor, first cell of a map in 5 s; memory below 2 tables."""
    size = write_table(tmp_path / "large.csv", 1_000_000)
    idle = subprocess.run(
        [sys.executable, "-c", IDLE], check=True, capture_output=True, text=True
    )  # what the program takes before it has seen a table
    steward = Steward(tmp_path / "w", ledger=None)
    start = time.process_time()
    project = open_table(steward, str(tmp_path / "large.csv"))
    with entered(steward.app(), steward.most) as visitor:
        page = visitor.get(f"/p/{project.id}/open")
        first = time.process_time() - start
        assert page.status_code == 200
        assert "The first 100 rows" in page.text
        (job,) = steward.jobs.of(project.id)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        steward.jobs.wait(job.id)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert "1,000,000</b> rows" in visitor.get(f"/p/{project.id}/open").text
        (tmp_path / "s.yaml").write_text(SCHEMA)
        visitor.post(
            f"/p/{project.id}/schema/file", {"path": str(tmp_path / "s.yaml"), "do": "open"}
        )
        visitor.post(f"/p/{project.id}/promise", {"method": "dp-um", "epsilon": "1", "k": "100"})
        visitor.post(f"/p/{project.id}/explore/map", GRID)
        visitor.until(f"/p/{project.id}/explore", "loss for ", 300)
        (map_,) = steward.jobs.of(project.id, "map")
        pid = load_json(map_.folder / "status.json")["process"]["pid"]
        cell, held = processor_seconds(pid), peak_bytes(pid)
        steward.jobs.stop(map_.id)
        assert steward.jobs.wait(map_.id, 30).state == "stopped"
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    steward.jobs.close()
    held -= int(idle.stdout)
    more = subprocess.run(
        [sys.executable, "-c", SURVEY, str(tmp_path / "w"), str(tmp_path / "large.csv")],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    kilobytes = int(more.stdout)
    assert kilobytes > 0
    print(f"first page {first:.2f} s, summaries {whole:.2f} s of processor,"  # noqa: T201
          f" {kilobytes / 1024:.0f} MB; first cell {cell:.2f} s, {held / 2**20:.0f} MB more;"
          f" the table has {size / 2**20:.0f} MB")  # fmt: skip
    assert first < 3
    assert cell < 5
    assert max(kilobytes * 1024, held) < 2 * size


def test_sample_keeps_every_label_and_the_count(tmp_path: Path) -> None:
    """A label in one row of many is in the draft all the same; rows are counted, not guessed."""
    rows = 5 * SAMPLE
    path = tmp_path / "t.csv"
    lines = [f"{i},{'rare' if i == rows - 1 else 'often'},{i % 50}" for i in range(rows)]
    path.write_text("row,label,n\n" + "\n".join(lines) + "\n")
    project = Workspace(tmp_path / "w").make(name="t", source=str(path))
    found = survey(project, lambda *_given: None)
    assert found.rows == rows
    assert SAMPLE / 2 < found.sampled <= 2 * SAMPLE
    assert found.sample is not None
    assert Schema.infer(found.sample)["label"].values == ("often", "rare")
    assert found.counted == ("row",)


def test_column_that_changes_its_kind_late(tmp_path: Path) -> None:
    """A text among numbers, far below, is found and said, not stumbled over."""
    path = tmp_path / "t.csv"
    lines = [f"{i},{i % 7}" for i in range(900_000)]
    lines[800_000] = "none of this,3"
    path.write_text("a,b\n" + "\n".join(lines) + "\n")
    project = Workspace(tmp_path / "w").make(name="t", source=str(path))
    found = survey(project, lambda *_given: None)
    assert found.rows == 900_000
    assert found.sample is not None
    assert pa.types.is_string(found.sample.schema.field("a").type)
