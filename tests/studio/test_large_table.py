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
from studio_process import entered

from sherd.studio.steward import Steward
from sherd.studio.steward_table import open_table
from sherd.studio.table_survey import SAMPLE, survey
from sherd.studio.workspace import Workspace
from sherd.tables.infer import infer

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


@pytest.mark.slow
def test_a_million_rows(tmp_path: Path) -> None:
    """First page and summaries under 3 s of processor each; memory under 2 tables."""
    size = write_table(tmp_path / "large.csv", 1_000_000)
    steward = Steward(tmp_path / "w", ledger=None)
    start = time.process_time()
    project = open_table(steward, str(tmp_path / "large.csv"))
    with entered(steward.app(), steward.most) as visitor:
        page = visitor.get(f"/p/{project.id}/open")
        first = time.process_time() - start
        assert page.status_code == 200
        assert "The first 100 rows" in page.text
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        (job,) = steward.jobs.of(project.id)
        steward.jobs.wait(job.id)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert "1,000,000</b> rows" in visitor.get(f"/p/{project.id}/open").text
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    steward.jobs.close()
    more = subprocess.run(
        [sys.executable, "-c", SURVEY, str(tmp_path / "w"), str(tmp_path / "large.csv")],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    kilobytes = int(more.stdout)
    assert kilobytes > 0
    print(f"first page {first:.2f} s, summaries {whole:.2f} s of processor,"  # noqa: T201
          f" {kilobytes / 1024:.0f} MB more for a table of {size / 2**20:.0f} MB")  # fmt: skip
    assert first < 3
    assert kilobytes * 1024 < 2 * size


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
    assert infer(found.sample)["label"].values == ("often", "rare")
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
